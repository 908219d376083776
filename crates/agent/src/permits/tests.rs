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

fn claim(ip: &str) -> IpInfo {
    let (length, gateway) = if ip.contains(':') {
        (64, "fd00::1")
    } else {
        (24, "10.0.0.1")
    };
    IpInfo {
        ip: format!("{ip}/{length}").parse().unwrap(),
        vlan: 2,
        gateway: gateway.parse().unwrap(),
    }
}

#[tokio::test]
async fn an_address_is_permitted_only_by_a_record_with_this_pods_name_and_uid() {
    let claim = claim("10.0.0.5");
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
        let permit = records.permit(&claim, &pod("web-0", "u1")).await;
        assert_eq!(permit.map_err(|error| error.reason()), wanted, "{stored:?}");
    }
}

#[tokio::test]
async fn a_pod_without_a_uid_has_no_address_even_if_the_record_has_none() {
    let server = Server::default();
    server.put(RECORDS, record("10.0.0.5", "sts_ns_web_web-0", ""));
    let records = Records::new(server.client());
    let nameless = pod("web-0", "");
    let claim = claim("10.0.0.5");
    let permit = records.permit(&claim, &nameless);
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

    let (claim, ip) = (claim("10.0.0.5"), "10.0.0.5".parse().unwrap());
    let reads = || server.count(&Method::GET, "floatingips/10.0.0.5");
    records.permit(&claim, &pod("web-0", "u1")).await.unwrap();
    assert_eq!(reads(), 0);
    let refused = records
        .permit(&claim, &pod("web-0", "u2"))
        .await
        .unwrap_err();
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
    let claim = claim("fd00::5");
    server.state().refuse_reads = Some(403);
    let refused = records
        .permit(&claim, &pod("web-0", "u1"))
        .await
        .unwrap_err();
    assert_eq!(refused.reason(), "RecordUnreadable");
    server.always(Method::GET, "", Fault::Hang);
    let refused = records
        .permit(&claim, &pod("web-0", "u1"))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("no answer"), "{refused}");
    let path = format!("{RECORDS}/fd00-0000-0000-0000-0000-0000-0000-0005");
    assert_eq!(server.count(&Method::GET, &path), 2);
}

#[tokio::test]
async fn vlan_gateway_and_subnet_are_those_of_the_record_if_it_tells_them() {
    let given = r#"{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1","uid":"u1"}"#;
    let earlier = given.replace("u1", "u0");
    let table = [
        // A pod before this one was given something else.
        (Some(&*earlier), "10.0.0.5/24", 3, "10.0.0.1", None),
        (Some(given), "10.0.0.5/24", 2, "10.0.0.1", None),
        (None, "10.0.0.5/16", 4000, "10.0.0.9", None),
        (Some(given), "10.0.0.5/24", 3, "10.0.0.1", Some("vlan 3")),
        (
            Some(given),
            "10.0.0.5/16",
            2,
            "10.0.0.1",
            Some("10.0.0.5/16"),
        ),
        (Some(given), "10.0.0.5/24", 2, "10.0.0.9", Some("10.0.0.9")),
        (
            Some("nonsense"),
            "10.0.0.5/24",
            2,
            "10.0.0.1",
            Some("nonsense"),
        ),
    ];
    for (told, ip, vlan, gateway, refused) in table {
        let server = Server::default();
        let mut object = record("10.0.0.5", "sts_ns_web_web-0", "u1");
        if let Some(told) = told {
            object["metadata"]["annotations"] = json!({ "floe.dev/network": told });
        }
        server.put(RECORDS, object);
        let records = Records::new(server.client());
        let claim = IpInfo {
            ip: ip.parse().unwrap(),
            vlan,
            gateway: gateway.parse().unwrap(),
        };
        let (stopper, stop) = stop::channel();
        // By a read, and by what the watch shows.
        for watched in [false, true] {
            if watched {
                tokio::spawn(records.clone().run("n1".into(), stop.clone()));
                let mut lists = records.lists();
                lists.wait_for(|count| *count > 0).await.unwrap();
            }
            let permit = records.permit(&claim, &pod("web-0", "u1")).await;
            match refused {
                None => permit.unwrap(),
                Some(word) => {
                    let error = permit.unwrap_err();
                    assert_eq!(error.reason(), "AddressNetworkDiffers");
                    assert!(error.to_string().contains(word), "{error}");
                }
            }
        }
        stopper.stop();
    }
}

#[tokio::test]
async fn an_address_that_the_cloud_brings_meanwhile_is_waited_for() {
    let server = Server::default();
    let records = Records::new(server.client());
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(records.clone().run("n1".into(), stop));
    let mut lists = records.lists();
    lists.wait_for(|count| *count > 0).await.unwrap();
    let told = |assigning: bool, on_node: bool| {
        let mut object = record("10.0.0.5", "sts_ns_web_web-0", "u1");
        let given = json!({
            "ip": "10.0.0.5/24", "vlan": 2, "gateway": "10.0.0.1", "uid": "u1",
            "assigning": assigning,
        });
        object["metadata"]["annotations"] = json!({ "floe.dev/network": given.to_string() });
        if !on_node {
            object["metadata"]["labels"] = json!({});
        }
        server.put(RECORDS, object);
    };
    // As records are before anybody knows where the pod runs.
    told(true, false);
    let (claim, pod) = (claim("10.0.0.5"), pod("web-0", "u1"));
    let reads = || server.count(&Method::GET, "floatingips/10.0.0.5");
    let brings = async {
        server.until(|_| reads() == 1).await;
        told(true, true);
        let ip = "10.0.0.5".parse().unwrap();
        server.until(|_| records.cached(ip).is_some()).await;
        assert_eq!(reads(), 1, "it waits");
        told(false, true);
    };
    let (permit, ()) = tokio::join!(records.permit(&claim, &pod), brings);
    permit.unwrap();
    stopper.stop();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_address_that_the_cloud_has_not_brought_is_refused_in_the_end() {
    let server = Server::default();
    let records = Records::new(server.client());
    let given = r#"{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1","uid":"u1","assigning":true}"#;
    let table = [
        (given.to_owned(), Some("AddressNotAssigned")),
        // It is said of an earlier pod, and then of none any more.
        (given.replace("u1", "u0"), None),
        (given.replace("true", "false"), None),
    ];
    for (told, refused) in table {
        let mut object = record("10.0.0.5", "sts_ns_web_web-0", "u1");
        object["metadata"]["annotations"] = json!({ "floe.dev/network": told });
        server.put(RECORDS, object);
        let permit = records
            .permit(&claim("10.0.0.5"), &pod("web-0", "u1"))
            .await;
        assert_eq!(permit.err().map(|it| it.reason()), refused, "{told}");
    }
}

#[tokio::test]
async fn what_is_doubted_is_read_until_another_list_is_in() {
    let server = Server::default();
    server.put(RECORDS, record("10.0.0.5", "sts_ns_web_web-0", "u1"));
    let records = Records::new(server.client());
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(records.clone().run("n1".into(), stop));
    let mut lists = records.lists();
    lists.wait_for(|count| *count > 0).await.unwrap();
    // From now on no list comes through, while the old watch would go on.
    server.always(Method::GET, RECORDS, Fault::Hang);
    records.forget();
    assert!(records.all().is_empty());
    let asked = || server.count(&Method::GET, "labelSelector");
    let before = asked();
    server.until(|_| asked() > before).await;
    assert!(records.all().is_empty());
    server.heal();
    server.compact();
    records.forget();
    lists.wait_for(|count| *count > 1).await.unwrap();
    assert_eq!(records.all().len(), 1);
    stopper.stop();
    task.await.unwrap();
}

#[tokio::test]
async fn a_claim_that_cannot_be_set_up_gets_the_network_of_its_record() {
    let claimed = IpInfo {
        ip: "10.0.0.5/0".parse().unwrap(),
        ..claim("10.0.0.5")
    };
    let good = r#"{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1","uid":"u1"}"#;
    let bad = good.replace("/24", "/0");
    let earlier = good.replace("u1", "u0");
    let other = good.replace("0.5/24", "0.6/24");
    let table = [
        (Some(good), claim("10.0.0.5")),
        (Some(&*bad), claimed),
        (Some(&*earlier), claimed),
        (Some(&*other), claimed),
        (None, claimed),
    ];
    for (told, expected) in table {
        let server = Server::default();
        let mut object = record("10.0.0.5", "sts_ns_web_web-0", "u1");
        if let Some(told) = told {
            object["metadata"]["annotations"] = json!({ "floe.dev/network": told });
        }
        server.put(RECORDS, object);
        let records = Records::new(server.client());
        assert_eq!(records.corrected(claimed).await, expected, "{told:?}");
        // Any other claim is left to the comparison with the record.
        let wrong = IpInfo {
            vlan: 7,
            ..claim("10.0.0.5")
        };
        assert_eq!(records.corrected(wrong).await, wrong);
    }
}
