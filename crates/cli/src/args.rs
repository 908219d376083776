//! What was typed.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use floe_core::ipam::state::State;

pub use self::api::{Account, ApiAccess};
use self::duration::duration;

mod api;
mod duration;

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

/// Addresses.
#[derive(Debug, Subcommand)]
pub enum Ip {
    /// List addresses that somebody holds
    #[command(visible_alias = "ls")]
    List(IpList),
    /// Show everything about addresses
    Show {
        /// The addresses
        #[arg(required = true, value_name = "IP")]
        ips: Vec<String>,
        /// How to show them
        #[command(flatten)]
        output: Output,
    },
    /// Give addresses back that no pod runs with
    Release(Release),
    /// Reserve addresses, so that no pod gets them
    Reserve {
        /// Addresses, ranges a~b or networks a/n; at most 256 addresses
        #[arg(required = true, value_name = "IP")]
        ips: Vec<String>,
        /// What for; it is shown as the holder. Letters, digits, - and . only
        #[arg(long, value_name = "TEXT")]
        purpose: Option<String>,
        /// Let the server check it, but change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// End reservations, so that pods can get the addresses
    Unreserve {
        /// Addresses, ranges a~b or networks a/n; at most 256 addresses
        #[arg(required = true, value_name = "IP")]
        ips: Vec<String>,
        /// Do not ask before
        #[command(flatten)]
        consent: Consent,
    },
}

/// Which addresses to list.
#[derive(Debug, ClapArgs)]
pub struct IpList {
    /// Which.
    #[command(flatten)]
    pub selection: Selection,
    /// How to show them.
    #[command(flatten)]
    pub output: Output,
}

/// Which addresses. What is given must all hold.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct Selection {
    /// Those of all namespaces, and those of none: spares of pools, reservations
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// A selector for the labels of the records
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// The pool
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// The node that they are bound for
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// What they are to their holders; several with a comma between them
    #[arg(long, value_name = "STATE", value_delimiter = ',', ignore_case = true)]
    pub state: Vec<HeldState>,
    /// The workload, as NAME or KIND/NAME
    #[arg(long, value_name = "NAME")]
    pub app: Option<String>,
}

/// What an address that somebody holds can be to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HeldState {
    /// A pod is bound with it
    Bound,
    /// It waits for a pod of the same name
    Kept,
    /// It waits for any pod of its workload or pool
    Spare,
    /// An administrator has reserved it
    Reserved,
    /// Its record has a key that neither floe nor galaxy would give it
    Foreign,
}

impl From<HeldState> for State {
    fn from(state: HeldState) -> Self {
        match state {
            HeldState::Bound => Self::Bound,
            HeldState::Kept => Self::Kept,
            HeldState::Spare => Self::Spare,
            HeldState::Reserved => Self::Reserved,
            HeldState::Foreign => Self::Foreign,
        }
    }
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

/// Which addresses to release.
#[derive(Debug, ClapArgs)]
pub struct Release {
    /// Addresses, ranges a~b or networks a/n; at most 256 addresses
    #[arg(required = true, value_name = "IP")]
    pub ips: Vec<String>,
    /// Only tell what would become of them
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before.
    #[command(flatten)]
    pub consent: Consent,
    /// How to reach the controller.
    #[command(flatten)]
    pub api: ApiAccess,
}

/// Pools.
#[derive(Debug, Subcommand)]
pub enum Pool {
    /// List pools with what they have
    #[command(visible_alias = "ls")]
    List {
        /// Those of all namespaces, and names that only holders have
        #[arg(short = 'A', long, conflicts_with = "namespace")]
        all_namespaces: bool,
        /// A selector for the labels of the pools
        #[arg(short = 'l', long, value_name = "LABELS")]
        selector: Option<String>,
        /// How to show them
        #[command(flatten)]
        output: Output,
    },
    /// Show everything about pools
    Show {
        /// The pools
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// How to show them
        #[command(flatten)]
        output: Output,
    },
    /// Create a pool, or change it
    Set {
        /// The pool
        name: String,
        /// How many addresses it may have; needed for a new one
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
        #[arg(allow_negative_numbers = true)]
        size: Option<i64>,
        /// Take addresses ahead of pods
        #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
        #[arg(require_equals = true)]
        preallocate: Option<bool>,
        /// Let the server check it, but change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Delete pools; their addresses stay where they are
    Delete {
        /// The pools
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Do not ask before
        #[command(flatten)]
        consent: Consent,
    },
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
        output: Output,
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
    pub output: Output,
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
    /// The file; else standard output. JSON if its name ends with .json, else YAML
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

/// How to show something.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub struct Output {
    /// More columns, the objects themselves, or only their names
    #[arg(short = 'o', long = "output", value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// How things can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only names
    Name,
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
