//! The flags of galaxy that mean little or nothing to floe. They are accepted, so that
//! its manifests work unchanged.

use clap::{ArgAction, Args, builder::BoolishValueParser};
use floe_shell::go_flags::no_master;

pub use floe_shell::go_flags::{Klog, dashed};

/// galaxy's flags without an effect of their own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted for galaxy, without effect")]
pub struct Ignored {
    /// Must be empty: floe takes the address of the API server from the kubeconfig
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true, value_parser = no_master)]
    master: String,

    /// No effect: floe sets up no cloud interfaces
    #[arg(
        long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    route_eni: Option<bool>,

    /// No effect: floe has no network policies
    #[arg(
        long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    network_policy: Option<bool>,

    /// No effect: there is no profiling endpoint
    #[arg(
        long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pprof: Option<bool>,

    /// No effect: floe looks for leftovers every 30 seconds
    #[arg(long, value_name = "DURATION")]
    flannel_gc_interval: Option<String>,

    /// No effect: floe does not clean up after flannel
    #[arg(long, value_name = "DIRS")]
    flannel_allocated_ip_dir: Option<String>,

    /// No effect: floe cleans up the folder of --state-dir
    #[arg(long, value_name = "DIRS")]
    gc_dirs: Option<String>,
}

impl Ignored {
    /// The flags that somebody has given and that would have had an effect in galaxy.
    pub fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--route-eni", self.route_eni == Some(true)),
            ("--network-policy", self.network_policy == Some(true)),
            ("--pprof", self.pprof == Some(true)),
            ("--flannel-gc-interval", self.flannel_gc_interval.is_some()),
            (
                "--flannel-allocated-ip-dir",
                self.flannel_allocated_ip_dir.is_some(),
            ),
            ("--gc-dirs", self.gc_dirs.is_some()),
        ];
        let given = all.into_iter().filter(|(_, given)| *given);
        given.map(|(name, _)| name).collect()
    }
}
