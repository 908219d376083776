use proptest::prelude::*;

use super::*;
use crate::{
    config::{AddressConfig, fixture},
    ipam::policy::ReleasePolicy,
};

fn record(ip: IpAddr, key: &str) -> Record {
    Record {
        ip,
        key: key.into(),
        policy: ReleasePolicy::Never,
        node: String::new(),
        uid: String::new(),
        updated: jiff::Timestamp::UNIX_EPOCH,
        reserved: false,
        workload_note: None,
    }
}

fn pool() -> PoolName {
    PoolName::new("p").unwrap()
}

fn everywhere(size: usize, ahead: bool) -> Declared {
    Declared {
        namespace: None,
        size,
        ahead,
    }
}

fn of(namespace: &str, size: usize, ahead: bool) -> Declared {
    Declared {
        namespace: Some(namespace.into()),
        size,
        ahead,
    }
}

/// Takes addresses until there is no more to do: those taken, and the last word.
fn fill(ledger: &mut Ledger, declared: &[Declared]) -> (Vec<IpAddr>, Order) {
    let mut taken = Vec::new();
    loop {
        match next(ledger, &pool(), declared) {
            Order::Take(ip) => {
                assert!(ledger.is_free(ip), "{ip}");
                ledger.observe(record(ip, "pool__p_"));
                taken.push(ip);
            }
            last @ (Order::Enough | Order::Short { .. }) => return (taken, last),
        }
    }
}

fn count(ledger: &mut Ledger, declared: &[Declared]) -> usize {
    fill(ledger, declared).0.len()
}

#[test]
fn spares_are_spread_over_the_entries() {
    let mut ledger = Ledger::new(fixture::t());
    let (taken, last) = fill(&mut ledger, &[everywhere(9, true)]);
    assert_eq!(last, Order::Enough);
    let entries: Vec<usize> = taken
        .iter()
        .map(|ip| ledger.topology().entry_of(*ip).unwrap().position())
        .collect();
    assert_eq!(entries[..7].iter().max(), Some(&6));
    let mut distinct = entries[..7].to_vec();
    distinct.sort_unstable();
    assert_eq!(distinct, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(entries[7..], entries[..2]);
}

#[test]
fn sizes_count_what_is_there() {
    let held = |ledger: &mut Ledger, ip: &str, key: &str| {
        let mut record = record(ip.parse().unwrap(), key);
        record.uid = "u".into();
        record.node = "n".into();
        ledger.observe(record);
    };
    let world = || {
        let mut ledger = Ledger::new(fixture::t());
        held(&mut ledger, "10.0.70.2", "pool__p_dp_ns1_a_a-1");
        held(&mut ledger, "10.0.70.3", "pool__p_dp_ns1_a_a-2");
        held(&mut ledger, "10.0.70.4", "pool__p_dp_ns2_a_a-1");
        held(&mut ledger, "10.0.70.5", "pool__other_dp_ns2_a_a-1");
        ledger.observe(record("10.0.70.6".parse().unwrap(), "pool__p_"));
        ledger
    };
    let table: [(&[Declared], usize); 11] = [
        (&[everywhere(6, true)], 2),
        (&[everywhere(6, false)], 0),
        (&[everywhere(3, true)], 0),
        (&[everywhere(0, true)], 0),
        (&[of("ns1", 5, true)], 2),
        (&[of("ns2", 5, true)], 3),
        (&[of("ns3", 5, true)], 4),
        (&[of("ns1", 5, true), of("ns2", 5, true)], 3),
        // The Pool for everybody bounds the others.
        (&[everywhere(5, false), of("ns3", 9, true)], 1),
        (&[everywhere(4, false), of("ns3", 9, true)], 0),
        (&[everywhere(6, true), of("ns3", 9, true)], 2),
    ];
    for (declared, wanted) in table {
        assert_eq!(count(&mut world(), declared), wanted, "{declared:?}");
    }
}

#[test]
fn what_cannot_be_handed_out_is_no_spare() {
    let mut ledger = Ledger::new(fixture::t());
    let mut reserved = record("10.0.70.2".parse().unwrap(), "pool__p_");
    reserved.reserved = true;
    ledger.observe(reserved);
    ledger.observe(record("10.99.0.1".parse().unwrap(), "pool__p_"));
    assert_eq!(count(&mut ledger, &[everywhere(2, true)]), 2);
}

#[test]
fn promises_count_once() {
    let promise = |addresses: &[&str]| Promise {
        group: "pool__p_".into(),
        namespace: "ns1".into(),
        app_prefix: "pool__p_dp_ns1_a_".into(),
        places: 1,
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        until: jiff::Timestamp::MAX,
    };
    let mut ledger = Ledger::new(fixture::t());
    ledger.promise("u1", promise(&["10.0.70.2"]));
    ledger.promise("u2", promise(&[]));
    assert_eq!(count(&mut ledger.clone(), &[everywhere(4, true)]), 2);
    // A promised spare is a record already.
    ledger.observe(record("10.0.70.3".parse().unwrap(), "pool__p_"));
    ledger.promise("u3", promise(&["10.0.70.3"]));
    assert_eq!(count(&mut ledger.clone(), &[everywhere(4, true)]), 1);
    assert_eq!(count(&mut ledger, &[of("ns2", 4, true)]), 3);
}

#[test]
fn a_shortage_says_how_much_is_missing() {
    let mut ledger = Ledger::new(fixture::t());
    let (taken, last) = fill(&mut ledger, &[everywhere(50, true)]);
    assert_eq!(taken.len(), 39);
    assert_eq!(last, Order::Short { missing: 11 });
    let mut nothing = Ledger::new(AddressConfig::default());
    let last = fill(&mut nothing, &[everywhere(1, true)]).1;
    assert_eq!(last, Order::Short { missing: 1 });
}

#[test]
fn ipv6_only_where_nothing_else_is_configured() {
    let v6 = r#"{"nodeSubnets":["10.0.0.0/16"],"ips":["fd00::2~fd00::3"],"subnet":"fd00::/64",
        "gateway":"fd00::1"}"#;
    let v4 = r#"{"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.2"],"subnet":"10.0.70.0/24",
        "gateway":"10.0.70.1"}"#;
    let mut only = Ledger::new(fixture::config(&format!("[{v6}]")));
    assert_eq!(count(&mut only, &[everywhere(2, true)]), 2);
    let mut both = Ledger::new(fixture::config(&format!("[{v6},{v4}]")));
    let (taken, last) = fill(&mut both, &[everywhere(2, true)]);
    assert_eq!(taken, ["10.0.70.2".parse::<IpAddr>().unwrap()]);
    assert_eq!(last, Order::Short { missing: 1 });
}

proptest! {
    #[test]
    fn never_above_the_size(
        held in prop::collection::vec((0..3u8, any::<bool>()), 0..20),
        size in 0..12usize,
        part in 0..12usize,
    ) {
        let mut ledger = Ledger::new(fixture::t());
        let all = fixture::t().addresses();
        for (number, (namespace, spare)) in held.iter().enumerate() {
            let key = if *spare {
                "pool__p_".to_owned()
            } else {
                format!("pool__p_dp_ns{namespace}_a_a-{number}")
            };
            ledger.observe(record(all.nth(number as u128).unwrap(), &key));
        }
        let before = ledger.under(&"pool__p_".into()).count();
        let declared = [everywhere(size, true), of("ns1", part, true)];
        fill(&mut ledger, &declared);
        let after = ledger.under(&"pool__p_".into()).count();
        prop_assert_eq!(after, before.max(size));
    }
}
