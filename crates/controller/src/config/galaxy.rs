//! The flags of galaxy-ipam that mean little or nothing to floe. They are
//! accepted, so that its manifests work unchanged.

use std::ffi::OsString;

use clap::{
    ArgAction, Args,
    builder::{BoolishValueParser, PossibleValuesParser},
};

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

    /// No effect: there is no API page
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

/// The flags of galaxy-ipam's logging library.
#[derive(Debug, Args)]
pub struct Klog {
    /// Verbosity in the sense of klog; from 4 on, floe's own debug lines are
    /// written, unless --log-level says otherwise
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub verbosity: i32,

    /// klog's other flags, of which floe needs none.
    #[command(flatten)]
    rest: KlogIgnored,
}

#[derive(Debug, Args)]
struct KlogIgnored {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    alsologtostderr: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    add_dir_header: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    one_output: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_headers: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_log_headers: Option<String>,
    #[arg(long, hide = true, value_name = "LEVEL")]
    stderrthreshold: Option<String>,
    #[arg(long, hide = true, value_name = "PLACE")]
    log_backtrace_at: Option<String>,
    #[arg(long, hide = true, value_name = "DIR")]
    log_dir: Option<String>,
    #[arg(long, hide = true, value_name = "FILE")]
    log_file: Option<String>,
    #[arg(long, hide = true, value_name = "MEGABYTES")]
    log_file_max_size: Option<String>,
    #[arg(long, hide = true, value_name = "DURATION")]
    log_flush_frequency: Option<String>,
    #[arg(long, hide = true, value_name = "PATTERNS")]
    vmodule: Option<String>,
}

/// Writes the name of a long flag with dashes. Compat: galaxy-ipam's flags take
/// `_` and `-` alike. Whatever comes after `=` stays as it is.
pub fn dashed(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else {
        return arg;
    };
    match text.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
        None => text.replace('_', "-").into(),
    }
}

fn no_master(value: &str) -> Result<String, String> {
    if value.is_empty() {
        return Ok(String::new());
    }
    Err("floe takes the address of the API server from a kubeconfig; use --kubeconfig".into())
}
