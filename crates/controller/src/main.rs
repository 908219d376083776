//! `floe-controller`, the control plane of floe.
//!
//! **What it is for.** One process per replica that sees to it, for the whole
//! cluster, which pod holds which floating IP: it answers the scheduler, binds
//! pods with their addresses, takes back what pods leave, and tells why. It also keeps
//! addresses of clouds on nodes that fit, and DNS in step with them.
//!
//! **What it never does.** It touches no network interface; that is the
//! agent's work. It takes no decision itself: those are in `floe-core`.
//!
//! **Neighbours.** Below: `floe-core`, `floe-api`, `floe-providers` and
//! `floe-shell`. Above: nothing.

#![forbid(unsafe_code)]

mod actions;
mod addresses;
mod admission;
mod adopt;
mod apiserver;
mod binder;
mod certificates;
mod claims;
mod clock;
mod cloud;
mod cluster;
mod config;
mod contact;
mod definitions;
mod desk;
mod directory;
mod duty;
mod events;
mod evict;
mod extender;
mod gates;
mod health;
mod installation;
mod leader;
mod marks;
mod metrics;
mod nodepools;
mod pools;
mod queue;
mod reclaim;
mod records;
mod report;
mod rest;
mod rollouts;
mod run;
mod shared_key;
mod store;
mod transport;
mod turns;
mod vips;
mod waiting;

use std::process::ExitCode;

use anyhow::Context as _;
use config::Config;
use floe_shell::logs;
use tracing::error;

fn main() -> ExitCode {
    match start(Config::from_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let cause = logs::with_causes(failure.as_ref());
            error!(error = cause, "floe-controller failed");
            let usage = failure.downcast_ref().is_some_and(run::Error::is_usage);
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

fn start(config: Config) -> anyhow::Result<()> {
    let filter = logs::filter(&config.log_level).context("cannot use --log-level")?;
    logs::start(config.log_format, filter);
    // Explicit, so that no other crate's features can change the choice. An
    // error means that one is installed already, which nothing before does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    Ok(runtime.block_on(run::run(config))?)
}
