//! GC and STATUS: what is about no single container.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use floe_core::cni::{
    args::CniArgs,
    call::Command,
    error::{CniError, Code},
    version::Version,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{AttachError, Attacher, Failed, version_of};
use crate::{delegate::Job, plugins::OWN, request::Request};

/// How long a plugin may take. Nothing is attached while plugins collect.
const LIMIT: Duration = Duration::from_secs(20);

/// How long a GC goes on beginning things. What it did not come to is for the next one.
const ENOUGH: Duration = Duration::from_secs(30);

type Config = Map<String, Value>;

impl Attacher {
    /// Detaches every container that the runtime does not name any more, and lets the
    /// plugins remove what belongs to none. Nobody may attach or detach meanwhile.
    pub async fn collect(&self, request: &Request) -> Result<(), AttachError> {
        let valid = request.config.valid_attachments.as_ref();
        let valid = valid.ok_or(AttachError::NoValidAttachments)?;
        let alive: BTreeSet<&str> = valid.iter().map(|it| &*it.container).collect();
        let mut errors = Vec::new();
        let end = Instant::now() + ENOUGH;
        let hasty = Self {
            runner: self.runner.clone().within(LIMIT),
            ..self.clone()
        };
        for kept in self.states.list().await? {
            if alive.contains(&*kept.container) {
                continue;
            }
            let what = format!("container {}", kept.container);
            if Instant::now() >= end {
                errors.push(late(what));
            } else if let Err(error) = hasty.del_forgotten(&kept.container).await {
                let error = error.for_runtime(Command::Gc);
                errors.push(Failed { what, error });
            }
        }
        // A plugin knows its attachments by the interface that it made, which only the
        // state files tell. What could not be detached is not valid, but its plugin
        // has been asked already.
        let mut attached: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for kept in self.states.list().await? {
            let Ok(state) = kept.state else { continue };
            for one in state.attached {
                let attachment = json!({ "containerID": kept.container, "ifname": one.ifname });
                attached.entry(one.kind).or_default().push(attachment);
            }
        }
        for (network, mut config) in self.confs(request, Command::Gc) {
            let mut list = attached.get(&network).cloned().unwrap_or_default();
            // Whatever the runtime names is valid in any case.
            list.extend(
                valid
                    .iter()
                    .map(|it| json!({ "containerID": it.container, "ifname": it.ifname })),
            );
            config.insert("cni.dev/valid-attachments".into(), list.into());
            if Instant::now() >= end {
                errors.push(late(format!("network {network}")));
            } else if let Err(error) = self.ask(request, Command::Gc, &config).await {
                let what = format!("network {network}");
                errors.push(Failed { what, error });
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(AttachError::Detach(errors))
    }

    /// Whether pods could be attached to the networks that they join without asking.
    pub async fn status(&self, request: &Request) -> Result<(), AttachError> {
        let settings = self.networks.settings();
        let mut usual = settings
            .default_networks
            .iter()
            .chain(&settings.eni_ip_network);
        for (network, config) in self.confs(request, Command::Status) {
            if usual.clone().any(|name| *name == network) {
                let asked = self.ask(request, Command::Status, &config).await;
                asked.map_err(|error| AttachError::Plugin { network, error })?;
            }
        }
        // A network that nobody has would refuse every pod.
        match usual.find(|name| !settings.networks.contains_key(*name)) {
            Some(name) => self
                .networks
                .find(name)
                .await
                .map(|_| ())
                .map_err(Into::into),
            None => Ok(()),
        }
    }

    /// The configurations of all plugins in the settings that know a command.
    fn confs(&self, request: &Request, command: Command) -> Vec<(String, Config)> {
        let mut confs = Vec::new();
        for network in self.networks.settings().networks.values() {
            for index in 0..network.plugins.len() {
                let runtime = request.config.version.as_str();
                let Some(mut config) = network.plugin_config(index, runtime, None) else {
                    continue;
                };
                if OWN.contains(&kind_of(&config)) {
                    config.insert("cniVersion".into(), Version::LATEST.as_str().into());
                }
                if command.allowed_in(version_of(&config)).is_ok() {
                    confs.push((network.name.clone(), config));
                }
            }
        }
        confs
    }

    async fn ask(
        &self,
        request: &Request,
        command: Command,
        config: &Config,
    ) -> Result<(), CniError> {
        let job = Job {
            command,
            kind: kind_of(config),
            container: "",
            netns: "",
            ifname: "",
            args: &CniArgs::default(),
            path: &request.call.path,
            config,
        };
        let asked = self.runner.clone().within(LIMIT).run(job).await;
        asked.map(|_| ())
    }
}

fn late(what: String) -> Failed {
    let message = "there was no time for it; it is for the next GC";
    let error = CniError::new(Code::TryAgainLater, "TryAgainLater", message);
    Failed { what, error }
}

fn kind_of(config: &Config) -> &str {
    config
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}
