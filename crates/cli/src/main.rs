//! `kubectl floe`: floating IPs on the command line.
//!
//! **What it is for.** It shows people who holds which address and how full the ranges
//! are, and lets them reserve addresses, set pools, check and back up. It does so with
//! the habits of kubectl: its flags, its formats and its kubeconfig.
//!
//! **What it never does.** It decides nothing about addresses of pods: it reads the
//! resources, and what only the control plane can do it asks the control plane for.
//!
//! **Neighbours.** `floe-core` and `floe-api` lie below. Nothing lies above.

#![forbid(unsafe_code)]

mod args;
mod backup;
mod check;
mod cluster;
mod complete;
mod console;
mod explain;
mod export;
mod failure;
mod fetch;
#[cfg(test)]
mod fixture;
mod import;
mod ip;
mod manual;
mod nodepool;
mod pool;
mod record;
mod release;
mod remote;
mod render;
mod subnet;
mod suggest;
mod version;
mod vip;
mod watch;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{
    args::{Args, Command},
    cluster::Cluster,
    console::Console,
    failure::Failure,
};

fn main() -> ExitCode {
    let args = Args::parse();
    let mut console = Console::standard();
    match run(&args, &mut console) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            // Who reads no further, as `head` does, needs no more either.
            if code != 0 {
                tell(&mut console, &failure);
            }
            ExitCode::from(code)
        }
    }
}

fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    // What needs no cluster works without one.
    match &args.command {
        Command::Completion { shell } => return manual::completion(console, *shell),
        Command::Complete { words } => return manual::complete(console, words),
        Command::Man { dir } => return manual::pages(console, dir.as_deref()),
        Command::Version { client } => {
            version::client(console)?;
            if *client {
                return Ok(());
            }
        }
        Command::Ip(_)
        | Command::Pool(_)
        | Command::Subnet(_)
        | Command::Vip(_)
        | Command::NodePool(_)
        | Command::Explain(_)
        | Command::Check(_)
        | Command::Watch(_)
        | Command::Export(_)
        | Command::Import(_) => {}
    }
    // Fails only if there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|source| Failure::Io {
        what: "cannot start".into(),
        source,
    })?;
    runtime.block_on(ask(args, console))
}

async fn ask(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let is_watch = matches!(args.command, Command::Watch(_));
    let cluster = &Cluster::find(&args.connection, is_watch).await?;
    match &args.command {
        Command::Ip(command) => ip::run(cluster, console, command).await,
        Command::Pool(command) => pool::run(cluster, console, command).await,
        Command::Subnet(command) => subnet::run(cluster, console, command).await,
        Command::Vip(command) => vip::run(cluster, console, command).await,
        Command::NodePool(command) => nodepool::run(cluster, console, command).await,
        Command::Explain(args) => explain::run(cluster, console, args).await,
        Command::Check(args) => check::run(cluster, console, args).await,
        Command::Watch(args) => watch::run(cluster, console, args).await,
        Command::Export(args) => export::run(cluster, console, args).await,
        Command::Import(args) => import::run(cluster, console, args).await,
        Command::Version { .. } => version::server(cluster, console).await,
        // Done before, without a cluster.
        Command::Completion { .. } | Command::Complete { .. } | Command::Man { .. } => Ok(()),
    }
}

fn tell(console: &mut Console, failure: &Failure) {
    console.error(&format!("{failure} ({})", failure.reason()));
    if let Some(hint) = failure.hint() {
        console.hint(&hint);
    }
}
