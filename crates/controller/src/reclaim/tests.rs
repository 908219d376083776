use std::{
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use axum::http::Method;
use floe_core::ipam::{attribute::Attribute, policy::ReleasePolicy};
use floe_providers::{Answer, IpProvider, ProviderError};
use floe_shell::mock::Fault;
use proptest::{prelude::*, test_runner::Config};
use serde_json::json;

use super::{
    scene::{
        FIPS, STATEFUL_SETS, Scene, finish, fip, numbered, pass, running, stateful_set, until,
    },
    settle::Settler,
    *,
};
use crate::{
    claims::scene::{DEPLOYMENTS, NODES, PODS, REPLICA_SETS, node, owner},
    records::Holding,
};

const IP: &str = "10.0.70.2";

fn reads(scene: &Scene) -> usize {
    scene.server.count(&Method::GET, "/namespaces/ns/pods/")
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_finished_pod_leaves_its_address_within_seconds() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u1", ""));
        server.put(PODS, running("q", "u2", ""));
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u1"));
        server.put(FIPS, fip("10.0.70.3", "NULL_ns_NULL_q", 0, "u2"));
    })
    .await;
    scene.reclaim();
    pass(60).await;
    assert_eq!(scene.held(IP), "NULL_ns_NULL_p u1");
    assert_eq!(reads(&scene), 0, "nothing is suspicious");

    let start = Instant::now();
    scene.server.delete(PODS, "p");
    finish(&scene.server, "q");
    scene.until_held(IP, "").await;
    scene.until_held("10.0.70.3", "").await;
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(reads(&scene), 0, "the event is proof enough");
}

#[tokio::test(start_paused = true)]
async fn a_numbered_pod_keeps_its_address_until_it_is_not_wanted() {
    let scene = Scene::start(|server| {
        server.put(STATEFUL_SETS, stateful_set(2));
        for (name, uid, ip) in [("a-0", "u0", IP), ("a-1", "u1", "10.0.70.3")] {
            server.put(PODS, numbered(name, uid));
            server.put(FIPS, fip(ip, &format!("sts_ns_a_{name}"), 1, uid));
        }
    })
    .await;
    scene.reclaim();
    scene.server.delete(PODS, "a-1");
    scene.until_held("10.0.70.3", "sts_ns_a_a-1").await;
    pass(60).await;
    assert_eq!(scene.held("10.0.70.3"), "sts_ns_a_a-1");

    scene.server.put(STATEFUL_SETS, stateful_set(1));
    scene.until_held("10.0.70.3", "").await;
    assert_eq!(scene.held(IP), "sts_ns_a_a-0 u0");

    scene.server.delete(STATEFUL_SETS, "a");
    pass(60).await;
    assert_eq!(scene.held(IP), "sts_ns_a_a-0 u0", "its pod still runs");
    scene.server.delete(PODS, "a-0");
    scene.until_held(IP, "").await;
}

#[tokio::test(start_paused = true)]
async fn a_deployments_addresses_are_spares_until_it_shrinks_or_goes() {
    let deployment = |replicas: u32| json!({ "metadata": { "name": "web", "namespace": "ns" }, "spec": { "replicas": replicas } });
    let scene = Scene::start(|server| {
        server.put(DEPLOYMENTS, deployment(2));
        server.put(
            REPLICA_SETS,
            json!({ "metadata": { "name": "web-1", "namespace": "ns",
                "ownerReferences": [owner("apps/v1", "Deployment", "web")] } }),
        );
        for (number, ip) in [IP, "10.0.70.3", "10.0.70.4"].into_iter().enumerate() {
            let (name, uid) = (format!("web-1-{number}"), format!("u{number}"));
            let mut pod = running(&name, &uid, "");
            pod["metadata"]["ownerReferences"] = json!([owner("apps/v1", "ReplicaSet", "web-1")]);
            server.put(PODS, pod);
            server.put(FIPS, fip(ip, &format!("dp_ns_web_{name}"), 1, &uid));
        }
    })
    .await;
    scene.reclaim();
    // Three for two replicas: the first to go is too much, the second is not.
    for name in ["web-1-0", "web-1-1"] {
        scene.server.delete(PODS, name);
    }
    let holders = || [scene.held(IP), scene.held("10.0.70.3")];
    until("one is free and one is a spare", || {
        let mut holders = holders();
        holders.sort();
        holders == ["", "dp_ns_web_"]
    })
    .await;
    pass(60).await;
    assert_eq!(scene.held("10.0.70.4"), "dp_ns_web_web-1-2 u2");

    scene.server.put(DEPLOYMENTS, deployment(1));
    until("the spare is too much", || holders() == ["", ""]).await;
    scene.server.delete(DEPLOYMENTS, "web");
    scene.server.delete(PODS, "web-1-2");
    scene.until_held("10.0.70.4", "").await;
}

#[tokio::test(start_paused = true)]
async fn what_happened_before_is_found_by_the_check() {
    let scene = Scene::start(|server| {
        server.put(STATEFUL_SETS, stateful_set(1));
        server.put(PODS, numbered("a-0", "new"));
        // Replaced, missing, half of a bind, a spare and kept ones without workload.
        server.put(FIPS, fip(IP, "sts_ns_a_a-0", 1, "old"));
        server.put(FIPS, fip("10.0.70.3", "NULL_ns_NULL_p", 0, "u"));
        server.put(FIPS, fip("10.0.70.4", "dp_ns_web_", 1, ""));
        server.put(FIPS, fip("10.0.70.5", "sts_ns_gone_gone-0", 1, ""));
        server.put(FIPS, fip("10.0.70.6", "sts_ns_a_a-7", 1, ""));
        // Left alone.
        server.put(FIPS, fip("10.99.0.1", "sts_ns_b_b-0", 2, ""));
        server.put(FIPS, fip("10.0.70.7", "sts_ns_b_b-1", 2, ""));
        server.put(FIPS, fip("10.0.70.8", "pool__p_", 2, ""));
        server.put(FIPS, fip("10.0.70.9", "by hand", 0, "u"));
        let mut reserved = fip("10.0.80.2", "sts_ns_gone_gone-1", 0, "u");
        reserved["metadata"]["labels"] = json!({ "reserved": "" });
        server.put(FIPS, reserved);
        server.put(FIPS, fip("10.0.80.3", "sts_ns/../x_a_a-0", 0, "u"));
    })
    .await;
    scene.reclaim();
    scene.until_held(IP, "sts_ns_a_a-0").await;
    for ip in ["10.0.70.3", "10.0.70.4", "10.0.70.5", "10.0.70.6"] {
        scene.until_held(ip, "").await;
    }
    pass(120).await;
    assert_eq!(scene.held("10.99.0.1"), "sts_ns_b_b-0", "not configured");
    assert_eq!(scene.held("10.0.70.7"), "sts_ns_b_b-1");
    assert_eq!(scene.held("10.0.70.8"), "pool__p_");
    assert_eq!(scene.held("10.0.70.9"), "by hand u");
    assert_eq!(scene.held("10.0.80.2"), "sts_ns_gone_gone-1 u");
    assert_eq!(scene.held("10.0.80.3"), "sts_ns/../x_a_a-0 u");
    let calls = scene.server.state().calls.join("\n");
    assert!(!calls.contains(".."), "{calls}");
}

#[tokio::test(start_paused = true)]
async fn a_record_without_uid_belongs_to_whatever_pod_has_the_name() {
    let scene = Scene::start(|server| {
        // It wants no address, so no cache has it.
        let mut pod = running("p", "u", "");
        pod["spec"]["containers"] = json!([{}]);
        server.put(PODS, pod);
        let mut galaxys = fip(IP, "NULL_ns_NULL_p", 0, "");
        galaxys["spec"]["attribute"] = json!(r#"{"NodeName":"n1","Uid":""}"#);
        server.put(FIPS, galaxys);
    })
    .await;
    scene.reclaim();
    pass(60).await;
    assert_eq!(scene.held(IP), "NULL_ns_NULL_p");
    assert!(reads(&scene) > 0);
    scene.server.delete(PODS, "p");
    scene.until_held(IP, "").await;
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_nothing_is_freed() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u"));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-0", 1, ""));
        server.always(Method::GET, "/namespaces/ns/", Fault::Refuse(500));
    })
    .await;
    scene.reclaim();
    pass(120).await;
    assert_eq!(scene.held(IP), "NULL_ns_NULL_p u");
    assert_eq!(scene.held("10.0.70.3"), "sts_ns_a_a-0");
    scene.server.heal();
    scene.until_held(IP, "").await;
    scene.until_held("10.0.70.3", "").await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_frees_nothing_and_a_new_leader_finds_it() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", ""));
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u"));
    })
    .await;
    scene.standing.send_replace(Standing::Unknown);
    scene.reclaim();
    scene.server.delete(PODS, "p");
    pass(120).await;
    assert_eq!(scene.held(IP), "NULL_ns_NULL_p u");
    scene.standing.send_replace(Standing::Leading);
    scene.until_held(IP, "").await;
}

#[tokio::test(start_paused = true)]
async fn events_that_are_lost_are_made_up_for_within_a_minute() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", ""));
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u"));
    })
    .await;
    scene.reclaim();
    pass(1).await;
    let start = Instant::now();
    scene.server.delete(PODS, "p");
    scene.server.compact();
    scene.until_held(IP, "").await;
    assert!(start.elapsed() < Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn a_list_without_the_pod_is_no_proof() {
    let scene = Scene::start(|server| {
        server.put(PODS, running("p", "u", ""));
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u"));
    })
    .await;
    scene.reclaim();
    pass(1).await;
    scene.server.state().down = true;
    scene.server.compact();
    scene.server.delete(PODS, "p");
    scene.server.compact();
    pass(1).await;
    scene.server.state().down = false;
    scene.until_held(IP, "").await;
    assert!(reads(&scene) > 0, "a direct look comes first");
}

#[derive(Default)]
struct Stubborn {
    refuses: AtomicBool,
    calls: AtomicUsize,
}

impl IpProvider for Stubborn {
    fn assign<'a>(&'a self, _: &'a str, _: IpAddr) -> Answer<'a> {
        Box::pin(async { Ok(()) })
    }

    fn unassign<'a>(&'a self, node: &'a str, _: IpAddr) -> Answer<'a> {
        assert_eq!(node, "n1");
        self.calls.fetch_add(1, Ordering::Relaxed);
        let refuses = self.refuses.load(Ordering::Relaxed);
        Box::pin(async move {
            if !refuses {
                return Ok(());
            }
            let message = "no".into();
            Err(ProviderError::Refused { message })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_cloud_comes_before_the_record() {
    let mut scene = Scene::start(|server| {
        server.put(STATEFUL_SETS, stateful_set(1));
        server.put(PODS, numbered("a-0", "u"));
        for ip in [IP, "10.0.70.3"] {
            server.put(FIPS, fip(ip, "sts_ns_a_a-0", 2, "u"));
        }
    })
    .await;
    let cloud = Arc::new(Stubborn::default());
    cloud.refuses.store(true, Ordering::Relaxed);
    scene.use_cloud(Arc::<Stubborn>::clone(&cloud));
    scene.reclaim();
    scene.server.delete(PODS, "a-0");
    pass(60).await;
    assert_eq!(scene.held(IP), "sts_ns_a_a-0 u");
    assert_eq!(scene.held("10.0.70.3"), "sts_ns_a_a-0 u");
    assert!(cloud.calls.load(Ordering::Relaxed) > 3);
    cloud.refuses.store(false, Ordering::Relaxed);
    cloud.calls.store(0, Ordering::Relaxed);
    for ip in [IP, "10.0.70.3"] {
        scene.until_held(ip, "sts_ns_a_a-0").await;
    }
    assert_eq!(
        cloud.calls.load(Ordering::Relaxed),
        2,
        "every address of it"
    );
}

/// Has no answer for addresses below 10.0.70.
struct Stuck;

impl IpProvider for Stuck {
    fn assign<'a>(&'a self, _: &'a str, _: IpAddr) -> Answer<'a> {
        Box::pin(async { Ok(()) })
    }

    fn unassign<'a>(&'a self, _: &'a str, ip: IpAddr) -> Answer<'a> {
        let is_stuck = ip < IpAddr::from([10, 0, 70, 0]);
        Box::pin(async move {
            if is_stuck {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_an_answer_for_some_does_not_hold_up_others() {
    let stuck = |number: usize| format!("10.0.60.{}", number + 1);
    let mut scene = Scene::start(|server| {
        for number in 0..ASKING + 4 {
            let key = format!("NULL_ns_NULL_q{number}");
            server.put(FIPS, fip(&stuck(number), &key, 0, "u"));
        }
        server.put(PODS, running("p", "u", ""));
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u"));
    })
    .await;
    scene.use_cloud(Arc::new(Stuck));
    scene.reclaim();
    pass(1).await;
    let start = Instant::now();
    scene.server.delete(PODS, "p");
    scene.until_held(IP, "").await;
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(!scene.held(&stuck(0)).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_frees_nothing_and_says_what_to_do() {
    let scene = Scene::start(|server| {
        let mut dying = running("p", "u", IP);
        dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        server.put(PODS, dying);
        server.put(FIPS, fip(IP, "NULL_ns_NULL_p", 0, "u"));
    })
    .await;
    scene.reclaim();
    pass(1).await;
    let mut silent = node("n1", "10.0.1.1");
    silent["status"]["conditions"] = json!([{ "type": "Ready", "status": "Unknown" }]);
    scene.server.put(NODES, silent);
    until("it is told", || !scene.told("p").is_empty()).await;
    pass(300).await;
    let told = scene.told("p");
    assert_eq!(told.len(), 1, "once: {told:?}");
    let (reason, note) = &told[0];
    assert_eq!(reason, "NodeNotReady");
    assert!(
        note.contains(IP) && note.contains("out-of-service"),
        "{note}"
    );
    assert_eq!(scene.held(IP), "NULL_ns_NULL_p u");
}

#[tokio::test(start_paused = true)]
async fn a_pool_above_its_size_is_told_and_keeps_what_runs() {
    let scene = Scene::start(|server| {
        for (name, ip) in [("p-0", IP), ("p-1", "10.0.70.3")] {
            server.put(PODS, running(name, name, ip));
            server.put(
                FIPS,
                fip(ip, &format!("pool__x_NULL_ns_NULL_{name}"), 2, name),
            );
        }
        server.put(
            scene::POOLS,
            json!({ "metadata": { "name": "x", "namespace": "kube-system" }, "size": 1 }),
        );
    })
    .await;
    scene.reclaim();
    until("it is told", || !scene.told("p-0").is_empty()).await;
    pass(300).await;
    let told = scene.told("p-0");
    assert_eq!(told.len(), 1, "once: {told:?}");
    assert_eq!(told[0].0, "LimitExceeded");
    assert_eq!(scene.held(IP), "pool__x_NULL_ns_NULL_p-0 p-0");
}

/// What happens in a random life.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// The pod of a number is made, or made anew.
    Create(usize),
    /// It is bound, as the extender does it.
    Bind(usize),
    Delete(usize),
    Finish(usize),
    Scale(u32),
    /// An event about some pod of the past comes late, or again.
    Late(usize),
    /// Watches break.
    Compact,
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3usize).prop_map(Op::Create),
        6 => (0..3usize).prop_map(Op::Bind),
        3 => (0..3usize).prop_map(Op::Delete),
        1 => (0..3usize).prop_map(Op::Finish),
        1 => (0..4u32).prop_map(Op::Scale),
        4 => (0..64usize).prop_map(Op::Late),
        1 => Just(Op::Compact),
        3 => (0..40u64).prop_map(Op::Wait),
    ]
}

struct Life {
    scene: Scene,
    policy: ReleasePolicy,
    count: usize,
    /// The uids of bound pods that run, by number.
    bound: [Option<String>; 3],
    past: Vec<Arc<Pod>>,
}

impl Life {
    async fn step(&mut self, op: Op) {
        let server = self.scene.server.clone();
        let name = |number: usize| format!("a-{number}");
        match op {
            Op::Create(number) => {
                if server.object(PODS, &name(number)).is_some() {
                    server.delete(PODS, &name(number));
                }
                self.bound[number] = None;
                self.count += 1;
                server.put(PODS, numbered(&name(number), &format!("u{}", self.count)));
            }
            Op::Bind(number) => self.bind(number).await,
            Op::Delete(number) => {
                if server.object(PODS, &name(number)).is_some() {
                    server.delete(PODS, &name(number));
                    self.bound[number] = None;
                }
            }
            Op::Finish(number) => {
                if server.object(PODS, &name(number)).is_some() {
                    finish(&server, &name(number));
                    self.bound[number] = None;
                }
            }
            Op::Scale(replicas) => {
                server.put(STATEFUL_SETS, stateful_set(replicas));
            }
            Op::Late(number) => {
                let pods = self.past.iter();
                let gone: Vec<_> = pods.filter(|pod| !self.is_there(pod)).collect();
                if let Some(number) = number.checked_rem(gone.len()) {
                    let reclaimer = self.scene.reclaimer();
                    let evidence = Evidence::gone(Arc::clone(gone[number]));
                    let settler = Settler::new(&reclaimer);
                    let item = Item::of_pod(gone[number]);
                    // A conflict is tried again by whoever runs.
                    let _ = settler.settle(&item, &evidence).await;
                }
            }
            Op::Compact => server.compact(),
            Op::Wait(seconds) => pass(seconds).await,
        }
        for pod in self.scene.cluster.pods() {
            if !self.past.iter().any(|it| it.uid == pod.uid) {
                self.past.push(pod);
            }
        }
        self.check(op);
    }

    fn is_there(&self, pod: &Pod) -> bool {
        let object = self.scene.server.object(PODS, &pod.name);
        object.is_some_and(|it| it["metadata"]["uid"] == json!(pod.uid))
    }

    /// Under the turn of the name, and not before the uid of the last one is gone.
    async fn bind(&mut self, number: usize) {
        let name = format!("a-{number}");
        let _turn = self.scene.turns.wait("ns", &name).await;
        let Some(object) = self.scene.server.object(PODS, &name) else {
            return;
        };
        if object["status"]["phase"] == json!("Failed") {
            return;
        }
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        let ip = format!("10.0.70.{}", 2 + number);
        let holding = Holding {
            key: format!("sts_ns_a_{name}").into(),
            place: Attribute {
                node_name: "n1".into(),
                uid: uid.clone(),
            },
            policy: self.policy,
            note: None,
        };
        let written = match self.scene.known(&ip) {
            None => self.scene.records.take(ip.parse().unwrap(), &holding).await,
            Some(record) if record.uid.is_empty() || record.uid == uid => {
                self.scene.records.change(&record, &holding).await
            }
            Some(_) => return,
        };
        if written.is_ok() {
            self.bound[number] = Some(uid);
        }
    }

    fn check(&self, op: Op) {
        for (number, uid) in self.bound.iter().enumerate() {
            if let Some(uid) = uid {
                let held = self.scene.held(&format!("10.0.70.{}", 2 + number));
                let wanted = format!("sts_ns_a_a-{number} {uid}");
                assert_eq!(held, wanted, "after {op:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 48, ..Config::default() })]

    /// Whatever comes late, twice or not at all: no pod that runs loses its address,
    /// and in the end no address is with a pod that is gone.
    #[test]
    fn a_live_pods_record_is_never_freed(
        ops in prop::collection::vec(ops(), 1..40),
        policy in prop_oneof![
            Just(ReleasePolicy::OnDelete),
            Just(ReleasePolicy::Immutable),
            Just(ReleasePolicy::Never),
        ],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let scene = Scene::start(|server| {
                server.put(STATEFUL_SETS, stateful_set(3));
            })
            .await;
            scene.reclaim();
            let mut life = Life {
                scene,
                policy,
                count: 0,
                bound: [const { None }; 3],
                past: Vec::new(),
            };
            for op in ops {
                life.step(op).await;
            }
            pass(120).await;
            life.check(Op::Wait(120));
            for (number, uid) in life.bound.iter().enumerate() {
                let record = life.scene.known(&format!("10.0.70.{}", 2 + number));
                if let Some(record) = record.filter(|_| uid.is_none()) {
                    assert_ne!(policy, ReleasePolicy::OnDelete, "leaked {record:?}");
                    assert!(record.is_idle(), "nobody runs with {record:?}");
                }
            }
        });
    }
}
