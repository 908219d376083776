//! Detaching: what the state file tells, in reverse.

use std::path::Path;

use floe_core::{
    cni::{
        args::CniArgs,
        call::{Call, Command},
        version::Version,
    },
    node::{
        notes::Note,
        state::{Attached, State},
    },
};
use floe_shell::logs;
use tracing::{info, warn};

use super::{AttachError, Attacher, Failed, Step, Surroundings, steps};
use crate::{
    delegate::Job,
    request::Request,
    state::{self, FileError},
};

/// What became of a container that was to be detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// Nothing of it is attached.
    Wholly,
    /// Its state file makes no sense and was put aside. Something may be left that
    /// only a look at the host finds.
    PutAside,
}

/// Which namespace a container is detached in.
#[derive(Clone, Copy)]
pub(super) enum Netns {
    /// The one that the runtime tells; empty when it is gone.
    Told,
    /// The one that was noted, if it is still there.
    Noted,
}

impl Attacher {
    /// Detaches what the state file of a container tells. Nothing else is asked, so it
    /// works while the API server is away. A container without a file is detached.
    pub async fn del(&self, request: &Request) -> Result<(), AttachError> {
        self.detach(&request.call, Netns::Told).await.map(drop)
    }

    /// Detaches a container that its runtime has forgotten.
    pub async fn del_forgotten(&self, container: &str) -> Result<Detached, AttachError> {
        let call = Call {
            command: Command::Del,
            container: container.to_owned(),
            netns: String::new(),
            ifname: String::new(),
            args: CniArgs::default(),
            path: Vec::new(),
        };
        self.detach(&call, Netns::Noted).await
    }

    /// Detaches what a plugin has noted of a container that its runtime has forgotten
    /// and that has no state file. A DEL needs to know no more than whose it is.
    pub async fn del_noted(&self, note: &Note) -> Result<(), AttachError> {
        let config = [
            ("cniVersion", Version::LATEST.as_str()),
            ("name", &note.network),
            ("type", &note.kind),
        ];
        let config = config.map(|(name, value)| (name.to_owned(), value.into()));
        let job = Job {
            command: Command::Del,
            kind: &note.kind,
            container: &note.attachment.container,
            netns: "",
            ifname: &note.attachment.ifname,
            args: &CniArgs::default(),
            path: &[],
            config: &config.into_iter().collect(),
        };
        let called = self.runner.run(job).await;
        called.map(|_| ()).map_err(|error| AttachError::Plugin {
            network: note.network.clone(),
            error,
        })
    }

    async fn detach(&self, call: &Call, netns: Netns) -> Result<Detached, AttachError> {
        let container = &*call.container;
        let state = match self.states.read(container).await {
            Ok(Some(state)) => state,
            Ok(None) => return Ok(Detached::Wholly),
            Err(error @ FileError::Malformed { .. }) => {
                // Trying for ever would keep the pod from ever being deleted. What can
                // be found without the file is found by the clean-up.
                let error = logs::with_causes(&error);
                warn!(
                    reason = "StateMalformed",
                    container, error, "state file is put aside"
                );
                self.states.set_aside(container).await?;
                return Ok(Detached::PutAside);
            }
            Err(error) => return Err(error.into()),
        };
        let (left, errors) = self.reverse(state.attached, call, netns).await;
        // Only what is left may be tried again.
        self.states
            .keep(container, &State { attached: left })
            .await?;
        if errors.is_empty() {
            info!(container, "container is detached");
            return Ok(Detached::Wholly);
        }
        let error = AttachError::Detach(errors);
        warn!(reason = error.reason(), container, error = %error, "container is not detached");
        Err(error)
    }

    /// Takes back what an ADD has done so far, and the state file to what it was. What
    /// cannot be taken back stays in the file, for a later DEL.
    pub(super) async fn undo(
        &self,
        steps: &[Step],
        before: State,
        surroundings: &Surroundings<'_>,
    ) -> Vec<String> {
        let call = &surroundings.request.call;
        let called = steps.iter().map(|step| {
            let mut attached = step.attached.clone();
            // What it has is the result of the plugin before, or none.
            attached.conf.remove("prevResult");
            attached
        });
        let (left, failed) = self.reverse(called.collect(), call, Netns::Told).await;
        let mut errors: Vec<String> = failed.iter().map(ToString::to_string).collect();
        let mut state = before;
        state.attached.extend(left);
        if let Err(error) = self.states.keep(&call.container, &state).await {
            errors.push(logs::with_causes(&error));
        }
        errors
    }

    /// Calls DEL in reverse, whatever fails. Gives back what failed, in the order in
    /// which it was attached, and why.
    pub(super) async fn reverse(
        &self,
        attached: Vec<Attached>,
        call: &Call,
        netns: Netns,
    ) -> (Vec<Attached>, Vec<Failed>) {
        let (mut left, mut errors) = (Vec::new(), Vec::new());
        for attached in attached.into_iter().rev() {
            let args = steps::arguments(call, &attached);
            let mut job = steps::job(&attached, &attached.conf, Command::Del, call, &args);
            job.netns = netns.of(call, &attached);
            if let Err(error) = self.runner.run(job).await {
                let what = format!("network {}", attached.kind);
                errors.push(Failed { what, error });
                left.push(attached);
            }
        }
        left.reverse();
        (left, errors)
    }
}

impl Netns {
    fn of<'a>(self, call: &'a Call, attached: &'a Attached) -> &'a str {
        match self {
            Self::Told => &call.netns,
            Self::Noted => attached
                .netns
                .as_deref()
                .filter(|path| state::is_lasting(path) && Path::new(path).exists())
                .unwrap_or_default(),
        }
    }
}
