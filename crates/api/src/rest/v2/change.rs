//! What people change by hand.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Addresses to release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Release)]
pub struct Release {
    /// The addresses, at most 1000.
    #[schema(max_items = 1000)]
    pub ips: Vec<Released>,
    /// Only tell what would become of them.
    #[serde(default)]
    pub dry_run: bool,
}

/// One address to release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Released {
    /// The address.
    pub ip: String,
    /// The key that its record must have; it is left alone if it has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What became of each, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseAnswer {
    /// One for each address.
    pub results: Vec<Outcome>,
    /// Whether nothing was changed because that was asked for.
    pub dry_run: bool,
}

/// What became of one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The address.
    pub ip: String,
    /// Whether it is, or would be, as was asked for.
    pub done: bool,
    /// One stable word: `Released`, `AlreadyFree`, `Reserved`, or why not.
    pub reason: String,
    /// The same for people.
    pub message: String,
}

/// Addresses to reserve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reservation {
    /// Addresses, ranges `a~b` or networks `a/n`; at most 256 addresses.
    #[schema(max_items = 256)]
    pub ips: Vec<String>,
    /// What for; it is shown as the holder. Letters, digits, `-` and `.` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Only tell what would become of them.
    #[serde(default)]
    pub dry_run: bool,
}

/// Reservations to take back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unreservation {
    /// Addresses, ranges `a~b` or networks `a/n`; at most 256 addresses.
    #[schema(max_items = 256)]
    pub ips: Vec<String>,
    /// Only tell what would become of them.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of each address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedAnswer {
    /// One for each address.
    pub results: Vec<Outcome>,
    /// Whether nothing was changed because that was asked for.
    pub dry_run: bool,
}
