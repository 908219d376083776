use axum::http::Method;
use floe_api::extender::PodRef;
use floe_core::ipam::names;
use floe_shell::mock::Fault;
use serde_json::{Value, json};

use super::*;
use crate::{
    claims::scene::{DEPLOYMENTS, EVENTS, PODS, Scene, settle},
    events,
};

const EVICTION: &str = "/eviction";

impl Scene {
    fn rollouts(&self) -> Rollouts {
        let (told, inbox) = events::channel();
        tokio::spawn(inbox.write(self.server.client(), "pod".into(), self.stop.clone()));
        Rollouts {
            evictor: Evictor::new(self.server.client()),
            client: self.server.client(),
            claims: self.claims.clone(),
            cluster: self.cluster.clone(),
            workloads: Workloads::new(self.server.client(), self.cluster.clone()),
            store: self.store.clone(),
            waiting: self.waiting.clone(),
            events: told,
            metrics: self.metrics.clone(),
            standing: self.standing.subscribe(),
        }
    }

    fn evictions(&self) -> usize {
        self.server.count(&Method::POST, EVICTION)
    }

    fn has(&self, pod: &str) -> bool {
        self.server.object(PODS, pod).is_some()
    }

    /// What was told about the Deployment.
    fn told_of(&self, deployment: &str) -> Vec<String> {
        let told = self.told().into_iter();
        let start = format!("{deployment} ");
        told.filter_map(|it| it.strip_prefix(&start).map(str::to_owned))
            .collect()
    }

    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut object = self.server.object(DEPLOYMENTS, "web").unwrap();
        change(&mut object);
        self.server.put(DEPLOYMENTS, object);
    }

    /// A pod of a new version is refused an address.
    async fn waits(&self, name: &str) -> PodRef {
        let pod = self.web(name, 2).await;
        self.refuse(&pod).await;
        pod
    }

    async fn refuse(&self, pod: &PodRef) {
        let found = self.claims.pod(pod).await.unwrap();
        let claim = self.claims.of(found).await.unwrap();
        self.waiting.refused(&claim);
        let nodes = ["10.0.1.0/24", "10.0.2.0/24"];
        let nodes = nodes.map(|net| net.parse().unwrap());
        self.waiting.offered(&pod.uid, nodes);
    }
}

/// The small Deployment that stands still: all replicas run, and a new pod waits.
async fn deadlock(replicas: u32) -> Scene {
    let scene = Scene::start().await;
    scene.deployment(replicas).await;
    for number in 0..replicas {
        let name = format!("web-1-{number}");
        let ip = format!("10.0.70.{}", number + 2);
        scene.runs(&name, 1, &ip, true).await;
    }
    scene.waits("web-2-x").await;
    scene
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn start(scene: &Scene) {
    tokio::spawn(scene.rollouts().run(scene.stop.clone()));
}

#[tokio::test(start_paused = true)]
async fn one_old_pod_goes_and_no_second_one_while_a_replica_is_missing() {
    let scene = deadlock(2).await;
    start(&scene);
    settle().await;
    assert_eq!(scene.evictions(), 1);
    // The same for everybody: all are equally old, so the first uid.
    assert!(!scene.has("web-1-0") && scene.has("web-1-1"));
    pass(20).await;
    assert_eq!(scene.evictions(), 1);
    assert_eq!(scene.told_of("web"), ["Normal RolloutHandover"]);
    let note = &scene.server.objects(EVENTS)[0]["note"];
    let expected = "pod web-1-0 is evicted: its address 10.0.70.2 goes to pod web-2-x of the new \
                    version";
    assert_eq!(*note, expected);
    assert_eq!(
        scene.figure("floe_rollouts_waiting{reason=\"RolloutTooFewAvailable\"}"),
        Some("1".into())
    );
    assert_eq!(
        scene.figure("floe_rollout_evictions_total{result=\"evicted\"}"),
        Some("1".into())
    );
    // It lasts: then it is worth a word.
    pass(30).await;
    let told = ["Normal RolloutHandover", "Normal RolloutTooFewAvailable"];
    assert_eq!(scene.told_of("web"), told);
}

#[tokio::test(start_paused = true)]
async fn the_next_one_goes_when_the_first_new_one_runs() {
    let scene = deadlock(2).await;
    start(&scene);
    settle().await;
    assert!(!scene.has("web-1-0"));
    scene.runs("web-2-x", 2, "10.0.70.2", true).await;
    scene.waits("web-2-z").await;
    settle().await;
    assert_eq!(scene.evictions(), 2);
    assert!(!scene.has("web-1-1") && scene.has("web-2-x"));
}

#[tokio::test(start_paused = true)]
async fn a_single_replica_has_an_outage_and_that_is_said() {
    let scene = deadlock(1).await;
    start(&scene);
    settle().await;
    assert_eq!(scene.evictions(), 1);
    let mut told = scene.told_of("web");
    told.sort();
    assert_eq!(told, ["Normal RolloutHandover", "Warning OneReplicaOutage"]);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_want_it_is_left_alone_and_told_why() {
    type Change = fn(&mut Value);
    let stories: [(Change, &str); 5] = [
        (
            |it| it["metadata"]["annotations"] = json!({ names::ROLLOUT: "wait" }),
            "Normal RolloutWaits",
        ),
        (
            |it| it["metadata"]["annotations"] = json!({ names::ROLLOUT: "hand-over" }),
            "Warning InvalidRollout",
        ),
        (
            |it| it["spec"]["strategy"] = json!({ "rollingUpdate": { "maxUnavailable": 0 } }),
            "Normal RolloutMaxUnavailableZero",
        ),
        (
            |it| it["spec"]["strategy"] = json!({ "rollingUpdate": { "maxUnavailable": "0%" } }),
            "Normal RolloutMaxUnavailableZero",
        ),
        (
            |it| it["spec"]["paused"] = json!(true),
            "Normal RolloutPaused",
        ),
    ];
    for (change, expected) in stories {
        let scene = deadlock(2).await;
        scene.change(change);
        settle().await;
        start(&scene);
        pass(60).await;
        assert_eq!(scene.evictions(), 0, "{expected}");
        assert_eq!(scene.told_of("web"), [expected]);
        // It is allowed after all.
        scene.change(|it| {
            it["spec"]["paused"] = json!(false);
            it["metadata"]["annotations"] = json!({ names::ROLLOUT: "handover" });
        });
        settle().await;
        assert_eq!(scene.evictions(), 1, "{expected}");
    }
}

/// At the end of every update: the pod that had the address is gone, floe is about to release it
/// for the new pod, and another old pod without an address is still listed.
#[tokio::test(start_paused = true)]
async fn a_healthy_update_leaves_no_warning() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    scene.runs("web-1-0", 1, "10.0.70.2", true).await;
    scene.web("web-1-1", 1).await;
    scene.waits("web-2-x").await;
    scene.server.delete(PODS, "web-1-0");
    settle().await;
    start(&scene);
    pass(20).await;
    assert_eq!(scene.told_of("web"), [""; 0]);
    assert_eq!(
        scene.figure("floe_rollouts_waiting{reason=\"RolloutNothingToHandOver\"}"),
        Some("1".into())
    );
    // It lasts, so nothing is about to be taken.
    pass(20).await;
    assert_eq!(scene.told_of("web"), ["Warning RolloutNothingToHandOver"]);
}

#[tokio::test(start_paused = true)]
async fn all_at_once_needs_no_help() {
    let scene = deadlock(2).await;
    scene.change(|it| it["spec"]["strategy"] = json!({ "type": "Recreate" }));
    settle().await;
    start(&scene);
    pass(60).await;
    assert_eq!(scene.evictions(), 0);
    assert_eq!(scene.told_of("web"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_and_it_goes_on_when_that_allows_it() {
    let scene = deadlock(2).await;
    scene.server.state().protected = true;
    start(&scene);
    pass(30).await;
    let tries = scene.evictions();
    assert!((2..30).contains(&tries), "tried {tries} times");
    assert!(scene.has("web-1-0") && scene.has("web-1-1"));
    assert_eq!(scene.told_of("web"), ["Warning DisruptionBudget"]);
    let uid = scene.server.object(PODS, "web-2-x").unwrap()["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    let held_up = scene.waiting.why_held_up(uid).unwrap();
    assert_eq!(held_up.reason, "DisruptionBudget");
    let start = "the address of pod web-1-0 cannot be handed over: a disruption budget protects it";
    assert!(held_up.message.starts_with(start), "{}", held_up.message);
    assert_eq!(
        scene.figure("floe_rollouts_waiting{reason=\"DisruptionBudget\"}"),
        Some("1".into())
    );
    scene.server.state().protected = false;
    pass(11).await;
    assert!(!scene.has("web-1-0") && scene.has("web-1-1"));
    let held_up = scene.waiting.why_held_up(uid).map(|it| it.reason);
    assert_ne!(held_up, Some("DisruptionBudget"));
}

#[tokio::test(start_paused = true)]
async fn what_the_caches_do_not_know_yet_is_looked_at_before_a_pod_goes() {
    // A pod fails just before the look.
    let scene = deadlock(2).await;
    let fails = |state: &mut floe_shell::mock::State| {
        let mut pod = state.list_of(PODS).remove(1);
        pod["status"]["conditions"][0]["status"] = json!("False");
        state.put(PODS, pod);
    };
    scene.server.fault(
        Method::GET,
        "/namespaces/ns/pods",
        Fault::Before(Box::new(fails)),
    );
    start(&scene);
    settle().await;
    let gone: Vec<bool> = ["web-1-0", "web-1-1"].map(|it| !scene.has(it)).into();
    assert_eq!(gone, [false, true], "the one that serves nobody");

    // Somebody pauses it.
    let scene = deadlock(2).await;
    let pause = |state: &mut floe_shell::mock::State| {
        let mut web = state.list_of(DEPLOYMENTS).remove(0);
        web["spec"]["paused"] = json!(true);
        state.put(DEPLOYMENTS, web);
    };
    scene.server.fault(
        Method::GET,
        "/deployments/web",
        Fault::Before(Box::new(pause)),
    );
    start(&scene);
    settle().await;
    assert_eq!(scene.evictions(), 0);

    // Another pod of the name has come.
    let scene = deadlock(2).await;
    let replace = |state: &mut floe_shell::mock::State| {
        let mut pod = state.list_of(PODS).remove(0);
        pod["metadata"]["uid"] = json!("another");
        state.put(PODS, pod);
    };
    scene
        .server
        .fault(Method::POST, EVICTION, Fault::Before(Box::new(replace)));
    start(&scene);
    settle().await;
    assert!(scene.has("web-1-0"));
}

#[tokio::test(start_paused = true)]
async fn an_address_that_the_new_pod_cannot_use_stays_where_it_is() {
    let scene = Scene::start().await;
    scene.deployment(2).await;
    scene.runs("web-1-0", 1, "10.0.70.2", true).await;
    scene.runs("web-1-1", 1, "10.0.80.2", true).await;
    let pod = scene.web("web-2-x", 2).await;
    let found = scene.claims.pod(&pod).await.unwrap();
    let claim = scene.claims.of(found).await.unwrap();
    scene.waiting.refused(&claim);
    // It may run where only the other one's address can be used.
    scene
        .waiting
        .offered(&pod.uid, ["10.0.2.0/24".parse().unwrap()]);
    start(&scene);
    settle().await;
    assert!(scene.has("web-1-0") && !scene.has("web-1-1"));
}

/// A pod at the gate, which no scheduler has looked at, has said itself where it may run.
#[tokio::test(start_paused = true)]
async fn of_a_pod_at_the_gate_only_nodes_count_that_it_accepts() {
    for (nodes, gone) in [
        (vec!["n1"], Some("web-1-0")),
        (vec!["n2"], Some("web-1-1")),
        (vec!["n9"], None),
    ] {
        let scene = Scene::start().await;
        scene.deployment(2).await;
        scene.runs("web-1-0", 1, "10.0.70.2", true).await;
        scene.runs("web-1-1", 1, "10.0.80.2", true).await;
        let pod = scene.web("web-2-x", 2).await;
        let mut object = scene.server.object(PODS, "web-2-x").unwrap();
        object["spec"]["schedulingGates"] = json!([{ "name": "floe.dev/ip" }]);
        let fields = json!([{ "key": "metadata.name", "operator": "In", "values": nodes }]);
        object["spec"]["affinity"] = json!({ "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchFields": fields }],
            },
        } });
        scene.add(object).await;
        let found = scene.claims.pod(&pod).await.unwrap();
        let claim = scene.claims.of(found).await.unwrap();
        scene.waiting.refused(&claim);
        start(&scene);
        settle().await;
        for name in ["web-1-0", "web-1-1"] {
            assert_eq!(scene.has(name), gone != Some(name), "{name} for {nodes:?}");
        }
        if gone.is_none() {
            assert_eq!(scene.told_of("web"), ["Warning RolloutAddressNotUsable"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_something_else_costs_nobody_anything() {
    let scene = Scene::start().await;
    scene.deployment(2).await;
    for (name, ip) in [("web-1-0", "10.0.70.2"), ("web-1-1", "10.0.70.3")] {
        scene.runs(name, 1, ip, true).await;
    }
    // The scheduler has not asked for it: no node has room.
    scene.web("web-2-x", 2).await;
    start(&scene);
    pass(60).await;
    assert_eq!(scene.evictions(), 0);
    assert_eq!(scene.told_of("web"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_take_what_it_is_handed_costs_less_and_less() {
    let scene = deadlock(2).await;
    start(&scene);
    for _ in 0..60 {
        settle().await;
        for (name, ip) in [("web-1-0", "10.0.70.2"), ("web-1-1", "10.0.70.3")] {
            if !scene.has(name) {
                // Its replacement was faster, against all rules.
                scene.runs(name, 1, ip, true).await;
            }
        }
        pass(30).await;
    }
    let evictions = scene.evictions();
    assert!((4..=10).contains(&evictions), "{evictions} in half an hour");
    let told = scene.told_of("web");
    assert!(
        told.contains(&"Warning RolloutHandoverNotTaken".into()),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_a_leader_acts() {
    let scene = deadlock(1).await;
    scene.standing.send_replace(Standing::Unknown);
    start(&scene);
    pass(30).await;
    assert_eq!(scene.evictions(), 0);
    scene.standing.send_replace(Standing::Leading);
    settle().await;
    assert_eq!(scene.evictions(), 1);
}
