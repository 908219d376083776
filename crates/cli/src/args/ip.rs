//! What was typed about addresses.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use floe_core::ipam::state::State;

use super::{ApiAccess, Consent, Listing, Output};

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
    Reserve(Reserve),
    /// End reservations, so that pods can get the addresses
    Unreserve(Unreserve),
}

/// Which reservations to end.
#[derive(Debug, ClapArgs)]
pub struct Unreserve {
    /// Addresses, ranges a~b or networks a/n; at most 256 addresses
    #[arg(required = true, value_name = "IP")]
    pub ips: Vec<String>,
    /// Do not ask before.
    #[command(flatten)]
    pub consent: Consent,
    /// How to reach the controller.
    #[command(flatten)]
    pub api: ApiAccess,
}

/// Which addresses to reserve.
#[derive(Debug, ClapArgs)]
pub struct Reserve {
    /// Addresses, ranges a~b or networks a/n; at most 256 addresses
    #[arg(required = true, value_name = "IP")]
    pub ips: Vec<String>,
    /// What for; it is shown as the holder. Letters, digits, - and . only
    #[arg(long, value_name = "TEXT")]
    pub purpose: Option<String>,
    /// Let the server check it, but change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How to reach the controller.
    #[command(flatten)]
    pub api: ApiAccess,
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

/// Which addresses to list.
#[derive(Debug, ClapArgs)]
pub struct IpList {
    /// Which.
    #[command(flatten)]
    pub selection: Selection,
    /// How to show them.
    #[command(flatten)]
    pub listing: Listing,
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
    /// It is shared by several pods: a `VirtualIP` has it
    Shared,
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
            HeldState::Shared => Self::Shared,
            HeldState::Foreign => Self::Foreign,
        }
    }
}
