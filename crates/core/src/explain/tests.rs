use super::{nodes::Nodes, *};
use crate::{
    config::fixture,
    ipam::{
        ledger::Promise,
        owner::{App, AppKind},
        policy::ReleasePolicy::{Immutable, Never, OnDelete},
        workload::{Scale, State},
    },
    schedule::{filter::Sorted, refusal::NodeRefusal},
};

const IP: &str = "10.0.70.2";
const SET: &str = "sts_ns1_a_a-1";

fn record(key: &str, policy: ReleasePolicy, uid: &str) -> Record {
    Record {
        ip: IP.parse().unwrap(),
        key: key.into(),
        policy,
        node: if uid.is_empty() { "" } else { "n1" }.into(),
        uid: uid.into(),
        updated: "2026-01-02T03:04:05Z".parse().unwrap(),
        reserved: false,
        workload_note: None,
    }
}

fn ledger(record: Record) -> Ledger {
    let mut ledger = Ledger::new(fixture::t());
    ledger.observe(record);
    ledger
}

fn workload(kind: AppKind, state: State) -> Workload {
    Workload {
        app: App {
            kind,
            namespace: "ns1".into(),
            name: "a".into(),
        },
        scale: Scale::Yes,
        state,
    }
}

fn set(replicas: u32) -> Workload {
    let state = State::Exists {
        replicas: Some(replicas),
        first_ordinal: 0,
    };
    workload(AppKind::StatefulSet, state)
}

fn account(record: Record, sighting: Sighting<'_>, workload: Option<&Workload>) -> Account {
    let ip = record.ip;
    let facts = Facts {
        sighting,
        workload,
        unreadable: false,
        node: None,
    };
    Account::of(&ledger(record), ip, &facts)
}

const HERE: Sighting<'_> = Sighting::Found {
    uid: "u",
    finished: false,
};
const OVER: Sighting<'_> = Sighting::Found {
    uid: "u",
    finished: true,
};
const GONE: Sighting<'_> = Sighting::NotFound;

/// The reason, and what would release it.
fn told(account: &Account) -> (&'static str, String) {
    let end = account.end.as_ref().map(ToString::to_string);
    (account.why.reason(), end.unwrap_or_default())
}

#[test]
fn an_address_without_record_is_free_promised_or_not_configured() {
    let mut ledger = Ledger::new(fixture::t());
    let facts = Facts {
        sighting: GONE,
        workload: None,
        unreadable: false,
        node: None,
    };
    let reason = |ledger: &Ledger, ip: &str| {
        let account = Account::of(ledger, ip.parse().unwrap(), &facts);
        assert_eq!(account.end, None);
        assert_eq!(account.sentences().len(), 1);
        account.why.reason()
    };
    assert_eq!(reason(&ledger, IP), "Free");
    assert_eq!(reason(&ledger, "192.0.2.1"), "NotConfigured");
    let promise = Promise {
        group: "dp_ns1_a_".into(),
        namespace: "ns1".into(),
        app_prefix: "dp_ns1_a_".into(),
        places: 1,
        addresses: [IP.parse().unwrap()].into(),
        until: Timestamp::MAX,
    };
    ledger.promise("u", promise);
    assert_eq!(reason(&ledger, IP), "PromisedToPod");
}

#[test]
fn gateways_and_addresses_of_nodes_are_not_free() {
    let ledger = Ledger::new(fixture::t());
    let told = |ip: &str, node: Option<&str>| {
        let facts = Facts {
            sighting: GONE,
            workload: None,
            unreadable: false,
            node,
        };
        let Account { why, .. } = &Account::of(&ledger, ip.parse().unwrap(), &facts);
        (why.reason(), why.is_not_for_pods())
    };
    assert_eq!(told("10.0.70.1", None), ("Gateway", true));
    assert_eq!(told("192.0.2.1", Some("n1")), ("NodeAddress", true));
    assert_eq!(told("192.0.2.1", None), ("NotConfigured", true));
    assert_eq!(told(IP, None), ("Free", false));
    // A mistake in the configuration: pods can get it.
    assert_eq!(told(IP, Some("n1")), ("NodeAddress", false));
}

#[test]
fn the_address_of_a_pod_goes_as_its_policy_and_workload_say() {
    let (wants, shrunk) = (set(2), set(1));
    let unreadable = workload(AppKind::StatefulSet, State::Unreadable { why: "x".into() });
    let on_delete = "the end of its pod: its release policy is on-delete";
    let shrinks = "fewer replicas of StatefulSet ns1/a or its end";
    let after = "fewer replicas of StatefulSet ns1/a or its end, once its pod is gone";
    let unwanted = "its workload no longer wants a pod of that number";
    let unclear = "what StatefulSet ns1/a wants, but that cannot be read now, so it stays";
    let table = [
        (
            OnDelete,
            "u",
            HERE,
            &wants,
            "PodHolds",
            on_delete.to_owned(),
        ),
        (Immutable, "u", HERE, &wants, "PodHolds", after.into()),
        (
            Immutable,
            "u",
            HERE,
            &shrunk,
            "PodHolds",
            format!("the end of its pod: {unwanted}"),
        ),
        (
            Never,
            "u",
            HERE,
            &wants,
            "PodHolds",
            "a release by hand, once its pod is gone".into(),
        ),
        (Immutable, "", HERE, &wants, "PodExpected", after.into()),
        (Immutable, "u", GONE, &wants, "PodLeft", shrinks.into()),
        (Immutable, "u", OVER, &wants, "PodLeft", shrinks.into()),
        (Immutable, "old", HERE, &wants, "PodLeft", shrinks.into()),
        (
            OnDelete,
            "u",
            GONE,
            &wants,
            "PodLeft",
            "nothing more, it is about to be: its release policy is on-delete".into(),
        ),
        (Immutable, "", GONE, &wants, "StillWanted", shrinks.into()),
        (
            Immutable,
            "",
            GONE,
            &shrunk,
            "WorkloadScaledDown",
            format!("nothing more, it is about to be: {unwanted}"),
        ),
        (
            Immutable,
            "",
            GONE,
            &unreadable,
            "WorkloadUnreadable",
            unclear.into(),
        ),
        (
            Never,
            "",
            GONE,
            &shrunk,
            "ReleasePolicyNever",
            "a release by hand".into(),
        ),
        (
            Immutable,
            "u",
            Sighting::Unreadable,
            &wants,
            "PodUnreadable",
            after.into(),
        ),
    ];
    for (policy, uid, sighting, workload, reason, end) in table {
        let account = account(record(SET, policy, uid), sighting, Some(workload));
        assert_eq!(
            told(&account),
            (reason, end),
            "{policy} {uid:?} {sighting:?}"
        );
    }
}

#[test]
fn spares_go_with_what_they_wait_for() {
    let gone = workload(AppKind::Deployment, State::Gone);
    let exists = State::Exists {
        replicas: Some(1),
        first_ordinal: 0,
    };
    let wants = workload(AppKind::Deployment, exists);
    let by_hand = "a release by hand";
    let table = [
        ("pool__p_", Never, None, "SpareOfPool", by_hand),
        ("dp_ns1_a_", Never, Some(&wants), "SpareOfWorkload", by_hand),
        (
            "dp_ns1_a_",
            Immutable,
            Some(&wants),
            "SpareOfWorkload",
            "fewer replicas of Deployment ns1/a or its end",
        ),
        (
            "dp_ns1_a_",
            Immutable,
            Some(&gone),
            "SpareOfWorkload",
            "nothing more, it is about to be: its workload is gone",
        ),
    ];
    for (key, policy, workload, reason, end) in table {
        let account = account(record(key, policy, ""), GONE, workload);
        assert_eq!(told(&account), (reason, end.to_owned()), "{key} {policy}");
    }
}

#[test]
fn a_reservation_and_a_strange_key_are_called_so() {
    let mut reserved = record("pool__reserved-for-router_", Never, "");
    reserved.reserved = true;
    let account = account(reserved, GONE, None);
    assert_eq!(
        account.sentences(),
        [
            "It is reserved for router: no pod gets it.",
            "So since 2026-01-02T03:04:05Z.",
            "What would release it: taking the reservation back.",
        ]
    );
    let reason = |uid: &str| {
        self::account(record("what", Never, uid), GONE, None)
            .why
            .reason()
    };
    assert_eq!(reason(""), "ForeignKey");
    assert_eq!(reason("u"), "HolderUnknown");
    let facts = Facts {
        sighting: GONE,
        workload: None,
        unreadable: true,
        node: None,
    };
    let account = Account::of(&ledger(record("", Never, "")), IP.parse().unwrap(), &facts);
    assert_eq!(account.why.reason(), "UnreadableRecord");
}

#[test]
fn an_address_outside_of_the_configuration_is_told_to_be_so() {
    let mut record = record(SET, Never, "u");
    record.ip = "192.0.2.1".parse().unwrap();
    let account = account(record, HERE, Some(&set(2)));
    assert_eq!(
        account.sentences(),
        [
            "It is held by pod ns1/a-1.",
            "So since 2026-01-02T03:04:05Z.",
            "It is in no range of the configuration any more, so nobody else can get it.",
            "What would release it: the end of its pod: it is in no range of the configuration any more.",
        ]
    );
}

#[test]
fn only_what_nobody_runs_with_is_releasable() {
    let table = [
        (SET, "u", false, HERE, false),
        (SET, "u", false, OVER, true),
        (SET, "u", false, GONE, true),
        (SET, "old", false, HERE, true),
        (SET, "", true, HERE, false),
        (SET, "u", false, Sighting::Unreadable, false),
        ("pool__p_", "", true, Sighting::Unreadable, true),
        ("what", "", true, GONE, true),
        ("what", "u", false, GONE, false),
    ];
    for (key, uid, is_idle, sighting, wanted) in table {
        let got = is_releasable(&key.into(), uid, is_idle, sighting);
        assert_eq!(got, wanted, "{key} {uid:?} {sighting:?}");
    }
}

#[test]
fn nodes_are_told_by_reason() {
    let elsewhere = |last| NodeRefusal::NotConfigured {
        address: IpAddr::from([10, 9, 9, last]),
    };
    let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
    let sorted = Sorted {
        fit: names.iter().map(String::as_str).collect(),
        unfit: vec![
            ("x", NodeRefusal::NoAddressLeft),
            ("y", elsewhere(1)),
            ("z", elsewhere(2)),
        ],
        promise: None,
    };
    let nodes = Nodes::of(&sorted);
    assert_eq!(nodes.fit, 20);
    assert_eq!(nodes.fitting, names[..nodes::NAMED]);
    assert_eq!(
        nodes.unfit,
        [(elsewhere(1), 2), (NodeRefusal::NoAddressLeft, 1)]
    );
}

#[test]
fn a_shared_address_goes_with_its_object() {
    let text = fixture::T.replace(
        r#""ips": ["10.0.70.2~10.0.70.20"]"#,
        r#""ips": ["10.0.70.3~10.0.70.20"], "shared": ["10.0.70.2", "10.0.70.30"]"#,
    );
    let mut ledger = Ledger::new(fixture::config(&text));
    ledger.observe(record("vip__shop_web_", Never, ""));
    let facts = Facts {
        sighting: GONE,
        workload: None,
        unreadable: false,
        node: None,
    };
    let account = |ledger: &Ledger, ip: &str| Account::of(ledger, ip.parse().unwrap(), &facts);
    let held = account(&ledger, IP);
    assert_eq!(held.why.reason(), "Shared");
    assert_eq!(
        held.sentences(),
        [
            "It is shared: VirtualIP shop/web has it for its pods.",
            "So since 2026-01-02T03:04:05Z.",
            "What would release it: the end of its VirtualIP, or that this asks for other addresses.",
        ]
    );
    let free = account(&ledger, "10.0.70.30");
    assert_eq!(free.why.reason(), "SharedFree");
    assert_eq!(free.end, None);
    assert!(!is_releasable(&"vip__shop_web_".into(), "", true, GONE));
    // Where it is not set aside any more, that is told.
    ledger.reconfigure(fixture::t());
    assert_eq!(account(&ledger, IP).sentences().len(), 4);
    assert_eq!(account(&ledger, IP).why.reason(), "Shared");
}
