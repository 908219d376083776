use std::{borrow::Cow, collections::BTreeMap};

use proptest::prelude::*;
use serde_json::{json, value::RawValue};

use super::*;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Item {
    ip: String,
    app_name: String,
    policy: u16,
    tags: Vec<Tag>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
struct Tag {
    name: String,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    items: Vec<Item>,
    #[serde(default)]
    by_name: BTreeMap<String, Item>,
    #[serde(default)]
    choice: Option<Choice>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Choice {
    Plain,
    Named(Tag),
    Struct { name: String },
}

fn exact(text: &str) -> Result<Request, String> {
    decode(text.as_bytes(), Names::Exact).map_err(|error| error.to_string())
}

fn go<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    decode(text.as_bytes(), Names::Go).map_err(|error| error.to_string())
}

#[test]
fn an_array_is_no_object_at_any_depth() {
    let table = [
        ("[]", "expected an object, found an array"),
        (
            r#"[[{"ip":"10.0.0.1"}]]"#,
            "expected an object, found an array",
        ),
        (
            r#"{"items":[["10.0.0.1"]]}"#,
            "items[0]: expected an object, found an array",
        ),
        (
            r#"{"items":[{},{"tags":[{"name":"a"},["b"]]}]}"#,
            "items[1].tags[1]: expected an object, found an array",
        ),
        (
            r#"{"items":[],"by_name":{"a":["10.0.0.1"]}}"#,
            "by_name.a: expected an object, found an array",
        ),
        (
            r#"{"items":[],"by_name":[]}"#,
            "by_name: expected an object, found an array",
        ),
        (
            r#"{"items":[],"choice":{"named":["a"]}}"#,
            "choice: expected an object, found an array",
        ),
        (
            r#"{"items":[],"choice":{"struct":["a"]}}"#,
            "choice: expected an object, found an array",
        ),
    ];
    for (text, why) in table {
        assert_eq!(exact(text), Err(why.into()), "{text}");
        assert_eq!(go::<Request>(text), Err(why.into()), "{text}");
    }
}

#[test]
fn other_shapes_are_refused_in_words_of_json() {
    let table = [
        ("5", "expected an object, found the number 5"),
        ("null", "expected an object, found null"),
        (r#""x""#, r#"expected an object, found the string "x""#),
        ("{}", r#"the member "items" is missing"#),
        (
            r#"{"items":{}}"#,
            "items: expected an array, found an object",
        ),
        (r#"{"items":null}"#, "items: expected an array, found null"),
        (
            r#"{"items":[{"ip":5}]}"#,
            "items[0].ip: expected a string, found the number 5",
        ),
        (
            r#"{"items":[{"ip":true}]}"#,
            "items[0].ip: expected a string, found true",
        ),
        (
            r#"{"items":[{"policy":70000}]}"#,
            "items[0].policy: expected a whole number from 0 to 65535, found the number 70000",
        ),
        (
            r#"{"items":[],"choice":"other"}"#,
            r#"choice: "other" is not one of: plain, named, struct"#,
        ),
        (
            r#"{"items":[],"more":1}"#,
            r#"there is no member "more"; the members are: items, by_name, choice"#,
        ),
        (
            r#"{"items":[],"items":[]}"#,
            r#"the member "items" occurs more than once"#,
        ),
        ("", "the text is empty"),
        (" \n", "the text is empty"),
        ("nope", "syntax error in JSON at line 1 column 2"),
        (
            r#"{"items":["#,
            "the JSON text ends too early, at line 1 column 10",
        ),
        (
            r#"{"items":[]} more"#,
            "there is more text after the JSON value, at line 1 column 14",
        ),
    ];
    for (text, why) in table {
        assert_eq!(exact(text), Err(why.into()), "{text}");
    }
}

#[test]
fn names_match_as_they_do_for_go_if_that_is_asked_for() {
    let read = go::<Item>(r#"{"IP":"a","APPNAME":"b","Policy":2,"TAGS":[{"Name":"t"}],"x":1}"#);
    let item = Item {
        ip: "a".into(),
        app_name: "b".into(),
        policy: 2,
        tags: vec![Tag { name: "t".into() }],
    };
    assert_eq!(read, Ok(item));
    // The long s is another case of s.
    assert_eq!(
        go::<Item>(r#"{"tagſ":[{"name":"t"}]}"#).unwrap().tags.len(),
        1
    );
    let strict: Result<Item, JsonError> = decode(br#"{"IP":"a"}"#, Names::Exact);
    assert_eq!(strict, Ok(Item::default()), "there it is an unknown member");
}

#[test]
fn a_text_with_very_many_repeated_members_is_read_in_one_pass() {
    const MANY: usize = 100_000;
    // Looking through all earlier members for each one would take minutes.
    let text = format!(
        "{{{}{}\"ip\":\"last\"}}",
        r#""unknown":1,"#.repeat(MANY),
        r#""ip":"x","#.repeat(MANY)
    );
    assert_eq!(go::<Item>(&text).unwrap().ip, "last");
}

#[test]
fn the_last_of_several_members_counts_as_it_does_for_go() {
    let table = [
        (r#"{"ip":"a","ip":"b"}"#, "b"),
        (r#"{"ip":"a","IP":"b"}"#, "b"),
        (r#"{"IP":"a","ip":"b"}"#, "b"),
        (r#"{"ip":"a","ip":"b","policy":1,"Ip":"c"}"#, "c"),
    ];
    for (text, ip) in table {
        assert_eq!(go::<Item>(text).unwrap().ip, ip, "{text}");
    }
    // Also where it lies deeper, and what is wrong there is still said.
    let read = go::<Request>(r#"{"items":[{"ip":"a","ip":"b"}],"by_name":{"x":{"IP":"c"}}}"#);
    let read = read.unwrap();
    assert_eq!((&*read.items[0].ip, &*read.by_name["x"].ip), ("b", "c"));
    let read = go::<Request>(r#"{"items":[{"ip":"a","ip":"b"},["c"]]}"#);
    let why = "items[1]: expected an object, found an array";
    assert_eq!(read, Err(why.into()));
}

#[test]
fn null_is_an_object_without_members_for_go() {
    assert_eq!(go::<Item>("null"), Ok(Item::default()));
    assert_eq!(go::<Vec<Item>>("[null]"), Ok(vec![Item::default()]));
}

#[test]
fn texts_are_borrowed_and_raw_values_stay_as_they_are() {
    #[derive(Deserialize)]
    struct Borrowed<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        rest: &'a RawValue,
    }
    let text = r#"{"name":"a","rest":[ 1, {"b":2} ]}"#;
    let read: Borrowed<'_> = go(text).unwrap();
    assert!(matches!(read.name, Cow::Borrowed("a")));
    assert_eq!(read.rest.get(), r#"[ 1, {"b":2} ]"#);
    let twice = r#"{"name":"a","NAME":"b","rest":[ 1 ]}"#;
    let read: Borrowed<'_> = go(twice).unwrap();
    assert_eq!((&*read.name, read.rest.get()), ("b", "[ 1 ]"));
}

#[test]
fn parts_are_read_by_the_same_rules() {
    let read = from_value::<Vec<Item>>(json!([{ "ip": "a", "tags": [{ "name": "b" }] }]));
    assert_eq!(read.unwrap()[0].tags[0].name, "b");
    for part in [json!([["a"]]), json!([{ "tags": [["b"]] }])] {
        let why = from_value::<Vec<Item>>(part).unwrap_err().to_string();
        assert!(why.ends_with("expected an object, found an array"), "{why}");
    }
}

#[test]
fn maps_with_numbers_for_keys_are_read() {
    let read: BTreeMap<u16, Choice> = go(r#"{"7":"plain"}"#).unwrap();
    assert_eq!(read, BTreeMap::from([(7, Choice::Plain)]));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let names = prop_oneof![
            Just("items".to_owned()),
            Just("ip".to_owned()),
            Just("tags".to_owned()),
            Just("name".to_owned()),
            Just("by_name".to_owned()),
            "[a-z]{1,3}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    /// Whatever is read here serde reads to the same value; the reverse holds but for
    /// arrays in place of objects.
    #[test]
    fn what_is_accepted_means_the_same_for_serde(value in any_json()) {
        let text = value.to_string();
        let read: Result<Request, JsonError> = decode(text.as_bytes(), Names::Exact);
        let plain = serde_json::from_str::<Request>(&text);
        match (read, plain) {
            (Ok(read), plain) => prop_assert_eq!(read, plain.unwrap()),
            (Err(error), Ok(_)) => {
                let why = error.to_string();
                prop_assert!(why.ends_with("expected an object, found an array"), "{}", why);
            }
            (Err(_), Err(_)) => {}
        }
    }

    /// Any JSON at all is read as the very same value.
    #[test]
    fn values_are_read_as_they_are(value in any_json()) {
        let text = value.to_string();
        let read: Result<Value, JsonError> = decode(text.as_bytes(), Names::Exact);
        prop_assert_eq!(read.unwrap(), value);
    }
}
