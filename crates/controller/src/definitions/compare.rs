//! What a CRD lacks, compared with the one of this floe.

use std::collections::BTreeSet;

use floe_api::galaxy::VERSION;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::{Value, json};

use super::State;

/// Only the schema is compared: the columns are for people, and the rest cannot
/// change.
pub(super) fn compare(
    ours: &CustomResourceDefinition,
    served: Option<&CustomResourceDefinition>,
) -> (State, Vec<String>) {
    let nothing = Vec::new;
    let Some(served) = served else {
        return (State::Missing, nothing());
    };
    let version = |definition: &CustomResourceDefinition| {
        let mut versions = definition.spec.versions.iter();
        versions.find(|it| it.name == VERSION && it.served).cloned()
    };
    let Some(theirs) = version(served) else {
        return (State::NotServed, nothing());
    };
    let conditions = served
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let established = conditions
        .into_iter()
        .any(|it| it.type_ == "Established" && it.status == "True");
    let Some(ours) = version(ours).filter(|_| established) else {
        return (State::NotServed, nothing());
    };
    if ours.schema == theirs.schema {
        return (State::Served, nothing());
    }
    // Before apiextensions.k8s.io/v1 a CRD could keep everything.
    let keeps_all = served.spec.preserve_unknown_fields == Some(true);
    let schema = |it: CustomResourceDefinitionVersion| json!(it.schema)["openAPIV3Schema"].take();
    let mut lacking = BTreeSet::new();
    if !keeps_all {
        find_lacking(&schema(ours), &schema(theirs), "", &mut lacking);
    }
    if lacking.is_empty() {
        (State::Differs, nothing())
    } else {
        (State::Lacks, lacking.into_iter().collect())
    }
}

/// Finds the fields that the API server drops: those of our schema that theirs does not have.
fn find_lacking(ours: &Value, theirs: &Value, path: &str, lacking: &mut BTreeSet<String>) {
    if theirs["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    let (more, items) = (&theirs["additionalProperties"], &theirs["items"]);
    for (name, own) in ours["properties"].as_object().into_iter().flatten() {
        let known = &theirs["properties"][name];
        let known = if known.is_null() { more } else { known };
        if known.is_null() {
            lacking.insert(below(name));
        } else {
            find_lacking(own, known, &below(name), lacking);
        }
    }
    for (own, known) in [
        (&ours["additionalProperties"], more),
        (&ours["items"], items),
    ] {
        if own.is_object() && known.is_object() {
            find_lacking(own, known, &below("*"), lacking);
        } else if own.is_object() && known.is_null() && !path.is_empty() {
            lacking.insert(below("*"));
        }
    }
}
