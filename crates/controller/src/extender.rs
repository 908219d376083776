//! The scheduler extender over HTTP: takes the scheduler's calls, and answers
//! them here or has the leader answer them.
//!
//! Only the replica that leads, and that has read all of the cluster, decides.
//! Every other one forwards a call to the leader, whose address is in the lease.
//! When that is not possible, the scheduler gets an answer of the right form
//! that tells it to try again.
//!
//! Guarantees: only the scheduler, or a replica that it has called, is answered ([`callers`]).
//! A bind that has begun goes on when its caller leaves or its time
//! is up, so that nothing is left half done. Every call is answered before a
//! scheduler with the usual limit of five seconds gives up.

use std::{future::Future, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use floe_api::extender::{
    BindAnswer, BindRequest, FilterAnswer, HostScore, Offer, PreemptAnswer, PreemptRequest,
};
use floe_shell::stop::Stop;
use jiff::Timestamp;
use tokio::{net::TcpListener, sync::watch, time::Instant};
use tracing::debug;

use crate::{
    binder::Binder,
    desk::Desk,
    leader::Standing,
    store::Warmth,
    transport::{
        FORWARDED,
        serve::{Limits, PeerAddress, serve},
        tls::Secrets,
    },
};

mod call;
pub mod callers;
mod entry;
mod excuse;
mod forward;
mod proof;

use call::Call;
use callers::{Accepted, Callers, NotAllowed};
use entry::Entry;
use excuse::Excuse;
use forward::Forwarder;

/// What the routes need.
#[derive(Clone)]
pub struct Extender {
    /// Filter, prioritize and preempt.
    pub desk: Desk,
    /// Bind.
    pub binder: Binder,
    /// Whether this process leads; others forward.
    pub standing: watch::Receiver<Standing>,
    /// Which callers are taken for the scheduler.
    pub callers: Callers,
}

impl Extender {
    /// Answers the scheduler until `stop`, by TLS if there are secrets.
    pub async fn serve(
        self,
        listener: TcpListener,
        secrets: Option<watch::Receiver<Arc<Secrets>>>,
        warmth: watch::Receiver<Warmth>,
        stop: Stop,
    ) {
        let (entry, turns) = (Entry::default(), self.binder.turns.clone());
        let key = self.callers.key.clone();
        let router = router(Reception {
            standing: self.standing.clone(),
            callers: self.callers.clone(),
            answers: self,
            warmth,
            forwarder: Forwarder::new(secrets.clone(), key),
            entry: entry.clone(),
        });
        let quiet = async move {
            entry.empty().await;
            // A bind may go on after its answer, to give back what is not needed.
            turns.all_over().await;
        };
        serve(listener, router, secrets, LIMITS, quiet, stop).await;
    }
}

/// Who knows the answers to the scheduler's calls.
trait Answers: Clone + Send + Sync + 'static {
    /// Which of the offered nodes can run the pod.
    fn filter<'a>(&self, offer: &'a Offer<'a>) -> impl Future<Output = FilterAnswer<'a>> + Send;

    /// Which of the offered nodes it should rather run on.
    fn prioritize<'a>(
        &self,
        offer: &'a Offer<'a>,
    ) -> impl Future<Output = Vec<HostScore<'a>>> + Send;

    /// Binds a pod.
    fn bind(&self, request: &BindRequest) -> impl Future<Output = BindAnswer> + Send;

    /// On which nodes others may be stopped for it.
    fn preempt<'r, 'a>(
        &self,
        request: &'r PreemptRequest<'a>,
    ) -> impl Future<Output = PreemptAnswer<'r, 'a>> + Send;
}

impl Answers for Extender {
    async fn filter<'a>(&self, offer: &'a Offer<'a>) -> FilterAnswer<'a> {
        self.desk.filter(offer).await
    }

    async fn prioritize<'a>(&self, offer: &'a Offer<'a>) -> Vec<HostScore<'a>> {
        self.desk.prioritize(offer).await
    }

    async fn bind(&self, request: &BindRequest) -> BindAnswer {
        match self.binder.bind(request).await {
            Ok(()) => BindAnswer::bound(),
            Err(error) => BindAnswer::refused(error.to_string()),
        }
    }

    async fn preempt<'r, 'a>(&self, request: &'r PreemptRequest<'a>) -> PreemptAnswer<'r, 'a> {
        self.desk.preempt(request).await
    }
}

/// Takes calls, and knows who answers them.
struct Reception<A> {
    /// Who answers here.
    answers: A,
    /// Which callers are answered.
    callers: Callers,
    /// Whether this process leads.
    standing: watch::Receiver<Standing>,
    /// Which first lists are in.
    warmth: watch::Receiver<Warmth>,
    /// The way to the leader.
    forwarder: Forwarder,
    /// How much is taken at once.
    entry: Entry,
}

/// The routes, as a value.
fn router<A: Answers>(reception: Reception<A>) -> Router {
    let mut router = Router::new().route("/healthy", get(async || "ok"));
    for call in Call::ALL {
        let take = move |State(reception): State<Arc<Reception<A>>>, request: Request| async move {
            reception.take(call, request).await
        };
        router = router.route(call.path(), post(take));
    }
    router
        .fallback(async || plain(StatusCode::NOT_FOUND, "404: Page Not Found"))
        .method_not_allowed_fallback(async || {
            plain(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed")
        })
        .with_state(Arc::new(reception))
}

/// How much the scheduler and other replicas may take. Go's clients keep a connection
/// for 90 seconds, and do not repeat a call if the server closes it just then; so
/// it is kept longer here.
const LIMITS: Limits = Limits {
    idle: Duration::from_mins(3),
    hurried: Duration::from_mins(3),
    connections: 1024,
    from_one: 1024,
    unread: None,
    half_closed: false,
    // Longer than any call.
    drain: Duration::from_secs(6),
};

/// Who answers a call.
enum Place {
    Here,
    At(String),
    Nowhere(Excuse),
}

impl<A: Answers> Reception<A> {
    async fn take(&self, call: Call, request: Request) -> Response {
        let begin = Instant::now();
        if !is_json(request.headers()) {
            let text = "415: Unsupported Media Type";
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
        }
        let from = request.extensions().get::<PeerAddress>().map(|it| it.0);
        let headers = request.headers();
        let accepted = match self.callers.admit(call, from, headers, Timestamp::now()) {
            Ok(accepted) => accepted,
            Err(refused) => return self.decline(call, from, &refused),
        };
        // A call that another replica has signed is never signed again: a copy of it would
        // otherwise be good for ever.
        let is_signed = matches!(accepted, Accepted::Forwarded { .. });
        let place = self.place(is_signed || headers.contains_key(FORWARDED));
        let admitted = self.entry.admit(request, begin + call::LIMIT).await;
        let (body, permit) = match admitted {
            Ok(admitted) => admitted,
            Err(refused) => {
                debug!(?call, reason = refused.reason(), error = %refused, "call not taken");
                return plain(refused.status(), refused.told());
            }
        };
        if let Accepted::Forwarded { digest } = accepted
            && proof::digest_of(&body) != digest
        {
            return self.decline(call, from, &NotAllowed::Body);
        }
        let answer = match place {
            Place::Here => {
                let deadline = begin + call::LIMIT;
                call.answer(&self.answers, &body, permit, deadline).await
            }
            Place::At(leader) => {
                let sent = self.forwarder.send(call, &leader, body.clone(), begin);
                match sent.await {
                    Ok(answer) => return answer,
                    Err(error) => call.excuse(&body, &Excuse::Unreachable { leader, error }),
                }
            }
            Place::Nowhere(excuse) => call.excuse(&body, &excuse),
        };
        match answer {
            Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
            Err(failure) => {
                debug!(?call, reason = failure.reason(), error = %failure, "call not answered");
                let text = format!("{}: {failure}", failure.reason());
                plain(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
    }

    /// The answer to a caller that is not taken for the scheduler. Its body is not read. As long
    /// as the addresses of the control plane are not known, the caller may be the scheduler, and
    /// is asked to try again.
    fn decline(&self, call: Call, from: Option<IpAddr>, refused: &NotAllowed) -> Response {
        let nodes_are_listed = self.warmth.borrow().nodes;
        if !self.callers.are_known(nodes_are_listed) {
            let missing = vec!["addresses of the control plane"];
            return call.decline(Excuse::NotReady(missing).told());
        }
        self.callers.note(call, from, refused);
        call.decline(refused.told())
    }

    fn place(&self, forwarded: bool) -> Place {
        let standing = self.standing.borrow().clone();
        let excuse = match standing {
            Standing::Leading => {
                let missing = self.warmth.borrow().missing();
                if missing.is_empty() {
                    return Place::Here;
                }
                Excuse::NotReady(missing)
            }
            Standing::Unknown => Excuse::StandingUnknown,
            Standing::Following { .. } if forwarded => Excuse::Misdirected,
            Standing::Following { holder: None, .. } => Excuse::NoLeader,
            Standing::Following {
                extender: Some(address),
                ..
            } => return Place::At(address),
            Standing::Following {
                holder: Some(holder),
                extender: None,
                ..
            } => Excuse::NoAddress { holder },
        };
        Place::Nowhere(excuse)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let kind = value
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or_default().trim());
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}

#[cfg(test)]
mod tests;
