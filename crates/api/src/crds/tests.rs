use std::{fs, net::IpAddr, path::Path};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::*;

#[test]
fn the_committed_text_is_the_generated_one() {
    let texts = [
        ("galaxy.yaml", yaml()),
        ("floe.yaml", own_yaml()),
        ("flipop.yaml", node_pools_yaml()),
    ];
    for (name, text) in texts {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        let file = file.join(name);
        if std::env::var_os("FLOE_BLESS").is_some_and(|value| value == "1") {
            fs::write(&file, &text).unwrap();
        }
        let committed = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            committed == text,
            "deploy/crds/{name} is not what crates/api generates; \
             `FLOE_BLESS=1 cargo test -p floe-api` writes it anew"
        );
    }
}

/// The only file in its folder, so that `kubectl apply -f k8s/*` works.
#[test]
fn the_manifest_for_node_pools_has_the_generated_definitions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s");
    let mut files = fs::read_dir(&folder).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    let text = fs::read_to_string(&file).unwrap();
    let (begin, end) = (
        "# BEGIN definitions, generated from crates/api\n",
        "# END definitions\n",
    );
    let (before, rest) = text.split_once(begin).unwrap();
    let (committed, after) = rest.split_once(end).unwrap();
    let generated = node_pools_yaml();
    let (_, generated) = generated.split_once('\n').unwrap();
    if std::env::var_os("FLOE_BLESS").is_some_and(|value| value == "1") {
        fs::write(&file, [before, begin, generated, end, after].concat()).unwrap();
    } else {
        assert!(
            committed == generated,
            "k8s/floe.yaml has other definitions than crates/api generates; \
             `FLOE_BLESS=1 cargo test -p floe-api` writes them anew"
        );
    }
}

#[test]
fn the_text_reads_back_as_the_same_definitions() {
    for (text, definitions) in [
        (yaml(), all()),
        (own_yaml(), own()),
        (node_pools_yaml(), node_pools()),
    ] {
        let documents: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(documents, definitions);
    }
}

#[test]
fn names_scope_and_approval_are_those_of_galaxy() {
    let told: Vec<String> = all()
        .iter()
        .map(|definition| {
            let CustomResourceDefinitionSpec {
                names,
                scope,
                group,
                ..
            } = &definition.spec;
            let name = definition.metadata.name.as_deref().unwrap();
            let short = names.short_names.clone().unwrap_or_default().join(",");
            let approval =
                &definition.metadata.annotations.as_ref().unwrap()["api-approved.kubernetes.io"];
            format!("{group} {name} {scope} {} [{short}] {approval}", names.kind)
        })
        .collect();
    let approval = "https://github.com/kubernetes/kubernetes/pull/78458";
    assert_eq!(
        told,
        [
            format!("galaxy.k8s.io floatingips.galaxy.k8s.io Cluster FloatingIP [fip] {approval}"),
            format!("galaxy.k8s.io pools.galaxy.k8s.io Namespaced Pool [] {approval}"),
        ]
    );
}

/// What the API server would say against an object, as far as our definitions
/// use schemas. A keyword or rule of an unknown shape panics: teach it here.
pub(crate) fn refusals(definition: &CustomResourceDefinition, object: &Value) -> Vec<String> {
    let version = &definition.spec.versions[0];
    let schema = version.schema.as_ref().unwrap();
    let schema = serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap();
    let mut found = Vec::new();
    check(&schema, object, "", &mut found);
    found
}

#[expect(clippy::too_many_lines, reason = "one arm for each keyword")]
fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let schema = schema.as_object().unwrap();
    if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
        return;
    }
    let mut refuse = |what: String| found.push(format!("{path}: {what}"));
    let mut inner = Vec::new();
    for (keyword, argument) in schema {
        match keyword.as_str() {
            "type" if !has_type(value, argument) => refuse(format!("not of type {argument}")),
            "format" if argument == "date-time" => {
                if value
                    .as_str()
                    .is_some_and(|text| text.parse::<Timestamp>().is_err())
                {
                    refuse("not a time".into());
                }
            }
            "format" if argument == "ipv4" || argument == "ipv6" => {
                let is_v4 = |text: &str| text.parse::<IpAddr>().map(|ip| ip.is_ipv4());
                let is_its = |text: &str| is_v4(text) == Ok(argument == "ipv4");
                if value.as_str().is_some_and(|text| !is_its(text)) {
                    refuse(format!("no {argument} address"));
                }
            }
            "format" => assert_eq!(argument, "int64"),
            // Only numbers have an order; the type is told already.
            "minimum" if value.is_number() && value.as_f64() < argument.as_f64() => {
                refuse(format!("below {argument}"));
            }
            "maximum" if value.is_number() && value.as_f64() > argument.as_f64() => {
                refuse(format!("above {argument}"));
            }
            "pattern" => {
                let pattern = regex::Regex::new(argument.as_str().unwrap()).unwrap();
                if value.as_str().is_some_and(|text| !pattern.is_match(text)) {
                    refuse(format!("does not match {pattern}"));
                }
            }
            "anyOf" => {
                let holds = |schema: &Value| {
                    let mut refused = Vec::new();
                    check(schema, value, path, &mut refused);
                    refused.is_empty()
                };
                if !argument.as_array().unwrap().iter().any(holds) {
                    refuse("none of anyOf holds".into());
                }
            }
            "oneOf" => {
                let mut holding = 0;
                for schema in argument.as_array().unwrap() {
                    let mut refused = Vec::new();
                    check(schema, value, path, &mut refused);
                    holding += usize::from(refused.is_empty());
                }
                if holding != 1 {
                    refuse(format!("{holding} of oneOf hold"));
                }
            }
            "enum" if !argument.as_array().unwrap().contains(value) => {
                refuse(format!("not one of {argument}"));
            }
            "maxLength"
                if length(value.as_str().map(|it| it.chars().count())) > argument.as_i64() =>
            {
                refuse(format!("longer than {argument}"));
            }
            "minItems" | "maxItems" => {
                let length = length(value.as_array().map(Vec::len));
                let (less, what) = match keyword.as_str() {
                    "minItems" => (length < argument.as_i64(), "fewer"),
                    _ => (length > argument.as_i64(), "more"),
                };
                if length.is_some() && less {
                    refuse(format!("{what} than {argument} items"));
                }
            }
            "additionalProperties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    check(argument, member, &format!("{path}.{name}"), &mut inner);
                }
            }
            // What holds for the value, or says nothing about it.
            "enum"
            | "maxLength"
            | "type"
            | "minimum"
            | "maximum"
            | "nullable"
            | "default"
            | "description"
            | "x-kubernetes-list-type"
            | "x-kubernetes-list-map-keys"
            | "x-kubernetes-map-type"
            | "x-kubernetes-preserve-unknown-fields" => {}
            "required" => {
                for name in argument.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        refuse(format!("{name} is missing"));
                    }
                }
            }
            "properties" => {
                for (name, schema) in argument.as_object().unwrap() {
                    if let Some(member) = value.get(name) {
                        check(schema, member, &format!("{path}.{name}"), &mut inner);
                    }
                }
            }
            "items" => {
                for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(argument, item, &format!("{path}[{place}]"), &mut inner);
                }
            }
            "x-kubernetes-validations" => {
                for rule in argument.as_array().unwrap() {
                    if !holds(rule["rule"].as_str().unwrap(), value) {
                        refuse(rule["message"].as_str().unwrap().to_owned());
                    }
                }
            }
            unknown => panic!("{path}: unknown keyword {unknown}"),
        }
    }
    found.append(&mut inner);
}

fn length(count: Option<usize>) -> Option<i64> {
    count.map(|count| i64::try_from(count).unwrap())
}

fn has_type(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        unknown => panic!("unknown type {unknown}"),
    }
}

/// The shapes of rules in use. CEL and the `regex` crate share RE2's syntax,
/// whose classes are ASCII.
fn holds(rule: &str, object: &Value) -> bool {
    let has = |text: &str| {
        let name = text.strip_prefix("has(self.").unwrap();
        object.get(name.strip_suffix(')').unwrap()).is_some()
    };
    if let Some((one, other)) = rule.split_once(" != ") {
        return has(one) != has(other);
    }
    if let Some((one, other)) = rule.split_once(" || ") {
        let lacks = |text: &str| !has(text.strip_prefix('!').unwrap());
        return lacks(one) || lacks(other);
    }
    let name = object["metadata"]["name"].as_str().unwrap();
    let argument = |before: &str| rule.strip_prefix(before)?.strip_suffix("')");
    if let Some(pattern) = argument("self.metadata.name.matches(r'") {
        let pattern = regex::RegexBuilder::new(pattern).unicode(false).build();
        return pattern.unwrap().is_match(name);
    }
    if let Some(start) = argument("!self.metadata.name.startsWith('") {
        return !name.starts_with(start);
    }
    panic!("a rule of unknown shape: {rule}");
}

/// The members of an object that its schema does not name, which the API
/// server drops.
pub(crate) fn dropped(definition: &CustomResourceDefinition, object: &Value) -> Vec<String> {
    let schema = definition.spec.versions[0].schema.as_ref().unwrap();
    let schema = serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap();
    let known = |names: &Value| names.as_object().cloned().unwrap_or_default();
    let unknown = |value: &Value, names: Map<String, Value>| {
        let members = value.as_object().unwrap().keys().cloned();
        members
            .filter(move |name| !names.contains_key(name))
            .collect::<Vec<_>>()
    };
    let mut top = known(&schema["properties"]);
    // These three are known without a schema.
    for name in ["apiVersion", "kind", "metadata"] {
        top.insert(name.into(), Value::Null);
    }
    let mut found = unknown(object, top);
    if let Some(spec) = object.get("spec") {
        found.extend(unknown(
            spec,
            known(&schema["properties"]["spec"]["properties"]),
        ));
    }
    found
}
