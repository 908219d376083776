//! Programs that the checks need besides the compiler.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Result, ensure};
use floe_testbed::cache::cache_dir;
use floe_testbed::progress::Step;
use tokio::process::Command;

use crate::child::{Children, Output};

const CARGO_DENY: &str = "0.20.2";

/// The cargo that runs this command, or the one in `PATH`, as a command to
/// complete.
///
/// It must not inherit what cargo told this program about its own package: build
/// scripts look at it, and everything below them would be built again.
pub fn cargo() -> std::process::Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    for (name, _) in env::vars_os() {
        let told = name.to_string_lossy();
        if told.starts_with("CARGO_PKG_") || told.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Whether this toolchain has a cargo subcommand such as `fmt`.
pub async fn has_subcommand(name: &str) -> bool {
    answers(Command::from(cargo()).args([name, "--version"]))
        .await
        .is_some()
}

/// Finds cargo-deny in `PATH` or among the tools in the cache, and installs it
/// there otherwise.
pub async fn cargo_deny(children: &Children) -> Result<PathBuf> {
    let tools = cache_dir().join("tools");
    let installed = tools.join("bin/cargo-deny");
    for candidate in [Path::new("cargo-deny"), &installed] {
        let version = answers(Command::new(candidate).arg("--version")).await;
        if version.is_some_and(|text| text.trim() == format!("cargo-deny {CARGO_DENY}")) {
            return Ok(candidate.to_owned());
        }
    }

    let mut install = Command::from(cargo());
    install
        .args(["install", "--quiet", "--locked", "--force", "--root"])
        .arg(&tools)
        .arg(format!("cargo-deny@{CARGO_DENY}"))
        // Its release profile links everything at once with one thread. It runs
        // for two seconds either way, so the quick build is the better deal.
        .arg("--debug")
        .env("CARGO_PROFILE_DEV_DEBUG", "false");
    let title = format!("install cargo-deny {CARGO_DENY} (once, about two minutes)");
    Step::run_async(title, async {
        let finished = children.run(install, Output::Shown).await?;
        ensure!(
            finished.status.success(),
            "cargo install cargo-deny failed: {}",
            finished.status
        );
        Ok(installed)
    })
    .await
}

/// What a command says on standard output, if it is there and succeeds.
async fn answers(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().await.ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
