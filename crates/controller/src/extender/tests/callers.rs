//! Which callers are taken for the scheduler.

use std::net::SocketAddr;

use axum::http::{HeaderValue, Method};
use floe_shell::mock::{Fault, Server};
use floe_shell::stop::{self, Stopper};
use k8s_openapi::ByteString;
use tokio::{net::TcpListener, task::JoinHandle};

use super::*;
use crate::{
    cluster::{self, Feeds},
    shared_key::{self, Shared},
    store::Store,
};

const CALLS: [&str; 4] = ["/v1/filter", "/v1/priority", "/v1/bind", "/v1/preempt"];

/// Accepts calls of the control plane, of which this is an API server.
fn of_control_plane(api_server: &str, key: Shared) -> Callers {
    Callers {
        sources: [Source::ControlPlane].into(),
        api_servers: watch::channel(Some(vec![api_server.parse().unwrap()])).1,
        key: watch::channel(key).1,
        ..open_to_all()
    }
}

fn leader_for(callers: Callers) -> Setup {
    setup_for(callers, Clerk::new(), Standing::Leading, forwarder(None))
}

fn from(address: &str, mut request: Request) -> Request {
    let address = PeerAddress(address.parse().unwrap());
    request.extensions_mut().insert(address);
    request
}

fn body_of(path: &str) -> Value {
    match path {
        "/v1/bind" => binding("n1"),
        "/v1/preempt" => victims(),
        _ => names(),
    }
}

/// The answer to every call from an address.
async fn answers(setup: &Setup, address: &str) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    for path in CALLS {
        let request = from(address, post_of(path, body_of(path).to_string()));
        answers.push(text(&setup.router, request).await);
    }
    answers
}

/// Whether all four calls are refused, each in a form that the scheduler shows.
fn are_refused(answers: &[(u16, String)], reason: &str) {
    for (path, (status, answer)) in CALLS.iter().zip(answers) {
        let shown = match *path {
            "/v1/filter" => serde_json::from_str::<Value>(answer).unwrap()["error"].clone(),
            "/v1/bind" => serde_json::from_str::<Value>(answer).unwrap()["Error"].clone(),
            _ => json!(answer),
        };
        let shown = shown.as_str().unwrap();
        assert!(shown.starts_with(reason), "{path}: {answer}");
        let wanted = if shown == answer { 403 } else { 200 };
        assert_eq!(*status, wanted, "{path}");
    }
}

#[tokio::test]
async fn only_the_control_plane_may_call() {
    let setup = leader_for(of_control_plane("10.200.0.1", None));
    let strangers = answers(&setup, "10.244.1.5").await;
    // An administrator finds the address and the setting in the Event of the pod.
    let reason = "CallerNotAllowed: floe-controller does not accept calls from 10.244.1.5: ";
    are_refused(&strangers, reason);
    for part in [
        "--extender-allow-from=control-plane,10.244.1.5",
        "controller.extender.allowFrom",
    ] {
        assert!(strangers[2].1.contains(part), "{part}: {}", strangers[2].1);
    }
    // A request of unknown origin is one of a stranger.
    let request = post_of("/v1/bind", binding("n1").to_string());
    let (_, answer) = text(&setup.router, request).await;
    assert!(answer.contains("CallerNotAllowed"), "{answer}");
    assert_eq!(setup.clerk.asked(), [""; 0]);

    let answers = answers(&setup, "10.200.0.1").await;
    assert!(answers.iter().all(|(status, _)| *status == 200));
    assert_eq!(setup.clerk.asked().len(), 4);
}

#[tokio::test]
async fn a_stranger_learns_nothing_by_a_broken_or_endless_body() {
    let setup = leader_for(of_control_plane("10.200.0.1", None));
    let endless = Body::from_stream(futures::stream::pending::<Result<&str, std::io::Error>>());
    let request = from("10.244.1.5", post_of("/v1/bind", endless));
    let answer = tokio::time::timeout(Duration::from_secs(5), text(&setup.router, request)).await;
    let (_, answer) = answer.expect("the body is not waited for");
    assert!(answer.contains("CallerNotAllowed"), "{answer}");
}

#[tokio::test]
async fn control_plane_nodes_are_known_by_their_objects() {
    let server = Server::default();
    let node = |name: &str, address: &str, labels: Value, annotations: Value| {
        json!({
            "metadata": { "name": name, "labels": labels, "annotations": annotations },
            "spec": { "podCIDRs": ["10.244.0.0/24"] },
            "status": { "addresses": [{ "type": "InternalIP", "address": address }] },
        })
    };
    let role = json!({ "node-role.kubernetes.io/control-plane": "" });
    let flannel = json!({ "flannel.alpha.coreos.com/backend-type": "vxlan" });
    server.put("/api/v1/nodes", node("cp", "192.168.0.1", role, flannel));
    server.put(
        "/api/v1/nodes",
        node("worker", "192.168.0.2", json!({}), json!({})),
    );
    let (_stopper, stop) = stop::channel();
    let (cluster, store) = (Cluster::new(), Store::default());
    let feeds = Feeds {
        client: server.client(),
        cluster: cluster.clone(),
        store: store.clone(),
    };
    tokio::spawn(cluster::feed(feeds, stop));
    let mut warmth = store.warmth();
    warmth.wait_for(|warmth| warmth.nodes).await.unwrap();

    let setup = leader_for(Callers {
        cluster,
        ..of_control_plane("10.200.0.1", None)
    });
    for (address, is_allowed) in [
        ("192.168.0.1", true),
        ("192.168.0.2", false),
        // kube-proxy replaces the node's address by that of the device towards the pod.
        ("10.244.0.0", true),
        ("10.244.0.1", true),
        ("10.244.0.2", false),
        ("10.200.0.1", true),
        ("127.0.0.1", false),
    ] {
        let (_, answer) = answers(&setup, address).await.swap_remove(2);
        assert_eq!(
            answer.contains("CallerNotAllowed"),
            !is_allowed,
            "{address}"
        );
    }
}

#[tokio::test]
async fn a_replica_that_knows_no_node_yet_asks_to_try_again() {
    for (warmth, api_servers) in [(false, Some(Vec::new())), (true, None)] {
        let setup = leader_for(Callers {
            api_servers: watch::channel(api_servers).1,
            ..of_control_plane("10.200.0.1", None)
        });
        setup.warmth.send_modify(|known| known.nodes = warmth);
        are_refused(&answers(&setup, "10.200.0.9").await, "NotReady: ");
    }
}

#[tokio::test]
async fn networks_and_tokens_can_be_set() {
    let (sender, token) = watch::channel(proof::digest_of(b"correct horse battery"));
    let setup = leader_for(Callers {
        sources: ["10.1.0.0/16", "fd00::7"]
            .map(|it| it.parse().unwrap())
            .into(),
        token: Some(token),
        ..open_to_all()
    });
    let call = async |address: &str, authorization: Option<&'static str>| {
        let mut request = from(address, post_of("/v1/bind", binding("n1").to_string()));
        if let Some(value) = authorization {
            let value = HeaderValue::from_static(value);
            request.headers_mut().insert("authorization", value);
        }
        text(&setup.router, request).await.1
    };
    let bearer = Some("Bearer correct horse battery");
    // The password of http://floe:…@address.
    let basic = Some("Basic ZmxvZTpjb3JyZWN0IGhvcnNlIGJhdHRlcnk=");
    for (address, authorization, is_allowed) in [
        ("10.1.2.3", bearer, true),
        ("fd00::7", basic, true),
        ("10.2.0.1", bearer, false),
        ("10.1.2.3", None, false),
        ("10.1.2.3", Some("Bearer wrong"), false),
        ("10.1.2.3", Some("Basic ZmxvZTp3cm9uZw=="), false),
        ("10.1.2.3", Some("Basic !"), false),
    ] {
        let answer = call(address, authorization).await;
        let refused = answer.contains("CallerNotAllowed");
        assert_eq!(
            refused, !is_allowed,
            "{address} {authorization:?}: {answer}"
        );
    }
    sender.send_replace(proof::digest_of(b"another token of today"));
    let answer = call("10.1.2.3", bearer).await;
    for part in ["CallerNotAllowed", "10.1.2.3", "--extender-token-file"] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
}

/// A leader that listens on the loopback interface, from where no scheduler calls it.
struct Listening {
    addr: SocketAddr,
    stopper: Stopper,
    task: JoinHandle<()>,
}

impl Listening {
    async fn start(setup: &Setup) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stopper, stop) = stop::channel();
        let (router, entry) = (setup.router.clone(), setup.entry.clone());
        Self {
            addr,
            stopper,
            task: tokio::spawn(async move {
                serve(listener, router, None, LIMITS, entry.empty(), stop).await;
            }),
        }
    }
}

#[tokio::test]
async fn the_leader_accepts_what_another_replica_has_accepted() {
    let key = |byte: u8| Some(ByteString(vec![byte; 32]));
    let leader = leader_for(of_control_plane("10.200.0.1", key(1)));
    let listening = Listening::start(&leader).await;
    let url = format!("http://{}", listening.addr);
    let following = |key: watch::Receiver<Shared>| {
        let callers = of_control_plane("10.200.0.1", None);
        let way = Forwarder::new(None, key);
        setup_for(callers, Clerk::new(), follower_of(Some(&url)), way)
    };
    let follower = |key: Shared| following(watch::channel(key).1);
    // The key is the same everywhere.
    let good = follower(key(1));
    for (status, answer) in answers(&good, "10.200.0.1").await {
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(leader.clerk.asked().len(), 4);
    are_refused(&answers(&good, "10.244.1.5").await, "CallerNotAllowed: ");
    // Another key, and none: the leader sees the address of the follower only.
    for key in [key(2), None] {
        let stranger = follower(key);
        let refused = answers(&stranger, "10.200.0.1").await;
        are_refused(&refused, "CallerNotAllowed: the replica at 127.0.0.1");
    }
    // A replica signs from the moment it knows the key.
    let (sender, late) = watch::channel(None);
    let follower = following(late);
    let refused = answers(&follower, "10.200.0.1").await;
    are_refused(&refused, "CallerNotAllowed: the replica at 127.0.0.1");
    sender.send_replace(key(1));
    for (status, answer) in answers(&follower, "10.200.0.1").await {
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(leader.clerk.asked().len(), 8);
    // The header alone proves nothing.
    let mut request = from("10.244.1.5", post_of("/v1/bind", binding("n1").to_string()));
    let yes = HeaderValue::from_static("true");
    request.headers_mut().insert(FORWARDED, yes);
    let (_, answer) = text(&leader.router, request).await;
    assert!(answer.contains("CallerNotAllowed"), "{answer}");
    assert_eq!(leader.clerk.asked().len(), 8);
    listening.stopper.stop();
    listening.task.await.unwrap();
}

/// A follower whose replica may not create the Secret with the key, which does not exist.
#[tokio::test(start_paused = true)]
async fn a_replica_without_a_key_reports_it_and_signs_as_soon_as_the_key_exists() {
    const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
    let (server, metrics) = (Server::default(), Metrics::default());
    let refused = Fault::Refuse(403);
    server.always(Method::POST, "/secrets", refused);
    let (sender, mut key) = watch::channel(None);
    let (_stopper, stop) = stop::channel();
    let place = crate::extender::callers::peers("kube-system".into());
    let installation = metrics.installation().clone();
    let keeping = shared_key::keep(server.client(), place, sender, installation, stop);
    tokio::spawn(keeping);
    let problems = || metrics.installation().problems();
    server.until(|_| !problems().is_empty()).await;
    let [problem] = &problems()[..] else {
        panic!("{:?}", problems())
    };
    assert_eq!(problem.reason, "PeersSecretWriteFailed");
    assert_eq!(problem.subject, "secrets kube-system/floe-extender-peers");
    for part in ["unsigned", "CallerNotAllowed", "deploy/controller.yaml"] {
        assert!(
            problem.message.contains(part),
            "{part}: {}",
            problem.message
        );
    }
    // Another cause takes the place of the first.
    server.put(
        SECRETS,
        json!({ "metadata": { "name": "floe-extender-peers" } }),
    );
    server
        .until(|_| problems()[0].reason == "PeersSecretForeign")
        .await;
    assert_eq!(problems().len(), 1);
    // The Role has no `create`, so without the Secret of the manifest nothing would be made.
    let message = problems()[0].message.clone();
    for part in [
        "label it floe.dev/made-by=floe-controller",
        "deploy/controller.yaml",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }

    let secret = json!({
        "metadata": { "name": "floe-extender-peers" },
        "data": { "key": ByteString(vec![1; 32]) },
    });
    server.put(SECRETS, secret);
    key.wait_for(Option::is_some).await.unwrap();
    server.until(|_| problems().is_empty()).await;

    // A key that is in force is no problem while the API server is away.
    server.state().down = true;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert!(key.borrow().is_some());
    assert_eq!(problems(), []);
}

#[tokio::test]
async fn a_signature_is_good_for_one_call_one_body_and_a_short_time() {
    let key = [7; 32];
    let setup = leader_for(of_control_plane("10.200.0.1", Some(ByteString(key.into()))));
    let now = Timestamp::now();
    let minutes = |count| jiff::SignedDuration::from_mins(count);
    let (own, other) = (binding("n1").to_string(), binding("n2").to_string());
    for (call, signed, at, is_allowed) in [
        (Call::Bind, &own, now, true),
        (Call::Bind, &own, now - minutes(1), true),
        (Call::Bind, &own, now - minutes(3), false),
        (Call::Bind, &own, now + minutes(3), false),
        (Call::Bind, &other, now, false),
        (Call::Filter, &own, now, false),
    ] {
        let mut request = from("10.244.1.5", post_of("/v1/bind", own.clone()));
        let proof = proof::sign(&key, call, signed.as_bytes(), at);
        request.headers_mut().insert(proof::HEADER, proof);
        let (_, answer) = text(&setup.router, request).await;
        let refused = answer.contains("CallerNotAllowed");
        assert_eq!(refused, !is_allowed, "{call:?} {signed} {at}: {answer}");
    }
    for wrong in [
        "",
        ".",
        "..",
        "1.2.3.4",
        "1.2.zz",
        "9999999999999999999.a.b",
    ] {
        let mut request = from("10.244.1.5", post_of("/v1/bind", own.clone()));
        let value = HeaderValue::from_static(wrong);
        request.headers_mut().insert(proof::HEADER, value);
        let (_, answer) = text(&setup.router, request).await;
        assert!(answer.contains("CallerNotAllowed"), "{wrong:?}");
    }
}
