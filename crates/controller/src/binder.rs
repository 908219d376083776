//! Gives a pod its addresses and binds it to its node.
//!
//! 1. [`ask`](Attempt): who is the pod, what does it want, where is the node.
//! 2. [`addresses`](mod@addresses): decide in the books, write the records, and
//!    decide again when another writer was faster.
//! 3. [`binding`]: tell the cloud, then bind the pod with the result in an
//!    annotation, and look at the pod when no good answer comes.
//! 4. Give back what the pod does not need.
//!
//! Whatever goes wrong, what was written stays the pod's own, under its uid: the
//! next bind of the pod goes on from there, and when the pod is gone its addresses
//! are found by that uid. The exceptions are addresses of a pod that cannot get all
//! that it asks for, or that somebody else bound with others.

use std::{net::IpAddr, time::Duration};

use floe_api::extender::BindRequest;
use floe_core::schedule::refusal::Refusal;
use floe_providers::ProviderError;
use kube::Client;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use tracing::{debug, warn};

use self::attempt::Attempt;
use crate::{
    claims::{ClaimError, Claims},
    cloud::Cloud,
    cluster::Cluster,
    metrics::Metrics,
    records::{Records, WriteError},
    report::Reporter,
    store::{NOT_READY, Store},
    turns::Turns,
    waiting::Waiting,
};

mod addresses;
mod attempt;
mod binding;
mod node;
mod opening;
mod placing;
mod undo;

/// How long the scheduler is kept waiting. A bind that is under way then stops at
/// the next place where it can.
const DEADLINE: Duration = Duration::from_secs(20);

/// Binds pods.
#[derive(Clone)]
pub struct Binder {
    /// The way to the API server, for the Binding.
    pub client: Client,
    /// What pods ask for.
    pub claims: Claims,
    /// Nodes and pods.
    pub cluster: Cluster,
    /// The books.
    pub store: Store,
    /// Writes of records.
    pub records: Records,
    /// The cloud around the cluster.
    pub cloud: Cloud,
    /// One bind at a time for each pod name.
    pub turns: Turns,
    /// Who waits.
    pub waiting: Waiting,
    /// Where it is told.
    pub reporter: Reporter,
    /// Where it is counted.
    pub metrics: Metrics,
}

/// Why a pod is not bound.
///
/// Compat: texts that galaxy-ipam has too begin with its words.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Nobody can tell what the pod asks for.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The pod asks for no address, so it is not for floe to bind.
    #[error("pod which doesn't want floatingip have been sent to plugin")]
    NotWanted,
    /// The pod is on its way out.
    #[error("pod {pod} {state}")]
    Ending {
        /// Namespace and name of the pod.
        pod: String,
        /// What it does.
        state: &'static str,
    },
    /// The pod is bound already, to another node or with other addresses.
    #[error("pod {pod} is already bound to node {node}, not by this call")]
    AlreadyBound {
        /// Namespace and name of the pod.
        pod: String,
        /// Where it is bound to.
        node: String,
    },
    /// The node cannot be read now.
    #[error("cannot read node {node}: {why}")]
    NodeUnreadable {
        /// The node.
        node: String,
        /// What went wrong.
        why: String,
    },
    /// The pod does not accept the node, which a scheduler would have known.
    #[error(
        "pod {pod} does not accept node {node}: its nodeSelector, required node affinity or \
         tolerations exclude it, or the node is cordoned"
    )]
    NodeNotAccepted {
        /// Namespace and name of the pod.
        pod: String,
        /// The node.
        node: String,
    },
    /// The pod cannot have what it asks for, there or at all.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A record is not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Running pods come first, and not all of them were looked at.
    #[error("NotReady: {NOT_READY}")]
    NotReady,
    /// Others were faster, each time.
    #[error("other writers were faster {tries} times, the last time with {ip}")]
    Contended {
        /// How often.
        tries: usize,
        /// The last address.
        ip: IpAddr,
    },
    /// The cloud does not bring an address to the node.
    #[error("cannot assign {ip} to node {node}: {why}")]
    Cloud {
        /// The address.
        ip: IpAddr,
        /// The node.
        node: String,
        /// What the provider says.
        why: ProviderError,
    },
    /// The pod has its addresses, but is not bound.
    #[error("update pod {key}: {why}")]
    Binding {
        /// The key of the pod.
        key: String,
        /// What went wrong.
        why: String,
    },
    /// The pod has its addresses, but its gate is not open.
    #[error("cannot open the gate of pod {pod}: {why}")]
    Gate {
        /// Namespace and name of the pod.
        pod: String,
        /// What went wrong.
        why: String,
    },
    /// The pod has gone meanwhile.
    #[error("update pod {key}: the pod is gone")]
    Gone {
        /// The key of the pod.
        key: String,
    },
    /// It took too long.
    #[error("bind was not done within {DEADLINE:?}")]
    Late,
    /// The work has ended without a word.
    #[error("bind was aborted")]
    Aborted,
}

impl BindError {
    /// The stable reason for answers, logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Claim(error) => error.reason(),
            Self::NotWanted => "AddressNotWanted",
            Self::Ending { .. } => "PodEnding",
            Self::AlreadyBound { .. } => "PodAlreadyBound",
            Self::NodeUnreadable { .. } => "NodeUnreadable",
            Self::NodeNotAccepted { .. } => "NodeNotAccepted",
            Self::Refused(refusal) => refusal.reason(),
            Self::Write(error) => error.reason(),
            Self::NotReady => "NotReady",
            Self::Contended { .. } => "RecordConflict",
            Self::Cloud { why, .. } => why.reason(),
            Self::Binding { .. } => "BindingFailed",
            Self::Gate { .. } => "GateNotOpened",
            Self::Gone { .. } => "PodGone",
            Self::Late => "BindTimeout",
            Self::Aborted => "BindAborted",
        }
    }
}

impl Binder {
    /// Binds a pod, with all addresses that it asks for.
    ///
    /// The work is a task of its own and not cut off when the caller goes away: no
    /// write is left without somebody who waits for its answer.
    pub async fn bind(&self, request: &BindRequest) -> Result<(), BindError> {
        let begun = Instant::now();
        let deadline = begun + DEADLINE;
        let (sender, answer) = oneshot::channel();
        let (binder, asked) = (self.clone(), request.clone());
        tokio::spawn(async move { binder.work(&asked, deadline, sender).await });
        let result = match timeout_at(deadline, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(BindError::Aborted),
            Err(_) => Err(BindError::Late),
        };
        let took = begun.elapsed();
        self.metrics.answered("bind", took, result.is_ok());
        let (namespace, pod) = (&request.pod.namespace, &request.pod.name);
        match &result {
            // The reporter has told of it.
            Ok(()) => debug!(namespace, pod, node = request.node, ?took, "pod bound"),
            Err(error) => warn!(
                reason = error.reason(), namespace, pod, node = request.node, ?took,
                error = %error, "pod not bound",
            ),
        }
        result
    }

    /// Answers as soon as the pod is bound; what is left to do is done in the same
    /// turn.
    async fn work(
        &self,
        request: &BindRequest,
        deadline: Instant,
        answer: oneshot::Sender<Result<(), BindError>>,
    ) {
        let turn = self.turns.wait(&request.pod.namespace, &request.pod.name);
        let Ok(_turn) = timeout_at(deadline, turn).await else {
            let _ = answer.send(Err(BindError::Late));
            return;
        };
        let done = match Attempt::begin(self, request, deadline).await {
            Ok(Some(attempt)) => attempt.run().await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let left = match done {
            Ok(left) => {
                self.waiting.leave(&request.pod.uid);
                let _ = answer.send(Ok(()));
                left
            }
            Err(error) => {
                let _ = answer.send(Err(error));
                None
            }
        };
        if let Some(left) = left {
            self.give_back(&left).await;
        }
    }
}

#[cfg(test)]
mod tests;
