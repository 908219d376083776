//! The definition of the kind.
//!
//! Compat: it takes whatever FLIPOP's takes, has the same members and no defaults.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, JSONSchemaProps,
};

use crate::{
    crds::{Definition, column, schema},
    flipop::{GROUP, VERSION, address, dns_schema, match_schema, memory},
    floe::condition_schema,
};

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    let ready = |member: &str| format!(r#".status.conditions[?(@.type=="Ready")].{member}"#);
    Definition {
        group: GROUP,
        version: VERSION,
        has_status: true,
        names: CustomResourceDefinitionNames {
            kind: "FloatingIPPool".into(),
            list_kind: Some("FloatingIPPoolList".into()),
            plural: "floatingippools".into(),
            singular: Some("floatingippool".into()),
            ..CustomResourceDefinitionNames::default()
        },
        scope: "Namespaced",
        columns: vec![
            column::text("Provider", ".spec.provider").tells("The cloud"),
            column::integer("Addresses", ".status.summary.addresses")
                .tells("How many addresses there are"),
            column::integer("Active", ".status.summary.active")
                .tells("How many are on nodes that fit"),
            column::integer("Waiting", ".status.summary.waiting")
                .tells("How many nodes wait for one"),
            column::text("Ready", &ready("status")).tells("Whether all is as it shall be"),
            column::text("Reason", &ready("reason")).tells("Why or why not"),
            column::integer("Desired", ".spec.desiredIPs")
                .tells("How many addresses there shall be")
                .only_wide(),
            column::text("Name", ".spec.dnsRecordSet.recordName")
                .tells("The name in DNS")
                .only_wide(),
            column::text("Error", ".status.error")
                .tells("Why it cannot be followed, or nothing bought")
                .only_wide(),
            column::age(),
        ],
        schema: schema::object(
            "Addresses of a cloud that are kept on nodes that fit.",
            [("spec", spec()), ("status", status())],
            &[],
        ),
    }
    .build()
}

fn spec() -> JSONSchemaProps {
    let address = schema::one_of(
        schema::text("An address."),
        &[address::v4_pattern(), address::v6_pattern()],
    );
    let seconds = |description: &str| schema::number(description);
    schema::object(
        "What is asked for.",
        [
            ("provider", schema::text("The cloud, by its name.")),
            (
                "region",
                schema::text("Where addresses are bought; all nodes are there."),
            ),
            (
                "ips",
                schema::list(
                    "Addresses that are there. What is bought is added at the end.",
                    address,
                ),
            ),
            (
                "desiredIPs",
                schema::natural("How many there shall be; 0 or nothing for just those."),
            ),
            ("match", match_schema()),
            ("dnsRecordSet", dns_schema()),
            (
                "assignmentCoolOffSeconds",
                seconds("The least time between two assignments."),
            ),
            (
                "gracePeriodSeconds",
                seconds("How long a node that no longer fits may keep its address."),
            ),
            ("gracePeriods", grace_periods()),
            (
                "reclaimPolicy",
                schema::word(
                    "What becomes of addresses that floe has bought when the pool is deleted. \
                     Without it they stay.",
                    &["Retain", "Delete"],
                ),
            ),
        ],
        &["provider"],
    )
}

fn grace_periods() -> JSONSchemaProps {
    schema::object(
        "The same for single causes.",
        [
            (
                "podNotReadySeconds",
                schema::number("Its last pod is not ready."),
            ),
            (
                "nodeNotReadySeconds",
                schema::number("The node is not ready, or silent."),
            ),
            (
                "nodeGoneSeconds",
                schema::number("The object of the node is gone."),
            ),
        ],
        &[],
    )
}

fn status() -> JSONSchemaProps {
    let ip = schema::object(
        "How an address is.",
        [
            (
                "state",
                schema::text("active, in-progress, error, no-match, unassigned or disabled."),
            ),
            (
                "providerID",
                schema::text("The server that has it, or shall have it."),
            ),
            (
                "nodeName",
                schema::text("The node of that server, while it fits."),
            ),
            ("error", schema::text("What went wrong last.")),
            ("reason", schema::text("The same in one CamelCase word.")),
        ],
        &[],
    );
    let mut status = schema::object(
        "What is.",
        [
            (
                "error",
                schema::text("Why it cannot be followed, or why nothing can be bought."),
            ),
            ("ips", schema::map("How each address is.", ip)),
            (
                "nodeErrors",
                schema::list(
                    "Fitting nodes whose last assignment failed.",
                    schema::text("A node."),
                ),
            ),
            (
                "assignableNodes",
                schema::list(
                    "Fitting nodes that wait for an address.",
                    schema::text("A node."),
                ),
            ),
            (
                "observedGeneration",
                schema::integer("The generation that this is about."),
            ),
            ("summary", summary()),
            (
                "conditions",
                schema::map_list(
                    "Whether it is accepted, ready and published.",
                    "type",
                    condition_schema(),
                ),
            ),
        ],
        &[],
    );
    let remembered = memory::properties();
    let members = status.properties.get_or_insert_default();
    members.extend(remembered.map(|(name, schema)| (name.to_owned(), schema)));
    status
}

fn summary() -> JSONSchemaProps {
    schema::object(
        "What kubectl get shows.",
        [
            (
                "addresses",
                schema::integer("Addresses that are in use or could be."),
            ),
            ("active", schema::integer("Those on nodes that fit.")),
            ("waiting", schema::integer("Nodes that wait for one.")),
        ],
        &[],
    )
}
