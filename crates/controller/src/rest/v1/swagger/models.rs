//! The bodies that the declaration names.

use serde_json::{Map, Value, json};

/// All bodies by their names.
pub fn models() -> Value {
    let all = [
        list_answer(),
        floating_ip(),
        model(
            "api.ReleaseIPReq",
            &["ips"],
            vec![("ips", list_of("api.FloatingIP"), "")],
        ),
        envelope(
            "api.ReleaseIPResp",
            &[],
            vec![
                (
                    "unreleased",
                    texts(),
                    "unreleased ips, have been released or allocated to other pods, or are not within valid range",
                ),
                (
                    "reasons",
                    texts(),
                    "why the ips in unreleased were not released, in their order",
                ),
            ],
        ),
        model(
            "api.Pool",
            &["name", "size", "preAllocateIP"],
            vec![
                ("name", text(), "pool name"),
                ("size", number(), "pool size"),
                (
                    "preAllocateIP",
                    flag(),
                    "Set to true to allocate IPs when creating or updating pool",
                ),
            ],
        ),
        envelope(
            "api.GetPoolResp",
            &["pool"],
            vec![("pool", json!({ "$ref": "api.Pool" }), "")],
        ),
        envelope(
            "api.UpdatePoolResp",
            &["realPoolSize"],
            vec![(
                "realPoolSize",
                number(),
                "real num of IPs of this pool after creating or updating",
            )],
        ),
        envelope("httputil.Resp", &[], Vec::new()),
        empty("httputil.Resp.content"),
        empty("page.Page.content"),
    ];
    all.into_iter().collect::<Map<String, Value>>().into()
}

/// Name, shape and description of a member.
type Property = (&'static str, Value, &'static str);

fn list_answer() -> (String, Value) {
    let required = [
        "content",
        "last",
        "totalElements",
        "totalPages",
        "first",
        "numberOfElements",
        "size",
        "number",
    ];
    model(
        "api.ListIPResp",
        &required,
        vec![
            ("content", list_of("api.FloatingIP"), ""),
            ("last", flag(), "if this is the last page"),
            ("totalElements", number(), "total number of elements"),
            ("totalPages", number(), "total number of pages"),
            ("first", flag(), "if this is the first page"),
            (
                "numberOfElements",
                number(),
                "number of elements in this page",
            ),
            ("size", number(), "page size"),
            ("number", number(), "page index starting from 0"),
        ],
    )
}

fn floating_ip() -> (String, Value) {
    model(
        "api.FloatingIP",
        &["ip", "policy"],
        vec![
            ("ip", text(), "ip"),
            ("namespace", text(), "namespace"),
            ("appName", text(), "deployment or statefulset name"),
            ("podName", text(), "pod name"),
            ("poolName", text(), ""),
            ("policy", json!({ "type": "integer" }), "ip release policy"),
            (
                "isDeployment",
                flag(),
                "deployment or statefulset, deprecated please set appType",
            ),
            ("appType", text(), "deployment, statefulset or tapp"),
            (
                "updateTime",
                json!({ "type": "string", "format": "date-time" }),
                "last allocate or release time of this ip",
            ),
            ("status", text(), "pod status if exists"),
            (
                "releasable",
                flag(),
                "if the ip is releasable. An ip is releasable if it isn't belong to any pod",
            ),
        ],
    )
}

/// A body that begins as all do that are no lists.
fn envelope(id: &str, more_required: &[&'static str], members: Vec<Property>) -> (String, Value) {
    let required = [&["code", "message"], more_required].concat();
    let mut properties = vec![
        ("code", number(), ""),
        ("message", text(), ""),
        ("content", json!({ "$ref": "httputil.Resp.content" }), ""),
    ];
    properties.extend(members);
    model(id, &required, properties)
}

fn model(id: &str, required: &[&str], properties: Vec<Property>) -> (String, Value) {
    let mut members = Map::new();
    for (name, mut shape, description) in properties {
        if !description.is_empty() {
            shape["description"] = json!(description);
        }
        members.insert(name.to_owned(), shape);
    }
    let model = json!({ "id": id, "required": required, "properties": members });
    (id.to_owned(), model)
}

fn empty(id: &str) -> (String, Value) {
    (id.to_owned(), json!({ "id": id, "properties": {} }))
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn number() -> Value {
    json!({ "type": "integer", "format": "int32" })
}

fn list_of(model: &str) -> Value {
    json!({ "type": "array", "items": { "$ref": model } })
}
