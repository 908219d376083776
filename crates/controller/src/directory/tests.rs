use floe_api::galaxy::FloatingIP;
use floe_core::{
    catalogue::{Filter, Sort},
    config::Mode,
};
use kube::Resource as _;
use serde_json::json;

use super::*;
use crate::store::Seen;

/// More changes than the books note one by one.
const MANY: u32 = 17_000;

fn config(ips: &str) -> AddressConfig {
    let text = json!([{
        "nodeSubnets": ["10.0.0.0/16"], "ips": [ips], "subnet": "10.0.0.0/8", "gateway": "10.0.0.1",
    }]);
    let loaded = AddressConfig::parse(&text.to_string(), Mode::Strict);
    loaded.unwrap().config
}

fn seen(ip: &str, version: u64, key: &str, node: &str) -> Seen<FloatingIP> {
    let attribute = json!({ "NodeName": node, "Uid": "" }).to_string();
    let object = json!({
        "metadata": { "name": ip, "uid": format!("u-{ip}"), "resourceVersion": version.to_string() },
        "spec": { "key": key, "attribute": attribute, "policy": 2, "updateTime": "2024-01-02T03:04:05Z" },
    });
    serde_json::from_value(object).unwrap()
}

fn record(store: &Store, ip: &str, version: u64, key: &str, node: &str) {
    store.change(|books| books.record(&seen(ip, version, key, node)));
}

/// Addresses of the list with their keys, if they have some.
fn list(directory: &Directory) -> Vec<String> {
    let page = directory.page(&Query {
        limit: 100,
        ..Query::default()
    });
    let text = |item: &Item| match item {
        Item::Held(row) => format!("{} {} {}", row.ip, row.key, row.node),
        Item::Free(ip) => ip.to_string(),
    };
    page.items.iter().map(text).collect()
}

fn address(number: u32) -> String {
    std::net::Ipv4Addr::from_bits(0x0a01_0000 + number).to_string()
}

fn many(store: &Store, key: &str, version: u64) {
    for number in 0..MANY {
        record(
            store,
            &address(number),
            version + u64::from(number),
            key,
            "n",
        );
    }
}

fn with_key(directory: &Directory, key: &str) -> u64 {
    let filter = Filter {
        keyword: Some(key.into()),
        ..Filter::default()
    };
    let query = Query {
        filter,
        sort: Sort::Pod,
        limit: 1,
        ..Query::default()
    };
    directory.page(&query).total
}

#[test]
fn a_list_has_what_was_written_before() {
    let store = Store::default();
    let directory = Directory::new(store.clone());
    assert_eq!(list(&directory), [""; 0]);
    store.change(|books| books.configure(config("10.0.0.2~10.0.0.3")));
    assert_eq!(list(&directory), ["10.0.0.2", "10.0.0.3"]);
    record(&store, "10.0.0.3", 1, "a", "n1");
    assert_eq!(list(&directory.clone()), ["10.0.0.2", "10.0.0.3 a n1"]);
    record(&store, "10.0.0.3", 2, "b", "n1");
    record(&store, "10.0.0.9", 3, "c", "n1");
    let wanted = ["10.0.0.2", "10.0.0.3 b n1", "10.0.0.9 c n1"];
    assert_eq!(list(&directory), wanted);
    record(&store, "10.0.0.3", 4, "b", "n2");
    let got = directory.get("10.0.0.3".parse().unwrap());
    let Some(Item::Held(row)) = got else {
        panic!("{got:?}");
    };
    assert_eq!(&*row.node, "n2", "also what is no news for others");
    store.change(|books| books.record_deleted(seen("10.0.0.3", 4, "b", "n2").meta()));
    store.change(|books| books.record_gone(seen("10.0.0.9", 5, "c", "n1").meta()));
    assert_eq!(list(&directory), ["10.0.0.2", "10.0.0.3"]);
}

#[test]
fn another_configuration_is_in_force_at_once() {
    let store = Store::default();
    let directory = Directory::new(store.clone());
    store.change(|books| books.configure(config("10.0.0.2~10.0.0.3")));
    record(&store, "10.0.0.3", 1, "a", "n");
    assert_eq!(list(&directory), ["10.0.0.2", "10.0.0.3 a n"]);
    store.change(|books| books.configure(config("10.0.0.5")));
    assert_eq!(list(&directory), ["10.0.0.3 a n", "10.0.0.5"]);
    assert_eq!(directory.get("10.0.0.2".parse().unwrap()), None);
}

#[test]
fn a_new_list_of_records_is_the_list() {
    let store = Store::default();
    let directory = Directory::new(store.clone());
    for ip in ["10.0.0.3", "10.0.0.4"] {
        record(&store, ip, 1, "a", "n");
    }
    assert_eq!(list(&directory).len(), 2);
    store.change(|books| {
        books.begin_records();
        books.record(&seen("10.0.0.4", 1, "a", "n"));
        books.record(&seen("10.0.0.5", 7, "b", "n"));
        books.end_records();
    });
    assert_eq!(list(&directory), ["10.0.0.4 a n", "10.0.0.5 b n"]);
}

#[test]
fn more_changes_than_are_noted_are_in_the_list_too() {
    let store = Store::default();
    let directory = Directory::new(store.clone());
    many(&store, "first", 1);
    assert_eq!(with_key(&directory, "first"), u64::from(MANY));
    many(&store, "second", 100_000);
    assert_eq!(with_key(&directory, "second"), u64::from(MANY));
    assert_eq!(with_key(&directory, "first"), 0);
}

#[test]
fn whoever_looks_after_a_write_sees_it_whoever_else_looks() {
    let store = Store::default();
    let directory = Directory::new(store.clone());
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (store, directory) = (&store, &directory);
            scope.spawn(move || {
                for number in 0..300 {
                    let ip = address(thread * 1_000 + number);
                    let version = u64::from(thread * 1_000 + number + 1);
                    record(store, &ip, version, "key", "n");
                    let got = directory.get(ip.parse().unwrap());
                    assert!(matches!(got, Some(Item::Held(_))), "{ip} {got:?}");
                }
            });
        }
    });
    assert_eq!(with_key(&directory, "key"), 1_200);
}
