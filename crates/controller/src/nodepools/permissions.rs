//! The permissions that node addresses need, and which of them this process lacks.
//!
//! Users who swap only the program keep FLIPOP's roles, which allow less. The API server is
//! asked what is allowed when a term of leadership begins, and again as long as something is
//! missing; it answers that for every account.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::server::ask;
use crate::installation::{Installation, PERMISSION_MISSING};

/// The time between two looks while a permission is missing.
const PACE: Duration = Duration::from_mins(1);

/// What to apply.
const REMEDY: &str = "apply the roles of k8s/floe.yaml or deploy/controller.yaml";

/// A permission, and what does not work without it.
#[derive(Debug, PartialEq, Eq)]
pub struct Permission {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    namespace: &'static str,
    name: &'static str,
    /// What does not work without it.
    without: &'static str,
    /// Whether nothing works without it.
    blocks: bool,
}

const FLIPOP: &str = floe_api::flipop::GROUP;

const fn permission(
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    without: &'static str,
) -> Permission {
    Permission {
        verb,
        group,
        resource,
        subresource: "",
        namespace: "",
        name: "",
        without,
        blocks: false,
    }
}

/// Everything that is needed. A status that may not be patched is replaced, see
/// [`super::server::Server::patch_status`].
static NEEDED: [Permission; 9] = [
    Permission {
        name: "kube-system",
        blocks: true,
        ..permission(
            "get",
            "",
            "namespaces",
            "the cluster has no identity, and pools are not followed",
        )
    },
    Permission {
        blocks: true,
        ..permission("list", "", "nodes", "pools are not followed")
    },
    Permission {
        blocks: true,
        ..permission("watch", "", "nodes", "pools are not followed")
    },
    permission("list", "", "pods", "pools that match pods are not followed"),
    permission(
        "watch",
        "",
        "pods",
        "pools that match pods are not followed",
    ),
    PATCH_POOLS,
    permission("patch", "", "nodes", "nodes are not annotated"),
    permission("create", "events.k8s.io", "events", "there are no Events"),
    Permission {
        namespace: "kube-system",
        ..permission(
            "watch",
            "coordination.k8s.io",
            "leases",
            "a dead node is noticed only when Kubernetes reports it",
        )
    },
];

const PATCH_POOLS: Permission = permission(
    "patch",
    FLIPOP,
    "floatingippools",
    "nothing is bought, because it could not be entered in spec.ips, and no pool is held for \
     reclaimPolicy Delete",
);

impl Permission {
    /// Verb and resource, as in a role.
    fn subject(&self) -> String {
        let mut subject = format!("{} {}", self.verb, self.resource);
        for (part, between) in [(self.subresource, "/"), (self.group, "."), (self.name, " ")] {
            if !part.is_empty() {
                subject.push_str(between);
                subject.push_str(part);
            }
        }
        if !self.namespace.is_empty() {
            subject.push_str(" in namespace ");
            subject.push_str(self.namespace);
        }
        subject
    }

    fn review(&self) -> SelfSubjectAccessReview {
        let text = |it: &str| Some(it.to_owned()).filter(|it| !it.is_empty());
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: text(self.verb),
                    group: text(self.group),
                    resource: text(self.resource),
                    subresource: text(self.subresource),
                    namespace: text(self.namespace),
                    name: text(self.name),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        }
    }
}

/// The permissions that are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing(Vec<&'static Permission>);

impl Missing {
    /// All that concern an object, in one sentence for its status; none if none is missing.
    /// Objects that match no `pods` do not need to see them.
    pub fn message(&self, pods: bool) -> Option<String> {
        let words = self.0.iter().filter(|it| pods || it.resource != "pods");
        let words: Vec<String> = words
            .map(|it| format!("{} ({})", it.subject(), it.without))
            .collect();
        (!words.is_empty()).then(|| format!("missing permissions: {}; {REMEDY}", words.join(", ")))
    }

    /// Whether nothing can be done.
    pub fn blocks(&self) -> bool {
        self.0.iter().any(|it| it.blocks)
    }

    /// All of them in one sentence if nodes, or pods where `pods` matter, may not be listed or
    /// watched: then floe cannot tell which nodes fit.
    pub fn not_seen(&self, pods: bool) -> Option<String> {
        let is_blind =
            |it: &&Permission| it.blocks && it.resource == "nodes" || pods && it.resource == "pods";
        self.0.iter().any(is_blind).then(|| self.message(pods))?
    }

    /// Whether bought addresses could not be entered.
    pub fn forbids_buying(&self) -> bool {
        self.0.contains(&&PATCH_POOLS)
    }
}

/// Asks what is allowed until everything is, and reports what is not.
pub async fn check(client: Client, installation: &Installation, found: &watch::Sender<Missing>) {
    let api: Api<SelfSubjectAccessReview> = Api::all(client);
    loop {
        let mut missing = Missing::default();
        let mut has_answers = true;
        for needed in &NEEDED {
            let answer = ask(api.create(&PostParams::default(), &needed.review())).await;
            let is_allowed = answer.ok().and_then(|it| it.status).map(|it| it.allowed);
            has_answers &= is_allowed.is_some();
            let subject = needed.subject();
            match is_allowed {
                Some(true) => {
                    installation.resolve(PERMISSION_MISSING, &subject);
                    continue;
                }
                // Without an answer everything is as it was.
                None if !found.borrow().0.contains(&needed) => continue,
                Some(false) | None => {}
            }
            let message = format!("without it {}; {REMEDY}", needed.without);
            if installation.report(PERMISSION_MISSING, &subject, &message) {
                let (reason, permission) = (PERMISSION_MISSING, subject.as_str());
                warn!(
                    reason,
                    permission,
                    without = needed.without,
                    remedy = REMEDY,
                    "a permission is missing"
                );
            }
            missing.0.push(needed);
        }
        let is_complete = missing.0.is_empty();
        let was_missing = !found.borrow().0.is_empty();
        if is_complete && was_missing {
            info!("all permissions are there");
        }
        found.send_if_modified(|old| {
            let is_new = *old != missing;
            *old = missing;
            is_new
        });
        if is_complete && has_answers {
            return;
        }
        sleep(PACE).await;
    }
}
