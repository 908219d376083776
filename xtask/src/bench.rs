//! `cargo xtask bench`: builds the benchmarks in release mode and runs them.
//!
//! What is measured and what is wanted is in `floe-bench`; its table is the
//! output of this command, and its exit code is this command's.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use floe_testbed::progress::Step;

use crate::child::mortal;
use crate::tools::cargo;

/// Options of the benchmarks.
#[derive(clap::Args)]
pub struct Args {
    /// What to measure, and options: `floatip`, `cni`, `api`, `failover`, `nodepool`,
    /// `scheduling`, `floatip --only pure`, `cni --quick`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let sets = programs(args.arguments.first().map_or("", String::as_str));
    Step::run("building the benchmarks", || {
        sets.iter().try_for_each(|it| build(it))
    })?;
    let program = target_folder().join("release").join("floe-bench");
    let mut bench = std::process::Command::new(program);
    bench.args(&args.arguments);
    let status = mortal(&bench)?
        .status()
        .context("cannot run the benchmarks")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    match code {
        Some(code) => Ok(ExitCode::from(code)),
        None => bail!("the benchmarks were ended: {status}"),
    }
}

/// What is built for a benchmark, in this order, each set at once.
fn programs(name: &str) -> &'static [&'static [&'static str]] {
    match name {
        // Alone, as it ships: built with others, it would get the features of
        // libraries that only they want.
        "cni" => &[&["floe-bench", "floe-agent"], &["floe-cni"]],
        "api" | "nodepool" => &[&["floe-bench", "floe-controller"]],
        "failover" => &[
            &["floe-bench", "floe-controller", "floe-testbed"],
            &["floe-agent"],
            &["floe-cni"],
        ],
        // The way to the API server leads through a program of the testbed.
        _ => &[&["floe-bench", "floe-controller", "floe-testbed"]],
    }
}

fn build(packages: &[&str]) -> Result<()> {
    let mut build = cargo();
    build
        .current_dir(crate::workspace())
        .args(["build", "--quiet", "--release", "--bins"])
        .args(packages.iter().map(|it| format!("--package={it}")));
    let status = mortal(&build)?.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("the benchmarks do not build");
    }
    Ok(())
}

/// Where cargo puts what it builds: this program is in `debug` below it.
fn target_folder() -> std::path::PathBuf {
    let me = std::env::current_exe().unwrap_or_default();
    let folder = me.ancestors().nth(2);
    folder.map_or_else(|| crate::workspace().join("target"), Into::into)
}
