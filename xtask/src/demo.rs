//! `cargo xtask demo`.

use anyhow::{Result, bail};

/// Options of the demo.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> Result<()> {
    bail!("being written")
}
