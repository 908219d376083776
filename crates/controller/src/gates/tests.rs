use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
};

use axum::http::Method;
use floe_core::ipam::names;
use floe_providers::{Answer, IpProvider, ProviderError};
use floe_shell::mock::{Fault, Server};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    claims::scene::{DEPLOYMENTS, NODES, PODS, REPLICA_SETS, node, owner, pod},
    reclaim::scene::{FIPS, Scene, pass, record_of, until},
};

mod crashes;
mod labels;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Ends when it is dropped, as a process does that is killed.
pub struct Running(Vec<JoinHandle<()>>);

impl Drop for Running {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

fn run(scene: &Scene) -> Running {
    run_as(scene, Scheduling::Gates)
}

fn run_as(scene: &Scene, mode: Scheduling) -> Running {
    let (gatekeeper, waker) = scene.gatekeeper(mode);
    Running(vec![
        tokio::spawn(gatekeeper.run(scene.stop.clone())),
        tokio::spawn(waker.run(scene.stop.clone())),
        tokio::spawn(scene.reclaimer().run(scene.stop.clone())),
    ])
}

/// A bare pod at the gate.
fn gated(name: &str) -> Value {
    let mut object = pod(name);
    object["spec"]["schedulingGates"] = json!([{ "name": "floe.dev/ip" }]);
    object
}

/// The pod is at no gate of floe's.
fn is_open(server: &Server, name: &str) -> bool {
    let pod = server.object(PODS, name).unwrap();
    let gates = pod["spec"]["schedulingGates"].as_array().cloned();
    !gates
        .unwrap_or_default()
        .contains(&json!({ "name": "floe.dev/ip" }))
}

fn claimed(server: &Server, name: &str) -> Vec<String> {
    let pod = server.object(PODS, name).unwrap();
    let args = pod["metadata"]["annotations"][names::ARGS].as_str();
    let args: Value = serde_json::from_str(args.unwrap_or("{}")).unwrap();
    let infos = args["common"]["ipinfos"].as_array().cloned();
    let ip = |info: Value| {
        info["ip"]
            .as_str()
            .unwrap()
            .split('/')
            .next()
            .unwrap()
            .to_owned()
    };
    infos.unwrap_or_default().into_iter().map(ip).collect()
}

/// Addresses, uids and nodes of all records.
fn records(server: &Server) -> Vec<(String, String, String)> {
    let records = server.objects(FIPS);
    let records = records.iter().map(record_of);
    records
        .map(|it| (it.ip.to_string(), it.uid, it.node))
        .collect()
}

fn condition(server: &Server, name: &str) -> Option<(String, String, String)> {
    let pod = server.object(PODS, name)?;
    let conditions = pod["status"]["conditions"].as_array()?;
    let ours = conditions
        .iter()
        .find(|it| it["type"] == "floe.dev/AddressAssigned")?;
    let text = |name: &str| ours[name].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

fn bind(server: &Server, name: &str, node: &str) {
    let mut object = server.object(PODS, name).unwrap();
    object["spec"]["nodeName"] = json!(node);
    server.put(PODS, object);
}

#[tokio::test(start_paused = true)]
async fn a_pod_at_the_gate_gets_address_nodes_and_way_in_one_patch() {
    let scene = Scene::start(|server| {
        let mut object = gated("a");
        object["spec"]["schedulingGates"] =
            json!([{ "name": "x.example/y" }, { "name": "floe.dev/ip" }]);
        object["spec"]["nodeSelector"] = json!({ "rack": "2" });
        let mut n2 = node("n2", "10.0.2.1");
        n2["metadata"]["labels"] = json!({ "rack": "2" });
        server.put(NODES, n2);
        server.put(PODS, object);
    })
    .await;
    let server = &scene.server;
    let _running = run(&scene);
    until("it is let through", || is_open(server, "a")).await;
    let object = server.object(PODS, "a").unwrap();
    assert_eq!(
        object["spec"]["schedulingGates"],
        json!([{ "name": "x.example/y" }])
    );
    let expression =
        json!({ "key": "floe.dev/node-subnet", "operator": "In", "values": ["10.0.2.0_24"] });
    assert_eq!(
        object["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"],
        json!([{ "matchExpressions": [expression] }]),
        "only n2 is what the pod wants"
    );
    assert_eq!(claimed(server, "a"), ["10.0.80.2"]);
    let held = |node: &str| vec![("10.0.80.2".into(), "uid-a".into(), node.into())];
    assert_eq!(records(server), held(""));
    pass(60).await;
    assert_eq!(server.count(&Method::PATCH, "/pods/"), 1);
    assert_eq!(server.count(&Method::POST, FIPS), 1);
    assert_eq!(condition(server, "a"), None, "it never waited");
    let told = scene.told("a");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        told[0],
        (
            "AddressAllocated".into(),
            "allocated 10.0.80.2 for nodes of 10.0.2.0/24".into()
        )
    );

    bind(server, "a", "n2");
    until("the record knows the node", || {
        records(server) == held("n2")
    })
    .await;
    pass(60).await;
    assert_eq!(server.count(&Method::PATCH, FIPS), 1);

    server.delete(PODS, "a");
    until("the address is free", || records(server).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_says_why_and_goes_on_when_an_address_is_free() {
    let scene = Scene::start(|_| ()).await;
    scene.configure(
        r#"[{"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2"],
             "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"}]"#,
    );
    let server = &scene.server;
    let _running = run(&scene);
    server.put(PODS, gated("a"));
    until("the first has it", || is_open(server, "a")).await;
    server.put(PODS, gated("b"));
    until("the other says why", || condition(server, "b").is_some()).await;
    let (status, reason, message) = condition(server, "b").unwrap();
    assert_eq!((&*status, &*reason), ("False", "NoAddressLeft"));
    assert!(!message.is_empty());
    until("it is told", || !scene.told("b").is_empty()).await;
    assert_eq!(scene.told("b")[0].0, "NoAddressLeft");
    pass(120).await;
    assert!(!is_open(server, "b"));
    assert_eq!(claimed(server, "b"), Vec::<String>::new());
    assert!(
        server.count(&Method::PATCH, "/pods/b/status") <= 2,
        "it says the same once"
    );

    server.delete(PODS, "a");
    until("it goes on", || is_open(server, "b")).await;
    assert_eq!(claimed(server, "b"), ["10.0.70.2"]);
    until("its condition is true", || {
        condition(server, "b").is_some_and(|it| it.0 == "True")
    })
    .await;
}

/// What a scheduler says of the nodes is known only to it; what nodes look like is not.
#[tokio::test(start_paused = true)]
async fn a_pod_that_accepts_no_node_waits_until_one_looks_right() {
    let scene = Scene::start(|server| {
        let mut object = gated("a");
        object["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
        server.put(PODS, object);
    })
    .await;
    let server = &scene.server;
    let _running = run(&scene);
    until("it says why", || condition(server, "a").is_some()).await;
    assert_eq!(condition(server, "a").unwrap().1, "NoNodeFits");
    assert_eq!(records(server), []);
    let mut n1 = node("n1", "10.0.1.1");
    n1["metadata"]["labels"] = json!({ "disk": "ssd" });
    server.put(NODES, n1);
    until("it goes on", || is_open(server, "a")).await;
    assert_eq!(claimed(server, "a"), ["10.0.70.2"]);
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_told_and_mended() {
    let scene = Scene::start(|server| {
        let mut object = gated("a");
        object["metadata"]["annotations"] = json!({ names::ARGS: "{" });
        server.put(PODS, object);
    })
    .await;
    let server = &scene.server;
    let _running = run(&scene);
    until("it says why", || condition(server, "a").is_some()).await;
    assert_eq!(condition(server, "a").unwrap().1, "InvalidArgs");
    let mut object = server.object(PODS, "a").unwrap();
    let args = json!({ "request_ip_range": [["10.0.70.7"]], "common": { "x": 1 } });
    object["metadata"]["annotations"] = json!({ names::ARGS: args.to_string() });
    server.put(PODS, object);
    until("it goes on", || is_open(server, "a")).await;
    assert_eq!(claimed(server, "a"), ["10.0.70.7"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_lets_the_newest_revision_through_first() {
    let scene = Scene::start(|server| {
        server.put(
            DEPLOYMENTS,
            json!({ "metadata": { "name": "web", "namespace": "ns" }, "spec": { "replicas": 1 } }),
        );
        for revision in ["1", "2"] {
            let set = json!({
                "metadata": {
                    "name": format!("web-{revision}"), "namespace": "ns",
                    "ownerReferences": [owner("apps/v1", "Deployment", "web")],
                    "annotations": { "deployment.kubernetes.io/revision": revision },
                },
                "spec": { "replicas": 1 },
            });
            server.put(REPLICA_SETS, set);
            let mut object = gated(&format!("web-{revision}-x"));
            let set = format!("web-{revision}");
            object["metadata"]["ownerReferences"] = json!([owner("apps/v1", "ReplicaSet", &set)]);
            object["metadata"]["annotations"] = json!({ names::RELEASE_POLICY: "immutable" });
            server.put(PODS, object);
        }
    })
    .await;
    let server = &scene.server;
    let _running = run(&scene);
    until("the newest goes", || is_open(server, "web-2-x")).await;
    until("the other waits", || {
        condition(server, "web-1-x").is_some_and(|it| it.1 == "WorkloadLimitReached")
    })
    .await;
    assert!(!is_open(server, "web-1-x"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_scheduler_wants_is_evicted_if_somebody_makes_another() {
    let scene = Scene::start(|server| {
        let mut owned = gated("owned");
        owned["metadata"]["ownerReferences"] = json!([owner("batch/v1", "Job", "j")]);
        server.put(PODS, owned);
        server.put(PODS, gated("bare"));
    })
    .await;
    let server = &scene.server;
    let _running = run(&scene);
    until("both go", || {
        is_open(server, "owned") && is_open(server, "bare")
    })
    .await;
    for name in ["owned", "bare"] {
        let mut object = server.object(PODS, name).unwrap();
        object["status"]["conditions"] = json!([
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable" },
        ]);
        server.put(PODS, object);
    }
    pass(110).await;
    assert!(server.object(PODS, "owned").is_some());
    until("it is evicted", || server.object(PODS, "owned").is_none()).await;
    assert_eq!(server.count(&Method::POST, "/pods/owned/eviction"), 1);
    until("its address is free", || records(server).len() == 1).await;
    until("people are told", || {
        let told = |name: &str| {
            let told = scene.told(name);
            told.iter()
                .any(|(reason, _)| reason == "UnschedulableWithAddress")
        };
        told("owned") && told("bare")
    })
    .await;
    pass(300).await;
    assert!(server.object(PODS, "bare").is_some());
    assert_eq!(server.count(&Method::POST, "/eviction"), 1);
    let told = scene.told("bare");
    let told = told.iter().filter(|it| it.0 == "UnschedulableWithAddress");
    assert_eq!(told.count(), 1, "once is enough");
}

#[tokio::test(start_paused = true)]
async fn one_that_gets_a_node_after_all_is_left_alone() {
    let scene = Scene::start(|server| {
        let mut owned = gated("owned");
        owned["metadata"]["ownerReferences"] = json!([owner("batch/v1", "Job", "j")]);
        server.put(PODS, owned);
    })
    .await;
    let server = &scene.server;
    let _running = run(&scene);
    until("it goes", || is_open(server, "owned")).await;
    let mut object = server.object(PODS, "owned").unwrap();
    object["status"]["conditions"] =
        json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }]);
    server.put(PODS, object);
    pass(100).await;
    bind(server, "owned", "n1");
    pass(300).await;
    assert_eq!(server.count(&Method::POST, "/eviction"), 0);
}

/// As when the webhook was not there.
#[tokio::test(start_paused = true)]
async fn a_pod_that_came_to_its_node_without_a_gate_is_told_what_to_do() {
    let scene = Scene::start(|server| {
        let mut owned = pod("owned");
        owned["metadata"]["ownerReferences"] = json!([owner("batch/v1", "Job", "j")]);
        server.put(PODS, owned);
        server.put(PODS, pod("bare"));
    })
    .await;
    let server = &scene.server;
    let _running = run(&scene);
    pass(60).await;
    for name in ["owned", "bare"] {
        assert_eq!(scene.told(name), [], "an extender may still bind it");
        bind(server, name, "n1");
        until("it is told", || !scene.told(name).is_empty()).await;
        until("it says so", || condition(server, name).is_some()).await;
    }
    pass(300).await;
    for (name, remedy) in [
        ("owned", "delete it, and Job j makes another one"),
        ("bare", "delete it and create it again"),
    ] {
        let told = scene.told(name);
        assert_eq!(told.len(), 1, "once is enough: {told:?}");
        let (reason, note) = &told[0];
        assert_eq!(reason, "BoundWithoutAddress");
        assert!(note.contains(remedy), "{note}");
        let says = ("False".into(), reason.clone(), note.clone());
        assert_eq!(condition(server, name), Some(says));
        let writes = server.count(&Method::PATCH, &format!("/pods/{name}/status"));
        assert_eq!(writes, 1);
    }
    assert_eq!(records(server), []);
    assert_eq!(server.count(&Method::POST, "/eviction"), 0);
    assert_eq!(server.count(&Method::DELETE, "/pods/"), 0);
}

#[tokio::test(start_paused = true)]
async fn where_the_scheduler_asks_an_extender_nobody_misses_a_gate() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a"));
    })
    .await;
    let _running = run_as(&scene, Scheduling::Extender);
    bind(&scene.server, "a", "n1");
    pass(120).await;
    assert_eq!(scene.told("a"), []);
    assert_eq!(condition(&scene.server, "a"), None);
}

/// Writes down what it is asked, and refuses while it is told to.
#[derive(Default)]
struct FakeCloud(Mutex<(bool, Vec<String>)>);

impl FakeCloud {
    fn answer(&self, func: &str, node: &str, ip: IpAddr) -> Answer<'_> {
        let mut state = self.0.lock().unwrap();
        state.1.push(format!("{func} {ip} {node}"));
        let refused = ProviderError::Refused {
            message: "no".into(),
        };
        let answer = if state.0 { Err(refused) } else { Ok(()) };
        Box::pin(std::future::ready(answer))
    }
}

impl IpProvider for FakeCloud {
    fn assign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        self.answer("assign", node, ip)
    }

    fn unassign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        self.answer("unassign", node, ip)
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloud_hears_of_a_pod_when_it_is_bound_and_the_node_waits_for_it() {
    let mut scene = Scene::start(|server| {
        server.put(PODS, gated("a"));
    })
    .await;
    let cloud = Arc::<FakeCloud>::default();
    scene.use_cloud(cloud.clone());
    let server = &scene.server;
    let _running = run(&scene);
    until("it goes", || is_open(server, "a")).await;
    let waits = || {
        let record = server.object(FIPS, "10.0.70.2").unwrap();
        let text = record["metadata"]["annotations"]["floe.dev/network"].as_str();
        text.unwrap().contains(r#""assigning":true"#)
    };
    assert!(waits());
    assert_eq!(cloud.0.lock().unwrap().1, Vec::<String>::new());

    cloud.0.lock().unwrap().0 = true;
    bind(server, "a", "n1");
    until("the cloud was asked", || {
        !cloud.0.lock().unwrap().1.is_empty()
    })
    .await;
    pass(1).await;
    assert!(waits(), "it has refused");
    assert_eq!(records(server)[0].2, "n1", "who gives it back knows where");
    cloud.0.lock().unwrap().0 = false;
    until("it is there", || !waits()).await;
    let calls = cloud.0.lock().unwrap().1.clone();
    assert!(
        calls.iter().all(|it| it == "assign 10.0.70.2 n1"),
        "{calls:?}"
    );
    let asked = calls.len();
    pass(120).await;
    assert_eq!(cloud.0.lock().unwrap().1.len(), asked, "once is enough");

    server.delete(PODS, "a");
    until("the address is free", || records(server).is_empty()).await;
    let last = cloud.0.lock().unwrap().1.last().cloned();
    assert_eq!(last.as_deref(), Some("unassign 10.0.70.2 n1"));
}

#[tokio::test(start_paused = true)]
async fn where_the_scheduler_asks_an_extender_gates_are_only_opened() {
    let scene = Scene::start(|server| {
        server.put(PODS, gated("a"));
    })
    .await;
    let server = &scene.server;
    let _running = run_as(&scene, Scheduling::Extender);
    until("it goes", || is_open(server, "a")).await;
    pass(60).await;
    assert_eq!(records(server), []);
    let object = server.object(PODS, "a").unwrap();
    assert_eq!(object["spec"]["affinity"], Value::Null);
    assert_eq!(claimed(server, "a"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_follower_opens_nothing() {
    let scene = Scene::start(|server| {
        server.put(PODS, gated("a"));
    })
    .await;
    let follower = Standing::Following {
        holder: None,
        extender: None,
        api: None,
    };
    scene.standing.send_replace(follower);
    let _running = run(&scene);
    pass(120).await;
    assert!(!is_open(&scene.server, "a"));
    scene.standing.send_replace(Standing::Leading);
    until("it goes", || is_open(&scene.server, "a")).await;
}

fn lost(method: &Method, path: &'static str) -> Vec<(Method, &'static str, Fault)> {
    [
        Fault::Lose,
        Fault::Swallow,
        Fault::Break,
        Fault::Hang,
        Fault::Refuse(500),
        Fault::Refuse(429),
    ]
    .into_iter()
    .map(|fault| (method.clone(), path, fault))
    .collect()
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_nobody_at_the_gate() {
    let mut table = lost(&Method::POST, FIPS);
    table.extend(lost(&Method::PATCH, "/pods/a"));
    for (method, path, fault) in table {
        let scene = Scene::start(|server| {
            server.put(PODS, gated("a"));
        })
        .await;
        scene.server.fault(method, path, fault);
        let _running = run(&scene);
        until("it goes", || is_open(&scene.server, "a")).await;
        let claimed = claimed(&scene.server, "a");
        let held = (claimed[0].clone(), "uid-a".into(), String::new());
        pass(60).await;
        assert_eq!(records(&scene.server), [held]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_changes_meanwhile_is_read_again() {
    let scene = Scene::start(|server| {
        server.put(PODS, gated("a"));
    })
    .await;
    let act = |state: &mut floe_shell::mock::State| {
        let mut object = state.list_of(PODS)[0].clone();
        object["metadata"]["labels"] = json!({ "x": "y" });
        object["spec"]["schedulingGates"] =
            json!([{ "name": "floe.dev/ip" }, { "name": "late.example/x" }]);
        state.put(PODS, object);
    };
    let act = Fault::Before(Box::new(act));
    scene.server.fault(Method::PATCH, "/pods/a", act);
    let _running = run(&scene);
    until("it goes", || is_open(&scene.server, "a")).await;
    let object = scene.server.object(PODS, "a").unwrap();
    let gates = &object["spec"]["schedulingGates"];
    assert_eq!(gates, &json!([{ "name": "late.example/x" }]));
    assert_eq!(records(&scene.server).len(), 1);
}
