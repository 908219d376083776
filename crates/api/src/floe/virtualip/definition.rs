//! The definition of the kind.
//!
//! The schema refuses what can never be meant. Whether an address is one, and whose it
//! is, the controller tells in the condition `Accepted`: a person sees it there together
//! with all other reasons.

use floe_core::vip::Mode;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, JSONSchemaProps,
};
use serde_json::json;

use crate::{
    crds::{Definition, column, schema},
    floe::{GROUP, VERSION, condition_schema},
};

/// How many addresses, or ranges, one object can ask for.
const MOST: i64 = 16;
/// How many pods can be preferred.
const MOST_PREFERRED: i64 = 64;
/// How many nodes can be named.
const MOST_NODES: i64 = 64;
/// A day: what lasts longer is meant to last for ever, and a switch says that better.
const LONGEST: i32 = 86_400;

/// A name of a pod (RFC 1123).
const POD: &str = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?";

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    let accepted = |member: &str| {
        let path = r#".status.conditions[?(@.type=="Accepted")]"#;
        format!("{path}.{member}")
    };
    Definition {
        group: GROUP,
        version: VERSION,
        has_status: true,
        names: CustomResourceDefinitionNames {
            kind: "VirtualIP".into(),
            list_kind: Some("VirtualIPList".into()),
            plural: "virtualips".into(),
            singular: Some("virtualip".into()),
            short_names: Some(vec!["vip".into()]),
            ..CustomResourceDefinitionNames::default()
        },
        scope: "Namespaced",
        columns: vec![
            column::text("Address", ".status.summary.addresses")
                .tells("The addresses that are granted; while none is, those that are asked for"),
            column::text("Holder", ".status.holder.pod").tells("The pod that has them"),
            column::text("Node", ".status.holder.node").tells("The node of that pod"),
            column::date("Since", ".status.holder.since").tells("Since when it has them"),
            column::integer("Candidates", ".status.summary.candidates")
                .tells("How many pods could have them"),
            column::integer("Moves", ".status.moves").tells("How often they have moved"),
            column::text("Reason", ".status.lastMove.reason").tells("Why they moved last"),
            column::text("Status", &accepted("reason"))
                .tells("Granted, or the reason why not all addresses are granted"),
            column::text("Accepted", &accepted("status"))
                .tells("Whether the addresses are granted")
                .only_wide(),
            column::text(
                "Serving",
                r#".status.conditions[?(@.type=="Serving")].status"#,
            )
            .tells("Whether a pod has the addresses and answers")
            .only_wide(),
            column::text(
                "Reachable",
                r#".status.conditions[?(@.type=="Reachable")].status"#,
            )
            .tells("Whether they are announced outside of the cluster")
            .only_wide(),
            column::text("Mode", ".status.holder.mode")
                .tells("How traffic reaches the pod")
                .only_wide(),
            column::age(),
        ],
        schema: schema::object(
            "An address, or several that stay together, shared by pods of its namespace: one \
             of them has it, and another gets it when that one can no longer serve.",
            [("spec", spec()), ("status", status())],
            &["spec"],
        ),
    }
    .build()
}

fn spec() -> JSONSchemaProps {
    let address = schema::pattern("An address.", "[0-9a-fA-F.:]+", 45);
    let range = schema::pattern("An address, or two with ~ between.", "[0-9a-fA-F.:~]+", 91);
    let one = schema::rule(
        "has(self.addresses) != has(self.ranges)".into(),
        "exactly one of addresses and ranges must be given",
    );
    let whose = schema::rule(
        "!has(self.selector) || !has(self.nodes)".into(),
        "selector and nodes exclude each other",
    );
    JSONSchemaProps {
        x_kubernetes_validations: Some(vec![one, whose]),
        ..schema::object(
            "What is asked for.",
            [
                ("addresses", schema::some("These addresses.", address, MOST)),
                (
                    "ranges",
                    schema::some("Or one address out of these ranges.", range, MOST),
                ),
                ("selector", selector()),
                ("nodes", nodes()),
                ("failover", schema::default(json!({}), failover())),
                ("announcement", schema::default(json!({}), announcement())),
            ],
            &[],
        )
    }
}

fn selector() -> JSONSchemaProps {
    let requirement = schema::object(
        "What a label must be.",
        [
            ("key", schema::text("The name of the label.")),
            (
                "operator",
                schema::word(
                    "How it is compared.",
                    &["In", "NotIn", "Exists", "DoesNotExist"],
                ),
            ),
            (
                "values",
                schema::list("With what.", schema::text("A value.")),
            ),
        ],
        &["key", "operator"],
    );
    schema::object(
        "The pods that share the addresses. Objects that stand for annotations have none.",
        [
            (
                "matchLabels",
                schema::map("Labels and their values.", schema::text("A value.")),
            ),
            (
                "matchExpressions",
                schema::list("What must all hold.", requirement),
            ),
        ],
        &[],
    )
}

fn nodes() -> JSONSchemaProps {
    let node = schema::pattern("The name of a node.", POD, 253);
    let nodes = schema::list(
        "The node that has the addresses itself, instead of pods: the first of these. The \
         others may be named next. floe writes it for pools with provider l2.",
        node,
    );
    schema::at_most(MOST_NODES, nodes)
}

fn failover() -> JSONSchemaProps {
    let preferred = schema::list(
        "Pods that come first, in this order.",
        schema::pattern("The name of a pod.", POD, 253),
    );
    schema::object(
        "When the addresses move.",
        [
            (
                "unreadyGraceSeconds",
                schema::default(
                    json!(0),
                    schema::up_to(
                        "How long a holder may be unready before they move.",
                        LONGEST,
                    ),
                ),
            ),
            (
                "minSecondsBetweenMoves",
                schema::default(
                    json!(3),
                    schema::up_to(
                        "The least time between two moves for unreadiness or failback.",
                        LONGEST,
                    ),
                ),
            ),
            (
                "failback",
                schema::default(
                    json!(false),
                    schema::boolean("Whether they move back to a pod that is preferred."),
                ),
            ),
            ("preferredPods", schema::at_most(MOST_PREFERRED, preferred)),
        ],
        &[],
    )
}

fn announcement() -> JSONSchemaProps {
    let interface = "The interface of the nodes to announce on, instead of the one whose subnet \
                     has the address.";
    schema::object(
        "How the addresses are served.",
        [
            (
                "mode",
                schema::default(
                    json!("auto"),
                    schema::word(
                        "How traffic reaches the pod: nat rewrites it on the node, direct gives \
                         the address to the pod, auto does what the network of the pod demands.",
                        &["auto", "nat", "direct"],
                    ),
                ),
            ),
            (
                "interface",
                // As the kernel has it.
                schema::pattern(interface, r"[^/\s]*", 15),
            ),
            (
                "egress",
                schema::default(
                    json!(false),
                    schema::boolean("Whether what the holder sends leaves with the address."),
                ),
            ),
        ],
        &[],
    )
}

fn status() -> JSONSchemaProps {
    let mut status = schema::object(
        "What is.",
        [
            ("summary", summary()),
            (
                "candidates",
                schema::list("The pods that could have them.", candidate()),
            ),
            (
                "conditions",
                schema::map_list(
                    "Whether they are accepted, served and reachable.",
                    "type",
                    condition_schema(),
                ),
            ),
        ],
        &[],
    );
    let decided = decided().map(|(name, schema)| (name.to_owned(), schema));
    status.properties.get_or_insert_default().extend(decided);
    status
}

/// What a register decides and the status shows.
fn decided() -> [(&'static str, JSONSchemaProps); 5] {
    [
        (
            "addresses",
            schema::list(
                "The addresses that are granted.",
                schema::address("An address."),
            ),
        ),
        (
            "holder",
            pod(
                "The pod that has them.",
                "An agent serves them in this term of its lease only.",
            ),
        ),
        (
            "successor",
            pod(
                "The pod that is to have them next, while they are handed over.",
                "The term of the lease of its node; 0 before that is prepared.",
            ),
        ),
        ("moves", schema::integer("How often they have moved.")),
        ("lastMove", last_move()),
    ]
}

fn summary() -> JSONSchemaProps {
    schema::object(
        "What kubectl get shows of the lists.",
        [
            (
                "addresses",
                schema::text("The granted addresses; while none is granted, what is asked for."),
            ),
            (
                "candidates",
                schema::integer("How many candidates there are."),
            ),
        ],
        &[],
    )
}

fn candidate() -> JSONSchemaProps {
    let mut candidate = schema::object("A pod that could have them.", place(), &PLACE);
    let since = schema::date("Since when it is ready.");
    let members = candidate.properties.get_or_insert_default();
    members.insert("readySince".into(), since);
    let required = candidate.required.get_or_insert_default();
    required.push("readySince".into());
    candidate
}

fn pod(description: &str, term: &str) -> JSONSchemaProps {
    let mut pod = schema::object(description, place(), &PLACE);
    pod.properties.get_or_insert_default().extend(
        [
            ("term", schema::integer(term)),
            ("since", schema::date("Since when.")),
            (
                "ready",
                schema::boolean("Of a successor: whether its node is prepared."),
            ),
            (
                "reason",
                schema::text("Of a successor: why the addresses are to move."),
            ),
        ]
        .map(|(name, schema)| (name.to_owned(), schema)),
    );
    pod
}

/// What every pod in the status has.
const PLACE: [&str; 6] = ["pod", "uid", "node", "nodeAddress", "addresses", "mode"];

fn place() -> [(&'static str, JSONSchemaProps); PLACE.len()] {
    [
        ("pod", schema::text("Its name.")),
        ("uid", schema::text("Its uid.")),
        ("node", schema::text("Its node.")),
        ("nodeAddress", schema::address("An address of the node.")),
        (
            "addresses",
            schema::list("The pod's own addresses.", schema::address("An address.")),
        ),
        (
            "mode",
            schema::word("How it is served.", &Mode::ALL.map(Mode::word)),
        ),
    ]
}

fn last_move() -> JSONSchemaProps {
    schema::object(
        "The last move.",
        [
            ("at", schema::date("When.")),
            ("reason", schema::text("Why, in one CamelCase word.")),
            ("from", schema::text("The pod that had them.")),
            ("to", schema::text("The pod that got them.")),
        ],
        &["at", "reason"],
    )
}
