//! Why a command failed, and what can be done about it.

use std::io;

use crate::{
    cluster::{NODE_POOLS, PORT_FORWARD, VIPS},
    remote::LABEL,
};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was asked in a wrong way.
    #[error("{0}")]
    Usage(String),
    /// Somebody has to say yes, and nobody is there.
    #[error("this needs a confirmation, and there is no terminal to ask on")]
    Unconfirmed,
    /// Somebody said no.
    #[error("nothing was changed")]
    Declined,
    /// No way to a cluster is known.
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(String),
    /// The API server does not answer.
    #[error("cannot reach the API server {server} of context {context:?}: {told}")]
    Unreachable {
        /// The context.
        context: String,
        /// The address of the server.
        server: String,
        /// What went wrong.
        told: String,
    },
    /// The API server does not know the user.
    #[error("the API server does not accept the credentials of context {context:?}")]
    Unauthorized {
        /// The context.
        context: String,
    },
    /// The user lacks a right.
    #[error("you may not {verb} {resource}{}", in_namespace(.namespace.as_deref()))]
    Forbidden {
        /// The verb.
        verb: &'static str,
        /// The resource with its group.
        resource: &'static str,
        /// The namespace; none if it is about all.
        namespace: Option<String>,
    },
    /// The API server does not know floe's resources.
    #[error("the cluster has no {resource}: floe's resources are not installed")]
    Undefined {
        /// The resource with its group.
        resource: &'static str,
    },
    /// There is no such thing.
    #[error("no such {kind} {name:?}{}", in_namespace(.namespace.as_deref()))]
    NoSuch {
        /// What it would be.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The namespace it was looked for in.
        namespace: Option<String>,
        /// What may help.
        hint: Option<String>,
    },
    /// Somebody has changed it in the meantime.
    #[error("{0} was changed by somebody else at the same time")]
    Conflict(String),
    /// The API server refuses it for another reason.
    #[error("the API server refuses to {verb} {resource}: {told}")]
    Refused {
        /// The verb.
        verb: &'static str,
        /// The resource with its group.
        resource: &'static str,
        /// What the server says.
        told: String,
    },
    /// The configuration cannot be used.
    #[error("the configuration in {place} cannot be used:{}", indented(.problems))]
    BadConfiguration {
        /// Where it is.
        place: String,
        /// All that is wrong with it.
        problems: Vec<String>,
        /// The stable reason of the first problem.
        reason: &'static str,
    },
    /// Some of it failed; each was told already.
    #[error("{failed} of {total} failed")]
    Some {
        /// How many failed.
        failed: usize,
        /// How many there were.
        total: usize,
    },
    /// The management API wants a token.
    #[error("the management API needs a token, and context {context:?} has none: {why}")]
    NoToken {
        /// The context.
        context: String,
        /// Why there is none.
        why: &'static str,
    },
    /// No controller can be asked.
    #[error("{}", no_controller(.namespace, *.found))]
    NoController {
        /// The namespace it was looked for in.
        namespace: String,
        /// How many are there and not ready.
        found: usize,
    },
    /// The way to the management API is broken.
    #[error("cannot talk to the management API: {0}")]
    ApiUnreachable(String),
    /// The management API gives no answer.
    #[error("the management API did not answer within {seconds} s")]
    ApiLate {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Who answers is perhaps not the controller.
    #[error("the management API cannot be trusted: {0}")]
    ApiUntrusted(String),
    /// The management API refuses.
    #[error("the management API refuses it: {message}")]
    Api {
        /// The status of HTTP.
        status: u16,
        /// Its stable reason.
        reason: String,
        /// What it says.
        message: String,
    },
    /// Things do not fit together; each was told already.
    #[error("{}", inconsistencies(*.count))]
    Found {
        /// How many.
        count: usize,
        /// How many of them can be mended without harm.
        mendable: usize,
    },
    /// Shared addresses did not move as somebody wished.
    #[error("not moved: {message}")]
    NotMoved {
        /// The stable reason.
        reason: String,
        /// The same for people.
        message: String,
        /// What may help.
        hint: Option<String>,
    },
    /// What was read cannot be shown.
    #[error("cannot show it: {0}")]
    Unprintable(String),
    /// Reading or writing failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Failure {
    /// One stable word for it.
    pub fn reason(&self) -> &str {
        match self {
            Self::Usage(_) => "Usage",
            Self::Unconfirmed => "ConfirmationNeeded",
            Self::Declined => "Declined",
            Self::Kubeconfig(_) => "InvalidKubeconfig",
            Self::Unreachable { .. } => "Unreachable",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::Undefined { .. } => "DefinitionMissing",
            Self::NoSuch { .. } => "NotFound",
            Self::Conflict(_) => "Conflict",
            Self::Refused { .. } => "ServerRefused",
            Self::BadConfiguration { reason, .. } => reason,
            Self::Some { .. } => "SomeFailed",
            Self::NoToken { .. } => "NoToken",
            Self::NoController { .. } => "NoController",
            Self::ApiUnreachable(_) => "ApiUnreachable",
            Self::ApiLate { .. } => "ApiLate",
            Self::ApiUntrusted(_) => "ApiUntrusted",
            Self::Api { reason, .. } | Self::NotMoved { reason, .. } => reason,
            Self::Found { .. } => "InconsistenciesFound",
            Self::Unprintable(_) => "Unprintable",
            Self::Io { .. } => "InputOutput",
        }
    }

    /// The exit code: 2 when it was asked in a wrong way, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Unconfirmed => 2,
            Self::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Declined
            | Self::Kubeconfig(_)
            | Self::Unreachable { .. }
            | Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::Undefined { .. }
            | Self::NoSuch { .. }
            | Self::Conflict(_)
            | Self::Refused { .. }
            | Self::BadConfiguration { .. }
            | Self::Some { .. }
            | Self::NoToken { .. }
            | Self::NoController { .. }
            | Self::ApiUnreachable(_)
            | Self::ApiLate { .. }
            | Self::ApiUntrusted(_)
            | Self::Api { .. }
            | Self::Found { .. }
            | Self::NotMoved { .. }
            | Self::Unprintable(_)
            | Self::Io { .. } => 1,
        }
    }

    /// Whether it may go away by itself in a moment.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::ApiUnreachable(_) | Self::Api { status: 503, .. }
        )
    }

    /// Whether there is no controller that this user could ask. One that is there and
    /// does not answer, or not now, is another thing.
    pub fn leaves_nobody_to_ask(&self) -> bool {
        matches!(
            self,
            Self::NoController { found: 0, .. } | Self::NoToken { .. } | Self::Forbidden { .. }
        )
    }

    /// That the management API says something else than it was asked for.
    pub fn other_answer() -> Self {
        Self::Unprintable("the management API answers something else than was asked".into())
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unconfirmed => Some("repeat it with --yes if you are sure".into()),
            Self::Kubeconfig(_) => Some(
                "name another one with --kubeconfig, or another context with --context \
                 (kubectl config get-contexts lists them)"
                    .into(),
            ),
            Self::Unreachable { .. } => Some(
                "see whether the cluster runs, or choose another context with --context".into(),
            ),
            Self::Unauthorized { .. } => {
                Some("log in again, or choose another user with --user".into())
            }
            Self::Forbidden {
                verb,
                resource,
                namespace,
            } => Some(missing_right(verb, resource, namespace.as_deref())),
            Self::Undefined { resource: VIPS } => Some(
                "kubectl apply --server-side --force-conflicts -f deploy/crds/floe.yaml".into(),
            ),
            Self::Undefined {
                resource: NODE_POOLS,
            } => Some(
                "kubectl apply --server-side --force-conflicts -f deploy/crds/flipop.yaml".into(),
            ),
            Self::Undefined { .. } => Some(
                "kubectl apply --server-side --force-conflicts -f deploy/crds/galaxy.yaml".into(),
            ),
            Self::NoSuch { hint, .. } | Self::NotMoved { hint, .. } => hint.clone(),
            Self::Found { mendable, .. } if *mendable > 0 => Some(format!(
                "kubectl floe check --fix mends {mendable} of them; -o wide tells what to do \
                 about the others"
            )),
            Self::NoToken { .. } => Some(SERVICE_ACCOUNT.into()),
            Self::NoController { namespace, .. } => Some(format!(
                "kubectl -n {namespace} get pods -l {LABEL} shows how they are; \
                 --floe-namespace names another namespace"
            )),
            Self::ApiUntrusted(_) => Some(
                "--api-ca-file names the authority of a certificate that floe has not made, \
                 --api-server-name its name"
                    .into(),
            ),
            Self::Api { status: 401, .. } => {
                Some("log in again, or name a service account with --as-service-account".into())
            }
            Self::Conflict(_) => Some("look again, then repeat it".into()),
            Self::Usage(_)
            | Self::Declined
            | Self::Refused { .. }
            | Self::BadConfiguration { .. }
            | Self::Some { .. }
            | Self::ApiUnreachable(_)
            | Self::ApiLate { .. }
            | Self::Api { .. }
            | Self::Found { .. }
            | Self::Unprintable(_)
            | Self::Io { .. } => None,
        }
    }
}

/// How to get an account whose token can be used. The manifest has the same permissions as the
/// account of this name in docs/guide/api-access.md.
const SERVICE_ACCOUNT: &str = "name a service account whose token is to be used, with \
--as-service-account kube-system/floe-operator; to create it:
  kubectl apply -f deploy/examples/operator.yaml";

fn no_controller(namespace: &str, found: usize) -> String {
    if found == 0 {
        return format!("no controller of floe runs in namespace {namespace}");
    }
    if found == 1 {
        return format!("the only controller of floe in namespace {namespace} is not ready");
    }
    format!("none of the {found} controllers of floe in namespace {namespace} is ready")
}

fn inconsistencies(count: usize) -> String {
    match count {
        1 => "1 inconsistency".into(),
        _ => format!("{count} inconsistencies"),
    }
}

fn in_namespace(namespace: Option<&str>) -> String {
    namespace.map_or_else(String::new, |name| format!(" in namespace {name}"))
}

fn indented(lines: &[String]) -> String {
    let lines = lines.iter().flat_map(|line| ["\n  ", line]);
    lines.collect()
}

/// How to ask for a right, in words that an administrator can paste.
fn missing_right(verb: &str, resource: &str, namespace: Option<&str>) -> String {
    let plural = resource.split('.').next().unwrap_or(resource);
    let name = format!("{}-{verb}", plural.replace('/', "-"));
    // Which of both a port-forward needs depends on the version of the API server.
    let verbs = if resource == PORT_FORWARD {
        "get,create"
    } else {
        verb
    };
    let (role, binding, place) = match namespace {
        Some(namespace) => ("role", "rolebinding", format!(" -n {namespace}")),
        None => ("clusterrole", "clusterrolebinding", String::new()),
    };
    format!(
        "ask an administrator for the right to {verb} {resource}:\n  \
         kubectl create {role} {name} --verb={verbs} --resource={resource}{place}\n  \
         kubectl create {binding} {name} --{role}={name} --user=YOU{place}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_comes_with_the_words_that_grant_it() {
        let everywhere = Failure::Forbidden {
            verb: "list",
            resource: "floatingips.galaxy.k8s.io",
            namespace: None,
        };
        assert_eq!(
            everywhere.to_string(),
            "you may not list floatingips.galaxy.k8s.io"
        );
        assert_eq!(
            everywhere.hint().unwrap(),
            "ask an administrator for the right to list floatingips.galaxy.k8s.io:\n  \
             kubectl create clusterrole floatingips-list --verb=list --resource=floatingips.galaxy.k8s.io\n  \
             kubectl create clusterrolebinding floatingips-list --clusterrole=floatingips-list --user=YOU"
        );
        let inside = Failure::Forbidden {
            verb: "delete",
            resource: "pools.galaxy.k8s.io",
            namespace: Some("web".into()),
        };
        assert_eq!(
            inside.to_string(),
            "you may not delete pools.galaxy.k8s.io in namespace web"
        );
        let hint = inside.hint().unwrap();
        assert!(
            hint.contains("create role pools-delete --verb=delete"),
            "{hint}"
        );
        assert!(
            hint.contains("--role=pools-delete --user=YOU -n web"),
            "{hint}"
        );
    }

    /// Two accounts of one name with different permissions would mean that one of the two
    /// places lets users create an account that cannot do what they need.
    #[test]
    fn the_account_of_the_hint_is_the_one_of_the_guide() {
        let path = "deploy/examples/operator.yaml";
        assert!(SERVICE_ACCOUNT.ends_with(&format!("kubectl apply -f {path}")));
        let manifest = include_str!("../../../deploy/examples/operator.yaml");
        let guide = include_str!("../../../docs/guide/api-access.md");
        let start = guide.find("kind: ServiceAccount").unwrap();
        let block = guide[..start].rfind("```yaml\n").unwrap() + "```yaml\n".len();
        let block = guide[block..].split("```").next().unwrap();
        assert!(block.contains("name: floe-operator"), "{block}");
        let comment = manifest.find("apiVersion").unwrap();
        assert_eq!(&manifest[comment..], block);
    }

    #[test]
    fn exit_codes_are_as_documented() {
        assert_eq!(Failure::Usage("what?".into()).exit_code(), 2);
        assert_eq!(Failure::Unconfirmed.exit_code(), 2);
        assert_eq!(Failure::Declined.exit_code(), 1);
        assert_eq!(
            Failure::Some {
                failed: 1,
                total: 2
            }
            .exit_code(),
            1
        );
        let pipe = |kind: io::ErrorKind| Failure::Io {
            what: "standard output".into(),
            source: kind.into(),
        };
        assert_eq!(pipe(io::ErrorKind::BrokenPipe).exit_code(), 0);
        assert_eq!(pipe(io::ErrorKind::StorageFull).exit_code(), 1);
    }
}
