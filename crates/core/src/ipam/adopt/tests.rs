use super::*;
use crate::{config::fixture, ipam::policy::ReleasePolicy};

const IP: &str = "10.173.13.2";

struct Case {
    /// Key and `uid@node` of the record.
    record: Option<(&'static str, &'static str)>,
    note: Option<&'static str>,
    reserved: bool,
    shown: bool,
    promised: bool,
}

const CASE: Case = Case {
    record: None,
    note: None,
    reserved: false,
    shown: true,
    promised: false,
};

fn found(ip: &str, case: &Case) -> String {
    let address: IpAddr = ip.parse().unwrap();
    let mut ledger = Ledger::new(fixture::t());
    if let Some((key, place)) = case.record {
        let (uid, node) = place.split_once('@').unwrap();
        ledger.observe(Record {
            ip: address,
            key: key.into(),
            policy: ReleasePolicy::Immutable,
            node: node.into(),
            uid: uid.into(),
            updated: jiff::Timestamp::UNIX_EPOCH,
            reserved: case.reserved,
            workload_note: case.note.map(str::to_owned),
        });
    }
    if case.promised {
        ledger.promise(
            "other",
            crate::ipam::ledger::Promise {
                group: "dp_ns1_b_".into(),
                namespace: "ns1".into(),
                app_prefix: "dp_ns1_b_".into(),
                places: 1,
                addresses: [address].into(),
                until: jiff::Timestamp::MAX,
            },
        );
    }
    let pod = Runner {
        uid: "u",
        key: &"foo_ns1_a_a-0".into(),
        galaxy_key: Some(&"dp_ns1_a_a-0".into()),
        note: Some("Foo.test.org"),
        claimed: &[address],
        shown: if case.shown { &[address] } else { &[] },
    };
    match inspect(&ledger, &pod).as_slice() {
        [Finding::Sound(_)] => "sound".into(),
        [Finding::Adopt(_)] => "adopt".into(),
        [Finding::Complete(record)] => format!("complete {}", record.key),
        [Finding::Odd(oddity)] => oddity.reason().into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_running_pod_shows_against_the_records() {
    let own = "foo_ns1_a_a-0";
    let galaxys = "dp_ns1_a_a-0";
    let noted = Some("Foo.test.org");
    let with = |record| Case {
        record: Some(record),
        note: noted,
        ..CASE
    };
    assert_eq!(found(IP, &CASE), "adopt");
    let unseen = Case {
        shown: false,
        ..CASE
    };
    assert_eq!(found(IP, &unseen), "AddressNotShown");
    assert_eq!(found("10.99.0.1", &CASE), "AddressNotConfigured");
    let promised = Case {
        promised: true,
        ..CASE
    };
    assert_eq!(found(IP, &promised), "adopt");

    assert_eq!(found(IP, &with((own, "u@n"))), "sound");
    assert_eq!(found(IP, &with((own, "@"))), "complete foo_ns1_a_a-0");
    assert_eq!(found(IP, &with((own, "u@"))), "complete foo_ns1_a_a-0");
    assert_eq!(found(IP, &with((own, "@n"))), "complete foo_ns1_a_a-0");
    assert_eq!(found(IP, &with((own, "v@n"))), "AddressConflict");
    assert_eq!(found(IP, &with((galaxys, "u@n"))), "sound");
    assert_eq!(found(IP, &with((galaxys, "@"))), "complete dp_ns1_a_a-0");
    assert_eq!(found(IP, &with(("dp_ns1_b_b-0", "@"))), "AddressConflict");
    assert_eq!(found(IP, &with(("dp_ns1_a_", "@"))), "AddressConflict");

    let unnoted = Case {
        note: None,
        ..with((own, "u@n"))
    };
    assert_eq!(found(IP, &unnoted), "complete foo_ns1_a_a-0");
    let unnoted = Case {
        note: None,
        ..with((galaxys, "u@n"))
    };
    assert_eq!(found(IP, &unnoted), "sound");
    let unseen = Case {
        shown: false,
        ..with((own, "@"))
    };
    assert_eq!(found(IP, &unseen), "AddressNotShown");
    let reserved = Case {
        reserved: true,
        ..with((own, "@"))
    };
    assert_eq!(found(IP, &reserved), "sound");
}

#[test]
fn galaxys_words() {
    let conflict = Oddity::Conflict {
        ip: IP.parse().unwrap(),
        pod: "sts_ns1_a_a-0".into(),
        holder: "sts_ns1_b_b-0".into(),
        node: String::new(),
    };
    let words = "conflict ip 10.173.13.2 found for both sts_ns1_a_a-0 and sts_ns1_b_b-0";
    assert_eq!(conflict.to_string(), words);
    let Oddity::Conflict {
        ip, pod, holder, ..
    } = conflict
    else {
        unreachable!()
    };
    let known = Oddity::Conflict {
        ip,
        pod,
        holder,
        node: "n1".into(),
    };
    let place = ", which its record places on node n1";
    assert_eq!(known.to_string(), format!("{words}{place}"));
}
