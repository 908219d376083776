use floe_shell::mock::Server;
use serde_json::json;

use super::*;
use crate::{
    args::{HeldState, Selection},
    console::script,
    fixture::{self, RECORDS, record},
};

fn read(object: serde_json::Value) -> Record {
    Record::read(serde_json::from_value(object).unwrap()).unwrap()
}

#[test]
fn holders_are_told_in_short() {
    let table = [
        (
            "sts_db_pg_pg-0",
            "n1",
            State::Bound,
            "db/pg-0",
            "statefulset/pg",
        ),
        (
            "sts_db_pg_pg-0",
            "",
            State::Kept,
            "db/pg-0",
            "statefulset/pg",
        ),
        (
            "dp_web_shop_",
            "",
            State::Spare,
            "web/deployment/shop",
            "deployment/shop",
        ),
        ("pool__blue_", "", State::Spare, "pool/blue", ""),
        (
            "pool__blue_dp_web_shop_shop-1",
            "n1",
            State::Bound,
            "web/shop-1",
            "deployment/shop",
        ),
        ("NULL_web_job-1_job-1", "n1", State::Bound, "web/job-1", ""),
        ("vip__shop_web_", "", State::Shared, "shop/vip/web", ""),
        ("something", "", State::Foreign, "something", ""),
        ("", "", State::Foreign, "", ""),
    ];
    for (key, node, state, holder, workload) in table {
        let record = read(record("10.0.70.2", key, node));
        assert_eq!(record.state, state, "{key}");
        assert_eq!(record.holder(), holder, "{key}");
        assert_eq!(record.workload(), workload, "{key}");
    }
}

#[test]
fn a_reservation_is_held_by_its_purpose() {
    let mut object = record("10.0.70.5", "pool__reserved-for-node_", "");
    object["metadata"]["labels"] = json!({ "reserved": "yes" });
    let record = read(object);
    assert_eq!(record.state, State::Reserved);
    assert_eq!(record.holder(), "reserved-for-node");
}

#[test]
fn addresses_are_taken_in_any_spelling() {
    let six = "fd00-0070-0000-0000-0000-0000-0000-0005";
    for (typed, name) in [
        ("10.0.70.5", "10.0.70.5"),
        ("::ffff:10.0.70.5", "10.0.70.5"),
        ("fd00:70::5", six),
        (six, six),
    ] {
        assert_eq!(name_of(typed).unwrap(), name);
    }
    assert_eq!(name_of("10.0.70").unwrap_err().exit_code(), 2);
}

#[test]
fn filters_must_all_hold() {
    let shop = read(record("10.0.70.2", "pool__blue_dp_web_shop_shop-1", "n1"));
    let spare = read(record("10.0.70.3", "pool__blue_", ""));
    let admits =
        |selection: &Selection, record: &Record| Filter::of(selection, "web").admits(record);
    let all = Selection {
        all_namespaces: true,
        ..Selection::default()
    };
    assert!(admits(&Selection::default(), &shop));
    assert!(
        !admits(&Selection::default(), &spare),
        "spares of pools have no namespace"
    );
    assert!(admits(&all, &spare));
    assert!(!Filter::of(&Selection::default(), "db").admits(&shop));

    let with = |change: fn(&mut Selection)| {
        let mut selection = all.clone();
        change(&mut selection);
        (admits(&selection, &shop), admits(&selection, &spare))
    };
    assert_eq!(with(|it| it.pool = Some("blue".into())), (true, true));
    assert_eq!(with(|it| it.pool = Some("b".into())), (false, false));
    assert_eq!(with(|it| it.node = Some("n1".into())), (true, false));
    assert_eq!(
        with(|it| it.state = vec![HeldState::Spare, HeldState::Kept]),
        (false, true)
    );
    assert_eq!(with(|it| it.app = Some("shop".into())), (true, false));
    assert_eq!(
        with(|it| it.app = Some("deploy/shop".into())),
        (true, false)
    );
    assert_eq!(
        with(|it| it.app = Some("Deployment/shop".into())),
        (true, false)
    );
    assert_eq!(with(|it| it.app = Some("sts/shop".into())), (false, false));
    assert_eq!(
        with(|it| {
            it.app = Some("shop".into());
            it.node = Some("n2".into());
        }),
        (false, false)
    );
}

#[tokio::test]
async fn records_come_in_the_order_of_their_addresses_and_strange_ones_are_told() {
    let server = Server::default();
    for ip in [
        "10.0.70.10",
        "fd00-0070-0000-0000-0000-0000-0000-0005",
        "10.0.70.9",
        "not-an-address",
    ] {
        server.put(RECORDS, record(ip, "sts_db_pg_pg-0", ""));
    }
    let mut broken = record("10.0.70.1", "", "");
    broken["spec"]["policy"] = json!("two");
    server.put(RECORDS, broken);
    let (mut console, _, told) = script::console(None);
    let records = all(&fixture::cluster(&server), &mut console, None)
        .await
        .unwrap();
    let addresses: Vec<_> = records.iter().map(Record::address).collect();
    assert_eq!(
        addresses,
        ["10.0.70.9", "10.0.70.10", "fd00:70::5", "not-an-address"]
    );
    assert!(
        told.text()
            .starts_with("warning: record 10.0.70.1 cannot be read: "),
        "{}",
        told.text()
    );
}
