use axum::http::Method;
use floe_api::labels;
use floe_core::config::{AddressConfig, Loaded, Mode};
use floe_shell::mock::{Fault, Server as Mock};
use serde_json::{Value, json};

use super::*;

const PATH: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";

struct Case {
    server: Mock,
    store: Store,
    records: Records,
}

impl Case {
    /// Addresses 10.0.70.2 to 10.0.70.20 are configured.
    fn new() -> Self {
        let server = Mock::default();
        let store = Store::default();
        let text = json!([{ "nodeSubnets": ["10.0.0.0/16"], "ips": ["10.0.70.2~10.0.70.20"],
            "subnet": "10.0.70.0/24", "gateway": "10.0.70.1" }]);
        let Loaded { config, .. } = AddressConfig::parse(&text.to_string(), Mode::Strict).unwrap();
        store.change(|books| books.configure(config));
        let records = Records::new(server.client(), store.clone(), Metrics::default());
        Self {
            server,
            store,
            records,
        }
    }

    /// A record on the server, with foreign labels and annotations, that the books
    /// know.
    fn held(&self, address: &str) -> Record {
        let object = self.server.put(
            PATH,
            json!({
                "metadata": {
                    "name": address,
                    "labels": { "team": "a", labels::OUTSIDE_CONFIGURATION: "" },
                    "annotations": { "note": "b", labels::NODE: "n0", labels::WORKLOAD: "Foo.x" },
                },
                "spec": { "key": "sts_ns_app_app-0", "attribute": r#"{"NodeName":"n0","Uid":"u0"}"#,
                          "policy": 1, "updateTime": "2024-01-02T03:04:05Z" },
            }),
        );
        self.enter(&object);
        self.record(address).unwrap()
    }

    fn enter(&self, object: &Value) {
        let object = serde_json::from_value(object.clone()).unwrap();
        self.store.change(|books| books.record(&object));
    }

    fn record(&self, address: &str) -> Option<Record> {
        let record = |books: &Books| books.ledger().record(ip(address)).cloned();
        self.store.read(record)
    }

    fn object(&self, address: &str) -> Option<Value> {
        self.server.object(PATH, address)
    }

    /// Another writer, just before the next request of this kind.
    fn meanwhile(&self, method: Method, address: &str, key: &'static str) {
        let mut object = self
            .object(address)
            .unwrap_or_else(|| json!({ "metadata": { "name": address }, "spec": {} }));
        object["spec"]["key"] = json!(key);
        let act = Box::new(move |state: &mut floe_shell::mock::State| {
            state.put(PATH, object);
        });
        self.server.fault(method, PATH, Fault::Before(act));
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn holding(node: &str, uid: &str) -> Holding {
    Holding {
        key: "sts_ns_app_app-1".into(),
        place: Attribute {
            node_name: node.into(),
            uid: uid.into(),
        },
        policy: ReleasePolicy::Never,
        note: None,
    }
}

fn spare() -> Holding {
    Holding {
        key: "dp_ns_app_".into(),
        place: Attribute::default(),
        policy: ReleasePolicy::Immutable,
        note: Some("ReplicaSet/Foo.x".into()),
    }
}

fn conflict(address: &str) -> Result<(), WriteError> {
    Err(WriteError::Conflict { ip: ip(address) })
}

fn reason(result: &Result<(), WriteError>) -> &'static str {
    result.as_ref().map_or_else(WriteError::reason, |()| "Done")
}

#[tokio::test]
async fn a_taken_address_has_an_object_and_a_record() {
    let case = Case::new();
    let before = Timestamp::now().as_second();
    case.records
        .take(ip("10.0.70.5"), &holding("n1", "u1"))
        .await
        .unwrap();
    let object = case.object("10.0.70.5").unwrap();
    let annotations =
        json!({ labels::ADDRESS: "10.0.70.5", labels::NODE: "n1", labels::STATE: "Bound" });
    assert_eq!(object["metadata"]["annotations"], annotations);
    assert_eq!(object["metadata"]["labels"], json!({ labels::NODE: "n1" }));
    assert_eq!(object["spec"]["key"], "sts_ns_app_app-1");
    assert_eq!(
        object["spec"]["attribute"],
        r#"{"NodeName":"n1","Uid":"u1"}"#
    );
    assert_eq!(object["spec"]["policy"], 2);
    let time = object["spec"]["updateTime"].as_str().unwrap();
    assert_eq!(time.len(), "2024-01-02T03:04:05Z".len(), "whole seconds");
    let record = case.record("10.0.70.5").unwrap();
    assert!(holding("n1", "u1").is_of(&record));
    assert!(record.updated.as_second() >= before);

    // A kept one in IPv6, and one that nothing in the configuration has.
    let v6 = ip("fd00::5");
    case.records.take(v6, &spare()).await.unwrap();
    let object = case
        .object("fd00-0000-0000-0000-0000-0000-0000-0005")
        .unwrap();
    let annotations = json!({
        labels::ADDRESS: "fd00::5", labels::STATE: "Spare", labels::WORKLOAD: "ReplicaSet/Foo.x",
    });
    assert_eq!(object["metadata"]["annotations"], annotations);
    assert_eq!(
        object["metadata"]["labels"],
        json!({ labels::OUTSIDE_CONFIGURATION: "true" })
    );
}

#[tokio::test]
async fn who_comes_second_learns_who_was_first() {
    let case = Case::new();
    case.meanwhile(Method::POST, "10.0.70.5", "dp_ns_other_x");
    let taken = case
        .records
        .take(ip("10.0.70.5"), &holding("n1", "u1"))
        .await;
    assert_eq!(taken, conflict("10.0.70.5"));
    let record = case.record("10.0.70.5").unwrap();
    assert_eq!(record.key.as_str(), "dp_ns_other_x");
    let calls = case.server.state().calls.len();
    let taken = case
        .records
        .take(ip("10.0.70.5"), &holding("n1", "u1"))
        .await;
    assert_eq!(taken, conflict("10.0.70.5"));
    assert_eq!(case.server.state().calls.len(), calls, "the books know");
}

#[tokio::test(start_paused = true)]
async fn a_take_without_answer_is_looked_at() {
    let table = [
        (Fault::Lose, "Done", true),
        (Fault::Swallow, "Done", true),
        (Fault::Break, "RecordWriteUnknown", false),
        (Fault::Hang, "RecordWriteUnknown", false),
        (Fault::Refuse(504), "RecordWriteUnknown", false),
        (Fault::Refuse(403), "RecordWriteRefused", false),
        (Fault::Refuse(429), "RecordWriteRefused", false),
        (Fault::Refuse(404), "RecordWriteRefused", false),
    ];
    for (fault, want, held) in table {
        let case = Case::new();
        case.server.fault(Method::POST, PATH, fault);
        let taken = case
            .records
            .take(ip("10.0.70.5"), &holding("n1", "u1"))
            .await;
        assert_eq!(reason(&taken), want);
        assert_eq!(case.record("10.0.70.5").is_some(), held);
    }
    // Somebody else's is there instead: ours will never be.
    let case = Case::new();
    case.server.fault(Method::POST, PATH, Fault::Break);
    case.meanwhile(Method::GET, "10.0.70.5", "other");
    let taken = case
        .records
        .take(ip("10.0.70.5"), &holding("n1", "u1"))
        .await;
    assert_eq!(taken, conflict("10.0.70.5"));
}

#[tokio::test]
async fn a_change_keeps_what_others_wrote() {
    let case = Case::new();
    let seen = case.held("10.0.70.5");
    case.records.change(&seen, &spare()).await.unwrap();
    let object = case.object("10.0.70.5").unwrap();
    assert_eq!(object["metadata"]["labels"], json!({ "team": "a" }));
    let annotations = json!({
        "note": "b", labels::ADDRESS: "10.0.70.5", labels::STATE: "Spare",
        labels::WORKLOAD: "ReplicaSet/Foo.x",
    });
    assert_eq!(object["metadata"]["annotations"], annotations);
    let record = case.record("10.0.70.5").unwrap();
    assert!(spare().is_of(&record));
    assert!(record.updated > seen.updated);

    // Back at once: the time differs although the second may be the same.
    let kept = holding("", "");
    case.records.change(&record, &kept).await.unwrap();
    let again = case.record("10.0.70.5").unwrap();
    assert!(kept.is_of(&again));
    assert_ne!(again.updated, record.updated);
    let annotations = case.object("10.0.70.5").unwrap()["metadata"]["annotations"].clone();
    assert_eq!(annotations[labels::STATE], "Kept");
    assert_eq!(annotations.get(labels::WORKLOAD), None);
}

#[tokio::test]
async fn the_mark_of_an_address_outside_stays() {
    let case = Case::new();
    let seen = case.held("10.0.99.5");
    case.records.change(&seen, &spare()).await.unwrap();
    let labels = &case.object("10.0.99.5").unwrap()["metadata"]["labels"];
    assert_eq!(labels[labels::OUTSIDE_CONFIGURATION], "");
}

#[tokio::test]
async fn of_two_changes_one_loses() {
    let case = Case::new();
    let seen = case.held("10.0.70.5");
    case.meanwhile(Method::PATCH, "10.0.70.5", "other");
    let changed = case.records.change(&seen, &spare()).await;
    assert_eq!(changed, conflict("10.0.70.5"));
    assert_eq!(case.record("10.0.70.5").unwrap().key.as_str(), "other");
    assert_eq!(case.object("10.0.70.5").unwrap()["spec"]["key"], "other");

    // What the caller saw is old: nothing is even asked.
    let calls = case.server.state().calls.len();
    for changed in [
        case.records.change(&seen, &spare()).await,
        case.records.free(&seen).await,
        case.records.mark(&seen, true).await,
    ] {
        assert_eq!(changed, conflict("10.0.70.5"));
    }
    assert_eq!(case.server.state().calls.len(), calls);
}

#[tokio::test]
async fn a_record_that_is_gone_leaves_the_books_at_once() {
    let case = Case::new();
    let seen = case.held("10.0.70.5");
    case.server.delete(PATH, "10.0.70.5");
    let changed = case.records.change(&seen, &spare()).await;
    assert_eq!(changed, conflict("10.0.70.5"));
    assert_eq!(case.record("10.0.70.5"), None);
    assert!(case.store.read(|it| it.ledger().is_free(ip("10.0.70.5"))));
    assert_eq!(
        case.records.change(&seen, &spare()).await,
        conflict("10.0.70.5")
    );
    assert_eq!(case.records.free(&seen).await, Ok(()), "it is free");

    let seen = case.held("10.0.70.6");
    case.server.delete(PATH, "10.0.70.6");
    assert_eq!(case.records.free(&seen).await, Ok(()));
    assert_eq!(case.record("10.0.70.6"), None);
}

#[tokio::test]
async fn what_the_watch_knows_meanwhile_is_not_forgotten() {
    let case = Case::new();
    case.held("10.0.70.5");
    let old = case.store.read(|books| books.version(ip("10.0.70.5")));
    let newer = case.held("10.0.70.5");
    case.store
        .change(|books| books.record_missing(ip("10.0.70.5"), old));
    assert_eq!(case.record("10.0.70.5"), Some(newer));
}

#[tokio::test(start_paused = true)]
async fn a_change_without_answer_is_looked_at() {
    let table = [
        (Fault::Lose, "Done"),
        (Fault::Swallow, "Done"),
        (Fault::Break, "RecordWriteUnknown"),
        (Fault::Hang, "RecordWriteUnknown"),
        (Fault::Refuse(500), "RecordWriteUnknown"),
        (Fault::Refuse(422), "RecordWriteRefused"),
    ];
    for (fault, want) in table {
        let case = Case::new();
        let seen = case.held("10.0.70.5");
        case.server.fault(Method::PATCH, PATH, fault);
        let changed = case.records.change(&seen, &spare()).await;
        assert_eq!(reason(&changed), want);
        let record = case.record("10.0.70.5").unwrap();
        assert_eq!(spare().is_of(&record), want == "Done");
    }
    // Nobody can look either.
    let case = Case::new();
    let seen = case.held("10.0.70.5");
    case.server.always(Method::PATCH, PATH, Fault::Lose);
    case.server.always(Method::GET, PATH, Fault::Hang);
    let changed = case.records.change(&seen, &spare()).await;
    assert_eq!(reason(&changed), "RecordWriteUnknown");
    // It was done and then undone by somebody else: it will never be done again.
    let case = Case::new();
    let seen = case.held("10.0.70.5");
    case.server.fault(Method::PATCH, PATH, Fault::Lose);
    case.meanwhile(Method::GET, "10.0.70.5", "other");
    let changed = case.records.change(&seen, &spare()).await;
    assert_eq!(changed, conflict("10.0.70.5"));
}

#[tokio::test(start_paused = true)]
async fn freeing_is_done_once_and_known_at_once() {
    let table = [
        (None, "Done"),
        (Some(Fault::Lose), "Done"),
        (Some(Fault::Swallow), "Done"),
        (Some(Fault::Break), "RecordWriteUnknown"),
        (Some(Fault::Hang), "RecordWriteUnknown"),
        (Some(Fault::Refuse(403)), "RecordWriteRefused"),
    ];
    for (fault, want) in table {
        let case = Case::new();
        let seen = case.held("10.0.70.5");
        let object = case.object("10.0.70.5").unwrap();
        if let Some(fault) = fault {
            case.server.fault(Method::DELETE, PATH, fault);
        }
        let freed = case.records.free(&seen).await;
        assert_eq!(reason(&freed), want);
        assert_eq!(case.record("10.0.70.5").is_none(), want == "Done");
        assert_eq!(case.object("10.0.70.5").is_none(), want == "Done");
        if freed.is_ok() && case.server.count(&Method::GET, PATH) == 0 {
            case.enter(&object);
            assert_eq!(case.record("10.0.70.5"), None, "the watch tells it late");
        }
    }
}

#[tokio::test]
async fn a_record_that_changed_is_not_freed() {
    let case = Case::new();
    let seen = case.held("10.0.70.5");
    case.meanwhile(Method::DELETE, "10.0.70.5", "other");
    assert_eq!(case.records.free(&seen).await, conflict("10.0.70.5"));
    assert_eq!(case.record("10.0.70.5").unwrap().key.as_str(), "other");
    assert!(case.object("10.0.70.5").is_some());

    let mut object = case.object("10.0.70.5").unwrap();
    object["metadata"]["finalizers"] = json!(["a.b/c"]);
    case.enter(&case.server.put(PATH, object));
    let seen = case.record("10.0.70.5").unwrap();
    let freed = case.records.free(&seen).await;
    assert_eq!(reason(&freed), "RecordWriteRefused");
    assert!(
        case.record("10.0.70.5").is_some(),
        "it exists, so it is held"
    );
}

#[tokio::test]
async fn versions_need_not_be_numbers() {
    let case = Case::new();
    case.server.state().version_prefix = "v";
    let seen = case.held("10.0.70.5");
    case.records.change(&seen, &spare()).await.unwrap();
    let record = case.record("10.0.70.5").unwrap();
    assert!(spare().is_of(&record));

    // Read between look and write: the version that was read counts.
    case.meanwhile(Method::DELETE, "10.0.70.5", "other");
    assert_eq!(case.records.free(&record).await, conflict("10.0.70.5"));
    // Changed before the look.
    let record = case.record("10.0.70.5").unwrap();
    case.meanwhile(Method::GET, "10.0.70.5", "third");
    assert_eq!(case.records.free(&record).await, conflict("10.0.70.5"));
    let record = case.record("10.0.70.5").unwrap();
    assert_eq!(record.key.as_str(), "third");
    assert_eq!(case.records.free(&record).await, Ok(()));
    assert_eq!(case.record("10.0.70.5"), None);
    assert_eq!(case.object("10.0.70.5"), None);

    let seen = case.held("10.0.70.6");
    case.server.delete(PATH, "10.0.70.6");
    assert_eq!(
        case.records.change(&seen, &spare()).await,
        conflict("10.0.70.6")
    );
    assert_eq!(case.record("10.0.70.6"), None);
}

#[tokio::test]
async fn a_mark_adds_columns_and_network_that_are_missing_and_changes_nothing_else() {
    let case = Case::new();
    let seen = case.held("10.0.70.5");
    let mut want = case.object("10.0.70.5").unwrap();
    want["metadata"]["annotations"][labels::NETWORK] =
        json!(r#"{"ip":"10.0.70.5/24","vlan":0,"gateway":"10.0.70.1","uid":"u0"}"#);
    want["metadata"]["annotations"][labels::ADDRESS] = json!("10.0.70.5");
    want["metadata"]["annotations"][labels::STATE] = json!("Bound");
    case.records.mark(&seen, false).await.unwrap();
    let object = case.object("10.0.70.5").unwrap();
    want["metadata"]["labels"] = json!({ "team": "a", labels::NODE: "n0" });
    want["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
    assert_eq!(object, want);
    assert_eq!(case.record("10.0.70.5"), Some(seen.clone()));

    case.server.fault(Method::PATCH, PATH, Fault::Lose);
    case.records.mark(&seen, true).await.unwrap();
    let labels = case.object("10.0.70.5").unwrap()["metadata"]["labels"].clone();
    assert_eq!(
        labels,
        json!({ "team": "a", labels::NODE: "n0", labels::OUTSIDE_CONFIGURATION: "true" })
    );
    // Again it is a change of nothing, in the version that came of the last one.
    case.records.mark(&seen, true).await.unwrap();
}

#[tokio::test]
async fn the_network_stays_with_its_pod_and_goes_with_it() {
    let case = Case::new();
    let text = r#"{"ip":"10.0.70.5/24","vlan":7,"gateway":"10.0.70.3","uid":"u1"}"#;
    let given = labels::Given::parse(text).unwrap();
    let seen = case.held("10.0.70.5");
    let network = || {
        let annotations = case.object("10.0.70.5").unwrap()["metadata"]["annotations"].clone();
        let value = annotations[labels::NETWORK].as_str();
        value.map(|value| labels::Given::parse(value).unwrap())
    };
    let gift = Gift::Held(&seen);
    let bound = holding("n1", "u1");
    let written = case
        .records
        .give(gift, &bound, Some((&given.info).into()), |_| ());
    written.await.unwrap();
    assert_eq!(network().as_ref(), Some(&given));

    // The marker leaves alone what is there, whatever the configuration says by now.
    let seen = case.record("10.0.70.5").unwrap();
    case.records.mark(&seen, false).await.unwrap();
    assert_eq!(network().as_ref(), Some(&given));
    let elsewhere = holding("n2", "u1");
    case.records.change(&seen, &elsewhere).await.unwrap();
    assert_eq!(network().as_ref(), Some(&given));

    // Another pod was told something of its own, which nobody here knows.
    let seen = case.record("10.0.70.5").unwrap();
    case.records
        .change(&seen, &holding("n2", "u2"))
        .await
        .unwrap();
    assert_eq!(network(), None);
    let seen = case.record("10.0.70.5").unwrap();
    case.records.mark(&seen, false).await.unwrap();
    assert_eq!(
        network().map(|it| (it.info.vlan, it.uid)),
        Some((0, "u2".into()))
    );
    case.records
        .change(&case.record("10.0.70.5").unwrap(), &spare())
        .await
        .unwrap();
    assert_eq!(network(), None);
    case.records
        .mark(&case.record("10.0.70.5").unwrap(), false)
        .await
        .unwrap();
    assert_eq!(network(), None, "nobody has it");
}
