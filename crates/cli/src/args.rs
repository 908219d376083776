//! What was typed.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use self::duration::duration;
pub use self::{
    api::{Account, ApiAccess},
    ip::{Ip, IpList, Release, Reserve, Selection, Unreserve},
    nodepool::{NodePool, NodePoolList},
    output::{Format, Listing, Output},
    pool::Pool,
    vip::{Vip, VipList, VipMove},
};

#[cfg(test)]
pub use self::ip::HeldState;

mod api;
mod duration;
mod ip;
mod nodepool;
mod output;
mod pool;
mod vip;

/// Where the configuration of addresses is, unless somebody has put it elsewhere.
pub const CONFIG_MAP: &str = "kube-system/floatingip-config";

/// The exit codes, as help and man page tell them.
const EXIT_CODES: &str = "Exit codes:
  0  done
  1  it failed, or some of it did
  2  it was asked in a wrong way, or a confirmation is needed that nobody could give";

/// How to use completions, as help and man page tell it.
const COMPLETION: &str = "For kubectl floe <TAB>, in any shell in which kubectl completes:
  kubectl floe completion kubectl > /usr/local/bin/kubectl_complete-floe
  chmod +x /usr/local/bin/kubectl_complete-floe
For kubectl-floe <TAB>, for example in bash:
  source <(kubectl floe completion bash)";

/// Floating IPs of a cluster: who holds which address, and how full the ranges are.
#[derive(Debug, Parser)]
#[command(name = "kubectl-floe", bin_name = "kubectl floe", after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub struct Args {
    /// How to reach the cluster.
    #[command(flatten)]
    pub connection: Connection,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How to reach the cluster; the same flags as kubectl's.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// The namespace; else that of the context, for pools kube-system
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The cluster of the kubeconfig, instead of that of the context
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// The user of the kubeconfig, instead of that of the context
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// The kubeconfig file; else $KUBECONFIG, else ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How long to wait for an answer, like 30s or 1m; 0 for ever
    #[arg(long, global = true, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pub request_timeout: Duration,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Addresses and who holds them
    #[command(subcommand, visible_alias = "ips")]
    Ip(Ip),
    /// Limits for addresses that share a pool name
    #[command(subcommand, visible_alias = "pools")]
    Pool(Pool),
    /// Configured ranges and how full they are
    #[command(subcommand, visible_alias = "subnets")]
    Subnet(Subnet),
    /// Addresses that several pods share, and the pods that have them
    #[command(subcommand, visible_alias = "vips")]
    Vip(Vip),
    /// Addresses of a cloud that are kept on nodes
    #[command(subcommand, name = "nodepool", visible_alias = "nodepools")]
    NodePool(NodePool),
    /// Tell who holds an address and why, or why a pod has none
    Explain(Explain),
    /// Compare records, pods and configuration
    Check(Check),
    /// Show changes of addresses as they happen
    Watch(Watch),
    /// Write all records and pools, as a backup
    Export(Export),
    /// Bring records and pools back from a backup
    Import(Import),
    /// Write the completion for a shell, or for kubectl itself
    #[command(after_help = COMPLETION)]
    Completion {
        /// Whom for
        shell: Shell,
    },
    /// Tell what the words of a line can become
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete {
        /// The words, the last of which is being typed
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Tell the versions of this program and of the cluster
    Version {
        /// Only the version of this program
        #[arg(long)]
        client: bool,
    },
    /// Write the manual page
    #[command(hide = true)]
    Man {
        /// Write the pages of all commands into this directory
        #[arg(long, value_name = "DIRECTORY")]
        dir: Option<PathBuf>,
    },
}

/// Whom completions can be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(clippy::enum_variant_names, reason = "that is its name")]
pub enum Shell {
    /// kubectl, so that it completes in every shell that completes kubectl
    Kubectl,
    /// Bash
    Bash,
    /// Elvish
    Elvish,
    /// Fish
    Fish,
    /// PowerShell
    #[value(name = "powershell")]
    PowerShell,
    /// Zsh
    Zsh,
}

/// Configured ranges.
#[derive(Debug, Subcommand)]
pub enum Subnet {
    /// List configured ranges with how full they are
    #[command(visible_alias = "ls")]
    List {
        /// Where the configuration is: a config map, as NAMESPACE/NAME
        #[arg(long, value_name = "NAME", default_value = CONFIG_MAP)]
        config_map: String,
        /// How to show them
        #[command(flatten)]
        listing: Listing,
    },
}

/// What to explain.
#[derive(Debug, ClapArgs)]
pub struct Explain {
    /// An address, or a pod as NAME or NAMESPACE/NAME
    #[arg(value_name = "IP|POD")]
    pub what: String,
    /// How to show it.
    #[command(flatten)]
    pub output: Output,
    /// How to reach the controller.
    #[command(flatten)]
    pub api: ApiAccess,
}

/// What to check.
#[derive(Debug, ClapArgs)]
pub struct Check {
    /// Mend what can be mended without taking an address from anybody
    #[arg(long)]
    pub fix: bool,
    /// Where the configuration is: a config map, as NAMESPACE/NAME
    #[arg(long, value_name = "NAME", default_value = CONFIG_MAP)]
    pub config_map: String,
    /// Do not ask before.
    #[command(flatten)]
    pub consent: Consent,
    /// How to show what was found.
    #[command(flatten)]
    pub listing: Listing,
    /// How to reach the controller.
    #[command(flatten)]
    pub api: ApiAccess,
}

/// Which changes to show.
#[derive(Debug, ClapArgs)]
pub struct Watch {
    /// Which.
    #[command(flatten)]
    pub selection: Selection,
    /// Do not list what is there at the start
    #[arg(long)]
    pub only_changes: bool,
    /// Show each change as JSON on a line of its own
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<WatchFormat>,
}

/// How changes can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WatchFormat {
    /// One object a line, with the kind of the change
    Json,
}

/// Where a backup goes.
#[derive(Debug, ClapArgs)]
pub struct Export {
    /// The file; - or none for standard output. JSON if its name ends with .json, else YAML
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Where a backup is.
#[derive(Debug, ClapArgs)]
pub struct Import {
    /// The file; - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    /// Let the server check it, but change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Whether to ask before something is taken away.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub struct Consent {
    /// Do not ask before
    #[arg(short, long)]
    pub yes: bool,
}

#[cfg(test)]
mod tests;
