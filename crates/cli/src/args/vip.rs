//! What was typed about addresses that several pods share.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};

use super::{Consent, Listing, Output, duration::duration};

/// Addresses that several pods share.
#[derive(Debug, Subcommand)]
pub enum Vip {
    /// List shared addresses with the pods that have them
    #[command(visible_alias = "ls")]
    List(VipList),
    /// Show everything about shared addresses
    Show {
        /// The objects, by name or by an address of theirs
        #[arg(required = true, value_name = "NAME|IP")]
        names: Vec<String>,
        /// How to show them
        #[command(flatten)]
        output: Output,
    },
    /// Move shared addresses to another pod
    Move(VipMove),
}

/// Which shared addresses to list.
#[derive(Debug, ClapArgs)]
pub struct VipList {
    /// Those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// A selector for the labels of the objects
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// The node of the pod that has them
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// How to show them.
    #[command(flatten)]
    pub listing: Listing,
}

/// Which shared addresses to move, and where to.
#[derive(Debug, ClapArgs)]
pub struct VipMove {
    /// The object, by name or by an address of its
    #[arg(value_name = "NAME|IP")]
    pub name: String,
    /// The pod that is to have the addresses: one of the candidates
    #[arg(long, value_name = "POD")]
    pub to: String,
    /// Do not ask before.
    #[command(flatten)]
    pub consent: Consent,
    /// Only ask for the move, and do not wait for it
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait for the move, like 30s or 1m; 0 for ever
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub timeout: Duration,
}
