use floe_shell::{
    mock::Server,
    stop::{self, Stopper},
};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::TryRecvError;

use super::*;
use crate::reclaim::scene::until;

const VIPS: &str = "/apis/floe.dev/v1alpha1/virtualips";

fn vip(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "addresses": ["10.0.70.20"] },
    })
}

fn key(namespace: &str, name: &str) -> VipId {
    VipId {
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn names(found: &[(VipId, Arc<VirtualIP>)]) -> Vec<String> {
    let all = found.iter();
    all.map(|(id, _)| format!("{}/{}", id.namespace, id.name))
        .collect()
}

async fn fed(server: &Server) -> (Vips, Stopper) {
    let (stopper, stop) = stop::channel();
    let vips = Vips::default();
    assert!(!vips.is_complete());
    let feed = vips.clone().feed(server.client(), Store::default(), stop);
    tokio::spawn(feed);
    until("the list is in", || vips.is_complete()).await;
    (vips, stopper)
}

#[tokio::test(start_paused = true)]
async fn what_the_server_has_is_known_and_every_change_is_told() {
    let server = Server::default();
    server.put(VIPS, vip("shop", "web"));
    server.put(VIPS, vip("shop", "api"));
    server.put(VIPS, vip("shopping", "web"));
    server.put(VIPS, vip("bank", "web"));
    let (vips, _stopper) = fed(&server).await;
    assert_eq!(
        names(&vips.all()),
        ["bank/web", "shop/api", "shop/web", "shopping/web"]
    );
    assert_eq!(names(&vips.within("shop")), ["shop/api", "shop/web"]);
    assert_eq!(names(&vips.within("sho")), [] as [&str; 0]);
    let mut changes = vips.changes();
    server.put(VIPS, vip("shop", "new"));
    assert_eq!(changes.recv().await.unwrap(), key("shop", "new"));
    assert!(vips.get(&key("shop", "new")).is_some());
    let mut other = vip("shop", "web");
    other["spec"]["addresses"] = json!(["10.0.70.21"]);
    server.put(VIPS, other);
    assert_eq!(changes.recv().await.unwrap(), key("shop", "web"));
    let known = vips.get(&key("shop", "web")).unwrap();
    assert_eq!(known.spec.addresses, ["10.0.70.21"]);
    server.delete("/apis/floe.dev/v1alpha1/namespaces/bank/virtualips", "web");
    assert_eq!(changes.recv().await.unwrap(), key("bank", "web"));
    assert!(vips.get(&key("bank", "web")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_new_list_drops_what_is_gone_and_tells_only_what_differs() {
    let server = Server::default();
    server.put(VIPS, vip("shop", "stays"));
    server.put(VIPS, vip("shop", "goes"));
    let (vips, _stopper) = fed(&server).await;
    let mut changes = vips.changes();
    // The watch hears nothing of this: its versions are forgotten.
    server.hang_up();
    server.delete(VIPS, "goes");
    server.compact();
    assert_eq!(changes.recv().await.unwrap(), key("shop", "goes"));
    assert_eq!(names(&vips.all()), ["shop/stays"]);
    assert_eq!(changes.try_recv(), Err(TryRecvError::Empty));
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_stays_as_it_was() {
    let server = Server::default();
    server.put(VIPS, vip("shop", "web"));
    let mut never = vip("shop", "never");
    never["spec"]["addresses"] = json!(7);
    server.put(VIPS, never.clone());
    let (vips, _stopper) = fed(&server).await;
    assert_eq!(names(&vips.all()), ["shop/web"]);
    let mut changes = vips.changes();
    never["metadata"]["name"] = json!("web");
    server.put(VIPS, never);
    server.put(VIPS, vip("shop", "later"));
    assert_eq!(changes.recv().await.unwrap(), key("shop", "later"));
    let known = vips.get(&key("shop", "web")).unwrap();
    assert_eq!(known.spec.addresses, ["10.0.70.20"]);
    // Neither does a new list take it away.
    server.compact();
    server.put(VIPS, vip("shop", "last"));
    assert_eq!(changes.recv().await.unwrap(), key("shop", "last"));
    assert!(vips.get(&key("shop", "web")).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_an_own_write_counts_until_the_watch_tells_something_newer() {
    let object = |version: &str, address: &str| -> VirtualIP {
        let mut object = vip("shop", "web");
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!(version);
        object["spec"]["addresses"] = json!([address]);
        serde_json::from_value(object).unwrap()
    };
    let vips = Vips::default();
    let known = || {
        vips.get(&key("shop", "web"))
            .map(|it| it.spec.addresses[0].clone())
    };
    let seen = |object| vips.enter(Event::Apply(Seen::Whole(object)));
    seen(object("5", "10.0.70.20"));
    vips.written(&object("7", "10.0.70.21"));
    assert_eq!(known().as_deref(), Some("10.0.70.21"));
    // The watch comes to what was there before.
    seen(object("6", "10.0.70.20"));
    assert_eq!(known().as_deref(), Some("10.0.70.21"));
    seen(object("8", "10.0.70.22"));
    assert_eq!(known().as_deref(), Some("10.0.70.22"));
    // What others have deleted does not come back with a late answer.
    let gone = Seen::Whole(object("9", "10.0.70.22"));
    vips.enter(Event::Delete(gone));
    vips.written(&object("8", "10.0.70.22"));
    assert_eq!(known(), None);
}
