use super::*;
use crate::fixture::{pool, record};

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn listed() -> Value {
    let mut first = record("10.0.70.9", "sts_db_pg_pg-0", "n1");
    first["metadata"]["uid"] = json!("u");
    first["metadata"]["resourceVersion"] = json!("7");
    first["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    first["metadata"]["managedFields"] = json!([{ "manager": "floe" }]);
    first["metadata"]["annotations"] = json!({ LAST_APPLIED: "{}", "floe.dev/node": "n1" });
    let mut blue = pool("blue", 4, true);
    blue["metadata"]["namespace"] = json!("kube-system");
    let records = vec![record("10.0.70.10", "dp_web_shop_", ""), first];
    let records = records.into_iter().map(object).collect();
    list(records, vec![object(blue)])
}

#[test]
fn a_backup_has_what_was_stored_in_a_fixed_order() {
    let list = listed();
    let names = list["items"].as_array().unwrap().iter();
    let names: Vec<_> = names
        .map(|it| it["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["10.0.70.9", "10.0.70.10", "blue"]);
    assert_eq!(
        list["items"][0]["metadata"],
        json!({ "name": "10.0.70.9", "annotations": { "floe.dev/node": "n1" } })
    );
    assert_eq!(list["items"][2]["size"], 4);
    assert_eq!(list["items"][2]["metadata"]["namespace"], "kube-system");
}

#[test]
fn what_is_written_can_be_read_in_both_formats() {
    let list = listed();
    let yaml = crate::render::yaml::text(&list).unwrap();
    let wanted = serde_json::to_value(read(&list.to_string()).unwrap()).unwrap();
    assert_eq!(wanted, list["items"]);
    let read = serde_json::to_value(read(&yaml).unwrap()).unwrap();
    assert_eq!(read, list["items"]);
}

#[test]
fn records_come_first_whatever_the_order() {
    let mut list = listed();
    list["items"].as_array_mut().unwrap().reverse();
    let objects = read(&list.to_string()).unwrap();
    assert!(is_record(&objects[0]) && is_record(&objects[1]) && !is_record(&objects[2]));
}

#[test]
fn what_is_no_backup_is_refused_before_anything_is_done() {
    let with = |change: fn(&mut Value)| {
        let mut list = listed();
        change(&mut list);
        read(&list.to_string()).unwrap_err().to_string()
    };
    assert!(
        read("{")
            .unwrap_err()
            .to_string()
            .starts_with("it cannot be read: ")
    );
    assert!(
        read("- a")
            .unwrap_err()
            .to_string()
            .starts_with("it is no List")
    );
    let told = with(|it| it["items"][0]["kind"] = json!("Secret"));
    assert!(told.starts_with("item 1 is a \"Secret\""), "{told}");
    let told = with(|it| it["items"][0]["apiVersion"] = json!("v1"));
    assert!(
        told.starts_with("item 1 is a \"FloatingIP\", and no"),
        "{told}"
    );
    let told = with(|it| it["items"][1]["metadata"]["name"] = Value::Null);
    assert_eq!(told, "item 2, \"\": it has no name");
    let told = with(|it| it["items"][1]["metadata"]["name"] = json!("10.0.70.9"));
    assert_eq!(told, "item 2, \"10.0.70.9\": it is there twice");
    let told = with(|it| it["items"][2]["metadata"]["namespace"] = Value::Null);
    assert!(told.contains("a Pool needs"), "{told}");
    let told = with(|it| it["kind"] = Value::Null);
    assert!(told.starts_with("it is no List"), "{told}");
}

#[test]
fn what_counts_is_who_holds_what() {
    let one = object(record("10.0.70.9", "sts_db_pg_pg-0", "n1"));
    let same = |change: fn(&mut Value)| {
        let mut other = record("10.0.70.9", "sts_db_pg_pg-0", "n1");
        change(&mut other);
        says_the_same(&one, &object(other))
    };
    assert!(same(
        |it| it["spec"]["updateTime"] = json!("2026-02-02T00:00:00Z")
    ));
    assert!(same(|it| it["metadata"]["labels"] = json!({ "x": "y" })));
    assert!(!same(
        |it| it["metadata"]["labels"] = json!({ "reserved": "" })
    ));
    assert!(!same(|it| it["spec"]["key"] = json!("sts_db_pg_pg-1")));
    assert!(!same(|it| it["spec"]["policy"] = json!(0)));
    assert!(!same(|it| it["spec"]["attribute"] = json!("{}")));
    let pools = [pool("p", 1, true), pool("p", 2, true), pool("p", 1, false)].map(object);
    assert!(says_the_same(&pools[0], &pools[0].clone()));
    assert!(!says_the_same(&pools[0], &pools[1]));
    assert!(!says_the_same(&pools[0], &pools[2]));
}

#[test]
fn a_file_that_was_cut_off_is_no_backup() {
    let yaml = crate::render::yaml::text(&listed()).unwrap();
    let lines: Vec<_> = yaml.lines().collect();
    for count in 0..lines.len() {
        let part = lines[..count].join("\n");
        assert!(read(&part).is_err(), "{count} lines of\n{yaml}");
    }
    read(&lines.join("\n")).unwrap();
}

#[test]
fn what_is_not_understood_is_told_apart() {
    let understood = |change: fn(&mut Value)| {
        let mut record = record("10.0.70.9", "sts_db_pg_pg-0", "n1");
        change(&mut record);
        is_understood(&object(record))
    };
    assert!(understood(|_| ()));
    assert!(!understood(|it| it["metadata"]["name"] = json!("x")));
    assert!(!understood(|it| it["spec"]["policy"] = json!("two")));
    assert!(is_understood(&object(pool("p", 1, true))));
    let mut strange = pool("p", 1, true);
    strange["size"] = json!("many");
    assert!(!is_understood(&object(strange)));
}

#[test]
fn the_backup_of_a_large_cluster_can_be_read() {
    let records = (0..12_000_u32).map(|number| {
        let [.., high, low] = number.to_be_bytes();
        object(record(&format!("10.0.{high}.{low}"), "dp_web_shop_", "n1"))
    });
    let yaml = crate::render::yaml::text(&list(records.collect(), Vec::new())).unwrap();
    assert_eq!(read(&yaml).unwrap().len(), 12_000);
}
