//! How long the decision of filter takes, between parsing its body and writing
//! the answer.
//!
//! This is what the controller does for such a call without its caches and its
//! server around it; the call as a whole is measured on a cluster.

use std::{collections::HashMap, hint::black_box, net::IpAddr};

use anyhow::{Context, Result, ensure};
use floe_api::extender::{self, Offer};
use floe_core::{
    ipam::{
        ledger::{Ledger, Record},
        names,
        owner::AppKind,
        policy::ReleasePolicy,
    },
    schedule::{claimant::Claimant, filter},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock::Turn,
    scene::{self, Size},
    table::{Figure, Row, Wanted},
};

/// The slowest that one in a hundred calls may be.
pub const LIMIT: Wanted = Wanted::AtMost(Figure::Seconds(0.005));

const CALLS: usize = 2_000;

/// Measures two pods: one that can run everywhere, and one whose kept address
/// lives in one subnet, so that all other nodes are refused with a text.
pub fn measure(size: Size) -> Result<Vec<Row>> {
    let mut ledger = Ledger::new(size.config()?);
    for subnet in 0..size.subnets {
        for nth in 0..size.held_per_subnet {
            ledger.observe(kept(subnet, nth));
        }
    }
    let nodes: HashMap<String, IpAddr> = size.node_list().into_iter().collect();
    let mut rows = Vec::new();
    for case in [Case::Anywhere, Case::Kept] {
        rows.push(case.measure(size, &ledger, &nodes)?);
    }
    Ok(rows)
}

/// Where a pod can run.
#[derive(Clone, Copy)]
pub enum Case {
    /// On every node.
    Anywhere,
    /// Where its address lives.
    Kept,
}

impl Case {
    /// Completes "filter, ...".
    pub fn text(self) -> &'static str {
        match self {
            Self::Anywhere => "a new pod",
            Self::Kept => "a pod that kept its address",
        }
    }

    /// The name of the pod.
    pub fn pod(self) -> &'static str {
        match self {
            Self::Anywhere => "new-0",
            Self::Kept => "kept-0-0",
        }
    }

    /// The pod as it is created, with the workload that it is of.
    pub fn objects(self) -> (Value, Value) {
        let (app, _) = self.pod().rsplit_once('-').unwrap_or_default();
        let mut pod = pod_object(self.pod(), None);
        pod["metadata"]["annotations"][names::RELEASE_POLICY] = "never".into();
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": app, "controller": true,
            "uid": "5d1c1ba1-3c3d-4b5e-8c11-2f6f3a0d9b10",
        }]);
        let labels = json!({ "app": "bench" });
        let workload = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": app, "namespace": scene::NAMESPACE },
            "spec": {
                "replicas": 1000, "serviceName": app, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pod["spec"] },
            },
        });
        (pod, workload)
    }

    /// How many nodes it can run on.
    pub fn fitting(self, size: Size) -> usize {
        let nodes = match self {
            Self::Anywhere => size.nodes(),
            Self::Kept => size.nodes_per_subnet,
        };
        nodes as usize
    }

    fn measure(self, size: Size, ledger: &Ledger, nodes: &HashMap<String, IpAddr>) -> Result<Row> {
        let (app, _) = self.pod().rsplit_once('-').context("pods are numbered")?;
        let pod = scene::pod(AppKind::StatefulSet, app, self.pod(), ReleasePolicy::Never);
        let names = size.node_list();
        let names = names.iter().map(|(name, _)| name.as_str());
        let body = body(self.pod(), &pod.uid, names);
        let answer = answer(&body, ledger, &pod, nodes)?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let fitting = answer["nodenames"].as_array().map_or(0, Vec::len);
        ensure!(fitting == self.fitting(size), "{fitting} nodes fit");

        let decided = percentile_99(CALLS, || answer_of(&body, ledger, &pod, nodes));
        let passed = reference(&body);
        let name = format!("p99 of filter's decision, {}", self.text());
        Ok(Row::new(name, decided, LIMIT).against(passed))
    }
}

/// How long parsing a body and writing it again takes.
pub fn reference(body: &[u8]) -> Figure {
    percentile_99(CALLS, || {
        let offer: Offer<'_> = extender::parse(body).expect("it was parsed before");
        serde_json::to_vec(&offer.nodes.pass()).expect("it is JSON")
    })
}

/// The body of a call, as a scheduler with `nodeCacheCapable` sends it.
pub fn body<'a>(pod: &str, uid: &str, nodes: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let object = pod_object(pod, Some(uid));
    let names: Vec<&str> = nodes.collect();
    let body = json!({ "Pod": object, "Nodes": null, "NodeNames": names });
    body.to_string().into_bytes()
}

/// A pod that asks for an address, with about as much around it as usual.
pub fn pod_object(name: &str, uid: Option<&str>) -> Value {
    let environment: Vec<Value> = (0..20)
        .map(|n| json!({ "name": format!("SETTING_{n}"), "value": "the value of this setting" }))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": scene::NAMESPACE, "uid": uid,
            "labels": { "app": "bench" },
            "annotations": { "k8s.v1.cni.cncf.io/networks": "galaxy-k8s-vlan" },
        },
        "spec": {
            // Nobody else places it.
            "schedulerName": "bench",
            "containers": [{
                "name": "main", "image": "nginx", "env": environment,
                "resources": {
                    "requests": { "cpu": "1m", "tke.cloud.tencent.com/eni-ip": "1" },
                    "limits": { "tke.cloud.tencent.com/eni-ip": "1" },
                },
            }],
        },
    })
}

/// A record of an address that waits for its pod.
pub fn kept(subnet: u32, nth: u32) -> Record {
    let app = format!("kept-{subnet}");
    let pod = scene::pod(
        AppKind::StatefulSet,
        &app,
        &format!("{app}-{nth}"),
        ReleasePolicy::Never,
    );
    Record {
        ip: scene::address(subnet, nth),
        key: pod.key,
        policy: pod.policy,
        node: String::new(),
        uid: String::new(),
        updated: Timestamp::UNIX_EPOCH,
        reserved: false,
        workload_note: None,
    }
}

/// The time, of the processor, that 99 of 100 calls do not exceed.
pub fn percentile_99<T>(calls: usize, mut call: impl FnMut() -> T) -> Figure {
    let times = (0..calls).map(|_| {
        let start = Turn::now();
        black_box(call());
        start.elapsed().as_secs_f64()
    });
    percentile_99_of(times.collect())
}

/// The same of times that were taken already.
pub fn percentile_99_of(mut times: Vec<f64>) -> Figure {
    times.sort_unstable_by(f64::total_cmp);
    Figure::Seconds(times[(times.len() * 99).div_ceil(100) - 1])
}

/// The time that half of the calls do not exceed.
pub fn median_of(times: &mut [f64]) -> Figure {
    times.sort_unstable_by(f64::total_cmp);
    Figure::Seconds(times[times.len() / 2])
}

fn answer_of(
    body: &[u8],
    ledger: &Ledger,
    pod: &Claimant,
    nodes: &HashMap<String, IpAddr>,
) -> Vec<u8> {
    answer(body, ledger, pod, nodes).expect("it was answered before")
}

fn answer(
    body: &[u8],
    ledger: &Ledger,
    pod: &Claimant,
    nodes: &HashMap<String, IpAddr>,
) -> Result<Vec<u8>> {
    let offer: Offer<'_> = extender::parse(body)?;
    let offers: Vec<filter::Offer<'_>> = offer
        .nodes
        .names()
        .map(|node| filter::Offer {
            node,
            address: nodes.get(node).copied(),
        })
        .collect();
    let sorted = filter::filter(ledger, pod, &offers, Timestamp::UNIX_EPOCH)?;
    Ok(serde_json::to_vec(&offer.nodes.answer(&sorted))?)
}
