//! What was typed about pools.

use clap::Subcommand;

use super::{Consent, Listing, Output};

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
        listing: Listing,
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
