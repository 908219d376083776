//! The cloud around the cluster, which must know on which node an address lives.

use std::{future::Future, net::IpAddr, sync::Arc, time::Duration};

use floe_providers::{
    Call, Galaxy, IpProvider, Observer, Pace, Paced, ProviderError,
    galaxy::{AddressError, Timing},
};
use tokio::time::timeout;
use tracing::warn;

use crate::metrics::Metrics;

/// A bind waits no longer, for the scheduler does not either.
const ASSIGN: Duration = Duration::from_secs(10);

/// Nobody waits for this one.
const UNASSIGN: Duration = Duration::from_secs(30);

/// The provider of galaxy's file, or none: then every call succeeds at once.
#[derive(Clone)]
pub struct Cloud(Option<Paced>);

impl Cloud {
    /// The provider at `host:port`, if there is one; no connection is made yet. It
    /// has to be called inside of a tokio runtime.
    pub fn new(address: Option<&str>, metrics: &Metrics) -> Result<Self, AddressError> {
        let Some(address) = address.filter(|address| !address.is_empty()) else {
            return Ok(Self(None));
        };
        let provider = Galaxy::new(address, Timing::default())?;
        Ok(Self::over(Arc::new(provider), metrics))
    }

    /// Any provider.
    pub fn over(provider: Arc<dyn IpProvider>, metrics: &Metrics) -> Self {
        let observer = Arc::new(Noted(metrics.clone()));
        Self(Some(Paced::new(provider, Pace::default(), observer)))
    }

    /// Whether there is a provider.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Makes an address reachable on a node, with a limit to the waiting.
    pub async fn assign(&self, node: &str, ip: IpAddr) -> Result<(), ProviderError> {
        match &self.0 {
            Some(provider) => within(ASSIGN, provider.assign(node, ip)).await,
            None => Ok(()),
        }
    }

    /// Takes an address from a node, with a limit to the waiting.
    pub async fn unassign(&self, node: &str, ip: IpAddr) -> Result<(), ProviderError> {
        match &self.0 {
            Some(provider) => within(UNASSIGN, provider.unassign(node, ip)).await,
            None => Ok(()),
        }
    }
}

/// A call that nobody waits for any more is not tried again.
async fn within(
    limit: Duration,
    call: impl Future<Output = Result<(), ProviderError>>,
) -> Result<(), ProviderError> {
    let answer = timeout(limit, call).await;
    answer.unwrap_or(Err(ProviderError::Timeout { after: limit }))
}

/// Counts each call, and logs those that fail.
struct Noted(Metrics);

impl Observer for Noted {
    fn called(&self, call: &Call<'_>) {
        self.0.cloud_called(call.func.name(), call.took);
        if let Err(error) = call.result {
            warn!(
                reason = error.reason(),
                func = call.func.name(), node = call.node, ip = %call.ip,
                took = ?call.took, retry_in = ?call.retry_in, error = %error,
                "cloud provider call failed",
            );
        }
    }
}

#[cfg(test)]
mod tests;
