use axum::http::Method;
use floe_shell::{
    mock::{Fault, Server},
    stop,
};
use serde_json::{Value, json};

use super::*;

const PODS: &str = "/api/v1/namespaces/ns/pods";

fn object(name: &str, uid: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": uid,
            "annotations": {
                "k8s.v1.cni.cncf.io/networks": "galaxy-k8s-vlan",
                "k8s.v1.cni.galaxy.io/args": "{}",
                "other": "dropped",
            },
        },
        "spec": { "nodeName": "n1", "containers": [
            { "resources": { "requests": { "cpu": "1" } } },
            { "resources": { "requests": { "tke.cloud.tencent.com/eni-ip": "1" } } },
        ] },
    })
}

fn wanted<'a>(name: &'a str, uid: Option<&'a str>) -> Wanted<'a> {
    Wanted {
        namespace: "ns",
        name,
        uid,
    }
}

#[test]
fn of_an_object_only_what_matters_is_kept() {
    let read = |object: Value| Pod::from(serde_json::from_value::<PodObject>(object).unwrap());
    let pod = read(object("a", "u1"));
    assert_eq!(
        pod,
        Pod {
            namespace: "ns".into(),
            name: "a".into(),
            uid: "u1".into(),
            networks: Some("galaxy-k8s-vlan".into()),
            args: Some("{}".into()),
            wants_address: true,
            ..Pod::default()
        }
    );
    let pod = read(json!({
        "metadata": { "name": "b", "deletionTimestamp": "2024-01-01T00:00:00Z", "annotations": null },
        "spec": { "containers": null, "initContainers": [
            { "resources": { "requests": { "tke.cloud.tencent.com/eni-ip": "1" } } },
        ] },
        "status": { "phase": "Succeeded" },
    }));
    assert!(!pod.wants_address && pod.finished && pod.terminating && !pod.ready);
    let running = |ready: &str| {
        json!({
            "metadata": { "name": "c" },
            "status": {
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": ready }, { "type": "Other" }, {}],
                "podIPs": [{ "ip": "10.0.0.5" }, { "ip": "no address" }, {}, { "ip": "fd00::5" }],
            },
        })
    };
    let pod = read(running("True"));
    assert!(pod.ready && !pod.terminating);
    assert_eq!(
        pod.addresses,
        ["10.0.0.5", "fd00::5"].map(|it| it.parse::<IpAddr>().unwrap())
    );
    assert!(!read(running("False")).ready);
    let mut marked = running("False");
    marked["status"]["conditions"][1] = json!({ "type": "ContainersReady", "status": "True" });
    assert!(read(marked.clone()).ready, "only the node is not heard");
    marked["status"]["conditions"][0]["reason"] = json!("ContainersNotReady");
    assert!(!read(marked).ready);
    assert_eq!(read(json!({ "metadata": {} })), Pod::default());
}

#[tokio::test]
async fn the_watch_answers_without_a_read_when_it_has_the_very_pod() {
    let server = Server::default();
    server.put(PODS, object("a", "u1"));
    let pods = Pods::new(server.client());
    let (stopper, stop) = stop::channel();
    let (doubts, doubted) = watch::channel(0);
    let task = tokio::spawn(pods.clone().run("n1".into(), doubted, stop));
    server.until(|_| pods.synced()).await;
    server.put(PODS, object("b", "u2"));
    server.until(|_| pods.cached("ns", "b").is_some()).await;
    assert!(
        server
            .state()
            .calls
            .iter()
            .any(|call| call.contains("spec.nodeName%3Dn1"))
    );

    let reads = || server.count(&Method::GET, "/namespaces/ns/pods/");
    assert_eq!(pods.find(wanted("a", Some("u1"))).await.unwrap().uid, "u1");
    assert_eq!(pods.find(wanted("b", Some("u2"))).await.unwrap().uid, "u2");
    assert_eq!(reads(), 0);
    // Without a uid the watch could mean another pod.
    assert_eq!(pods.find(wanted("a", None)).await.unwrap().uid, "u1");
    assert_eq!(reads(), 1);

    assert_eq!(
        pods.unfinished(),
        Some(vec![["u1".into()].into(), ["u2".into()].into()])
    );
    server.delete(PODS, "a");
    server.until(|_| pods.cached("ns", "a").is_none()).await;
    // A watch that hears nothing any more, and a doubt.
    server.compact();
    server.put(PODS, object("c", "u3"));
    server.delete(PODS, "b");
    doubts.send_modify(|count| *count += 1);
    server.until(|_| pods.cached("ns", "b").is_none()).await;
    assert_eq!(pods.cached("ns", "c").unwrap().uid, "u3");
    stopper.stop();
    task.await.unwrap();
}

#[tokio::test]
async fn a_pod_that_has_come_again_is_read_and_an_old_one_is_refused() {
    let server = Server::default();
    server.put(PODS, object("a", "new"));
    let pods = Pods::new(server.client());
    let old = serde_json::from_value(object("a", "old")).unwrap();
    pods.lock().enter(Event::Apply(old));
    assert_eq!(
        pods.find(wanted("a", Some("new"))).await.unwrap().uid,
        "new"
    );
    // The cache would still say yes; the runtime asks for a third one.
    let error = pods.find(wanted("a", Some("older"))).await.unwrap_err();
    assert_eq!(error.reason(), "PodReplaced");
}

#[tokio::test]
async fn a_late_delete_does_not_remove_the_next_pod_of_that_name() {
    let pods = Pods::new(Server::default().client());
    let read = |uid| serde_json::from_value(object("a", uid)).unwrap();
    pods.lock().enter(Event::Apply(read("u2")));
    pods.lock().enter(Event::Delete(read("u1")));
    assert_eq!(pods.cached("ns", "a").unwrap().uid, "u2");
}

#[tokio::test]
async fn a_static_pod_answers_to_the_uid_of_the_kubelet() {
    let server = Server::default();
    let mut image = object("a", "image");
    image["metadata"]["annotations"]["kubernetes.io/config.hash"] = json!("own");
    server.put(PODS, image);
    let pods = Pods::new(server.client());
    assert_eq!(
        pods.find(wanted("a", Some("own"))).await.unwrap().uid,
        "image"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_there_is_looked_for_for_five_seconds() {
    let server = Server::default();
    let pods = Pods::new(server.client());
    assert_eq!(pods.unfinished(), None);
    let begin = Instant::now();
    let error = pods.find(wanted("a", Some("u1"))).await.unwrap_err();
    assert_eq!(error, PodError::NotFound("ns/a".into()));
    let passed = begin.elapsed();
    assert!(
        passed > Duration::from_secs(4) && passed <= PATIENCE,
        "{passed:?}"
    );
    assert_eq!(server.count(&Method::GET, PODS), 10);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_late_is_found() {
    let server = Server::default();
    let pods = Pods::new(server.client());
    let late = async {
        sleep(Duration::from_secs(2)).await;
        server.put(PODS, object("a", "u1"));
    };
    let (found, ()) = tokio::join!(pods.find(wanted("a", Some("u1"))), late);
    assert_eq!(found.unwrap().uid, "u1");
}

#[tokio::test(start_paused = true)]
async fn any_other_refusal_is_told_at_once_and_silence_after_five_seconds() {
    let server = Server::default();
    let pods = Pods::new(server.client());
    server.state().refuse_reads = Some(403);
    let error = pods.find(wanted("a", None)).await.unwrap_err();
    assert_eq!(error.reason(), "PodUnreadable");
    assert_eq!(server.count(&Method::GET, PODS), 1);
    server.always(Method::GET, "", Fault::Hang);
    let begin = Instant::now();
    let error = pods.find(wanted("a", None)).await.unwrap_err();
    assert!(error.to_string().contains("no answer"), "{error}");
    assert_eq!(begin.elapsed(), PATIENCE);
}
