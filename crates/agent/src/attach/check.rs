//! Whether what was attached is as it should be.

use floe_core::cni::call::Command;

use super::{AttachError, Attacher, steps, version_of};
use crate::request::Request;

impl Attacher {
    /// Asks the plugins that know CHECK, in order; the first that complains counts. Those
    /// of a network with `disableCheck` are not asked.
    pub async fn check(&self, request: &Request) -> Result<(), AttachError> {
        let call = &request.call;
        let state = self.states.read(&call.container).await?;
        let state = state.filter(|state| !state.attached.is_empty());
        let state = state.ok_or_else(|| AttachError::NotAttached(call.container.clone()))?;
        for attached in &state.attached {
            let conf = &attached.conf;
            // CHECK came with a version, and needs the result of the ADD, which files of
            // galaxy do not have.
            let known = Command::Check.allowed_in(version_of(conf)).is_ok();
            if !known || !conf.contains_key("prevResult") {
                continue;
            }
            // A network that is not known any more did not forbid it.
            let network = self.networks.find(&attached.kind).await;
            if network.is_ok_and(|it| it.disable_check) {
                continue;
            }
            let complained = |error| AttachError::Plugin {
                network: attached.kind.clone(),
                error,
            };
            let args = steps::arguments(call, attached);
            let job = steps::job(attached, conf, Command::Check, call, &args);
            self.runner.run(job).await.map_err(complained)?;
        }
        Ok(())
    }
}
