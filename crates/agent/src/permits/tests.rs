use axum::http::Method;
use floe_shell::{
    mock::{Fault, Server},
    stop,
};
use serde_json::{Value, json};

use super::*;

const RECORDS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";

fn record(ip: &str, key: &str, uid: &str) -> Value {
    let attribute = json!({ "NodeName": "n1", "Uid": uid }).to_string();
    json!({
        "metadata": { "name": ip, "labels": { "floe.dev/node": "n1" } },
        "spec": { "key": key, "attribute": attribute, "policy": 0 },
    })
}

fn pod(name: &str, uid: &str) -> Pod {
    Pod {
        namespace: "ns".into(),
        name: name.into(),
        uid: uid.into(),
        ..Pod::default()
    }
}

#[tokio::test]
async fn an_address_is_permitted_only_by_a_record_with_this_pods_name_and_uid() {
    let ip: IpAddr = "10.0.0.5".parse().unwrap();
    let refused = |reason| Err(reason);
    let table = [
        (Some(("sts_ns_web_web-0", "u1")), Ok(())),
        (Some(("pool__p_sts_ns_web_web-0", "u1")), Ok(())),
        (
            Some(("sts_ns_web_web-0", "u0")),
            refused("AddressOfAnotherPod"),
        ),
        (
            Some(("sts_ns_web_web-0", "")),
            refused("AddressOfAnotherPod"),
        ),
        (
            Some(("sts_ns_web_web-1", "u1")),
            refused("AddressOfAnotherPod"),
        ),
        (
            Some(("sts_other_web_web-0", "u1")),
            refused("AddressOfAnotherPod"),
        ),
        (Some(("sts_ns_web_", "u1")), refused("AddressOfAnotherPod")),
        (Some(("web-0", "u1")), refused("AddressOfAnotherPod")),
        (None, refused("AddressNotRecorded")),
    ];
    for (stored, wanted) in table {
        let server = Server::default();
        if let Some((key, uid)) = stored {
            server.put(RECORDS, record("10.0.0.5", key, uid));
        }
        let records = Records::new(server.client());
        let permit = records.permit(ip, &pod("web-0", "u1")).await;
        assert_eq!(permit.map_err(|error| error.reason()), wanted, "{stored:?}");
    }
}

#[tokio::test]
async fn a_pod_without_a_uid_has_no_address_even_if_the_record_has_none() {
    let server = Server::default();
    server.put(RECORDS, record("10.0.0.5", "sts_ns_web_web-0", ""));
    let records = Records::new(server.client());
    let nameless = pod("web-0", "");
    let permit = records.permit("10.0.0.5".parse().unwrap(), &nameless);
    assert_eq!(permit.await.unwrap_err().reason(), "AddressOfAnotherPod");
}

#[tokio::test]
async fn the_watch_permits_without_a_read_and_never_refuses_without_one() {
    let server = Server::default();
    server.put(RECORDS, record("10.0.0.5", "sts_ns_web_web-0", "u1"));
    let records = Records::new(server.client());
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(records.clone().run("n1".into(), stop));
    let mut lists = records.lists();
    lists.wait_for(|count| *count > 0).await.unwrap();
    assert!(
        server
            .state()
            .calls
            .iter()
            .any(|call| call.contains("floe.dev%2Fnode%3Dn1"))
    );

    let ip = "10.0.0.5".parse().unwrap();
    let reads = || server.count(&Method::GET, "floatingips/10.0.0.5");
    records.permit(ip, &pod("web-0", "u1")).await.unwrap();
    assert_eq!(reads(), 0);
    let refused = records.permit(ip, &pod("web-0", "u2")).await.unwrap_err();
    assert_eq!(refused.reason(), "AddressOfAnotherPod");
    assert!(
        refused.to_string().contains("sts_ns_web_web-0"),
        "{refused}"
    );
    assert_eq!(reads(), 1);

    // A change is seen, and so is an end.
    server.put(RECORDS, record("10.0.0.5", "sts_ns_web_web-0", "u2"));
    server
        .until(|_| records.cached(ip).is_some_and(|it| it.uid == "u2"))
        .await;
    server.delete(RECORDS, "10.0.0.5");
    server.until(|_| records.cached(ip).is_none()).await;
    assert!(*records.changes().borrow() >= 3);
    stopper.stop();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_cannot_ask_does_not_permit() {
    let server = Server::default();
    let records = Records::new(server.client());
    let ip = "fd00::5".parse().unwrap();
    server.state().refuse_reads = Some(403);
    let refused = records.permit(ip, &pod("web-0", "u1")).await.unwrap_err();
    assert_eq!(refused.reason(), "RecordUnreadable");
    server.always(Method::GET, "", Fault::Hang);
    let refused = records.permit(ip, &pod("web-0", "u1")).await.unwrap_err();
    assert!(refused.to_string().contains("no answer"), "{refused}");
    let path = format!("{RECORDS}/fd00-0000-0000-0000-0000-0000-0000-0005");
    assert_eq!(server.count(&Method::GET, &path), 2);
}
