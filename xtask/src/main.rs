//! The commands of this repository: `cargo xtask test`, `check`, `demo`, `cluster`, `bench`,
//! `image`, `manifests`.
//!
//! Never shipped and never linked by anything that is. What it starts comes
//! from `floe-testbed`; this crate only asks for it and tells how it went.

mod bench;
mod child;
mod cluster;
mod demo;
mod dependencies;
mod image;
mod manifests;
mod test;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The commands of this repository.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Test(test::Args),
    /// Check formatting, clippy, dependency rules and licences only
    ///
    /// The same as `cargo xtask test --only check`.
    Check,
    /// Show floe on a local cluster: the running one, or a new one of three nodes
    Demo(demo::Args),
    /// Start, look at and stop a local Kubernetes cluster
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Measure what floe promises; the exit code says whether it holds
    Bench(bench::Args),
    Image(image::Args),
    /// Render deploy/controller.yaml, agent.yaml and webhook*.yaml from the chart
    Manifests(manifests::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test(args) => test::run(args),
        Command::Check => test::run(test::Args::check()),
        Command::Demo(args) => demo::run(args).map(|()| ExitCode::SUCCESS),
        Command::Bench(args) => bench::run(&args),
        Command::Image(args) => image::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Manifests(args) => manifests::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Cluster(command) => cluster::run(command).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// The folder of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package lies in a folder of the workspace")
}
