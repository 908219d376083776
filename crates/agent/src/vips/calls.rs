//! Calls to the API server, each with a limit of time. What is not known to have failed
//! counts as unknown.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use floe_api::floe::{
    register::VirtualIPRegister,
    tenure::{self, LEASES},
    virtualip::VirtualIP,
};
use floe_core::vip::{VipId, keeper::LeaseView};
use floe_shell::logs;
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, ObjectReference},
};
use kube::{
    Api, Client, Resource as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::Value;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tracing::debug;

use super::objects;
use crate::{
    events::{Events, News},
    metrics::Metrics,
};

/// How long to wait for an answer: less than a lease lasts, so that there is time for
/// another try or for promises.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many writes of `VirtualIP` objects are under way at once. Nobody's address waits for
/// them, and what cannot wait goes to the same server.
const AT_ONCE: usize = 8;

/// An answer that took longer comes from a server that has too much to do. Then the next
/// such write waits for a while.
const SLOW: Duration = Duration::from_millis(250);

/// How many times as long as the answer has taken, and at most how long.
const RELIEF: u32 = 2;
const LONGEST_RELIEF: Duration = Duration::from_secs(1);

/// The way to the API server.
#[derive(Clone)]
pub struct Calls {
    client: Client,
    node: String,
    /// What leases are said to last.
    duration: Duration,
    turns: Arc<Semaphore>,
    events: Events,
    metrics: Metrics,
}

/// How a write went.
#[derive(Clone, Debug)]
pub enum Written<T> {
    /// It was accepted, and this is what came of it.
    Done(T),
    /// It was refused for sure, since the object is another by now.
    Refused,
    /// Nobody knows.
    Unknown,
}

impl Calls {
    /// Calls on behalf of a node.
    pub fn new(
        client: Client,
        node: String,
        duration: Duration,
        events: Events,
        metrics: Metrics,
    ) -> Self {
        Self {
            events,
            metrics,
            client,
            node,
            duration,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Writes the node's lease; its version then.
    pub async fn write_lease(
        &self,
        expected: Option<String>,
        term: i64,
        peers: &BTreeSet<String>,
    ) -> Written<String> {
        let is_new = expected.is_none();
        let now = Timestamp::now();
        let lease = objects::lease(&self.node, expected, term, peers, self.duration, now);
        let Some(lease) = lease else {
            return Written::Unknown;
        };
        let (api, params) = (self.leases(), PostParams::default());
        let name = tenure::lease_name(&self.node);
        let written = if is_new {
            ask("create the lease", api.create(&params, &lease)).await
        } else {
            ask("renew the lease", api.replace(&name, &params, &lease)).await
        };
        let written = outcome(written);
        self.metrics.lease_written(match written {
            Written::Done(_) => "done",
            Written::Refused => "refused",
            Written::Unknown => "unknown",
        });
        match written {
            Written::Done(lease) => match lease.metadata.resource_version {
                Some(version) => Written::Done(version),
                None => Written::Unknown,
            },
            Written::Refused => Written::Refused,
            Written::Unknown => Written::Unknown,
        }
    }

    /// Reads the lease of a node; an error: it could not be read.
    pub async fn read_lease(&self, node: &str) -> Result<Option<LeaseView>, ()> {
        let (api, name) = (self.leases(), tenure::lease_name(node));
        let found = ask("read a lease", api.get_opt(&name)).await;
        let found = found.map_err(|_| ())?;
        Ok(found.as_ref().and_then(objects::lease_view).map(|it| it.1))
    }

    /// Writes to the status of an object that is as `patch` says.
    pub async fn patch_vip(&self, id: &VipId, patch: &Value) -> Written<VirtualIP> {
        let api: Api<VirtualIP> = Api::namespaced(self.client.clone(), &id.namespace);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let call = api.patch_status(&id.name, &params, &patch);
        self.in_turn("write a VirtualIP", call).await
    }

    /// Writes to a register that is as `patch` says.
    pub async fn patch_register(&self, name: &str, patch: &Value) -> Written<VirtualIPRegister> {
        let (api, params) = (self.registers(), PatchParams::default());
        let patch = Patch::Merge(patch);
        let call = api.patch(name, &params, &patch);
        outcome(ask("write a VirtualIPRegister", call).await)
    }

    /// Reads a register; an error: it could not be read.
    pub async fn read_register(&self, name: &str) -> Result<Option<VirtualIPRegister>, ()> {
        let api = self.registers();
        let found = ask("read a VirtualIPRegister", api.get_opt(name)).await;
        found.map_err(|_| ())
    }

    async fn in_turn<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Written<T> {
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else {
            return Written::Unknown;
        };
        let begun = Instant::now();
        let written = outcome(ask(what, call).await);
        let took = begun.elapsed();
        if took > SLOW {
            let relief = (took * RELIEF).min(LONGEST_RELIEF);
            tokio::spawn(async move {
                sleep(relief).await;
                drop(turn);
            });
        }
        written
    }

    /// Whether a node is known not to run: its object is gone, or somebody vouches for it.
    /// An error: it could not be read.
    pub async fn is_down(&self, node: &str) -> Result<bool, ()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let found = ask("read a Node", api.get_opt(node))
            .await
            .map_err(|_| ())?;
        Ok(found.is_none_or(|node| tenure::is_out_of_service(&node)))
    }

    /// Tells about an object whose register has this version by now.
    pub fn tell(&self, vip: &VirtualIP, version: &str, reason: &'static str, note: String) {
        let meta = &vip.metadata;
        // It may happen again with the same words.
        let turn = version.bytes().fold(1u32, |turn, byte| {
            turn.wrapping_mul(31).wrapping_add(byte.into())
        });
        let news = News {
            about: ObjectReference {
                api_version: Some(VirtualIP::api_version(&()).into_owned()),
                kind: Some(VirtualIP::kind(&()).into_owned()),
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
                ..ObjectReference::default()
            },
            warning: true,
            reason,
            action: "Move",
            note,
        };
        self.events.tell_in_turn(news, turn);
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), LEASES)
    }

    fn registers(&self) -> Api<VirtualIPRegister> {
        Api::all(self.client.clone())
    }
}

/// An answer, or what the API server said; nothing: it said nothing.
async fn ask<T>(
    what: &'static str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Option<kube::Error>> {
    match timeout(PATIENCE, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            debug!(what, error = logs::with_causes(&error), "call failed");
            Err(Some(error))
        }
        Err(_) => {
            debug!(what, after = ?PATIENCE, "no answer");
            Err(None)
        }
    }
}

fn outcome<T>(answer: Result<T, Option<kube::Error>>) -> Written<T> {
    match answer {
        Ok(object) => Written::Done(object),
        // Another version, one that exists already, or one that is gone.
        Err(Some(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Written::Refused,
        // Also other refusals: whoever waits longer is not wrong.
        Err(_) => Written::Unknown,
    }
}
