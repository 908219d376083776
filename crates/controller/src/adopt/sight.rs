//! What a pod shows, and whether its records say the same.

use std::net::IpAddr;

use floe_core::{
    addr::canonical,
    ipam::ledger::{Ledger, Record},
};

use crate::cluster::{Phase, Pod};

/// What a pod shows.
#[derive(Debug)]
pub struct Shows {
    /// The addresses that the annotation claims, if it can be read.
    pub claimed: Option<Vec<IpAddr>>,
    /// Those that the status shows as well: a claim alone, which anybody can write, does
    /// not keep an address from others.
    pub used: Vec<IpAddr>,
}

impl Shows {
    /// What a pod shows.
    pub fn of(pod: &Pod) -> Self {
        let infos = pod.claimed().ok();
        let claimed: Option<Vec<IpAddr>> =
            infos.map(|infos| infos.iter().map(|info| canonical(info.ip.addr())).collect());
        let is_shown = |ip: &&IpAddr| pod.addresses.iter().any(|shown| canonical(*shown) == **ip);
        let used = claimed.iter().flatten().filter(is_shown);
        Self {
            used: used.copied().collect(),
            claimed,
        }
    }

    /// Whether the records say all of what the pod claims: the usual case, told
    /// without asking for its workload. What cannot be read claims nothing.
    pub fn is_settled(&self, ledger: &Ledger, pod: &Pod) -> bool {
        self.claimed.iter().flatten().all(|ip| {
            let record = ledger.record(*ip);
            record.is_some_and(|record| is_complete(record, pod))
        })
    }
}

/// Whether the containers of a pod run on a node.
pub fn runs(pod: &Pod) -> bool {
    pod.phase == Phase::Running && pod.node.is_some()
}

/// Whether a record says everything about a pod. Of kinds that are not built in,
/// and whose key does not tell their API group, it needs a note.
fn is_complete(record: &Record, pod: &Pod) -> bool {
    let names_it = record.key.names_pod(&pod.namespace, &pod.name);
    let kind = record.key.parts().map_or("", |parts| parts.kind);
    let built_in = match kind {
        "dp" | "rs" | "job" | "daemonset" | "NULL" => true,
        "sts" => pod.owners.iter().any(|owner| owner.group() == "apps"),
        _ => false,
    };
    names_it
        && record.uid == pod.uid
        && !record.node.is_empty()
        && (built_in || record.workload_note.is_some())
}
