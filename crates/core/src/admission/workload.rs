//! Pods, and the templates that they are made from: whether what they ask for can be
//! read, and whether it is what their author thinks.

use serde_json::{Map, Value};

use super::{Author, Finding, Verdict, Write, rollout, text};
use crate::{
    addr::IpSet,
    config::AddressConfig,
    ipam::{
        args::Args,
        choice::Wish,
        families::Families,
        key::PoolName,
        names,
        owner::{App, AppKind},
        policy::ReleasePolicy,
        workload::{Scale, State, Unsupported, Workload},
    },
    rollout::strategy::InvalidRollout,
    vip::claim::{Claim, Fault},
};

use self::risk::Wishes;
pub use self::risk::{IpInfosForbidden, Risk};

mod risk;

/// A kind whose objects are pods or make some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pod.
    Pod,
    /// A Deployment.
    Deployment,
    /// A `ReplicaSet`.
    ReplicaSet,
    /// A `StatefulSet`.
    StatefulSet,
    /// A `DaemonSet`.
    DaemonSet,
    /// A Job.
    Job,
    /// A `CronJob`.
    CronJob,
}

impl Kind {
    /// The kind of a resource, if its objects are pods or make some.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        Some(match (group, resource) {
            ("", "pods") => Self::Pod,
            ("apps", "deployments") => Self::Deployment,
            ("apps", "replicasets") => Self::ReplicaSet,
            ("apps", "statefulsets") => Self::StatefulSet,
            ("apps", "daemonsets") => Self::DaemonSet,
            ("batch", "jobs") => Self::Job,
            ("batch", "cronjobs") => Self::CronJob,
            _ => return None,
        })
    }

    /// Where the pod is in an object.
    fn pod(self) -> &'static str {
        match self {
            Self::Pod => "",
            Self::CronJob => "/spec/jobTemplate/spec/template",
            Self::Deployment
            | Self::ReplicaSet
            | Self::StatefulSet
            | Self::DaemonSet
            | Self::Job => "/spec/template",
        }
    }

    /// What its pods belong to.
    fn app(self) -> AppKind {
        match self {
            Self::Pod => AppKind::Bare,
            Self::Deployment => AppKind::Deployment,
            Self::ReplicaSet => AppKind::ReplicaSet,
            Self::StatefulSet => AppKind::StatefulSet,
            Self::DaemonSet => AppKind::DaemonSet,
            Self::Job | Self::CronJob => AppKind::Job,
        }
    }

    fn has_replicas(self) -> bool {
        matches!(
            self,
            Self::Deployment | Self::ReplicaSet | Self::StatefulSet
        )
    }
}

/// Judges a pod or a workload. Without a configuration, what depends on it is not judged.
pub fn judge(
    kind: Kind,
    write: Write<'_>,
    author: Author,
    config: Option<&AddressConfig>,
) -> Verdict {
    if write.is_farewell() {
        return Verdict::default();
    }
    let subject = |object| Subject { kind, object };
    let (subject, before, mut verdict) = match write {
        Write::Delete(_) => return Verdict::default(),
        Write::Create(object) => {
            let subject = subject(object);
            (subject, None, subject.judge(config, true))
        }
        Write::Update { new, old } => {
            let (new, old) = (subject(new), subject(old));
            let verdict = new.judge(config, false);
            (
                new,
                old.result(),
                verdict.forgive(&old.judge(config, false)),
            )
        }
    };
    if author == Author::Other && subject.result() != before {
        let place = subject.pod().place(names::ARGS);
        verdict.refuse(Finding::at(
            place,
            IpInfosForbidden.reason(),
            IpInfosForbidden,
        ));
    }
    verdict
}

/// Whether a pod with this specification wants an address: the resource is in the
/// requests, or the limits that make requests, of a regular container.
pub fn wants_address(spec: &Value) -> bool {
    requested(&spec["containers"])
}

fn requested(containers: &Value) -> bool {
    let containers = containers.as_array().into_iter().flatten();
    containers.into_iter().any(|it| {
        let has = |list| it["resources"][list].get(names::RESOURCE).is_some();
        has("requests") || has("limits")
    })
}

/// A pod, or an object that makes some.
#[derive(Clone, Copy)]
struct Subject<'a> {
    kind: Kind,
    object: &'a Value,
}

/// The annotations of an object or of its template, and where they are.
#[derive(Clone, Copy)]
struct Annotations<'a> {
    all: Option<&'a Map<String, Value>>,
    /// The pointer of whatever has them.
    of: &'static str,
}

impl<'a> Annotations<'a> {
    fn read(object: &'a Value, of: &'static str) -> Self {
        let all = object.pointer(&format!("{of}/metadata/annotations"));
        let all = all.and_then(Value::as_object);
        Self { all, of }
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.all?.get(name)?.as_str()
    }

    fn place(&self, name: &str) -> String {
        let path = format!("{}/metadata/annotations", self.of);
        let path = path.trim_start_matches('/').replace('/', ".");
        format!("{path}[{name}]")
    }
}

impl<'a> Subject<'a> {
    fn pod(self) -> Annotations<'a> {
        Annotations::read(self.object, self.kind.pod())
    }

    fn pod_spec(self) -> &'a Value {
        let spec = self.object.pointer(&format!("{}/spec", self.kind.pod()));
        spec.unwrap_or(&Value::Null)
    }

    /// The addresses that an annotation claims to be given.
    fn result(self) -> Option<String> {
        let args = Args::parse(self.pod().get(names::ARGS)).ok()?;
        args.claim().map(str::to_owned)
    }

    fn judge(self, config: Option<&AddressConfig>, is_new: bool) -> Verdict {
        let mut verdict = Verdict::default();
        let pod = self.pod();
        self.shared(pod, &mut verdict);
        if self.kind != Kind::Pod {
            self.shared(Annotations::read(self.object, ""), &mut verdict);
        }

        let args = Args::parse(pod.get(names::ARGS));
        let families = Families::from_annotation(pod.get(names::FAMILIES));
        let pool = PoolName::from_annotation(pod.get(names::POOL));
        let mut refuse = |name, reason, text: String| {
            verdict.refuse(Finding::at(pod.place(name), reason, text));
        };
        if let Err(error) = &args {
            refuse(names::ARGS, error.reason(), error.to_string());
        }
        if let Err(error) = &families {
            refuse(names::FAMILIES, error.reason(), error.to_string());
        }
        if let Err(error) = &pool {
            refuse(names::POOL, error.reason(), error.to_string());
        }
        if self.kind == Kind::Deployment
            && let Err(error) = rollout::handling(self.object)
        {
            let place = Annotations::read(self.object, "").place(names::ROLLOUT);
            verdict.refuse(Finding::at(place, InvalidRollout::REASON, error));
        }
        let wishes = Wishes {
            args: args.unwrap_or_default(),
            has_families: families.ok().flatten().is_some(),
            policy: pod.get(names::RELEASE_POLICY),
            pool: pod.get(names::POOL).filter(|name| !name.is_empty()),
        };
        for (place, risk) in self.risks(&wishes, config, is_new) {
            verdict.warn(Finding::at(place, risk.reason(), risk));
        }
        verdict
    }

    /// Addresses that are shared. Pods of a workload are not stopped by what is wrong: their
    /// workload may be older than floe.
    fn shared(self, annotations: Annotations<'_>, verdict: &mut Verdict) {
        let claim = Claim::of(|name| annotations.get(name));
        for problem in claim.problems {
            let place = annotations.place(problem.annotation);
            let finding = Finding::at(place, problem.reason(), &problem.fault);
            let harmless = matches!(problem.fault, Fault::Twice { .. });
            if harmless || self.is_made() {
                verdict.warn(finding);
            } else {
                verdict.refuse(finding);
            }
        }
    }

    /// Whether something else has made it.
    fn is_made(self) -> bool {
        let owners = self.object.pointer("/metadata/ownerReferences");
        let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
        owners.any(|owner| owner["controller"] == true)
    }

    fn risks(
        self,
        wishes: &Wishes<'_>,
        config: Option<&AddressConfig>,
        is_new: bool,
    ) -> Vec<(String, Risk)> {
        let pod = self.pod();
        let mut risks = Vec::new();
        if !wants_address(self.pod_spec()) {
            let asking = [
                (names::RELEASE_POLICY, wishes.policy.is_some()),
                (names::POOL, wishes.pool.is_some()),
                (names::FAMILIES, wishes.has_families),
                (names::ARGS, !wishes.args.ranges().is_empty()),
            ];
            let asking = asking.into_iter().find(|(_, is)| *is);
            let place = asking.map(|(name, _)| pod.place(name));
            risks.extend(place.map(|place| (place, Risk::NotWanted)));
            return risks;
        }
        let policy = ReleasePolicy::from_annotations(wishes.policy, wishes.pool);
        let at = |name| pod.place(name);
        if let Some(risk) = wishes.odd_policy() {
            risks.push((at(names::RELEASE_POLICY), risk));
        }
        if wishes.has_families && !wishes.args.ranges().is_empty() {
            risks.push((at(names::FAMILIES), Risk::FamiliesIgnored));
        }
        if let Some(unsupported) = self.unsupported(policy) {
            let name = if wishes.pool.is_some() {
                names::POOL
            } else {
                names::RELEASE_POLICY
            };
            risks.push((at(name), Risk::Unsupported(unsupported)));
        }
        let ranges = self.ranges(wishes, policy, config);
        risks.extend(ranges.into_iter().map(|risk| (at(names::ARGS), risk)));
        let spec = self.kind.pod().trim_start_matches('/').replace('/', ".");
        let spec = format!("{spec}.spec").trim_start_matches('.').to_owned();
        if self.pod_spec()["hostNetwork"] == true {
            risks.push((format!("{spec}.hostNetwork"), Risk::HostNetwork));
        }
        let named = !text(self.pod_spec(), "/nodeName").is_empty();
        if named && (is_new || self.kind != Kind::Pod) {
            risks.push((format!("{spec}.nodeName"), Risk::NodeNamed));
        }
        if self.kind == Kind::Deployment && policy.keeps() {
            let risk = rollout::risk(self.object);
            risks.extend(risk.map(|it| ("spec.strategy".to_owned(), Risk::Rollout(it))));
        }
        risks
    }

    /// Why its pods cannot have the policy. What a pod belongs to that something has made
    /// is not known here.
    fn unsupported(self, policy: ReleasePolicy) -> Option<Unsupported> {
        if self.kind == Kind::Pod && self.is_made() {
            return None;
        }
        let name = text(self.object, "/metadata/name");
        let workload = Workload {
            app: App {
                kind: self.kind.app(),
                namespace: text(self.object, "/metadata/namespace").to_owned(),
                name: name.to_owned(),
            },
            scale: Scale::No,
            state: State::Exists {
                replicas: None,
                first_ordinal: 0,
            },
        };
        let pod = match self.kind {
            // The API server adds something to a name that it shall complete.
            Kind::Pod if name.is_empty() => {
                format!("{}*", text(self.object, "/metadata/generateName"))
            }
            Kind::Pod => name.to_owned(),
            Kind::Deployment
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::CronJob => format!("{name}-*"),
        };
        workload.supports(policy, &pod).err()
    }

    fn ranges(
        self,
        wishes: &Wishes<'_>,
        policy: ReleasePolicy,
        config: Option<&AddressConfig>,
    ) -> Vec<Risk> {
        let mut risks = Vec::new();
        let replicas = self.object["spec"]["replicas"].as_u64().unwrap_or(1);
        let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
        for (list, ranges) in (1..).zip(wishes.args.ranges()) {
            let set: IpSet = ranges.iter().copied().collect();
            let addresses = set.len();
            if self.kind.has_replicas() && addresses < u128::from(replicas) {
                risks.push(Risk::RangeTooSmall {
                    list,
                    addresses,
                    replicas,
                });
            }
            let wish = Wish::OutOf(ranges.clone());
            if config.is_some_and(|config| !wish.is_configured(config)) {
                risks.push(Risk::RangeNotConfigured { list });
            }
        }
        let shares = self.kind.app().shares_spares();
        if shares && policy.keeps() && !wishes.args.ranges().is_empty() {
            risks.push(Risk::RangesWithPolicy);
        }
        risks
    }
}

#[cfg(test)]
mod tests;
