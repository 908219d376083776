//! `cargo xtask manifests`: the plain manifests, rendered from the chart.

use std::fs;
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use floe_testbed::chart::MANIFESTS;

/// Options of the rendering.
#[derive(clap::Args)]
pub struct Args {
    /// Change nothing, and fail if a manifest is not what the chart makes of it
    #[arg(long)]
    check: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let mut stale = Vec::new();
    for manifest in &MANIFESTS {
        let rendered = manifest.render()?;
        // One that is not there yet differs, too.
        if manifest.committed().is_ok_and(|text| text == rendered) {
            continue;
        }
        stale.push(format!("deploy/{}", manifest.file));
        if !args.check {
            let path = manifest.path();
            fs::write(&path, rendered)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    ensure!(
        !args.check || stale.is_empty(),
        "{} not as the chart has it; `cargo xtask manifests` writes it anew",
        stale.join(", ")
    );
    for file in stale {
        writeln!(std::io::stdout(), "wrote {file}")?;
    }
    Ok(())
}
