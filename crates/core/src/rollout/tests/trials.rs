//! What a waiting pod could do with what others hold, in real books.

use std::net::IpAddr;

use crate::{
    config::{AddressConfig, Mode},
    ipam::{
        choice::Wish,
        families::Family,
        key::HolderKey,
        ledger::{Ledger, Record},
        owner::{App, AppKind},
        policy::ReleasePolicy,
        workload::{Scale, State, Workload},
    },
    rollout::trial::{lacks_address, would_serve},
    schedule::{claimant::Claimant, filter::Offer, limit::Limit},
};

const CONFIG: &str = r#"[
    {"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.4"],
     "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"},
    {"nodeSubnets": ["10.0.2.0/24"], "ips": ["10.0.80.2~10.0.80.3"],
     "subnet": "10.0.80.0/24", "gateway": "10.0.80.1"}
]"#;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn books(held: &[(&str, &str)]) -> Ledger {
    let mut ledger = Ledger::new(AddressConfig::parse(CONFIG, Mode::Strict).unwrap().config);
    for (address, pod) in held {
        ledger.observe(Record {
            ip: ip(address),
            key: HolderKey::from(format!("dp_ns_web_{pod}").as_str()),
            policy: ReleasePolicy::Immutable,
            node: "n1".into(),
            uid: format!("uid-{pod}"),
            updated: jiff::Timestamp::UNIX_EPOCH,
            reserved: false,
            workload_note: None,
        });
    }
    ledger
}

fn claimant(replicas: u32, wish: Wish) -> Claimant {
    let workload = Workload {
        app: App {
            kind: AppKind::Deployment,
            namespace: "ns".into(),
            name: "web".into(),
        },
        scale: Scale::Yes,
        state: State::Exists {
            replicas: Some(replicas),
            first_ordinal: 0,
        },
    };
    let policy = ReleasePolicy::Immutable;
    let mut claimant =
        Claimant::new(&workload, None, "new", "uid-new", policy, vec![wish]).unwrap();
    claimant.limits = Limit::list("ns", "web", replicas, 1, None);
    claimant
}

const FIRST: Offer<'static> = Offer {
    node: "n1",
    address: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 1))),
};
const SECOND: Offer<'static> = Offer {
    node: "n2",
    address: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 2, 1))),
};

#[test]
fn a_pod_at_the_limit_lacks_an_address_and_one_below_it_does_not() {
    let ledger = books(&[("10.0.70.2", "a"), ("10.0.70.3", "b")]);
    let any = Wish::Any(Family::V4);
    assert!(lacks_address(&ledger, &claimant(2, any.clone()), &[FIRST]));
    assert!(!lacks_address(&ledger, &claimant(3, any.clone()), &[FIRST]));
    let full = books(&[("10.0.70.2", "a"), ("10.0.70.3", "b"), ("10.0.70.4", "c")]);
    assert!(lacks_address(&full, &claimant(4, any.clone()), &[FIRST]));
    assert!(!lacks_address(
        &full,
        &claimant(4, any.clone()),
        &[FIRST, SECOND]
    ));
    // Whoever keeps nothing competes with everybody: nothing is handed over to it.
    let mut loose = claimant(2, any);
    loose.shares_spares = false;
    assert!(!lacks_address(&ledger, &loose, &[FIRST]));
}

#[test]
fn an_address_serves_where_range_and_nodes_allow_it() {
    let mut ledger = books(&[("10.0.70.2", "a"), ("10.0.80.2", "b")]);
    let any = claimant(2, Wish::Any(Family::V4));
    let before = ledger.clone();
    let mut serves = |claimant: &Claimant, address: &str, offers: &[Offer<'_>]| {
        would_serve(&mut ledger, claimant, &[ip(address)], offers)
    };
    assert!(serves(&any, "10.0.70.2", &[FIRST]));
    assert!(!serves(&any, "10.0.80.2", &[FIRST]), "n1 cannot carry it");
    assert!(serves(&any, "10.0.80.2", &[SECOND]));
    let picky = claimant(2, Wish::OutOf(vec!["10.0.70.2".parse().unwrap()]));
    assert!(serves(&picky, "10.0.70.2", &[FIRST, SECOND]));
    assert!(!serves(&picky, "10.0.80.2", &[FIRST, SECOND]));
    let records = |ledger: &Ledger| ledger.records().cloned().collect::<Vec<_>>();
    assert_eq!(records(&ledger), records(&before), "nothing has changed");
}

#[test]
fn where_two_too_many_are_held_one_less_is_not_enough() {
    let mut ledger = books(&[("10.0.70.2", "a"), ("10.0.70.3", "b"), ("10.0.70.4", "c")]);
    let any = claimant(2, Wish::Any(Family::V4));
    assert!(!would_serve(
        &mut ledger,
        &any,
        &[ip("10.0.70.2")],
        &[FIRST]
    ));
    let two = [ip("10.0.70.2"), ip("10.0.70.3")];
    assert!(would_serve(&mut ledger, &any, &two, &[FIRST]));
}
