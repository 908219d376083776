use super::*;
use crate::{reclaim::scene::until, vips::scene::set_entry};

const VIPS: &str = "/apis/floe.dev/v1alpha1/virtualips";

const CONFIG: &str = r#"[
    {"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.5"],
     "subnet": "10.0.70.0/24", "gateway": "10.0.70.1", "shared": ["10.0.70.6~10.0.70.9"]}
]"#;

fn place(pod: &str, node: &str) -> Value {
    json!({
        "pod": pod, "uid": format!("uid-{pod}"), "node": node, "nodeAddress": "10.0.1.1",
        "addresses": ["10.244.0.2"], "mode": "nat",
    })
}

fn condition(status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": "Accepted", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn vip(namespace: &str, name: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": name, "namespace": namespace, "uid": format!("uid-{name}") },
        "spec": spec, "status": status,
    })
}

/// `shop/web` is held by pod `a` while `b` could, `shop/idle` waits for pods, and
/// `bank/greedy` asks for an address of the others.
fn put(server: &Server) {
    let (mut holder, mut a, mut b) = (place("a", "n1"), place("a", "n1"), place("b", "n2"));
    holder["since"] = json!("2026-01-02T00:00:00Z");
    for candidate in [&mut a, &mut b] {
        candidate["readySince"] = json!("2026-01-01T00:00:00Z");
    }
    let held = json!({
        "addresses": ["10.0.70.7"], "holder": holder, "candidates": [a, b], "moves": 2,
        "lastMove": {
            "at": "2026-01-02T00:00:00Z", "reason": "PodNotReady", "from": "b", "to": "a",
        },
        "conditions": [condition("True", "Granted", "granted 1 of 1 addresses")],
    });
    let spec = json!({ "addresses": ["10.0.70.7"] });
    let web = vip("shop", "web", &spec, &held);
    set_entry(server, &web);
    server.put(VIPS, web);
    let idle = json!({
        "addresses": ["10.0.70.8"],
        "conditions": [condition("True", "Granted", "granted 1 of 1 addresses")],
    });
    let mut object = vip(
        "shop",
        "idle",
        &json!({ "addresses": ["10.0.70.8"] }),
        &idle,
    );
    object["metadata"]["labels"] = json!({ "floe.dev/claimed-by": "annotation" });
    set_entry(server, &object);
    server.put(VIPS, object);
    let taken = "10.0.70.7 belongs to VirtualIP shop/web";
    let refused = json!({ "conditions": [condition("False", "AddressTaken", taken)] });
    server.put(VIPS, vip("bank", "greedy", &spec, &refused));
    for (ip, key) in [
        ("10.0.70.7", "vip__shop_web_"),
        ("10.0.70.8", "vip__shop_idle_"),
        ("10.0.70.9", "vip__shop_gone_"),
    ] {
        server.put(FIPS, fip(ip, key, 2, ""));
    }
}

async fn shared() -> Scene {
    let scene = Scene::start(put).await;
    scene.configure(CONFIG);
    let (client, store) = (scene.server.client(), scene.store.clone());
    let feed = scene.vips.clone().feed(client, store, scene.stop.clone());
    tokio::spawn(feed);
    until("they are known", || scene.vips.is_complete()).await;
    scene
}

#[tokio::test(start_paused = true)]
async fn one_is_shown_with_holder_candidates_and_last_move() {
    let scene = shared().await;
    let api = Api::of(&scene);
    let pod = |pod: &str, node: &str, since: &str| {
        json!({
            "pod": pod, "uid": format!("uid-{pod}"), "node": node, "mode": "nat", "since": since,
        })
    };
    let (status, body) = api.get("/v2/vips/shop/web").await;
    let wanted = json!({
        "namespace": "shop", "name": "web", "state": "Held", "addresses": ["10.0.70.7"],
        "holder": pod("a", "n1", "2026-01-02T00:00:00Z"),
        "candidates": [
            pod("a", "n1", "2026-01-01T00:00:00Z"), pod("b", "n2", "2026-01-01T00:00:00Z"),
        ],
        "moves": 2,
        "lastMove": {
            "at": "2026-01-02T00:00:00Z", "reason": "PodNotReady", "from": "b", "to": "a",
        },
        "conditions": [{
            "type": "Accepted", "status": "True", "reason": "Granted",
            "message": "granted 1 of 1 addresses", "since": "2026-01-01T00:00:00Z",
        }],
    });
    assert_eq!((status, body), (200, wanted));
    let (_, body) = api.get("/v2/vips/shop/idle").await;
    assert_eq!(
        (&body["state"], &body["claimedBy"], body.get("holder")),
        (&json!("Vacant"), &json!("annotation"), None)
    );
    for path in ["shop/none", "bank/web"] {
        let missing = api.get(&format!("/v2/vips/{path}")).await;
        assert_eq!(refusal(&missing), (404, "NoSuchVirtualIP", ""), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn they_are_listed_searched_and_paged() {
    let scene = shared().await;
    let api = Api::of(&scene);
    let list = async |question: &str| {
        let (status, body) = api.get(&format!("/v2/vips?{question}")).await;
        assert_eq!(status, 200, "{question}: {body}");
        let items = body["items"].as_array().unwrap().iter();
        let names = items.map(|it| it["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>().join(" "), body["total"].clone())
    };
    for (question, names) in [
        ("", "greedy idle web"),
        ("namespace=shop", "idle web"),
        ("namespace=sho", ""),
        ("state=Vacant,Refused", "greedy idle"),
        ("state=Held", "web"),
        ("node=n1", "web"),
        ("node=n2", ""),
        ("pod=a", "web"),
        ("ip=10.0.70.8~10.0.70.9", "idle"),
        ("ip=10.0.70.0/24", "idle web"),
        ("q=SHOP/w", "web"),
        ("q=70.8", "idle"),
        ("q=n1", "web"),
        ("q=shop&state=Vacant", "idle"),
        ("node=", "greedy idle"),
    ] {
        let count = names.split_whitespace().count();
        assert_eq!(
            list(question).await,
            (names.to_owned(), json!(count)),
            "{question}"
        );
    }
    assert_eq!(list("size=1&page=1").await, ("idle".into(), json!(3)));
    assert_eq!(list("size=2&page=7").await, (String::new(), json!(3)));
    for (question, field) in [
        ("state=held", "state"),
        ("ip=x", "ip"),
        ("size=0", "size"),
        ("pods=a", "pods"),
    ] {
        let refused = api.get(&format!("/v2/vips?{question}")).await;
        assert_eq!(refusal(&refused), (400, "InvalidParameter", field));
    }
}

#[tokio::test(start_paused = true)]
async fn before_they_are_listed_nobody_says_that_there_are_none() {
    let scene = Scene::start(put).await;
    let api = Api::of(&scene);
    for path in ["/v2/vips", "/v2/vips/shop/web"] {
        let refused = api.get(path).await;
        assert_eq!(refusal(&refused), (503, "VirtualIPsUnknown", ""), "{path}");
    }
    let (status, body) = api.get("/v2/explain?ip=10.0.70.7").await;
    assert_eq!(status, 200);
    assert_eq!(
        body["ip"]["shared"],
        json!({ "reason": "VirtualIPsUnknown" })
    );
}

#[tokio::test(start_paused = true)]
async fn who_may_not_see_them_learns_nothing_of_them() {
    let scene = shared().await;
    let api = Api::allowing(&scene, &["list floatingips"]).await;
    for path in ["/v2/vips?size=0", "/v2/vips/shop/web", "/v2/vips/shop/none"] {
        let refused = api.get(path).await;
        assert_eq!(refusal(&refused), (403, "Forbidden", ""), "{path}");
    }
    let (status, body) = api.get("/v2/explain?ip=10.0.70.7").await;
    assert_eq!(status, 200);
    let ip = &body["ip"];
    assert_eq!((ip.get("shared"), ip.get("refusedTo")), (None, None));
    assert_eq!(
        body["summary"],
        json!([
            "It is shared: VirtualIP shop/web has it for its pods.",
            "So since 2026-01-01T00:00:00Z.",
            "Which pod has it is not told: you may not get virtualips.floe.dev \"web\" in \
             namespace \"shop\".",
            "What would release it: the end of its VirtualIP, or that this asks for other \
             addresses.",
        ])
    );
    let api = Api::allowing(&scene, &["list virtualips"]).await;
    assert_eq!(api.get("/v2/vips").await.0, 200);
    assert_eq!(api.get("/v2/vips/shop/web").await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_shared_address_is_explained_by_its_holder_and_what_would_move_it() {
    let scene = shared().await;
    let api = Api::of(&scene);
    let explain = async |ip: &str| api.get(&format!("/v2/explain?ip={ip}")).await.1;
    let body = explain("10.0.70.7").await;
    assert_eq!(
        body["summary"],
        json!([
            "It is shared: VirtualIP shop/web has it for its pods.",
            "So since 2026-01-01T00:00:00Z.",
            "It is at pod a on node n1 since 2026-01-02T00:00:00Z.",
            "It moved last at 2026-01-02T00:00:00Z, from pod b to pod a: its pod was not ready \
             (PodNotReady). It has moved 2 times.",
            "It could be at a (n1), b (n2).",
            "What would move it: the end of its pod, or silence of the pod's node; a pod that is \
             not ready, but not within 3 s after a move; somebody who asks for it.",
            "What would release it: the end of its VirtualIP, or that this asks for other \
             addresses.",
            "VirtualIP bank/greedy asks for it and does not get it: 10.0.70.7 belongs to \
             VirtualIP shop/web (AddressTaken).",
        ])
    );
    let ip = &body["ip"];
    assert_eq!(ip["reason"], "Shared");
    assert_eq!(ip["shared"]["reason"], "Held");
    assert_eq!(ip["shared"]["vip"]["holder"]["pod"], "a");
    assert_eq!(ip["shared"]["movedBy"].as_array().unwrap().len(), 3);
    assert_eq!(ip["refusedTo"][0]["reason"], "AddressTaken");

    let body = explain("10.0.70.8").await;
    assert_eq!(body["ip"]["shared"]["reason"], "NoCandidate");
    assert_eq!(body["ip"]["shared"].get("movedBy"), None);
    let body = explain("10.0.70.9").await;
    assert_eq!(body["ip"]["shared"], json!({ "reason": "VirtualIPGone" }));
    // An address that is no longer granted is not at the holder of the others.
    let mut object = scene.server.object(VIPS, "web").unwrap();
    object["status"]["addresses"] = json!(["10.0.70.6"]);
    set_entry(&scene.server, &object);
    let other = |vip: &floe_api::floe::virtualip::VirtualIP| {
        vip.facts().addresses == ["10.0.70.6".parse::<std::net::IpAddr>().unwrap()]
    };
    until("it is known", || {
        scene.vips.all().iter().any(|(_, vip)| other(vip))
    })
    .await;
    let body = explain("10.0.70.7").await;
    assert_eq!(body["ip"]["shared"]["reason"], "LetGo");
}
