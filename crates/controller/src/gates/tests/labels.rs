//! What nodes show.

use super::*;

fn keep(scene: &Scene, cap: Option<u64>) -> Running {
    let keeper = NodeKeeper {
        client: scene.server.client(),
        cluster: scene.cluster.clone(),
        store: scene.store.clone(),
        cap,
        standing: scene.standing.subscribe(),
    };
    Running(vec![tokio::spawn(keeper.run(scene.stop.clone()))])
}

/// Label, capacity and allocatable of a node.
fn shows(scene: &Scene, name: &str) -> [Option<String>; 3] {
    let node = scene.server.object(NODES, name).unwrap();
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    [
        text(&node["metadata"]["labels"]["floe.dev/node-subnet"]),
        text(&node["status"]["capacity"][names::RESOURCE]),
        text(&node["status"]["allocatable"][names::RESOURCE]),
    ]
}

fn says(subnet: &str, amount: &str) -> [Option<String>; 3] {
    [subnet, amount, amount].map(|it| Some(it.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn nodes_show_their_subnet_and_what_they_can_carry() {
    let scene = Scene::start(|server| {
        server.put(NODES, node("far", "10.9.0.1"));
    })
    .await;
    let _running = keep(&scene, None);
    until("n1 shows it", || {
        shows(&scene, "n1") == says("10.0.1.0_24", "8")
    })
    .await;
    until("n2 shows it", || {
        shows(&scene, "n2") == says("10.0.2.0_24", "4")
    })
    .await;
    pass(120).await;
    assert_eq!(shows(&scene, "far"), [None, None, None]);
    let patches = scene.server.count(&Method::PATCH, "/nodes/");
    assert_eq!(patches, 4, "each was written once");

    // A kubelet starts anew, and somebody takes the label away.
    let mut n1 = scene.server.object(NODES, "n1").unwrap();
    n1["status"]["capacity"] = json!({ names::RESOURCE: "0", "cpu": "4" });
    n1["status"]["allocatable"] = json!({ "cpu": "4" });
    n1["metadata"]["labels"] = json!({ "other": "x" });
    scene.server.put(NODES, n1);
    until("n1 shows it again", || {
        shows(&scene, "n1") == says("10.0.1.0_24", "8")
    })
    .await;
    let n1 = scene.server.object(NODES, "n1").unwrap();
    assert_eq!(n1["status"]["capacity"]["cpu"], "4");
    assert_eq!(n1["metadata"]["labels"]["other"], "x");

    // A node that comes later, and one that is nowhere any more.
    scene.server.put(NODES, node("n3", "10.0.2.7"));
    until("n3 shows it", || {
        shows(&scene, "n3") == says("10.0.2.0_24", "4")
    })
    .await;
    scene.configure(
        r#"[{"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.77.1"],
             "subnet": "10.0.64.0/20", "gateway": "10.0.70.1"}]"#,
    );
    until("n2 shows nothing", || {
        shows(&scene, "n2") == [None, None, None]
    })
    .await;
    until("n1 shows more", || {
        shows(&scene, "n1") == says("10.0.1.0_24", "1792")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cap_bounds_what_nodes_show() {
    let scene = Scene::start(|_| ()).await;
    let _running = keep(&scene, Some(5));
    until("n1 shows the cap", || {
        shows(&scene, "n1") == says("10.0.1.0_24", "5")
    })
    .await;
    until("n2 has fewer", || {
        shows(&scene, "n2") == says("10.0.2.0_24", "4")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_done_again() {
    let scene = Scene::start(|_| ()).await;
    for path in ["/nodes/n1", "/nodes/n1/status"] {
        scene.server.fault(Method::PATCH, path, Fault::Refuse(500));
    }
    let _running = keep(&scene, None);
    until("n1 shows it", || {
        shows(&scene, "n1") == says("10.0.1.0_24", "8")
    })
    .await;
}
