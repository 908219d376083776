//! The flags of galaxy-ipam that mean little or nothing to floe. They are
//! accepted, so that its manifests work unchanged.

use clap::{
    ArgAction, Args,
    builder::{BoolishValueParser, PossibleValuesParser},
};
use floe_shell::go_flags::no_master;

/// galaxy-ipam's flags without an effect of their own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted for galaxy-ipam, without effect")]
pub struct Ignored {
    /// Must be empty: floe takes the address of the API server from the
    /// kubeconfig
    #[arg(
        long, env = "FLOE_MASTER", value_name = "URL",
        default_value = "", hide_default_value = true, value_parser = no_master,
    )]
    master: String,

    /// No effect: there is no profiling endpoint
    #[arg(
        long, env = "FLOE_PROFILING", value_name = "BOOL",
        default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    profiling: bool,

    /// No effect: galaxy's description of its API (Swagger 1.2) is always served, at
    /// /apidocs.json
    #[arg(
        long, env = "FLOE_SWAGGER", value_name = "BOOL",
        default_value = "false", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    swagger: bool,

    /// No effect: floe always locks by a Lease. galaxy-ipam and floe exclude each
    /// other if galaxy-ipam's value has "leases" in it, as its default has
    #[arg(
        long, env = "FLOE_LEADER_ELECT_RESOURCE_LOCK", value_name = "KIND",
        default_value = "leases",
        value_parser = PossibleValuesParser::new([
            "leases", "endpointsleases", "configmapsleases", "endpoints", "configmaps",
        ]),
    )]
    leader_elect_resource_lock: String,
}
