//! The way to a controller: a port-forward to its pod.

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams, client::UpgradeConnectionError};

use super::{Connect, Line};
use crate::{
    cluster::{Access, Cluster, PORT_FORWARD},
    failure::Failure,
};

/// The label of controllers.
pub const LABEL: &str = "app.kubernetes.io/name=floe-controller";

/// The name of the port of the API, and its number where no port has that name.
const PORT: (&str, u16) = ("api", 9041);

/// Forwards ports of controllers.
pub struct Forward<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
}

impl<'a> Forward<'a> {
    /// To controllers of that namespace.
    pub fn new(cluster: &'a Cluster, namespace: &'a str) -> Self {
        Self { cluster, namespace }
    }

    /// The controllers that could answer. Whichever is asked, the leader answers.
    async fn controllers(&self) -> Result<Vec<Pod>, Failure> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), self.namespace);
        let pods = api.list(&ListParams::default().labels(LABEL)).await;
        let pods =
            pods.map_err(|error| self.cluster.failure(&error, self.access("list", "pods")))?;
        let there: Vec<_> = pods.items.into_iter().filter(is_there).collect();
        let found = there.len();
        let ready: Vec<_> = there.into_iter().filter(is_ready).collect();
        if ready.is_empty() {
            return Err(Failure::NoController {
                namespace: self.namespace.to_owned(),
                found,
            });
        }
        Ok(ready)
    }

    fn access(&self, verb: &'static str, resource: &'static str) -> Access<'_> {
        Access {
            verb,
            resource,
            namespace: Some(self.namespace),
        }
    }

    /// What it means that no port is forwarded.
    fn failure(&self, pod: &str, error: &kube::Error) -> Failure {
        let kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(status)) = error
        else {
            let access = self.access("get", PORT_FORWARD);
            return self.cluster.failure(error, access);
        };
        match status.as_u16() {
            401 => Failure::Unauthorized {
                context: self.cluster.context.clone(),
            },
            403 => Failure::Forbidden {
                verb: "get",
                resource: PORT_FORWARD,
                namespace: Some(self.namespace.to_owned()),
            },
            _ => Failure::ApiUnreachable(format!(
                "the API server answers {status} to a port-forward to pod {pod}"
            )),
        }
    }
}

impl Connect for Forward<'_> {
    async fn connect(&self) -> Result<Line, Failure> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), self.namespace);
        let mut last = None;
        for pod in self.controllers().await? {
            let (name, port) = (pod.name_any(), port(&pod));
            let mut forwarder = match api.portforward(&name, &[port]).await {
                Ok(forwarder) => forwarder,
                Err(error) => {
                    let failure = self.failure(&name, &error);
                    if !failure.is_passing() {
                        return Err(failure);
                    }
                    last = Some(failure);
                    continue;
                }
            };
            let trouble = forwarder.take_error(port);
            let Some(stream) = forwarder.take_stream(port) else {
                continue;
            };
            return Ok(Line {
                stream: Box::new(stream),
                trouble: async move { trouble?.await }.boxed(),
            });
        }
        Err(last.unwrap_or_else(|| Failure::ApiUnreachable("no port was forwarded".into())))
    }
}

/// Whether it is there to stay: one that goes or has ended comes back under another name.
fn is_there(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Failed" | "Succeeded"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

fn port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|it| it.ports.iter().flatten());
    let named = ports.find(|it| it.name.as_deref() == Some(PORT.0));
    let number = named.and_then(|it| u16::try_from(it.container_port).ok());
    number.unwrap_or(PORT.1)
}

#[cfg(test)]
mod tests;
