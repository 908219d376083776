use std::time::Duration;

use super::*;

const AGENT_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const KUBELET_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

fn lease(name: &str, label: &str, lasts: u64, second: u64) -> Value {
    // By a clock that has nothing to do with that of the controller.
    let time = jiff::Timestamp::UNIX_EPOCH + Duration::from_secs(second);
    json!({
        "metadata": { "name": name, "labels": { label: "true" } },
        "spec": { "renewTime": format!("{time:.6}"), "leaseDurationSeconds": lasts },
    })
}

/// Agents that serve shared addresses renew every second, kubelets every 10.
fn renew(scene: &Scene, second: u64, agents: &[&str], kubelets: &[&str]) {
    for node in agents {
        let lease = lease(&format!("floe-vip-{node}"), "floe.dev/vip-lease", 3, second);
        scene.server.put(AGENT_LEASES, lease);
    }
    if second.is_multiple_of(10) {
        for node in kubelets {
            let lease = lease(node, "any", 40, second);
            scene.server.put(KUBELET_LEASES, lease);
        }
    }
}

/// An agent of a node with an address renews every 10 seconds, too.
fn live(scene: &Scene, second: u64, node: &str) {
    if second % 10 == 3 {
        let name = format!("floe-node-{node}");
        let lease = lease(&name, "floe.dev/node-lease", 40, second);
        scene.server.put(AGENT_LEASES, lease);
    }
}

/// n1 has the address; n2 and n3 could.
async fn scene() -> Scene {
    let mut scene = two_nodes();
    scene.server.put(NODES, node("n3", "True"));
    let rule = json!({ "ips": [A] });
    scene.server.put(POOLS, pool_with("p", rule));
    renew(&scene, 0, &["n1", "n2", "n3"], &["n1", "n2", "n3"]);
    scene.start();
    scene.until(|it| it.ip("p", A) == "active n1").await;
    scene
}

/// All agents are heard.
async fn all_are_well(scene: &Scene) {
    renew(scene, 1, &["n1", "n2", "n3"], &[]);
    pass(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_agent_and_kubelet_are_silent_loses_its_address_before_it_is_not_ready() {
    let scene = scene().await;
    all_are_well(&scene).await;
    for second in 2..=20 {
        renew(&scene, second, &["n2", "n3"], &["n2", "n3"]);
        pass(1).await;
    }
    assert_eq!(scene.ip("p", A), "active n2");
    let node = scene.server.object(NODES, "n1").unwrap();
    assert_eq!(node["status"]["conditions"][0]["status"], "True");
}

/// The kubelet of n1 renewed at 0, so it is late after 15; the agent dies at one second or
/// another.
#[tokio::test(start_paused = true)]
async fn the_later_in_the_kubelets_interval_a_node_dies_the_sooner_it_is_known() {
    for (death, moved) in [(2, 18), (9, 20)] {
        let scene = scene().await;
        let mut second = 0;
        while scene.ip("p", A) == "active n1" {
            second += 1;
            let mut agents = vec!["n2", "n3"];
            if second <= death {
                agents.push("n1");
            }
            renew(&scene, second, &agents, &["n2", "n3"]);
            pass(1).await;
            assert!(second <= moved, "it died at {death}");
        }
        assert!(second >= 14, "{second} is too early for {death}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rolling_restart_of_agents_moves_nothing() {
    let scene = scene().await;
    let all = ["n1", "n2", "n3"];
    // Each agent is silent for 30 s in turn; the kubelets are not.
    for second in 1..=90 {
        let silent = all[usize::try_from(second - 1).unwrap() / 30];
        let others: Vec<&str> = all.into_iter().filter(|it| *it != silent).collect();
        renew(&scene, second, &others, &all);
        pass(1).await;
    }
    assert_eq!(scene.ip("p", A), "active n1");
    assert_eq!(scene.cloud.count("assign"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_kills_nobody() {
    let scene = scene().await;
    for second in 1..=3 {
        renew(&scene, second, &["n1", "n2", "n3"], &["n1", "n2", "n3"]);
        pass(1).await;
    }
    // Nobody can renew anything, so nothing is renewed.
    pass(60).await;
    assert_eq!(scene.ip("p", A), "active n1");
    assert_eq!(scene.cloud.count("assign"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_cannot_be_asked_about_is_no_witness() {
    let scene = scene().await;
    all_are_well(&scene).await;
    scene.server.always(
        Method::GET,
        "kube-node-lease/leases/n1",
        ServerFault::Refuse(500),
    );
    for second in 1..=60 {
        renew(&scene, second, &["n2", "n3"], &["n2", "n3"]);
        pass(1).await;
    }
    assert_eq!(scene.ip("p", A), "active n1");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_holds_nothing_says_nothing_and_is_no_witness() {
    let scene = scene().await;
    // The lease of n1 was there when the controller started, and is as it was.
    for second in 1..=40 {
        renew(&scene, second, &["n2", "n3"], &["n2", "n3"]);
        pass(1).await;
    }
    assert_eq!(
        scene.ip("p", A),
        "active n1",
        "its kubelet alone was silent"
    );
    // It is heard, and then it has nothing to say for long.
    all_are_well(&scene).await;
    for second in 2..=120 {
        renew(&scene, second, &["n2", "n3"], &["n1", "n2", "n3"]);
        pass(1).await;
    }
    for second in 121..=160 {
        renew(&scene, second, &["n2", "n3"], &["n2", "n3"]);
        pass(1).await;
    }
    assert_eq!(scene.ip("p", A), "active n1");
    assert_eq!(scene.cloud.count("assign"), 1);
}

/// The only node with an address, after it and its kubelet were heard for so many seconds.
async fn heard_for(seconds: u64) -> Scene {
    let mut scene = two_nodes();
    scene
        .server
        .put(POOLS, pool_with("p", json!({ "ips": [A] })));
    renew(&scene, 0, &[], &["n1", "n2"]);
    live(&scene, 3, "n1");
    scene.start();
    scene.until(|it| it.ip("p", A) == "active n1").await;
    for second in 1..=seconds {
        renew(&scene, second, &[], &["n1", "n2"]);
        live(&scene, second, "n1");
        pass(1).await;
    }
    scene
}

#[tokio::test(start_paused = true)]
async fn the_only_node_with_an_address_is_missed_by_its_own_lease_and_that_of_its_kubelet() {
    let scene = heard_for(60).await;
    assert_eq!(scene.ip("p", A), "active n1");
    // Nobody is suspicious who renews in time.
    assert_eq!(scene.server.count(&Method::GET, "kube-node-lease"), 0);
    // It dies at 60. It was heard at 53, its kubelet at 60.
    let mut second = 60;
    while scene.ip("p", A) == "active n1" {
        second += 1;
        assert!(second <= 78, "its condition would say so soon");
        renew(&scene, second, &[], &["n2"]);
        pass(1).await;
    }
    assert!(second >= 74, "{second} is too early");
    let node = scene.server.object(NODES, "n1").unwrap();
    assert_eq!(node["status"]["conditions"][0]["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn the_only_node_with_an_address_keeps_it_when_no_kubelet_is_heard_at_all() {
    let scene = heard_for(20).await;
    pass(60).await;
    assert!(scene.server.count(&Method::GET, "kube-node-lease/leases?") > 0);
    assert_eq!(scene.ip("p", A), "active n1");
    assert_eq!(scene.cloud.count("assign"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_only_serves_nothing_any_more_is_not_silent() {
    let scene = scene().await;
    // n1 has handed its shared addresses over, still has that of the pool, and its kubelet is
    // being exchanged.
    for second in 1..=60 {
        let agents: &[&str] = if second < 5 {
            &["n1", "n2", "n3"]
        } else {
            &["n2", "n3"]
        };
        renew(&scene, second, agents, &["n2", "n3"]);
        live(&scene, second, "n1");
        pass(1).await;
    }
    assert_eq!(scene.ip("p", A), "active n1");
    assert_eq!(scene.cloud.count("assign"), 1);
}
