//! `cargo xtask`: builds `xtask` as a part of the whole workspace, and becomes it.
//!
//! `cargo run --package xtask` enables only the features that xtask's own dependencies ask for, and
//! the build of the workspace then compiles tokio, kube and all crates above them a second time with
//! other features. `cargo run` cannot select the whole workspace, `cargo build` can.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match launch() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: cannot start xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn launch() -> std::io::Result<ExitCode> {
    // Cargo puts both programs into the same directory.
    let program = env::current_exe()?.with_file_name("xtask");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let mut xtask = Command::new(program);
    xtask.args(env::args_os().skip(1));
    // What cargo reports about this package is not for them. Build scripts read it: cargo would run
    // these again, and compile all that depends on them.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
            xtask.env_remove(&name);
        }
    }
    // Incremental state makes later builds quicker and this one slower, and CI builds only once.
    if env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false") {
        for command in [&mut cargo, &mut xtask] {
            command.env("CARGO_INCREMENTAL", "0");
        }
    }
    let status = cargo
        // The features of dev-dependencies count only if a test is built. The one named here is
        // the smallest: it belongs to this package.
        .args(["build", "--workspace", "--bin=xtask", "--test=alias"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()?;
    if !status.success() {
        return Ok(ExitCode::FAILURE);
    }
    Err(xtask.exec())
}
