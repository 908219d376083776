use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::{config::fixture, ipam::ledger::Record};

const SHARED: &str = r#"[
    {"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.20"], "shared": ["10.0.70.30~10.0.70.31"],
     "subnet": "10.0.70.0/24", "gateway": "10.0.70.1", "allowedNamespaces": ["shop"]}
]"#;

fn ledger(records: &[(&str, &str)]) -> Ledger {
    let mut ledger = Ledger::new(fixture::config(SHARED));
    for (ip, key) in records {
        ledger.observe(Record {
            ip: ip.parse().unwrap(),
            key: (*key).into(),
            policy: ReleasePolicy::Never,
            node: "node-1".into(),
            uid: "uid".into(),
            updated: Timestamp::UNIX_EPOCH,
            reserved: false,
            workload_note: None,
        });
    }
    ledger
}

fn reasons(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|it| it.reason).collect()
}

fn created(kind: Kind, object: &Value) -> (Vec<&'static str>, Vec<&'static str>) {
    let ledger = ledger(&[
        ("10.0.70.2", "pool__blue_dp_shop_web_web-1"),
        ("10.0.70.3", "pool__blue_dp_mall_web_web-1"),
        ("10.0.70.30", "vip__shop_old_"),
    ]);
    let verdict = judge(kind, Write::Create(object), Some(&ledger));
    (reasons(&verdict.refusals), reasons(&verdict.warnings))
}

fn record(name: &str, spec: &Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": spec })
}

#[test]
fn a_record_has_an_address_for_a_name() {
    let good = record("10.0.70.9", &json!({ "key": "reserved for the printer" }));
    assert_eq!(created(Kind::FloatingIP, &good), (vec![], vec![]));
    for (name, reason) in [
        ("printer", "NameNotAnAddress"),
        ("fd00--5", "NameNotCanonical"),
    ] {
        let bad = record(name, &json!({ "key": "x" }));
        assert_eq!(created(Kind::FloatingIP, &bad).0, [reason], "{name}");
    }
    for policy in [json!(3), json!(-1), json!("never")] {
        let bad = record("10.0.70.9", &json!({ "key": "x", "policy": policy }));
        assert_eq!(created(Kind::FloatingIP, &bad).0, ["InvalidPolicy"]);
    }
    for policy in [json!(0), json!(2), json!(null)] {
        let good = record("10.0.70.9", &json!({ "key": "x", "policy": policy }));
        assert!(created(Kind::FloatingIP, &good).0.is_empty());
    }
}

#[test]
fn a_record_of_little_use_is_told() {
    let outside = record("192.0.2.1", &json!({ "key": "x" }));
    let expected = (vec![], vec!["AddressNotConfigured"]);
    assert_eq!(created(Kind::FloatingIP, &outside), expected);
    let shared = record("10.0.70.31", &json!({ "key": "x", "attribute": "{" }));
    let expected = (vec![], vec!["MalformedAttribute"]);
    assert_eq!(created(Kind::FloatingIP, &shared), expected);
}

#[test]
fn somebody_who_runs_with_an_address_is_told() {
    let attribute = r#"{"NodeName":"node-1","Uid":"u"}"#;
    let used = record(
        "10.0.70.2",
        &json!({ "key": "dp_shop_web_web-1", "attribute": attribute }),
    );
    let deleted = judge(Kind::FloatingIP, Write::Delete(&used), None);
    assert!(deleted.is_allowed());
    assert_eq!(reasons(&deleted.warnings), ["PodRuns"]);
    let told = deleted.warnings[0].to_string();
    assert!(
        told.contains("pod shop/web-1 runs with this address"),
        "{told}"
    );
    let idle = record("10.0.70.2", &json!({ "key": "dp_shop_web_" }));
    let deleted = judge(Kind::FloatingIP, Write::Delete(&idle), None);
    assert_eq!(deleted, Verdict::default());
    // A node holds a shared address, and lets go by itself.
    let shared = record(
        "10.0.70.30",
        &json!({ "key": "vip__shop_web_", "attribute": attribute }),
    );
    let deleted = judge(Kind::FloatingIP, Write::Delete(&shared), None);
    assert_eq!(deleted, Verdict::default());
    let taken = record("10.0.70.2", &json!({ "key": "mine" }));
    let write = Write::Update {
        new: &taken,
        old: &used,
    };
    let updated = judge(Kind::FloatingIP, write, None);
    assert_eq!(reasons(&updated.warnings), ["PodRuns"]);
    // Its node takes the address off, so it does not.
    let told = updated.warnings[0].to_string();
    assert!(!told.contains("goes on with it"), "{told}");
    assert!(told.contains("may lose it"), "{told}");
}

#[test]
fn a_pool_that_is_smaller_than_its_use_is_told() {
    let pool = |namespace: &str, size: i64| json!({ "metadata": { "name": "blue", "namespace": namespace }, "size": size });
    let over = (vec![], vec!["LimitExceeded"]);
    let fine = (vec![], vec![]);
    assert_eq!(created(Kind::Pool, &pool("kube-system", 1)), over);
    assert_eq!(created(Kind::Pool, &pool("kube-system", 2)), fine);
    assert_eq!(created(Kind::Pool, &pool("shop", 1)), fine);
    assert_eq!(created(Kind::Pool, &pool("shop", 0)), over);
    let negative = created(Kind::Pool, &pool("shop", -1));
    assert_eq!(negative.0, ["InvalidPoolSize"]);
    let nameless = json!({ "metadata": { "namespace": "shop" }, "size": 1 });
    assert_eq!(created(Kind::Pool, &nameless).0, ["InvalidPoolName"]);
}

#[test]
fn a_shared_address_must_be_one_and_should_be_set_aside() {
    let vip = |namespace: &str, spec: &Value| json!({ "metadata": { "name": "web", "namespace": namespace }, "spec": spec });
    let addresses = |ip: &str| json!({ "addresses": [ip] });
    let of = |namespace: &str, spec: &Value| created(Kind::VirtualIP, &vip(namespace, spec));
    assert_eq!(of("shop", &addresses("10.0.70.31")), (vec![], vec![]));
    for bad in [
        addresses("10.0.70"),
        addresses("127.0.0.1"),
        json!({ "ranges": ["10.0.70.9~10.0.70.2"] }),
        json!({}),
    ] {
        assert_eq!(of("shop", &bad).0, ["InvalidAddress"], "{bad}");
    }
    for (namespace, spec, reason) in [
        ("shop", addresses("10.0.70.2"), "AddressNotShared"),
        ("mall", addresses("10.0.70.31"), "NamespaceNotAllowed"),
        ("shop", addresses("10.0.70.30"), "AddressTaken"),
        (
            "shop",
            json!({ "ranges": ["10.0.70.30"] }),
            "RangeExhausted",
        ),
    ] {
        assert_eq!(of(namespace, &spec), (vec![], vec![reason]));
    }
    // Without books nobody can tell.
    let object = vip("shop", &addresses("192.0.2.1"));
    let verdict = judge(Kind::VirtualIP, Write::Create(&object), None);
    assert_eq!(verdict, Verdict::default());
    // The name comes later.
    let unnamed = json!({ "metadata": { "generateName": "web-", "namespace": "shop" }, "spec": addresses("10.0.70.31") });
    assert_eq!(created(Kind::VirtualIP, &unnamed), (vec![], vec![]));
}

#[test]
fn pools_of_nodes_and_names_must_make_sense() {
    let pool = |spec: Value| created(Kind::FloatingIPPool, &json!({ "spec": spec })).0;
    let rule = json!({ "nodeLabel": "a=b" });
    assert!(pool(json!({ "match": rule, "desiredIPs": 1 })).is_empty());
    assert!(pool(json!({ "match": rule, "ips": ["192.0.2.01", "fd00::1%eth0"] })).is_empty());
    assert_eq!(pool(json!({ "match": rule })), ["NothingAsked"]);
    assert_eq!(pool(json!({ "ips": ["192.0.2"] })), ["InvalidAddress"]);
    let bad = json!({ "desiredIPs": 1, "match": { "nodeLabel": "a=b=c", "podLabel": "a in ()" } });
    assert_eq!(pool(bad), ["InvalidSelector", "InvalidSelector"]);

    let names = |spec: Value| created(Kind::NodeDNSRecordSet, &json!({ "spec": spec })).0;
    let whole = json!({ "zone": "z", "recordName": "n" });
    assert!(names(json!({ "dnsRecordSet": whole })).is_empty());
    assert_eq!(
        names(json!({ "dnsRecordSet": { "zone": "z" } })),
        ["InvalidRecordSet"]
    );
    assert_eq!(
        names(json!({ "dnsRecordSet": whole, "match": { "podLabel": "=" } })),
        ["InvalidSelector"]
    );
}

#[test]
fn what_was_wrong_before_and_what_goes_is_let_through() {
    let bad = json!({ "metadata": { "finalizers": ["x"] }, "spec": {} });
    let write = Write::Update {
        new: &bad,
        old: &bad,
    };
    let verdict = judge(Kind::FloatingIPPool, write, None);
    assert!(verdict.is_allowed());
    assert_eq!(reasons(&verdict.warnings), ["NothingAsked"]);
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": {} });
    let good = json!({ "spec": { "desiredIPs": 1 } });
    let write = Write::Update {
        new: &going,
        old: &good,
    };
    assert_eq!(judge(Kind::FloatingIPPool, write, None), Verdict::default());
    let deleted = judge(Kind::FloatingIPPool, Write::Delete(&bad), None);
    assert_eq!(deleted, Verdict::default());
}

#[test]
fn every_kind_is_known_by_its_resource() {
    for (group, resource, kind) in [
        ("galaxy.k8s.io", "floatingips", Kind::FloatingIP),
        ("galaxy.k8s.io", "pools", Kind::Pool),
        ("floe.dev", "virtualips", Kind::VirtualIP),
        (
            "flipop.digitalocean.com",
            "floatingippools",
            Kind::FloatingIPPool,
        ),
        (
            "flipop.digitalocean.com",
            "nodednsrecordsets",
            Kind::NodeDNSRecordSet,
        ),
    ] {
        assert_eq!(Kind::of(group, resource), Some(kind));
    }
    assert_eq!(Kind::of("", "pools"), None);
}
