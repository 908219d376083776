use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use super::*;

fn document() -> Value {
    serde_json::from_str(&json()).unwrap()
}

#[test]
fn the_committed_text_is_the_generated_one() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("FLOE_BLESS").is_some_and(|value| value == "1") {
        fs::write(&file, json()).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == json(),
        "docs/openapi.json is not what crates/controller generates; \
         `FLOE_BLESS=1 cargo test -p floe-controller openapi` writes it anew"
    );
}

#[test]
fn it_is_openapi_3_1_with_a_token_for_everything() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["security"], serde_json::json!([{ "bearer": [] }]));
    let scheme = &document["components"]["securitySchemes"]["bearer"];
    assert_eq!(
        (&scheme["type"], &scheme["scheme"]),
        (&"http".into(), &"bearer".into())
    );
}

#[test]
fn all_operations_are_told_once_with_all_that_can_happen() {
    let document = document();
    let mut told = Vec::new();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            told.push(format!("{method} {path}"));
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is there twice");
            let tag = operation["tags"][0].as_str().unwrap();
            let tags = document["tags"].as_array().unwrap();
            assert!(tags.iter().any(|it| it["name"] == tag), "{tag}");
            let responses = operation["responses"].as_object().unwrap();
            for status in [
                "400", "401", "403", "404", "408", "413", "415", "500", "503",
            ] {
                let content = &responses[status]["content"];
                if path.starts_with("/v1/") && status == "415" {
                    let schema = &content["text/plain"]["schema"];
                    assert_eq!(schema["type"], "string", "{method} {path} {status}");
                    continue;
                }
                let schema = &content["application/json"]["schema"];
                let wanted = if path.starts_with("/v1/") {
                    "#/components/schemas/v1.Answer"
                } else {
                    "#/components/schemas/Problem"
                };
                assert_eq!(schema["$ref"], wanted, "{method} {path} {status}");
            }
            assert!(
                operation["description"]
                    .as_str()
                    .unwrap()
                    .contains("Right: ")
            );
        }
    }
    assert_eq!(
        told,
        [
            "get /v1/ip",
            "post /v1/ip",
            "post /v1/pool",
            "delete /v1/pool/{name}",
            "get /v1/pool/{name}",
            "get /v2/explain",
            "get /v2/holders",
            "get /v2/ips",
            "post /v2/ips/release",
            "post /v2/ips/reserve",
            "post /v2/ips/unreserve",
            "get /v2/ips/{ip}",
            "get /v2/pools",
            "delete /v2/pools/{namespace}/{name}",
            "get /v2/pools/{namespace}/{name}",
            "put /v2/pools/{namespace}/{name}",
            "get /v2/subnets",
            "get /v2/vips",
            "get /v2/vips/{namespace}/{name}",
            "get /v2/watch",
        ]
    );
}

#[test]
fn every_reference_leads_somewhere() {
    fn look(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if let ("$ref", Value::String(target)) = (name.as_str(), member) {
                        found.insert(target.clone());
                    }
                    look(member, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| look(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    let mut references = BTreeSet::new();
    look(&document, &mut references);
    assert!(references.len() > 20, "{references:?}");
    for reference in references {
        let path = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(path).is_some(), "{reference}");
    }
}

#[test]
fn texts_have_nothing_that_the_page_cannot_show() {
    fn look(place: &str, value: &Value, told: &mut usize) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    look(&format!("{place}/{name}"), member, told);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| look(place, item, told)),
            Value::String(text) if place.ends_with("/description") => {
                // Paragraphs and `code`, and no other Markdown.
                assert!(text.matches('`').count() % 2 == 0, "{place}: {text}");
                assert!(
                    !text.contains("[`") && !text.contains("]("),
                    "{place}: {text}"
                );
                *told += 1;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut told = 0;
    look("", &document(), &mut told);
    assert!(told > 100, "{told} texts");
}
