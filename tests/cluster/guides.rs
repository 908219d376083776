//! Guides, walked through as they are printed: each command of a section is run, in its
//! order, and what the guide says about it must be so.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::Cluster;

use crate::cli::terminal::Terminal;

mod bare;
mod galaxy;
mod nodes;
mod uninstall;

/// What a command in the middle of a sentence begins with.
const PROGRAMS: [&str; 2] = ["kubectl ", "helm "];

/// A section of a guide, of which some commands were run already.
pub struct Walk<'a> {
    terminal: &'a Terminal,
    left: VecDeque<String>,
}

impl<'a> Walk<'a> {
    /// A section of a page in `docs`, by its heading. What stands in another one that is
    /// deeper belongs to it.
    pub fn of(terminal: &'a Terminal, page: &str, heading: &str) -> Result<Self> {
        let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"));
        let text = fs::read_to_string(docs.join(page)).with_context(|| page.to_owned())?;
        let section = section(&text, heading);
        let left = commands(&section.with_context(|| format!("{page} has no {heading:?}"))?);
        ensure!(!left.is_empty(), "{heading:?} of {page} has no commands");
        Ok(Self { terminal, left })
    }

    /// Runs the next command, which has to begin like this, and returns what it prints.
    pub fn run(&mut self, beginning: &str) -> Result<String> {
        self.run_with(beginning, |command| command)
    }

    /// The same, with what only its reader knows filled in.
    pub fn run_with(
        &mut self,
        beginning: &str,
        fill_in: impl FnOnce(String) -> String,
    ) -> Result<String> {
        let next = self.next(beginning)?;
        self.terminal.run(&fill_in(next))
    }

    /// The next command, for a test that does it in another way.
    pub fn next(&mut self, beginning: &str) -> Result<String> {
        let next = self.left.pop_front().context("the guide has ended")?;
        ensure!(
            next.starts_with(beginning),
            "the guide goes on with {next:?}"
        );
        Ok(next)
    }

    /// Everything was run.
    pub fn end(self) -> Result<()> {
        let left = self.left;
        ensure!(left.is_empty(), "the guide goes on: {left:?}");
        Ok(())
    }
}

/// A terminal of an administrator.
pub fn administrator(cluster: &Cluster) -> Result<Terminal> {
    let terminal = Terminal::open(cluster)?;
    fs::copy(cluster.paths().kubeconfig(), terminal.kubeconfig())?;
    Ok(terminal)
}

fn section(text: &str, heading: &str) -> Option<String> {
    let depth = |line: &str| line.chars().take_while(|it| *it == '#').count();
    let mut lines = text.lines().skip_while(|line| *line != heading);
    let own = depth(lines.next()?);
    let mut in_block = false;
    let inside = lines.take_while(|line| {
        in_block ^= line.trim_start().starts_with("```");
        // In a block it is a comment.
        in_block || !(1..=own).contains(&depth(line))
    });
    Some(inside.flat_map(|line| [line, "\n"]).collect())
}

/// The commands of a text: lines with a prompt in blocks, and code in sentences that begins
/// with the name of a program.
fn commands(text: &str) -> VecDeque<String> {
    let mut found = VecDeque::new();
    for (number, part) in text.split("```").enumerate() {
        if number % 2 == 1 {
            let lines = part.lines().map(str::trim_start);
            found.extend(lines.filter_map(|line| line.strip_prefix("$ ").map(without_comment)));
            continue;
        }
        for (number, code) in part.split('`').enumerate() {
            let is_command = PROGRAMS.iter().any(|it| code.starts_with(it));
            if number % 2 == 1 && is_command {
                found.push_back(code.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }
    found
}

fn without_comment(line: &str) -> String {
    let command = line.split_once("  # ").map_or(line, |(command, _)| command);
    command.trim_end().to_owned()
}

#[test]
fn the_commands_of_a_section_are_those_of_its_blocks_and_sentences() {
    let text = "# A\n`kubectl no`\n## B\n1. **Do** `kubectl one\n   two`, not `three`.\n\n   \
                ```console\n   $ helm four  # now\n   # five\n   six\n   ```\n### C\n`kubectl seven`\n\
                ## D\n`kubectl no`\n";
    let of = |heading| section(text, heading).map(|it| Vec::from(commands(&it)));
    let all = ["kubectl one two", "helm four", "kubectl seven"];
    assert_eq!(of("## B").unwrap(), all);
    assert_eq!(of("### C").unwrap(), ["kubectl seven"]);
    assert_eq!(of("## E"), None);
}
