//! Which sandboxes the container runtime really runs.
//!
//! The protocol is `proto/cri.proto`, spoken over a unix socket. The first call
//! connects, and a connection that broke is made anew by the next call, so the runtime
//! may start later than the agent, or again.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use floe_core::node::state::PodId;
use floe_shell::logs;
use tokio::time::timeout;
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};

use wire::{
    ContainerState, ListContainersRequest, ListPodSandboxRequest, PodSandboxState,
    PodSandboxStatusRequest, VersionRequest, runtime_service_client::RuntimeServiceClient,
};

#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod wire;

/// The runtime's socket, unless `CONTAINERD_HOST` says another.
pub const DEFAULT_ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// The longest answer. A full node has some hundred sandboxes of a few KiB each.
const LONGEST: usize = 16 << 20;

/// A container runtime.
#[derive(Clone, Debug)]
pub struct Cri {
    client: RuntimeServiceClient<Channel>,
    patience: Duration,
}

/// A sandbox: what holds the network of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sandbox {
    /// Its id, which CNI calls the container.
    pub id: String,
    /// Whether it is ready, or a container in it may still run.
    pub is_alive: bool,
    /// The pod that it is for.
    pub pod: PodId,
}

/// Why the runtime could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CriError {
    /// The address is not that of a unix socket.
    #[error("runtime endpoint {0:?} is not unix:///<path>")]
    Endpoint(String),
    /// No answer came in time.
    #[error("{call}: no answer within {after:?}")]
    Silent {
        /// What was asked.
        call: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// It could not be reached, or refused.
    #[error("{call}: {code:?}: {message}")]
    Refused {
        /// What was asked.
        call: &'static str,
        /// The code of the answer.
        code: Code,
        /// The words of the answer.
        message: String,
    },
}

impl CriError {
    /// The stable reason for logs and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Endpoint(_) => "RuntimeEndpointInvalid",
            Self::Silent { .. } => "RuntimeSilent",
            Self::Refused { .. } => "RuntimeRefused",
        }
    }
}

impl Cri {
    /// A client of the runtime at `unix:///<path>`, or at a path; no connection is
    /// made yet. It has to be called inside of a tokio runtime.
    pub fn new(endpoint: &str) -> Result<Self, CriError> {
        Self::with_patience(endpoint, PATIENCE)
    }

    fn with_patience(endpoint: &str, patience: Duration) -> Result<Self, CriError> {
        let wrong = || CriError::Endpoint(endpoint.to_owned());
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        if !path.starts_with('/') {
            return Err(wrong());
        }
        let channel = Endpoint::from_shared(format!("unix://{path}"))
            .map_err(|_| wrong())?
            .connect_timeout(CONNECT.min(patience))
            .connect_lazy();
        Ok(Self {
            client: RuntimeServiceClient::new(channel).max_decoding_message_size(LONGEST),
            patience,
        })
    }

    /// Name and version of the runtime.
    pub async fn version(&self) -> Result<String, CriError> {
        let request = Request::new(VersionRequest::default());
        let mut client = self.client.clone();
        let answer = self.call("Version", client.version(request)).await?;
        Ok(format!(
            "{} {}",
            answer.runtime_name, answer.runtime_version
        ))
    }

    /// All sandboxes, and which of them live: those that are ready, and those whose
    /// containers are not all known to have ended.
    ///
    /// Compat: galaxy calls a sandbox dead that is not found, or not ready and without
    /// a container that waits or runs. floe spares also one with a container of which
    /// the runtime does not know the state.
    pub async fn sandboxes(&self) -> Result<Vec<Sandbox>, CriError> {
        let mut client = self.client.clone();
        let request = Request::new(ListPodSandboxRequest::default());
        let sandboxes = client.list_pod_sandbox(request);
        let sandboxes = self.call("ListPodSandbox", sandboxes).await?.items;

        let is_ready = |it: &wire::PodSandbox| it.state == PodSandboxState::SandboxReady as i32;
        let mut living = BTreeSet::new();
        if !sandboxes.iter().all(is_ready) {
            let request = Request::new(ListContainersRequest::default());
            let containers = client.list_containers(request);
            let containers = self.call("ListContainers", containers).await?.containers;
            living = containers
                .into_iter()
                .filter(|it| it.state != ContainerState::ContainerExited as i32)
                .map(|it| it.pod_sandbox_id)
                .collect();
        }

        let sandboxes = sandboxes.into_iter().map(|it| {
            let is_alive = is_ready(&it) || living.contains(&it.id);
            let pod = it.metadata.unwrap_or_default();
            Sandbox {
                id: it.id,
                is_alive,
                pod: PodId {
                    namespace: pod.namespace,
                    name: pod.name,
                    uid: pod.uid,
                },
            }
        });
        let mut sandboxes: Vec<Sandbox> = sandboxes.collect();
        sandboxes.sort();
        Ok(sandboxes)
    }

    /// The path of a sandbox's network namespace, if the runtime knows the sandbox
    /// and tells.
    pub async fn netns(&self, id: &str) -> Result<Option<PathBuf>, CriError> {
        let request = Request::new(PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose: true,
        });
        let mut client = self.client.clone();
        let answer = client.pod_sandbox_status(request);
        match self.call("PodSandboxStatus", answer).await {
            Ok(answer) => Ok(answer.info.get("info").and_then(|info| netns_in(info))),
            Err(CriError::Refused {
                code: Code::NotFound,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn call<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, CriError> {
        match timeout(self.patience, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(CriError::Refused {
                call,
                code: status.code(),
                message: told(&status),
            }),
            Err(_) => Err(CriError::Silent {
                call,
                after: self.patience,
            }),
        }
    }
}

/// What containerd and CRI-O tell about a sandbox who is asked for more: JSON with the
/// runtime's own specification of the container.
fn netns_in(info: &str) -> Option<PathBuf> {
    let info: serde_json::Value = serde_json::from_str(info).ok()?;
    let namespaces = info.pointer("/runtimeSpec/linux/namespaces")?.as_array()?;
    let network = namespaces.iter().find(|it| it["type"] == "network")?;
    let path = network["path"].as_str().filter(|path| !path.is_empty())?;
    Some(PathBuf::from(path))
}

/// The words of an answer. Those of a broken connection are in its causes.
fn told(status: &Status) -> String {
    let message = status.message();
    match std::error::Error::source(status) {
        Some(cause) if !message.is_empty() => {
            format!("{message}: {}", logs::with_causes(cause))
        }
        Some(cause) => logs::with_causes(cause),
        None => message.to_owned(),
    }
}
