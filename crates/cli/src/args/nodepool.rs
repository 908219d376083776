//! What was typed about addresses of a cloud that are kept on nodes.

use clap::{Args as ClapArgs, Subcommand};

use super::{Listing, Output};

/// Addresses of a cloud that are kept on nodes.
#[derive(Debug, Subcommand)]
pub enum NodePool {
    /// List pools with how many of their addresses are in use
    #[command(visible_alias = "ls")]
    List(NodePoolList),
    /// Show everything about pools: each address, its node, its last move
    Show {
        /// The pools
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// How to show them
        #[command(flatten)]
        output: Output,
    },
}

/// Which pools to list.
#[derive(Debug, ClapArgs)]
pub struct NodePoolList {
    /// Those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// A selector for the labels of the objects
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Those with an address on this node
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// How to show them.
    #[command(flatten)]
    pub listing: Listing,
}
