//! Several plugins in turns: noise of the machine hits all alike.

use anyhow::{Context as _, Result};

use super::{
    mode::Mode,
    node::{self, OURS, Pod},
    plugin::{Plugin, Took},
    report::{Calls, Report, Times},
};

/// How long floe asks whether somebody uses an address, in milliseconds: as long as
/// it does unless it is configured.
const WINDOW: u32 = 200;

/// Measures a mode on a node of its own.
pub fn measure(mode: &Mode, rounds: u32, asking: u32) -> Result<Report> {
    node::on_node(|node| {
        node.install()?;
        node::ip(mode.setup)?;
        let floe = Plugin::new(node, OURS, &mode.floe(), &mode.args());
        let theirs = Plugin::new(node, mode.reference, &mode.theirs(), "");
        let by_static = mode
            .by_static()
            .map(|config| Plugin::new(node, OURS, &config, ""));
        let mut plugins = vec![&floe, &theirs];
        plugins.extend(by_static.as_ref());
        let mut calls = in_turns(&plugins, rounds)?.into_iter();
        let asks = Plugin::new(node, OURS, &mode.asking(WINDOW), &mode.args());
        let missing = "each plugin has its calls";
        Ok(Report {
            title: mode.title.to_owned(),
            reference: mode.reference.to_owned(),
            floe: calls.next().context(missing)?,
            theirs: calls.next().context(missing)?,
            by_static: calls.next(),
            asking: in_turns(&[&asks], asking)?.pop().context(missing)?,
            window: WINDOW,
        })
    })
}

/// What calls of each plugin took.
fn in_turns(plugins: &[&Plugin<'_>], rounds: u32) -> Result<Vec<Calls>> {
    // Devices that pods share are there afterwards, and programs are in memory.
    for plugin in plugins {
        plugin.prove(&container(0))?;
    }
    let mut took: Vec<(Vec<Took>, Vec<Took>)> = vec![(Vec::new(), Vec::new()); plugins.len()];
    // Every pod has a new namespace, as in life. They stay until the end: the kernel
    // would clear them away beside the next call.
    let mut pods = Vec::new();
    for round in 1..=rounds {
        for turn in 0..plugins.len() {
            // Each one is first, second and last equally often.
            let offset = usize::try_from(round).unwrap_or(0);
            let number = (turn + offset) % plugins.len();
            let (plugin, (adds, dels)) = (plugins[number], &mut took[number]);
            let pod = Pod::new()?;
            adds.push(plugin.call("ADD", &container(round), &pod)?);
            dels.push(plugin.call("DEL", &container(round), &pod)?);
            pods.push(pod);
        }
    }
    let calls = took.into_iter().map(|(adds, dels)| {
        Some(Calls {
            add: Times::of(&adds)?,
            del: Times::of(&dels)?,
        })
    });
    let calls: Option<Vec<Calls>> = calls.collect();
    calls.context("nothing was measured")
}

/// An id that differs in its first nine characters, as names of links need.
fn container(round: u32) -> String {
    format!("{round:09x}{:055x}", 0)
}
