//! The calls of plugins that attach a pod.

use std::collections::{BTreeMap, BTreeSet};

use floe_core::{
    cni::{
        args::CniArgs,
        call::{Call, Command},
        error::{CniError, Code},
        result::Outcome,
    },
    json::{self, Names},
    node::{
        arguments,
        settings::NetworkConfig,
        state::{Attached, PodId},
    },
};
use serde_json::{Map, Value};
use tracing::warn;

use super::version_of;
use crate::{delegate::Job, request::Request};

/// What all calls of a request have in common.
pub struct Surroundings<'a> {
    /// The request.
    pub request: &'a Request,
    /// What plugins are told beyond what the runtime says.
    pub args: BTreeMap<String, String>,
    /// `CNI_ARGS` of all plugins: both together.
    pub cni_args: CniArgs,
    /// The pod.
    pub pod: PodId,
}

/// One plugin to call.
pub struct Step {
    /// What is noted of it. The configuration is this request's own.
    pub attached: Attached,
    /// Which network of the pod it belongs to: a name can be there twice.
    pub network: String,
}

impl Surroundings<'_> {
    /// The steps of a network.
    pub fn steps(&self, network: &NetworkConfig, ifname: &str) -> Vec<Step> {
        let Request { call, config } = self.request;
        let runtime_config = config
            .members
            .get("runtimeConfig")
            .and_then(Value::as_object);
        let confs = (0..network.plugins.len()).filter_map(|index| {
            network.plugin_config(index, config.version.as_str(), runtime_config)
        });
        let step = |conf| Step {
            attached: Attached {
                kind: network.name.clone(),
                args: self.args.clone(),
                conf,
                ifname: ifname.to_owned(),
                netns: Some(call.netns.clone()).filter(|netns| !netns.is_empty()),
                pod: Some(self.pod.clone()),
                taken_off: BTreeSet::new(),
            },
            network: format!("{}@{ifname}", network.name),
        };
        confs.map(step).collect()
    }
}

impl Step {
    /// The plugin.
    pub fn plugin(&self) -> &str {
        self.attached.plugin()
    }

    /// Puts a result into the configuration, in the form of its version.
    pub fn set_previous(&mut self, outcome: Option<&Outcome>) {
        let conf = &mut self.attached.conf;
        if let Some(outcome) = outcome {
            let json = outcome.to_json(version_of(conf));
            conf.insert("prevResult".into(), json);
        } else {
            conf.remove("prevResult");
        }
    }

    /// The call of the plugin.
    pub fn job<'a>(&'a self, command: Command, call: &'a Call, args: &'a CniArgs) -> Job<'a> {
        job(&self.attached, &self.attached.conf, command, call, args)
    }
}

/// The call of a plugin that was noted.
pub fn job<'a>(
    attached: &'a Attached,
    config: &'a Map<String, Value>,
    command: Command,
    call: &'a Call,
    args: &'a CniArgs,
) -> Job<'a> {
    Job {
        command,
        kind: attached.plugin(),
        container: &call.container,
        netns: &call.netns,
        ifname: &attached.ifname,
        args,
        path: &call.path,
        config,
    }
}

/// `CNI_ARGS` for a plugin that was noted. What cannot be told is left out, and said: it
/// must not keep a pod from ever being deleted.
pub fn arguments(call: &Call, attached: &Attached) -> CniArgs {
    let (args, left_out) = arguments::most(&call.args, &attached.args);
    for (name, error) in left_out {
        warn!(
            reason = error.reason(),
            container = call.container,
            network = attached.kind,
            name = name.chars().take(120).collect::<String>(),
            error = %error,
            "plugin is not told an argument",
        );
    }
    args
}

/// Reads what a plugin has printed.
pub fn outcome(plugin: &str, output: &[u8]) -> Result<Outcome, CniError> {
    let told = json::decode(output, Names::Go).map_err(|error| error.to_string());
    let outcome = told.and_then(|json| Outcome::from_json(&json).map_err(|it| it.to_string()));
    outcome.map_err(|error| {
        let message = format!("{plugin} succeeded with a result that cannot be read: {error}");
        CniError::new(Code::Delegate, "InvalidResult", message)
    })
}
