//! The admission webhook: what the API server asks before it stores an object.
//!
//! - [`review`]: the question and the answer on the wire.
//! - [`intake`]: bodies are taken within limits.
//! - [`bundle`]: whom the API server trusts, written into the webhook configurations.
//!
//! Every replica answers, since every one has the books. Nothing is written here, and what
//! is decided is decided by [`floe_core::admission`].
//!
//! Guarantee: floe needs no answer of this for anything it writes itself, so it cannot
//! wait for itself. Which objects come here at all is said by the match conditions in
//! `deploy/chart/templates/webhook`; whatever else comes is let through.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use floe_core::admission::{
    Author, Finding, Verdict, Write, configuration, gate, resource, workload,
};
use tokio::sync::watch;
use tracing::{debug, info};

use crate::{
    addresses::ConfigMapRef,
    metrics::Metrics,
    rest::front::refuse,
    store::{Books, Store, Warmth},
    transport::serve::Limits,
};

pub mod bundle;
mod intake;
mod review;

use intake::{Intake, Refusal};
use review::{Answer, Question};

/// How much the API server may take of the connections: few, and for long.
pub const LIMITS: Limits = Limits {
    idle: Duration::from_mins(1),
    hurried: Duration::from_secs(5),
    connections: 512,
    from_one: 256,
    unread: Some(Duration::from_secs(30)),
    half_closed: true,
    drain: Duration::from_secs(10),
};

/// How long a replica that ends goes on answering. A call that gets no answer is an object
/// refused, and it takes the API server's host a moment to know of the end. In a large
/// cluster the moment may be longer; then whoever made the object makes it again.
pub const FAREWELL: Duration = Duration::from_secs(3);

/// Who answers.
#[derive(Clone)]
pub struct Admission {
    /// The books.
    pub store: Store,
    /// What this replica has read of the cluster.
    pub warmth: watch::Receiver<Warmth>,
    /// Where answers are counted.
    pub metrics: Metrics,
    /// The accounts of floe itself, which may write what others may not.
    pub own: Arc<BTreeSet<String>>,
    /// The object with the address configuration; none if it comes from a file.
    pub map: Option<ConfigMapRef>,
    /// Whether pods get a scheduling gate: the scheduler does not ask floe.
    pub gates: bool,
}

/// The accounts of floe in a namespace. galaxy-ipam's is among them, for clusters on their
/// way from it or back.
pub fn own_accounts(namespace: &str) -> BTreeSet<String> {
    ["floe-controller", "floe-agent", "galaxy-ipam"]
        .map(|name| format!("system:serviceaccount:{namespace}:{name}"))
        .into()
}

/// The routes.
pub fn router(admission: Admission) -> Router {
    let intake = Intake::default();
    Router::new()
        .route("/validate", post(validate))
        .route("/mutate/pods", post(mutate))
        .fallback(async |request: Request| {
            let (path, text) = (request.uri().path(), "there is nothing at this path");
            refuse(path, StatusCode::NOT_FOUND, "PathNotFound", text)
        })
        .with_state((admission, intake))
}

type Needs = State<(Admission, Intake)>;

async fn validate(State((admission, intake)): Needs, request: Request) -> Response {
    answered(&intake, request, |question| admission.validate(question)).await
}

async fn mutate(State((admission, intake)): Needs, request: Request) -> Response {
    answered(&intake, request, |question| admission.mutate(question)).await
}

async fn answered(
    intake: &Intake,
    request: Request,
    answer: impl FnOnce(&Question) -> Answer,
) -> Response {
    let taken = intake.take(request).await;
    let read = taken.and_then(|body| review::read(body.bytes()).map_err(Refusal::from));
    match read {
        Ok(question) => answer(&question).into_response(),
        Err(refusal) => {
            debug!(reason = refusal.reason(), error = %refusal, "review not answered");
            let text = refusal.to_string();
            refuse("", refusal.status(), refusal.reason(), &text)
        }
    }
}

impl Admission {
    fn validate(&self, question: &Question) -> Answer {
        let verdict = self.judge(question);
        let result = match (verdict.is_allowed(), verdict.warnings.is_empty()) {
            (false, _) => "refused",
            (true, false) => "warned",
            (true, true) => "allowed",
        };
        self.metrics.admission().reviewed(result);
        for refusal in &verdict.refusals {
            self.metrics.admission().refused(refusal.reason);
        }
        if !verdict.is_allowed() {
            info!(
                reason = verdict.reason(),
                user = question.user(),
                resource = question.resource(),
                namespace = question.namespace(),
                name = question.name(),
                "refused an object",
            );
        }
        Answer::verdict(question.uid(), &verdict)
    }

    fn mutate(&self, question: &Question) -> Answer {
        let is_new_pod = question.is("", "pods");
        let patch = match question.write() {
            Some(Write::Create(pod)) if is_new_pod => gate::patch(pod, self.gates),
            Some(Write::Create(_) | Write::Update { .. } | Write::Delete(_)) | None => None,
        };
        let result = if patch.is_some() { "gated" } else { "allowed" };
        self.metrics.admission().reviewed(result);
        Answer::patch(question.uid(), patch.as_ref())
    }

    fn judge(&self, question: &Question) -> Verdict {
        let Some(write) = question.write() else {
            return Verdict::default();
        };
        let (group, resource) = (question.group(), question.resource());
        let author = if self.own.contains(question.user()) {
            Author::Floe
        } else {
            Author::Other
        };
        let is_warm = self.warmth.borrow().is_warm();
        if let Some(kind) = workload::Kind::of(group, resource) {
            return self.store.read(|books| {
                let config = is_warm.then(|| books.ledger().topology().config());
                workload::judge(kind, write, author, config)
            });
        }
        if author == Author::Floe {
            return Verdict::default();
        }
        if let Some(kind) = resource::Kind::of(group, resource) {
            let look = |books: &Books| {
                let ledger = is_warm.then(|| books.ledger());
                resource::judge(kind, write, ledger)
            };
            return self.store.read(look);
        }
        let map = self.map.as_ref().filter(|map| {
            question.is("", "configmaps")
                && (question.namespace(), question.name()) == (&map.namespace, &map.name)
        });
        match map {
            Some(map) => self.configuration(&map.key, write, is_warm),
            None => Verdict::default(),
        }
    }

    fn configuration(&self, key: &str, write: Write<'_>, is_warm: bool) -> Verdict {
        // Parsed before the books are looked at: nobody waits for that.
        let draft = match configuration::read(key, write) {
            Ok(draft) => draft,
            Err(verdict) => return verdict,
        };
        if !is_warm {
            let told = "not all of the cluster is read yet, so nobody can tell whom this hurts: \
                        try again";
            return Verdict {
                refusals: vec![Finding::at("", "NotReady", told)],
                ..Verdict::default()
            };
        }
        self.store.read(|books| draft.judge(books.ledger()))
    }
}

#[cfg(test)]
mod tests;
