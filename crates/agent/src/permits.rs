//! Which addresses a pod may have on this node: those whose record names it.
//!
//! Whoever can edit a pod can write any address into its annotation. So an address is
//! configured only if its `FloatingIP` record has a key that names the pod, and the
//! pod's uid. VLAN, gateway and length of the subnet have to be those of the record,
//! if it tells them.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_api::{
    galaxy::FloatingIP,
    labels::{self, Given},
};
use floe_core::{
    addr::name,
    ipam::{args::IpInfo, key::HolderKey},
};
use floe_shell::{follow, logs, stop::Stop};
use kube::{
    Api, Client,
    runtime::watcher::{self, Event},
};
use tokio::{
    sync::{Semaphore, watch},
    time::timeout,
};

use crate::{apiserver::is_missing, pods::Pod};

/// How long to wait for the record of an address.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait for the cloud to bring an address here. The runtime tries again
/// afterwards, but only after a while.
const ASSIGNED: Duration = Duration::from_secs(10);

/// How many may wait for that at once; more are refused, and come again. Whoever waits has one
/// of the places in which all calls of the runtime are worked on.
const WAITING: usize = 16;

/// Who holds an address, as its record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The holder key.
    pub key: HolderKey,
    /// The uid of the pod; may be empty.
    pub uid: String,
    /// The node that the pod is bound to; may be empty.
    pub node: String,
    /// What the pod was given with the address.
    pub network: Network,
    /// Whether the cloud has still to bring the address to the node.
    pub assigning: bool,
}

/// What a record says that its pod was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing, or only something of an earlier pod, as records of galaxy.
    Untold,
    /// This.
    Told(IpInfo),
    /// Something that makes no sense, shortened.
    Strange(String),
}

/// The records of this node's addresses; all clones are the same.
#[derive(Clone)]
pub struct Records {
    client: Client,
    known: Arc<Mutex<Known>>,
    lists: Arc<watch::Sender<u64>>,
    changes: Arc<watch::Sender<u64>>,
    /// How often everything that was known had to be forgotten.
    doubts: Arc<watch::Sender<u64>>,
    waiting: Arc<Semaphore>,
}

#[derive(Default)]
struct Known {
    records: BTreeMap<IpAddr, Record>,
    /// What a list has told so far that is not complete yet.
    listed: BTreeMap<IpAddr, Record>,
}

/// Why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermitError {
    /// Nobody holds it.
    #[error("{0} has no FloatingIP record")]
    NotRecorded(IpAddr),
    /// Somebody else holds it.
    #[error("the record of {ip} names {holder}, and not this pod")]
    AnotherPod {
        /// The address.
        ip: IpAddr,
        /// Who holds it.
        holder: String,
    },
    /// The pod claims another network for it than it was given.
    #[error("the pod claims {claimed} for {ip}, but its record says {recorded}")]
    AnotherNetwork {
        /// The address.
        ip: IpAddr,
        /// What the pod claims.
        claimed: String,
        /// What the record says.
        recorded: String,
    },
    /// The cloud has not brought it to the node yet.
    #[error("{0} is not assigned to this node in the cloud yet")]
    NotAssigned(IpAddr),
    /// The API server does not tell.
    #[error("cannot read the record of {ip}: {error}")]
    Unreadable {
        /// The address.
        ip: IpAddr,
        /// What it says instead.
        error: String,
    },
}

impl PermitError {
    /// The stable reason for answers, logs and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotRecorded(_) => "AddressNotRecorded",
            Self::AnotherPod { .. } => "AddressOfAnotherPod",
            Self::AnotherNetwork { .. } => "AddressNetworkDiffers",
            Self::NotAssigned(_) => "AddressNotAssigned",
            Self::Unreadable { .. } => "RecordUnreadable",
        }
    }
}

impl Records {
    /// Knows none yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
            lists: Arc::default(),
            changes: Arc::default(),
            doubts: Arc::default(),
            waiting: Arc::new(Semaphore::new(WAITING)),
        }
    }

    /// Follows the records of a node's addresses until `stop`.
    pub async fn run(self, node: String, mut stop: Stop) {
        let selector = format!("{}={}", labels::NODE, labels::node_value(&node));
        let mut doubts = self.doubts.subscribe();
        loop {
            let config = watcher::Config::default().labels(&selector);
            let api = Api::all(self.client.clone());
            let work = follow(api, config, "floatingips", |event| self.enter(event));
            tokio::select! {
                () = stop.requested() => return,
                // Another watch begins with a list of what is true now.
                Ok(()) = doubts.changed() => {}
                () = work => return,
            }
        }
    }

    /// Forgets what the watch has shown, and begins another one: what was true before
    /// a time without contact may not be true any more. Until its list is in, everybody
    /// reads directly.
    pub fn forget(&self) {
        *self.lock() = Known::default();
        self.doubts.send_modify(|count| *count += 1);
    }

    /// A record as the watch knows it. It may be missing for want of the label.
    pub fn cached(&self, ip: IpAddr) -> Option<Record> {
        self.lock().records.get(&ip).cloned()
    }

    /// All records that the watch knows.
    pub fn all(&self) -> BTreeMap<IpAddr, Record> {
        self.lock().records.clone()
    }

    /// Tells, by a growing number, each time a complete list is in.
    pub fn lists(&self) -> watch::Receiver<u64> {
        self.lists.subscribe()
    }

    /// Tells, by a growing number, each time what was shown is forgotten.
    pub fn doubts(&self) -> watch::Receiver<u64> {
        self.doubts.subscribe()
    }

    /// Tells, by a growing number, each time a record is different, or gone.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Reads a record from the API server; `None` when there is none.
    pub async fn read(&self, ip: IpAddr) -> Result<Option<Record>, PermitError> {
        let unreadable = |error| PermitError::Unreadable { ip, error };
        let api: Api<FloatingIP> = Api::all(self.client.clone());
        match timeout(PATIENCE, api.get(&name::name(ip))).await {
            Ok(Ok(record)) => Ok(Some(Record::of(&record))),
            Ok(Err(error)) if is_missing(&error) => Ok(None),
            Ok(Err(error)) => Err(unreadable(logs::with_causes(&error))),
            Err(_) => Err(unreadable(format!("no answer within {PATIENCE:?}"))),
        }
    }

    /// What a pod claims, with the network of its record if the claimed one cannot be set
    /// up: the annotation of a pod stays as it was written under a bad configuration, and
    /// the controller corrects only the record. Whether the pod may have it is
    /// [another question](Self::permit).
    pub async fn corrected(&self, claimed: IpInfo) -> IpInfo {
        let ip = claimed.ip.addr();
        if claimed.ip.prefix_len() > 0 {
            return claimed;
        }
        let told = |record: Record| match record.network {
            Network::Told(given) if given.ip.addr() == ip && given.ip.prefix_len() > 0 => {
                Some(given)
            }
            Network::Told(_) | Network::Untold | Network::Strange(_) => None,
        };
        if let Some(given) = self.cached(ip).and_then(told) {
            return given;
        }
        let read = self.read(ip).await.ok().flatten();
        read.and_then(told).unwrap_or(claimed)
    }

    /// Whether a pod may have an address, as it claims it. The watch is believed when
    /// it agrees; a refusal needs a direct read, since what the watch has may be old. An
    /// address that the cloud is about to bring here is waited for.
    pub async fn permit(&self, claimed: &IpInfo, pod: &Pod) -> Result<(), PermitError> {
        let mut changes = self.changes();
        let permitted = self.permit_now(claimed, pod).await;
        if !matches!(permitted, Err(PermitError::NotAssigned(_))) {
            return permitted;
        }
        let Ok(_place) = self.waiting.try_acquire() else {
            return permitted;
        };
        let ip = claimed.ip.addr();
        let brought = async {
            while changes.changed().await.is_ok() {
                // It comes into the watch with its node, which is before the cloud is told.
                let cached = self.cached(ip);
                if cached.is_some_and(|it| it.permits(claimed, pod).is_ok()) {
                    break;
                }
            }
        };
        let _ = timeout(ASSIGNED, brought).await;
        self.permit_now(claimed, pod).await
    }

    async fn permit_now(&self, claimed: &IpInfo, pod: &Pod) -> Result<(), PermitError> {
        let cached = self.cached(claimed.ip.addr());
        if cached.is_some_and(|record| record.permits(claimed, pod).is_ok()) {
            return Ok(());
        }
        self.permit_directly(claimed, pod).await
    }

    /// Whether a pod may have an address, as its record says now. The watch is not believed,
    /// and nothing is waited for.
    pub async fn permit_directly(&self, claimed: &IpInfo, pod: &Pod) -> Result<(), PermitError> {
        let ip = claimed.ip.addr();
        match self.read(ip).await? {
            Some(record) => record.permits(claimed, pod),
            None => Err(PermitError::NotRecorded(ip)),
        }
    }

    fn enter(&self, event: Event<FloatingIP>) {
        let (mut listed, mut changed) = (false, true);
        {
            let mut known = self.lock();
            match event {
                Event::Init => {
                    known.listed.clear();
                    changed = false;
                }
                Event::InitApply(record) => {
                    changed = false;
                    if let Ok(ip) = record.address() {
                        known.listed.insert(ip, Record::of(&record));
                    }
                }
                Event::InitDone => {
                    known.records = std::mem::take(&mut known.listed);
                    listed = true;
                }
                Event::Apply(record) => {
                    if let Ok(ip) = record.address() {
                        known.records.insert(ip, Record::of(&record));
                    }
                }
                // It may have lost the label only: the record then names another node.
                Event::Delete(record) => {
                    if let Ok(ip) = record.address() {
                        known.records.remove(&ip);
                    }
                }
            }
        }
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
        if listed {
            self.lists.send_modify(|count| *count += 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    /// What an object says.
    pub fn of(object: &FloatingIP) -> Self {
        let attribute = object.spec.place().attribute;
        let annotations = object.metadata.annotations.as_ref();
        let mut assigning = false;
        let network = match annotations.and_then(|all| all.get(labels::NETWORK)) {
            None => Network::Untold,
            Some(value) => match Given::parse(value) {
                Some(given) if given.uid == attribute.uid => {
                    assigning = given.assigning;
                    Network::Told(given.info)
                }
                Some(_) => Network::Untold,
                None => Network::Strange(shortened(value)),
            },
        };
        Self {
            key: object.spec.holder(),
            uid: attribute.uid,
            node: attribute.node_name,
            network,
            assigning,
        }
    }

    fn permits(&self, claimed: &IpInfo, pod: &Pod) -> Result<(), PermitError> {
        let ip = claimed.ip.addr();
        if !self.names(pod) {
            let holder = self.holder();
            return Err(PermitError::AnotherPod { ip, holder });
        }
        let recorded = match &self.network {
            Network::Untold => return Ok(()),
            // The runtime tries again, and by then it may be there.
            Network::Told(given) if given == claimed && self.assigning => {
                return Err(PermitError::NotAssigned(ip));
            }
            Network::Told(given) if given == claimed => return Ok(()),
            Network::Told(given) => described(given),
            Network::Strange(text) => format!("{text:?}"),
        };
        Err(PermitError::AnotherNetwork {
            ip,
            claimed: described(claimed),
            recorded,
        })
    }

    /// Whether it names this very pod.
    fn names(&self, pod: &Pod) -> bool {
        self.key.names_pod(&pod.namespace, &pod.name) && !pod.uid.is_empty() && self.uid == pod.uid
    }

    /// Who holds the address, in words.
    fn holder(&self) -> String {
        let key = self.key.as_str();
        if self.uid.is_empty() {
            return format!("{key:?} without a pod's uid");
        }
        format!("{key:?} with uid {}", self.uid)
    }
}

fn described(info: &IpInfo) -> String {
    let IpInfo { ip, vlan, gateway } = info;
    format!("{ip} in vlan {vlan} with gateway {gateway}")
}

/// What somebody else wrote goes into events and logs: not all of it.
fn shortened(text: &str) -> String {
    text.chars().take(120).collect()
}

#[cfg(test)]
mod tests;
