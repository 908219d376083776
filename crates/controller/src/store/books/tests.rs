use floe_core::{
    config::{Loaded, Mode},
    ipam::policy::ReleasePolicy,
};
use serde_json::{Value, json};

use super::*;

fn books() -> Books {
    Books::telling(broadcast::Sender::new(16))
}

fn config(text: &str) -> AddressConfig {
    let Loaded { config, problems } = AddressConfig::parse(text, Mode::Strict).unwrap();
    assert_eq!(problems, []);
    config
}

fn entry(ips: &str, gateway: &str) -> String {
    json!([{
        "nodeSubnets": ["10.0.0.0/16"], "ips": [ips], "subnet": "10.0.70.0/24", "gateway": gateway,
    }])
    .to_string()
}

fn seen<K: serde::de::DeserializeOwned>(object: &Value) -> Seen<K> {
    serde_json::from_value(object.clone()).unwrap()
}

fn fip(ip: &str, version: u64, key: &str) -> Value {
    json!({
        "metadata": { "name": ip, "uid": format!("u-{ip}"), "resourceVersion": version.to_string() },
        "spec": { "key": key, "attribute": r#"{"NodeName":"n1","Uid":"p1"}"#, "policy": 2,
                  "updateTime": "2024-01-02T03:04:05Z" },
    })
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn key_of(books: &Books, address: &str) -> Option<String> {
    let record = books.ledger().record(ip(address));
    record.map(|record| record.key.as_str().to_owned())
}

#[test]
fn a_record_says_who_holds_the_address() {
    let mut books = books();
    let mut object = fip("10.0.70.5", 7, "sts_ns_app_app-0");
    object["metadata"]["labels"] = json!({ "reserved": "" });
    object["metadata"]["annotations"] = json!({ "floe.dev/workload": "note" });
    books.record(&seen(&object));
    let record = books.ledger().record(ip("10.0.70.5")).unwrap();
    let want = Record {
        ip: ip("10.0.70.5"),
        key: "sts_ns_app_app-0".into(),
        policy: ReleasePolicy::Never,
        node: "n1".into(),
        uid: "p1".into(),
        updated: "2024-01-02T03:04:05Z".parse().unwrap(),
        reserved: true,
        workload_note: Some("note".into()),
    };
    assert_eq!(*record, want);
    assert!(books.strange().is_empty());
}

#[test]
fn an_own_write_is_not_undone_by_an_older_event() {
    let mut books = books();
    books.record(&seen(&fip("10.0.70.5", 7, "before")));
    books.record(&seen(&fip("10.0.70.5", 10, "ours")));
    books.record(&seen(&fip("10.0.70.5", 9, "late")));
    assert_eq!(key_of(&books, "10.0.70.5").unwrap(), "ours");

    let ours: Seen<FloatingIP> = seen(&fip("10.0.70.5", 10, "ours"));
    books.record_deleted(ours.meta());
    assert_eq!(key_of(&books, "10.0.70.5"), None);
    books.record(&ours);
    assert_eq!(key_of(&books, "10.0.70.5"), None, "the watch tells it late");
    assert_eq!(books.outside(), 0);
}

#[test]
fn a_look_that_found_nothing_does_not_undo_what_has_come_since() {
    let mut books = books();
    let before = books.version(ip("10.0.70.5"));
    books.record(&seen(&fip("10.0.70.5", 7, "new")));
    books.record_missing(ip("10.0.70.5"), before);
    assert_eq!(key_of(&books, "10.0.70.5").unwrap(), "new");
    books.record_missing(ip("10.0.70.5"), Some(6));
    assert_eq!(key_of(&books, "10.0.70.5").unwrap(), "new");
    books.record_missing(ip("10.0.70.5"), Some(7));
    assert_eq!(key_of(&books, "10.0.70.5"), None);
}

#[test]
fn a_pool_that_cannot_be_read_any_more_is_news() {
    let mut books = books();
    let mut news = books.news.subscribe();
    let mut pool = json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1" },
        "size": 3, "preAllocateIP": false,
    });
    books.pool(seen(&pool));
    assert_eq!(news.try_recv(), Ok(News::Pool("p".into())));
    pool["metadata"]["resourceVersion"] = json!("2");
    pool["size"] = json!("three");
    books.pool(seen(&pool));
    assert!(books.pools().is_empty());
    assert_eq!(news.try_recv(), Ok(News::Pool("p".into())));
}

#[test]
fn records_are_counted_per_entry_and_outside() {
    let mut books = books();
    for (version, address) in ["10.0.70.5", "10.0.70.6", "10.0.70.90"]
        .into_iter()
        .enumerate()
    {
        books.record(&seen(&fip(address, version as u64 + 1, "k")));
        books.record(&seen(&fip(address, version as u64 + 10, "k")));
    }
    assert_eq!((books.used(), books.outside()), (&[][..], 3));

    let change = books.configure(config(&entry("10.0.70.2~10.0.70.20", "10.0.70.1")));
    assert_eq!(change.added.len(), 19);
    assert_eq!((books.used(), books.outside()), (&[2][..], 1));

    // Taken out of the configuration: the record stays.
    let change = books.configure(config(&entry("10.0.70.6~10.0.70.20", "10.0.70.1")));
    assert_eq!(change.removed.len(), 4);
    assert_eq!((books.used(), books.outside()), (&[1][..], 2));
    assert_eq!(key_of(&books, "10.0.70.5").unwrap(), "k");

    let gone: Seen<FloatingIP> = seen(&fip("10.0.70.5", 20, "k"));
    books.record_gone(gone.meta());
    books.record_gone(gone.meta());
    assert_eq!((books.used(), books.outside()), (&[1][..], 1));
    let gone: Seen<FloatingIP> = seen(&fip("10.0.70.6", 21, "k"));
    books.record_gone(gone.meta());
    assert_eq!((books.used(), books.outside()), (&[0][..], 1));
    assert!(books.ledger().is_free(ip("10.0.70.6")));
}

#[test]
fn a_shared_address_is_outside_where_it_is_not_set_aside() {
    let mut books = books();
    let configured = json!([{
        "nodeSubnets": ["10.0.0.0/16"], "ips": ["10.0.70.2~10.0.70.9"],
        "shared": ["10.0.70.20~10.0.70.29"], "subnet": "10.0.70.0/24", "gateway": "10.0.70.1",
    }]);
    books.configure(config(&configured.to_string()));
    books.record(&seen(&fip("10.0.70.20", 1, "vip__shop_web_")));
    assert_eq!((books.used(), books.outside()), (&[0][..], 0));
    // It changes hands, which nobody of floe does.
    books.record(&seen(&fip("10.0.70.20", 2, "sts_ns_a_a-0")));
    assert_eq!((books.used(), books.outside()), (&[0][..], 1));
    books.record(&seen(&fip("10.0.70.20", 3, "vip__shop_web_")));
    books.record(&seen(&fip("10.0.70.5", 4, "vip__shop_web_")));
    books.record(&seen(&fip("10.0.70.40", 5, "vip__shop_web_")));
    assert_eq!((books.used(), books.outside()), (&[1][..], 1));
    let gone: Seen<FloatingIP> = seen(&fip("10.0.70.20", 6, "vip__shop_web_"));
    books.record_gone(gone.meta());
    assert_eq!((books.used(), books.outside()), (&[1][..], 1));
    assert!(!books.ledger().is_free(ip("10.0.70.20")), "no pod gets it");
}

#[test]
fn a_new_list_replaces_what_was_known() {
    let mut books = books();
    books.configure(config(&entry("10.0.70.2~10.0.70.20", "10.0.70.1")));
    books.record(&seen(&fip("10.0.70.5", 1, "stays")));
    books.record(&seen(&fip("10.0.70.6", 2, "lost")));
    books.record(&seen(&fip("no-address", 3, "lost")));
    books.record(&seen(&fip("nor-this", 3, "stays")));
    books.begin_records();
    books.record(&seen(&fip("10.0.70.5", 1, "stays")));
    books.record(&seen(&fip("nor-this", 3, "stays")));
    assert!(
        key_of(&books, "10.0.70.6").is_some(),
        "not before the list is complete"
    );
    books.end_records();
    assert_eq!(key_of(&books, "10.0.70.6"), None);
    assert_eq!(books.used(), [1]);
    assert_eq!(books.strange().keys().collect::<Vec<_>>(), ["nor-this"]);
}

#[test]
fn strange_records_cost_nothing_but_themselves() {
    let mut books = books();
    books.record(&seen(&fip("my-address", 1, "k")));
    assert_eq!(books.strange()["my-address"], "NameNotAnAddress");
    assert_eq!(books.ledger().records().count(), 0);

    let mut object = fip("10.0.70.5", 2, "k");
    object["spec"]["attribute"] = json!("{");
    books.record(&seen(&object));
    assert_eq!(books.strange()["10.0.70.5"], "MalformedAttribute");
    assert_eq!(key_of(&books, "10.0.70.5").unwrap(), "k");
    books.record(&seen(&fip("10.0.70.5", 3, "k")));
    assert!(!books.strange().contains_key("10.0.70.5"), "it was mended");

    let mut object = fip("10.0.70.6", 4, "k");
    object["spec"]["policy"] = json!("never");
    books.record(&seen(&object));
    assert_eq!(books.strange()["10.0.70.6"], "UnreadableRecord");
    let record = books.ledger().record(ip("10.0.70.6")).unwrap();
    assert!(record.reserved, "held, and nobody's to hand out");

    for (name, version) in [("my-address", 5), ("10.0.70.6", 6)] {
        let gone: Seen<FloatingIP> = seen(&fip(name, version, "k"));
        books.record_gone(gone.meta());
    }
    assert!(books.strange().is_empty());
}

#[test]
fn pools_come_change_and_go() {
    let pool = |namespace: &str, version: u64, size: Value| -> Seen<Pool> {
        seen(&json!({ "size": size, "metadata": {
            "name": "p", "namespace": namespace, "resourceVersion": version.to_string(),
        } }))
    };
    let sizes = |books: &Books| -> Vec<(String, u64)> {
        let pools = books.pools().iter();
        pools
            .map(|((namespace, _), pool)| (namespace.clone(), pool.limit()))
            .collect()
    };
    let mut books = books();
    books.pool(pool("a", 1, json!(3)));
    books.pool(pool("b", 2, json!(4)));
    books.pool(pool("a", 5, json!(6)));
    books.pool(pool("a", 4, json!(5)));
    assert_eq!(sizes(&books), [("a".into(), 6), ("b".into(), 4)]);
    books.pool(pool("b", 6, json!("many")));
    assert_eq!(sizes(&books), [("a".into(), 6)]);
    books.pool(pool("b", 7, json!(1)));
    books.pool_gone(pool("a", 8, json!(6)).meta());
    assert_eq!(sizes(&books), [("b".into(), 1)]);
    books.begin_pools();
    books.end_pools();
    assert_eq!(sizes(&books), []);
}

#[test]
fn a_read_that_finds_nothing_ends_only_what_is_not_newer() {
    let mut books = books();
    let address = ip("10.0.70.5");
    assert_eq!(books.version(address), None);
    books.record(&seen(&fip("10.0.70.5", 7, "k")));
    assert_eq!(books.version(address), Some(7));
    assert_eq!(books.version(ip("::ffff:10.0.70.5")), Some(7));
    books.record(&seen(&fip("10.0.70.5", 9, "newer")));
    books.record_missing(address, Some(7));
    assert_eq!(key_of(&books, "10.0.70.5").unwrap(), "newer");
    books.record_missing(address, Some(9));
    assert_eq!(key_of(&books, "10.0.70.5"), None);
    assert_eq!((books.version(address), books.outside()), (None, 0));
    books.record(&seen(&fip("10.0.70.5", 8, "late")));
    assert_eq!(key_of(&books, "10.0.70.5"), None, "the watch tells it late");
    books.record(&seen(&fip("10.0.70.5", 12, "again")));
    assert_eq!(key_of(&books, "10.0.70.5").unwrap(), "again");

    let mut object = fip("10.0.70.6", 1, "k");
    object["metadata"]["resourceVersion"] = json!("abc");
    books.record(&seen(&object));
    assert_eq!(books.version(ip("10.0.70.6")), None);
    books.record_missing(ip("10.0.70.6"), None);
    assert_eq!(key_of(&books, "10.0.70.6"), None);
}
