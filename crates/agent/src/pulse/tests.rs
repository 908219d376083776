use axum::http::Method;
use floe_shell::{
    mock::{Fault, Server},
    stop::{self, Stopper},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;

const NODES: &str = "/api/v1/nodes";
const OWN: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn node(name: &str, addresses: Option<&str>) -> Value {
    let mut node = json!({ "metadata": { "name": name, "uid": format!("u-{name}") } });
    if let Some(addresses) = addresses {
        node["metadata"]["annotations"] = json!({ "floe.dev/node-ips": addresses });
    }
    node
}

struct Heard {
    server: Server,
    doubts: watch::Sender<u64>,
    _stopper: Stopper,
}

/// An agent of n1, beside another node.
fn start(addresses: Option<&str>) -> Heard {
    let server = Server::default();
    server.put(NODES, node("n1", addresses));
    server.put(NODES, node("n2", Some("192.0.2.2")));
    let (stopper, stop) = stop::channel();
    let (doubts, told) = watch::channel(0);
    let pulse = Pulse {
        client: server.client(),
        node: "n1".into(),
        doubts: told,
    };
    tokio::spawn(pulse.run(stop));
    Heard {
        server,
        doubts,
        _stopper: stopper,
    }
}

impl Heard {
    fn renewals(&self) -> usize {
        let made = self.server.count(&Method::POST, "/leases");
        made + self.server.count(&Method::PUT, "/leases/floe-node-n1")
    }
}

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_an_address_of_a_pool_is_heard_as_often_as_a_kubelet() {
    let it = start(Some("192.0.2.1"));
    pass(60).await;
    let renewals = it.renewals();
    assert!((6..=7).contains(&renewals), "{renewals}");
    let lease = it.server.object(OWN, "floe-node-n1").unwrap();
    assert_eq!(lease["metadata"]["labels"]["floe.dev/node-lease"], "true");
    assert_eq!(
        lease["metadata"]["labels"]["floe.dev/vip-lease"],
        json!(null)
    );
    let owner = &lease["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Node"), &json!("u-n1"))
    );
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert!(it.server.object(OWN, "floe-node-n2").is_none());
    // One read, to know whether there was one.
    assert_eq!(it.server.count(&Method::GET, "/leases"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_one_is_silent_and_speaks_as_soon_and_as_long_as_it_has_one() {
    let it = start(None);
    pass(60).await;
    assert_eq!(it.renewals(), 0);
    it.server
        .put(NODES, node("n1", Some("192.0.2.1,2001:db8::1")));
    pass(1).await;
    assert_eq!(it.renewals(), 1);
    it.server.put(NODES, node("n1", None));
    pass(60).await;
    assert!(it.renewals() <= 2, "{}", it.renewals());
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_an_earlier_process_is_taken_over_and_failures_are_tried_again_soon() {
    let it = start(None);
    let lease = json!({ "metadata": { "name": "floe-node-n1" }, "spec": {} });
    it.server.put(OWN, lease);
    it.server.fault(Method::PUT, "/leases", Fault::Refuse(500));
    it.server.fault(Method::PUT, "/leases", Fault::Hang);
    it.server.put(NODES, node("n1", Some("192.0.2.1")));
    pass(8).await;
    let lease = it.server.object(OWN, "floe-node-n1").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "n1");
    // Somebody has deleted it.
    it.server.delete(OWN, "floe-node-n1");
    pass(15).await;
    assert!(it.server.object(OWN, "floe-node-n1").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_watch_in_doubt_begins_anew() {
    let it = start(Some("192.0.2.1"));
    pass(1).await;
    let lists = || it.server.count(&Method::GET, "/api/v1/nodes");
    let before = lists();
    it.doubts.send_modify(|it| *it += 1);
    pass(1).await;
    assert!(lists() > before);
    assert_eq!(it.renewals(), 1);
}
