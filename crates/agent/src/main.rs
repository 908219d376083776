//! `floe-agent`, the node side of floe.
//!
//! **What it is for.** One process per node that gives pods their networks: it answers
//! the shim that the container runtime calls, checks which addresses a pod may have,
//! calls the plugins, and remembers what is to be undone. It also finds and removes
//! what is left over, takes off addresses that belong to others by now, serves addresses
//! that pods share, and tells how the node's networks are.
//!
//! **What it never does.** It gives no address to anybody; that is the controller's
//! work. It takes no decision itself: those are in `floe-core`.
//!
//! **Neighbours.** Below: `floe-core`, `floe-api`, `floe-net` and `floe-shell`. Beside
//! it, as another program: `floe-cni`, the shim and the plugins. Above: nothing.

#![forbid(unsafe_code)]

mod apiserver;
mod ask;
mod attach;
mod cleanup;
mod config;
mod cri;
mod delegate;
mod events;
mod health;
mod install;
mod metrics;
mod networks;
mod permits;
mod places;
mod plugins;
mod pods;
mod pulse;
mod request;
mod rewired;
mod run;
mod server;
mod settings;
mod state;
mod sweep;
mod sysctls;
mod takeover;
mod turns;
mod unfinished;
mod vips;

use std::process::ExitCode;

use anyhow::Context as _;
use config::{Config, Work};
use floe_shell::logs;
use tracing::{error, warn};

fn main() -> ExitCode {
    match start(Config::from_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let cause = logs::with_causes(failure.as_ref());
            error!(error = cause, "floe-agent failed");
            let usage = failure.downcast_ref().is_some_and(run::Error::is_usage);
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

fn start(config: Config) -> anyhow::Result<()> {
    let filter = logs::filter(&config.log_level).context("cannot use --log-level")?;
    logs::start(config.log_format, filter);
    for flag in config.without_effect {
        warn!(
            reason = "FlagWithoutEffect",
            flag, "flag has no effect in floe"
        );
    }
    let serve = match config.work {
        Work::Serve(serve) => serve,
        Work::Cleanup(cleanup) => {
            settings::open();
            return cleanup::run(&cleanup);
        }
        Work::Ask { socket } => return Ok(ask::ask(&socket)?),
        Work::Uninstall(uninstall) => {
            uninstall.run(&mut std::io::stdout().lock())?;
            if uninstall.stay {
                install::wait_for_end()?;
            }
            return Ok(());
        }
        Work::Install(install) => return Ok(install.run(&mut std::io::stdout().lock())?),
    };
    settings::open();
    // Explicit, so that no other crate's features can change the choice. An error
    // means that one is installed already, which nothing before does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A node has better uses for its cores, and most work is done by plugins.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    Ok(runtime.block_on(run::run(*serve))?)
}
