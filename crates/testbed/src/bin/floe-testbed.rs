//! The testbed's own program: supervises a cluster, anchors a host, runs a guest.
//!
//! People use `cargo xtask`; this is what it starts.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::kubernetes::Programs;
use floe_testbed::supervisor::door::{Progress, report};
use floe_testbed::{anchor, supervisor};

#[derive(Parser)]
#[command(
    name = "floe-testbed",
    about = "Internals of the floe testbed; use `cargo xtask` instead"
)]
enum Command {
    /// Run a cluster until standard input closes or it is asked to end.
    Supervise {
        /// The cluster, as JSON.
        #[arg(long)]
        spec: String,
    },
    /// Be the first process of a host.
    Anchor {
        /// The name of the host.
        #[arg(long)]
        name: String,
        /// The disk of a node.
        #[arg(long)]
        disk: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Supervise { spec } => supervise(&spec),
        Command::Anchor { name, disk } => anchor::run(&name, disk.as_deref()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn supervise(spec: &str) -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let spec: ClusterSpec =
        serde_json::from_str(spec).context("the cluster is not described as it should")?;
    // One thread: the kernel ends what we start when the thread that started it
    // ends, and this one ends last.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(supervisor::run(spec, Programs::ensure()?));
    // A read of standard input may still be waiting; it must not keep us.
    runtime.shutdown_background();
    if let Err(error) = &result {
        report(&Progress::Failed(format!("{error:#}")));
    }
    result
}
