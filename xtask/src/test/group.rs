//! Tests on real parts: network namespaces, a guest kernel, a cluster.
//!
//! They are integration tests of the package `floe-tests` and marked
//! `#[ignore]`, so that plain `cargo test` leaves them alone.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use floe_testbed::cluster::{self, shared::SHARED_NAME};
use floe_testbed::guest::{self, Job};
use floe_testbed::lab;
use floe_testbed::progress::Step;

use super::build::{self, Binary};
use super::libtest::{self, Selection};
use super::report::{Row, Tally};
use super::unit::count;
use super::{Part, Settings};
use crate::child::{Children, Interrupted};
use crate::workspace;

/// All groups, in the order in which they run.
pub const GROUPS: &[Group] = &[
    Group {
        part: Part::Netns,
        name: "netns",
        targets: &[on_host("netns")],
        prepare: lab::prepare,
    },
    Group {
        part: Part::Guest,
        name: "guest",
        targets: &[in_guest("guest"), on_host("guest_runner")],
        prepare: || Ok(guest::prepare()?),
    },
    Group {
        part: Part::Cluster,
        name: "cluster",
        // What is left after a cluster can only be seen when no other one runs.
        targets: &[on_host("cluster"), on_host("lifecycle")],
        prepare: || cluster::prepare().map(drop),
    },
];

/// Tests that need the same real parts.
pub struct Group {
    pub part: Part,
    name: &'static str,
    /// Run one after the other.
    targets: &'static [Target],
    /// Gets what the tests need, which takes long the first time.
    prepare: fn() -> Result<()>,
}

/// A test target of `floe-tests`.
struct Target {
    name: &'static str,
    place: Place,
}

/// Where the tests of a target run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Host,
    Guest,
}

const fn on_host(name: &'static str) -> Target {
    Target {
        name,
        place: Place::Host,
    }
}

const fn in_guest(name: &'static str) -> Target {
    Target {
        name,
        place: Place::Guest,
    }
}

/// How long the guest may take in all. It only ends a test that hangs.
const GUEST_TIMEOUT: Duration = Duration::from_mins(10);
const GUEST_TIMEOUT_NIGHTLY: Duration = Duration::from_hours(1);

/// Whether the ignored tests of a program belong to some group.
pub fn owns(binary: &Binary) -> bool {
    GROUPS
        .iter()
        .any(|group| group.targets.iter().any(|target| target.is(binary)))
}

impl Group {
    /// Runs the group, or tells why it cannot run.
    pub async fn run(
        &self,
        children: &mut Children,
        settings: &Settings,
        binaries: &[Binary],
    ) -> Result<Row> {
        let started = Instant::now();
        let mut row = Row::new(self.name);
        let mut selected = Vec::new();
        for target in self.targets {
            let Some(binary) = binaries.iter().find(|binary| target.is(binary)) else {
                row.add(Tally::FAILED);
                row.note(format!("floe-tests has no test target '{}'", target.name));
                continue;
            };
            match binary.count(children, settings, Selection::Ignored).await? {
                Some(0) => {}
                Some(count) => selected.push((target, binary, count)),
                None => {
                    row.add(Tally::FAILED);
                    row.note(format!("{} cannot list its tests", target.name));
                }
            }
        }

        if !selected.is_empty() {
            if let Some(reason) = self.missing(children).await? {
                let count = selected.iter().map(|(_, _, count)| count).sum();
                row.add(Tally::missing(count, settings.ci));
                row.note(format!("could not run: {reason}"));
            } else {
                let step = Step::start(format!("{} tests", self.name));
                for (target, binary, _) in selected {
                    let tally = match target.place {
                        Place::Host => {
                            let finished =
                                binary.run(children, settings, Selection::Ignored).await?;
                            count(&mut row, &binary.title(), &finished)
                        }
                        Place::Guest => run_in_guest(children, settings, binary, &mut row).await?,
                    };
                    row.add(tally);
                    // A cluster ends after the program that brought it up.
                    children
                        .wait_for(|| cluster::wait_until_gone(SHARED_NAME))
                        .await?;
                }
                if row.tally.failed == 0 {
                    step.done();
                } else {
                    step.fail();
                }
            }
        }
        row.elapsed = started.elapsed();
        Ok(row)
    }

    /// What the group needs and this machine cannot give.
    fn unmet(&self) -> Option<String> {
        if !cfg!(target_os = "linux") {
            return Some(format!("{} tests need Linux", self.name));
        }
        if !nix::unistd::geteuid().is_root() {
            return Some(format!("{} tests need root", self.name));
        }
        None
    }

    /// As [`Group::unmet`], after an attempt to get what is missing.
    async fn missing(&self, children: &mut Children) -> Result<Option<String>> {
        if let Some(reason) = self.unmet() {
            return Ok(Some(reason));
        }
        match children.wait_for(self.prepare).await {
            Ok(()) => Ok(None),
            Err(error) if error.is::<Interrupted>() => Err(error),
            Err(error) => Ok(Some(format!("{error:#}"))),
        }
    }
}

async fn run_in_guest(
    children: &mut Children,
    settings: &Settings,
    binary: &Binary,
    row: &mut Row,
) -> Result<Tally> {
    let job = Job {
        program: binary.executable.clone(),
        args: libtest::arguments(Selection::Ignored, settings.filter.as_deref()),
        env: binary.environment(settings),
        cwd: binary.folder.clone(),
        igb_ports: 2,
        timeout: if settings.nightly {
            GUEST_TIMEOUT_NIGHTLY
        } else {
            GUEST_TIMEOUT
        },
    };
    let ended = children
        .wait_for(move || {
            let mut stdout = String::new();
            let code = guest::run_with(&job, |line| {
                let _ = writeln!(std::io::stdout().lock(), "{line}");
                let _ = writeln!(stdout, "{line}");
            })?;
            Ok((code, stdout))
        })
        .await;
    match ended {
        Ok((code, stdout)) => Ok(build::tally(&stdout, code == 0).unwrap_or_else(|tally| {
            row.note(format!(
                "{} ended without a valid result (exit code {code})",
                binary.title()
            ));
            tally
        })),
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => {
            row.note(format!("{error:#}"));
            Ok(Tally::FAILED)
        }
    }
}

impl Target {
    fn is(&self, binary: &Binary) -> bool {
        binary.integration
            && binary.target == self.name
            && binary.folder == workspace().join("tests")
    }
}
