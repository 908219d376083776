//! The resources of `floe.dev/v1alpha1`, floe's own group.
//!
//! - [`nodenetwork`]: which networks a node can serve, told by its agent. Nobody needs it
//!   to work; it is for people and their monitoring.
//! - [`virtualip`]: an address that several pods share.
//! - [`register`]: who has shared addresses, of many in one object.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use crate::crds::schema;

pub use self::nodenetwork::{
    ADDRESS_CONFLICT, ConflictStatus, LinkStatus, MissingStatus, NetworkStatus, NodeNetwork,
    NodeNetworkStatus, READY, Summary,
};

pub mod nodenetwork;
pub mod register;
pub mod tenure;
pub mod virtualip;

/// The API group of floe.
pub const GROUP: &str = "floe.dev";
/// The version of its kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as an object names them.
pub const API_VERSION: &str = "floe.dev/v1alpha1";

/// The usual condition of Kubernetes.
pub(crate) fn condition_schema() -> JSONSchemaProps {
    schema::object(
        "Something that holds or does not.",
        [
            ("type", schema::text("What it is about.")),
            ("status", schema::text("True, False or Unknown.")),
            ("reason", schema::text("Why, in one CamelCase word.")),
            ("message", schema::text("The same for people.")),
            (
                "lastTransitionTime",
                schema::date("Since when it has this status."),
            ),
            (
                "observedGeneration",
                schema::integer("The generation of the object that it is about."),
            ),
        ],
        &["type", "status", "reason", "message", "lastTransitionTime"],
    )
}

#[cfg(test)]
pub(crate) mod tests;
