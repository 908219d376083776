//! Shared addresses are left alone by everything that is for pods.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::ipam::{
    adopt::{self, Finding, Oddity, Runner},
    key::PoolName,
    overuse::Overuse,
    owner::{App, AppKind, GroupKind},
    preallocate::{self, Declared, Order},
    reclaim::{self, Left},
    releasable::{Judgement, Presence},
    slot::Departure,
    suspect::{Cached, suspicion},
    workload::{Scale, State, Workload},
};

const VIP: &str = "vip__ns1_web_";

/// Addresses 2 to 9 of a network: some for pods, some to be shared.
fn config(pods: &str, shared: &str) -> AddressConfig {
    fixture::config(&format!(
        r#"[{{"nodeSubnets": ["10.0.1.0/24"], "subnet": "10.0.70.0/24", "gateway": "10.0.70.1",
              "ips": [{pods}], "shared": [{shared}]}}]"#
    ))
}

fn configs() -> [AddressConfig; 4] {
    [
        config(r#""10.0.70.2~10.0.70.5""#, r#""10.0.70.6~10.0.70.9""#),
        config(r#""10.0.70.2~10.0.70.9""#, ""),
        config(r#""10.0.70.6~10.0.70.9""#, r#""10.0.70.2~10.0.70.5""#),
        config("", r#""10.0.70.2~10.0.70.9""#),
    ]
}

fn address(number: u8) -> IpAddr {
    [10, 0, 70, 2 + number % 8].into()
}

/// Workloads that bear the name of the object.
fn namesakes() -> impl Iterator<Item = Workload> {
    let custom = AppKind::Custom(GroupKind {
        group: "floe.dev".into(),
        kind: "Vip".into(),
    });
    let kinds = [custom, AppKind::Deployment, AppKind::StatefulSet];
    kinds.into_iter().map(|kind| Workload {
        app: App {
            kind,
            namespace: "ns1".into(),
            name: "web".into(),
        },
        scale: Scale::Yes,
        state: State::Exists {
            replicas: Some(0),
            first_ordinal: 0,
        },
    })
}

/// What pods could be given: free addresses and spares.
fn offered(ledger: &Ledger) -> Vec<IpAddr> {
    let all: IpRange = "10.0.70.0~10.0.70.255".parse().unwrap();
    let mut offered = Vec::new();
    for (id, _) in ledger.topology().config().enumerate() {
        offered.extend(ledger.free_in_turn(id));
        offered.extend(ledger.free_within(id, all));
        for group in ledger.groups.values() {
            offered.extend(group.spares_of(id).map(|(_, ip)| ip));
        }
    }
    offered
}

#[derive(Clone, Debug)]
enum Op {
    /// A shared address gets its record.
    Share(u8),
    /// A pod asks for any address.
    Pod(u8),
    /// A pool takes one ahead.
    Ahead,
    /// A record is deleted.
    Forget(u8),
    Configure(usize),
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..8u8).prop_map(Op::Share),
        3 => (0..8u8).prop_map(Op::Pod),
        1 => Just(Op::Ahead),
        2 => (0..8u8).prop_map(Op::Forget),
        2 => (0..4usize).prop_map(Op::Configure),
    ]
}

proptest! {
    #[test]
    fn no_pod_is_ever_offered_a_shared_address(ops in prop::collection::vec(ops(), 0..60)) {
        let mut ledger = Ledger::new(configs()[0].clone());
        let pool = PoolName::from_annotation(Some("blue")).unwrap().unwrap();
        let ahead = [Declared { namespace: None, size: 3, ahead: true }];
        for op in ops {
            match op {
                // The API server has one record of each address.
                Op::Share(number) if ledger.record(address(number)).is_none() => {
                    ledger.observe(record(&address(number).to_string(), VIP));
                }
                Op::Share(_) => {}
                Op::Pod(number) => {
                    let before: Vec<Record> = ledger.records().cloned().collect();
                    let key = format!("dp_ns1_web_web-{number}");
                    if let Some(given) = allocate(&mut ledger, "10.0.1.0/24", &key) {
                        prop_assert!(before.iter().all(|record| record.ip != given));
                    }
                }
                Op::Ahead => {
                    if let Order::Take(ip) = preallocate::next(&ledger, &pool, &ahead) {
                        prop_assert!(ledger.record(ip).is_none());
                        ledger.observe(record(&ip.to_string(), "pool__blue_"));
                    }
                }
                Op::Forget(number) => {
                    ledger.forget(address(number));
                }
                Op::Configure(number) => ledger.reconfigure(configs()[number].clone()),
            }
            for ip in offered(&ledger) {
                let shared = ledger.record(ip).is_some_and(|record| record.key.is_vip());
                prop_assert!(!shared, "{} is held", ip);
                prop_assert!(ledger.topology().shared_of(ip).is_none(), "{} is set aside", ip);
            }
        }
    }
}

#[test]
fn nothing_that_is_for_pods_touches_the_record_of_a_shared_address() {
    for config in configs() {
        let mut ledger = Ledger::new(config);
        let record = record("10.0.70.7", VIP);
        ledger.observe(record.clone());
        let gone = Cached {
            uid: "u",
            finished: true,
        };
        assert_eq!(suspicion(&record, None), None);
        assert_eq!(suspicion(&record, Some(gone)), None);
        assert!(!reclaim::asks_the_workload(&ledger, &record));
        for workload in namesakes() {
            let left = Left {
                record: &record,
                departure: Departure::Deleted,
                workload: &workload,
            };
            assert_eq!(reclaim::settle(&ledger, &[left]), []);
            assert!(reclaim::leftovers(&ledger, &workload).is_empty());
            assert_eq!(Overuse::of_workload(&ledger, &workload), None);
            let group = workload.app.holder(None, "").key().unwrap();
            assert_eq!(ledger.under(&group).count(), 0);
            let standing = reclaim::standing(&ledger, &group, Family::V4);
            assert_eq!((standing.records, standing.per_pod), (0, NonZeroU32::MAX));
        }
        assert_eq!(Overuse::of_pool(&ledger, "vip", None, 0), None);
        assert!(ledger.groups.is_empty());
    }
}

#[test]
fn a_pod_that_shows_a_shared_address_does_not_get_its_record() {
    let key: HolderKey = "dp_ns1_web_web-1".into();
    let ips = [ip("10.0.70.7")];
    let pod = Runner {
        uid: "u",
        key: &key,
        galaxy_key: None,
        note: None,
        claimed: &ips,
        shown: &ips,
    };
    let mut ledger = Ledger::new(configs()[0].clone());
    // Without a record: it is not for pods.
    let not_configured = Oddity::NotConfigured { ip: ips[0] };
    assert_eq!(
        adopt::inspect(&ledger, &pod),
        [Finding::Odd(not_configured)]
    );
    ledger.observe(record("10.0.70.7", VIP));
    for config in configs() {
        ledger.reconfigure(config);
        let conflict = Oddity::Conflict {
            ip: ips[0],
            pod: key.clone(),
            holder: VIP.into(),
            node: String::new(),
        };
        assert_eq!(adopt::inspect(&ledger, &pod), [Finding::Odd(conflict)]);
    }
}

#[test]
fn galaxys_list_calls_no_shared_address_releasable() {
    let key = HolderKey::from(VIP);
    let parts = key.parts().unwrap_or_default();
    let judged = Judgement::of(false, &parts, |_, _| Presence::Missing);
    assert!(!judged.is_releasable());
}

#[test]
fn each_kind_of_holder_has_its_own_place_in_the_configuration() {
    let mut ledger = Ledger::new(configs()[0].clone());
    let (vip, pod): (HolderKey, HolderKey) = (VIP.into(), "dp_ns1_web_web-1".into());
    let outside = |ledger: &Ledger, key: &HolderKey| {
        [ip("10.0.70.2"), ip("10.0.70.7"), ip("10.0.70.77")]
            .map(|ip| ledger.is_outside_for(key, ip))
    };
    assert_eq!(outside(&ledger, &pod), [false, true, true]);
    assert_eq!(outside(&ledger, &vip), [true, false, true]);
    assert!(ledger.is_taken_out_for(&vip, ip("10.0.70.2")));
    ledger.reconfigure(AddressConfig::default());
    assert_eq!(outside(&ledger, &vip), [true; 3]);
    assert!(!ledger.is_taken_out_for(&vip, ip("10.0.70.2")));
}
