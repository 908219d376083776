//! Attaching pods to their networks, and detaching them: all of it or nothing.
//!
//! ```text
//! ADD  pod → its networks → its addresses, checked → state file → plugins in order
//!      and when one fails: plugins in reverse, back to the state before
//! DEL  state file → plugins in reverse → what failed stays in the file
//! ```
//!
//! Whoever calls here holds the [turn](crate::turns) of the container.

use std::{collections::BTreeMap, sync::Arc};

use floe_core::{
    cni::{
        args::{self, IPINFOS},
        call::Command,
        result::Outcome,
        version::Version,
    },
    ipam::args::Args,
    node::{
        arguments, networks,
        state::{PodId, State},
    },
};
use futures::future::{join_all, try_join_all};
use serde_json::Value;
use tracing::{info, warn};

use crate::{
    delegate::Runner,
    events::{self, Events, News},
    health::{Conflicts, conflicts},
    networks::Networks,
    permits::Records,
    pods::{Pod, Pods, Wanted},
    request::Request,
    state::{FileError, States},
};
pub use detach::Detached;
pub use error::{AttachError, Failed};
use steps::{Step, Surroundings};

mod check;
mod collect;
mod detach;
mod error;
mod restore;
mod rival;
mod steps;

/// Attaches and detaches; all clones are the same.
#[derive(Clone)]
pub struct Attacher {
    /// The pods of this node.
    pub pods: Pods,
    /// Who holds which address; `None` to trust what annotations claim.
    pub records: Option<Records>,
    /// The networks of this node.
    pub networks: Networks,
    /// What was attached.
    pub states: States,
    /// How plugins are called.
    pub runner: Runner,
    /// Where it is told what went wrong.
    pub events: Events,
    /// Where it is told which addresses somebody else uses.
    pub conflicts: Conflicts,
}

impl Attacher {
    /// Attaches a pod, and gives back the result of its last network in the form that
    /// the runtime asked for.
    pub async fn add(&self, request: &Request) -> Result<Value, AttachError> {
        let wanted = request.pod();
        let found = self.pods.find(wanted).await.inspect_err(|error| {
            let Wanted { namespace, name, .. } = wanted;
            warn!(reason = error.reason(), namespace, pod = name, error = %error, "pod is not attached");
        });
        let pod = found?;
        let attached = self.add_pod(Arc::clone(&pod), request).await;
        match &attached {
            Ok(_) => info!(
                namespace = pod.namespace,
                pod = pod.name,
                container = request.call.container,
                "pod is attached",
            ),
            Err(error) => self.tell(&pod, &request.call.container, error).await,
        }
        attached
    }

    async fn add_pod(&self, mut pod: Arc<Pod>, request: &Request) -> Result<Value, AttachError> {
        let container = &*request.call.container;
        let mut args = Args::parse(pod.args.as_deref())?;
        if pod.wants_address && !args.has_claim() {
            // The watch may have a state of the pod from before it was bound.
            pod = self.pods.read(request.pod()).await?;
            args = Args::parse(pod.args.as_deref())?;
        }
        let joins = networks::Wanted {
            annotation: pod.networks.as_deref(),
            wants_address: pod.wants_address,
            ifname: &request.call.ifname,
        };
        let selected = networks::select(joins, self.networks.settings())?;
        let told = self.arguments(&pod, &args).await?;
        let surroundings = Surroundings {
            request,
            // All plugins are told the same, so what cannot be told fails here, and
            // not when something is noted that no DEL could be told either.
            cni_args: arguments::all(&request.call.args, &told).map_err(AttachError::Arguments)?,
            args: told,
            pod: id(&pod),
        };
        let mut steps = Vec::new();
        for selected in &selected {
            let network = self.networks.find(&selected.network).await?;
            steps.extend(surroundings.steps(&network, &selected.ifname));
        }

        let before = self.before(container).await?;
        let noted = with(&before, &steps);
        self.states.write(container, &noted).await?;
        match self.run(&mut steps, &surroundings).await {
            Ok(outcome) => {
                for info in args.claimed().unwrap_or_default() {
                    self.conflicts.settled(info.ip.addr());
                }
                // With the results, as CHECK and DEL of newer versions want them. The
                // plugins have done their work: this cannot fail the ADD any more.
                if let Err(error) = self.states.write(container, &with(&before, &steps)).await {
                    let error = floe_shell::logs::with_causes(&error);
                    warn!(
                        reason = "StateUnavailable",
                        container, error, "results are not noted"
                    );
                }
                Ok(outcome.to_json(request.config.version))
            }
            Err((called, error)) => {
                let undone = self.undo(&steps[..called], before, &surroundings).await;
                Err(error.with_leftovers(&undone))
            }
        }
    }

    /// What the plugins are told beyond what the runtime says: every member of
    /// `common`, and the addresses that the pod really holds.
    async fn arguments(
        &self,
        pod: &Pod,
        args: &Args,
    ) -> Result<BTreeMap<String, String>, AttachError> {
        let mut told = BTreeMap::new();
        for (name, value) in args.common() {
            // These say who the pod is. An author must not say it for the runtime.
            if name.starts_with("K8S_") || name == "IgnoreUnknown" {
                return Err(AttachError::ReservedArgument(
                    name.chars().take(120).collect(),
                ));
            }
            told.insert(name.to_owned(), value.to_owned());
        }
        if args.has_claim() {
            let mut claimed = args.claimed()?;
            if let Some(records) = &self.records {
                claimed = join_all(claimed.into_iter().map(|it| records.corrected(it))).await;
            }
            // None at all is for the plugin to refuse: not all need one.
            if !claimed.is_empty() {
                args::check(&claimed).map_err(AttachError::Claim)?;
            }
            if let Some(records) = &self.records {
                try_join_all(claimed.iter().map(|it| records.permit(it, pod))).await?;
            }
            // Written anew, so that plugins read what was checked and nothing else.
            let text = serde_json::to_string(&claimed);
            let text = text.expect("a list of texts and numbers always has a JSON form");
            told.insert(IPINFOS.to_owned(), text);
        }
        Ok(told)
    }

    /// Calls the plugins in order. After a failure, how many have been called.
    async fn run(
        &self,
        steps: &mut [Step],
        surroundings: &Surroundings<'_>,
    ) -> Result<Outcome, (usize, AttachError)> {
        let mut previous: Option<Outcome> = None;
        for index in 0..steps.len() {
            let called = index + 1;
            let step = &mut steps[index];
            let failed = |step: &Step, error| {
                let network = step.attached.kind.clone();
                (called, AttachError::Establish { network, error })
            };
            step.set_previous(previous.as_ref());
            let call = &surroundings.request.call;
            let job = step.job(Command::Add, call, &surroundings.cni_args);
            let result = self.runner.run(job).await;
            let result = result.and_then(|output| steps::outcome(step.plugin(), &output));
            let outcome = result.map_err(|error| failed(step, error))?;
            // The result of a network is that of its last plugin, for all of them.
            let network = step.network.clone();
            let plugins = steps[..=index].iter_mut().rev();
            for step in plugins.take_while(|step| step.network == network) {
                step.set_previous(Some(&outcome));
            }
            previous = Some(outcome);
        }
        match previous {
            Some(outcome) if !outcome.ips.is_empty() => Ok(outcome),
            _ => Err((steps.len(), AttachError::NoAddress)),
        }
    }

    /// What was attached for the container before. Nothing, as a rule: a runtime adds
    /// a container once. But whatever there is must not be forgotten.
    async fn before(&self, container: &str) -> Result<State, FileError> {
        match self.states.read(container).await {
            Ok(state) => Ok(state.unwrap_or_default()),
            Err(error @ FileError::Malformed { .. }) => {
                let error = floe_shell::logs::with_causes(&error);
                warn!(
                    reason = "StateMalformed",
                    container, error, "state file is put aside"
                );
                self.states.set_aside(container).await?;
                Ok(State::default())
            }
            Err(error) => Err(error),
        }
    }

    async fn tell(&self, pod: &Pod, container: &str, error: &AttachError) {
        let reason = error.reason();
        let mut text = floe_shell::logs::with_causes(error);
        let of_plugin = error.of_plugin().map(ToString::to_string);
        let conflict = of_plugin.as_deref().and_then(conflicts::read);
        if let Some((ip, mac)) = &conflict
            && let Some(rival) = self.rival(&pod.uid, *ip, mac).await
        {
            text = format!("{text}; {rival}");
        }
        warn!(
            reason,
            namespace = pod.namespace,
            pod = pod.name,
            container,
            error = text,
            "pod is not attached",
        );
        if let Some(error) = of_plugin {
            self.conflicts.report(&id(pod), &error);
        }
        self.events.tell(News {
            about: events::pod(&pod.namespace, &pod.name, &pod.uid),
            warning: true,
            reason,
            action: "Attach",
            note: text,
        });
    }
}

/// What there was, and what is attached now. A second ADD of the same network and
/// interface takes the place of the first.
fn with(before: &State, steps: &[Step]) -> State {
    let is_new = |kind: &str, ifname: &str| {
        let mut new = steps.iter().map(|step| &step.attached);
        new.any(|it| it.kind == kind && it.ifname == ifname)
    };
    let old = before
        .attached
        .iter()
        .filter(|it| !is_new(&it.kind, &it.ifname));
    let new = steps.iter().map(|step| &step.attached);
    State {
        attached: old.chain(new).cloned().collect(),
    }
}

fn id(pod: &Pod) -> PodId {
    PodId {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

/// The version that a configuration names.
fn version_of(conf: &serde_json::Map<String, Value>) -> Version {
    let text = conf.get("cniVersion").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok())
        .unwrap_or(Version::UNNAMED)
}

#[cfg(test)]
mod tests;
