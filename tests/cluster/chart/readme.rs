//! The five minutes of the README, copied and pasted: only what its reader has to fill in is
//! filled in.

use anyhow::{Context, Result, ensure};
use floe_testbed::floe;
use floe_testbed::floe::build::Published;

const README: &str = include_str!("../../../README.md");

/// Its commands, with what only the testbed knows in place of what only the reader knows.
pub fn commands(published: &Published) -> Result<String> {
    let (_, use_it) = README
        .split_once("\n## Use it\n")
        .context("the README tells nobody how to use it")?;
    let (_, block) = use_it.split_once("```console\n").context("no commands")?;
    let (block, _) = block.split_once("```\n").context("commands without end")?;
    let mut script = String::new();
    for line in block.lines() {
        script.push_str(line.strip_prefix("$ ").unwrap_or(line));
        script.push('\n');
    }
    let image = |name: &str, image: &str| {
        let tag = floe::tag_of(image);
        (
            format!("{{repository: registry.example.com/floe/{name}}}"),
            format!("{{repository: floe/{name}, tag: {tag:?}}}"),
        )
    };
    let filled_in = [
        ("[10.0.0.0/16]".to_owned(), "[10.200.0.0/24]".to_owned()),
        (
            "10.0.70.2~10.0.70.241".to_owned(),
            "10.200.0.100~10.200.0.180".to_owned(),
        ),
        ("10.0.70.0/24".to_owned(), "10.200.0.0/24".to_owned()),
        ("10.0.70.1\n".to_owned(), "10.200.0.1\n".to_owned()),
        image("controller", &published.controller),
        image("agent", &published.agent),
    ];
    for (sample, own) in filled_in {
        ensure!(script.contains(&sample), "the README lacks {sample:?}");
        script = script.replace(&sample, &own);
    }
    Ok(script)
}
