//! Where floe's plugins keep things. They look at the same variables, which the agent
//! hands on to those that it calls.

use std::{env, path::PathBuf};

/// The variables that name other places.
pub const VARIABLES: [&str; 2] = ["FLOE_STATE", "FLOE_RUN"];

/// The folder of what lasts longer than until the next boot: journals and notes.
pub fn state() -> PathBuf {
    place(VARIABLES[0], "/var/lib/cni/floe")
}

/// The folder of what lasts until the next boot: locks.
pub fn run() -> PathBuf {
    place(VARIABLES[1], "/run/floe")
}

fn place(variable: &str, usual: &str) -> PathBuf {
    let told = env::var_os(variable).filter(|it| !it.is_empty());
    told.map_or_else(|| PathBuf::from(usual), PathBuf::from)
}
