//! `floe-bench`, the benchmarks of floe.
//!
//! **What it is for.** It measures what floe promises, each figure beside a
//! reference taken on the same machine, and says whether the promise holds. It
//! is built in release mode and started by `cargo xtask bench`.
//!
//! **What it never does.** It ships with nothing, and no test depends on it:
//! a slow machine must not fail a test.
//!
//! **Neighbours.** Below: `floe-core` and `floe-api`, measured directly;
//! `floe-testbed`, which makes the cluster and the guest; and the programs
//! `floe-controller`, `floe-cni` and `floe-agent`, measured from outside. Above:
//! nothing.

#![forbid(unsafe_code)]

mod api;
mod bare;
mod books;
mod clock;
mod cluster;
mod cni;
mod failover;
mod filter;
mod line;
mod nodepool;
mod program;
mod scene;
mod scheduling;
mod table;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use cni::Effort;
use scene::Size;
use table::Table;

/// The benchmarks of floe. Use `cargo xtask bench`, which builds all they need.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Addresses for pods: the books, the extender, and the whole controller
    Floatip {
        /// Only one part
        #[arg(long)]
        only: Option<Part>,
        /// A tenth of everything, to try the benchmarks themselves
        #[arg(long)]
        quick: bool,
    },
    /// The plugins of a node, beside the reference plugins; needs root
    Cni {
        /// Only one part
        #[arg(long)]
        only: Option<cni::Part>,
        /// A tenth of everything, to try the benchmarks themselves
        #[arg(long)]
        quick: bool,
    },
    /// The management API: lists, searches and explanations
    Api {
        /// A tenth of everything, to try the benchmarks themselves
        #[arg(long)]
        quick: bool,
    },
    /// Addresses that pods share, and how long each kind of move takes, beside keepalived;
    /// needs root
    Failover {
        /// Only one part
        #[arg(long)]
        only: Option<failover::Part>,
        /// A round of each, and a tenth of the addresses, to try the benchmarks
        /// themselves
        #[arg(long)]
        quick: bool,
        /// How many addresses the many are
        #[arg(long)]
        addresses: Option<u32>,
    },
    /// Addresses of clouds on nodes: how long an event of a node takes to be decided
    Nodepool {
        /// Only one part
        #[arg(long)]
        only: Option<nodepool::Part>,
        /// A tenth of everything, to try the benchmarks themselves
        #[arg(long)]
        quick: bool,
    },
    /// Pods from created to bound, by gates and by an extender, beside the scheduler alone;
    /// needs root
    Scheduling {
        /// Only one way
        #[arg(long)]
        only: Option<scheduling::Part>,
        /// A tenth of the pods and fewer rounds, to try the benchmark itself
        #[arg(long)]
        quick: bool,
        /// How many pods each turn has
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=5_000))]
        pods: Option<u32>,
        /// How often every case has its turn
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=99))]
        rounds: Option<u32>,
    },
    /// What `cni` starts in the guest: prints reports, no table
    #[command(hide = true)]
    CniInGuest {
        /// How often each command is measured
        rounds: u32,
        /// The same, of those that wait for others to answer
        asking: u32,
    },
}

/// What can be measured alone.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Decisions alone, without a cluster
    Pure,
    /// The controller on an API server; needs root
    Cluster,
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Measures and prints; whether everything holds.
fn run(command: &Command) -> Result<bool> {
    let mut table = Table::default();
    match *command {
        Command::Floatip { only, quick } => {
            floatip(
                &mut table,
                only,
                if quick { Size::QUICK } else { Size::FULL },
            )?;
        }
        Command::Cni { only, quick } => {
            let effort = if quick { Effort::QUICK } else { Effort::FULL };
            table.extend(cni::measure(only, effort)?);
        }
        Command::Api { quick } => {
            let size = if quick { Size::QUICK } else { Size::FULL };
            let runtime = tokio::runtime::Runtime::new()?;
            table.extend(runtime.block_on(api::measure(size))?);
        }
        Command::Failover {
            only,
            quick,
            addresses,
        } => {
            let effort = if quick {
                failover::Effort::QUICK
            } else {
                failover::Effort::FULL
            };
            let effort = effort.with_addresses(addresses);
            table.extend(failover::measure(only, effort)?);
        }
        Command::Nodepool { only, quick } => {
            let size = if quick {
                nodepool::Size::QUICK
            } else {
                nodepool::Size::FULL
            };
            table.extend(nodepool::measure(only, size)?);
        }
        Command::Scheduling {
            only,
            quick,
            pods,
            rounds,
        } => {
            let effort = if quick {
                scheduling::Effort::QUICK
            } else {
                scheduling::Effort::FULL
            };
            let runtime = tokio::runtime::Runtime::new()?;
            let effort = effort.with(pods, rounds);
            table.extend(runtime.block_on(scheduling::measure(only, effort))?);
        }
        Command::CniInGuest { rounds, asking } => {
            cni::measure_in_guest(rounds, asking)?;
            return Ok(true);
        }
    }
    write!(std::io::stdout().lock(), "{table}")?;
    Ok(table.holds())
}

fn floatip(table: &mut Table, only: Option<Part>, size: Size) -> Result<()> {
    if only != Some(Part::Cluster) {
        table.extend(books::measure(size));
        table.extend(filter::measure(size)?);
    }
    if only != Some(Part::Pure) {
        let runtime = tokio::runtime::Runtime::new()?;
        table.extend(runtime.block_on(cluster::measure(size))?);
    }
    Ok(())
}
