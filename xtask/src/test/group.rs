//! Tests on real parts: network namespaces, clouds, a guest kernel, a cluster.
//!
//! They are integration tests of the package `floe-tests` and marked
//! `#[ignore]`, so that plain `cargo test` leaves them alone.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use floe_testbed::cache::Lock;
use floe_testbed::cluster::{self, shared::SHARED_NAME};
use floe_testbed::cnitool;
use floe_testbed::guest::{self, Job};
use floe_testbed::helm;
use floe_testbed::image::debian::Debian;
use floe_testbed::lab;
use floe_testbed::packages::{self, Need};
use floe_testbed::progress::Step;
use floe_testbed::schemathesis;
use nix::unistd::geteuid;

use super::build::{self, Binary};
use super::libtest::{self, Selection};
use super::report::{Row, Tally};
use super::rights::{self, Requests, Verdict};
use super::unit::count;
use super::{Part, Settings};
use crate::child::{Children, Interrupted};
use crate::workspace;

/// What people call the management API with.
const CLIENTS: [Need; 2] = [
    Need {
        program: "curl",
        package: "curl",
    },
    Need {
        program: "openssl",
        package: "openssl",
    },
];

/// All groups, in the order in which they run.
pub const GROUPS: &[Group] = &[
    Group {
        part: Part::Netns,
        name: "netns",
        targets: &[on_host("netns")],
        prepare: || {
            lab::prepare()?;
            cnitool::prepare()?;
            Ok(None)
        },
        clusters: &[],
    },
    Group {
        part: Part::Shipped,
        name: "shipped",
        targets: &[on_host("shipped")],
        prepare: || {
            ensure!(
                geteuid().is_root(),
                "it takes root to run programs of images"
            );
            helm::ensure()?;
            Debian::ensure()?;
            Ok(None)
        },
        clusters: &[],
    },
    Group {
        part: Part::Clouds,
        name: "clouds",
        targets: &[on_host("clouds")],
        // What each of them needs is got by the test that needs it.
        prepare: || Ok(None),
        clusters: &[],
    },
    Group {
        part: Part::Monitoring,
        name: "monitoring",
        targets: &[on_host("monitoring")],
        prepare: || Ok(None),
        clusters: &[],
    },
    Group {
        part: Part::Guest,
        name: "guest",
        targets: &[in_guest("guest"), on_host("guest_runner")],
        prepare: || Ok(guest::prepare().map(|()| None)?),
        clusters: &[],
    },
    Group {
        part: Part::Cluster,
        name: "cluster",
        // What is left after a cluster can only be seen when no other one runs.
        targets: &[
            // Who fails over by seconds needs a machine that is not kept busy by the clusters
            // of the others, which end with their program.
            Target {
                apart: Some("vips::"),
                ..on_host("cluster")
            },
            on_host("lifecycle"),
        ],
        prepare: || {
            cluster::prepare()?;
            packages::ensure(&CLIENTS)?;
            schemathesis::prepare()?;
            helm::ensure()?;
            Debian::ensure()?;
            // Another checkout's tests bring up clusters of the same names.
            let turn = Lock::take("cluster-tests").context("cannot lock the cache folder")?;
            Ok(Some(turn))
        },
        clusters: &[
            SHARED_NAME,
            "float-ips",
            "node-side",
            "cli",
            "restore",
            "shared-ips",
            "node-pools",
            "gates",
            "chart",
            "chart",
            "lifecycle",
            "lifecycle-2",
        ],
    },
];

/// Tests that need the same real parts.
pub struct Group {
    pub part: Part,
    name: &'static str,
    /// Run one after the other.
    targets: &'static [Target],
    /// Gets what the tests need, which takes long the first time, and waits for
    /// their turn if they cannot run twice on one machine.
    prepare: fn() -> Result<Option<Lock>>,
    /// The clusters that the tests bring up.
    clusters: &'static [&'static str],
}

/// A test target of `floe-tests`.
struct Target {
    name: &'static str,
    place: Place,
    /// Tests with this in their names run after the others, by themselves.
    apart: Option<&'static str>,
}

/// Tests of a target that run together.
#[derive(Clone, Copy)]
struct Run<'a> {
    target: &'static Target,
    selection: Selection,
    filter: Option<&'a str>,
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
        apart: None,
    }
}

const fn in_guest(name: &'static str) -> Target {
    Target {
        name,
        place: Place::Guest,
        apart: None,
    }
}

/// How long the guest may take in all. It only ends a test that hangs.
const GUEST_TIMEOUT: Duration = Duration::from_mins(20);
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
        let (started, since) = (Instant::now(), SystemTime::now());
        let mut row = Row::new(self.name);
        let mut requests = Requests::default();
        let mut selected = Vec::new();
        for run in self.runs(settings.filter.as_deref()) {
            let Run {
                target,
                selection,
                filter,
            } = run;
            let Some(binary) = binaries.iter().find(|binary| target.is(binary)) else {
                row.add(Tally::FAILED);
                row.note(format!("floe-tests has no test target '{}'", target.name));
                continue;
            };
            let listed = binary.count(children, settings, selection, filter);
            match listed.await? {
                Some(0) => {}
                Some(count) => selected.push((run, binary, count)),
                None => {
                    row.add(Tally::FAILED);
                    row.note(format!("{} cannot list its tests", target.name));
                }
            }
        }

        if !selected.is_empty() {
            match self.ready(children).await? {
                Err(reason) => {
                    let count = selected.iter().map(|(.., count)| count).sum();
                    row.add(Tally::missing(count, settings.ci));
                    row.note(format!("could not run: {reason}"));
                }
                Ok(_turn) => {
                    let step = Step::start(format!("{} tests", self.name));
                    for (run, binary, _) in selected {
                        let ended = run.run(children, settings, binary, &mut row);
                        let ended = ended.await;
                        row.absorb(ended)?;
                        let gone = self.wait_for_the_end_of_clusters(children).await;
                        row.absorb(gone)?;
                        for name in self.clusters {
                            row.absorb(requests.read(name, since))?;
                        }
                    }
                    if !self.clusters.is_empty() {
                        let is_whole = settings.filter.is_none();
                        match judge_rights(&requests, is_whole) {
                            Ok(verdict) => {
                                let is_fault = !verdict.refused.is_empty()
                                    || settings.nightly && !verdict.unused.is_empty();
                                row.add(if is_fault {
                                    Tally::FAILED
                                } else {
                                    Tally::PASSED
                                });
                                for it in verdict.refused {
                                    row.note(format!("refused: {it}"));
                                }
                                for it in verdict.unused {
                                    row.note(format!("granted, and never used: {it}"));
                                }
                            }
                            Err(error) => row.absorb(Err(error))?,
                        }
                    }
                    if row.tally.failed == 0 {
                        step.done();
                    } else {
                        step.fail();
                    }
                }
            }
        }
        row.elapsed = started.elapsed();
        Ok(row)
    }

    /// What runs together, one after the other.
    fn runs<'a>(&self, filter: Option<&'a str>) -> Vec<Run<'a>> {
        let chosen = self.chosen(filter).into_iter();
        chosen
            .flat_map(|(target, filter)| {
                let run = |selection, filter| Run {
                    target,
                    selection,
                    filter,
                };
                match (target.apart, filter) {
                    (Some(apart), None) => vec![
                        run(Selection::IgnoredWithout(apart), None),
                        run(Selection::Ignored, Some(apart)),
                    ],
                    (_, filter) => vec![run(Selection::Ignored, filter)],
                }
            })
            .collect()
    }

    /// What a filter means: a target that is named so, whole, or else tests by
    /// their names in all targets.
    fn chosen<'a>(&self, filter: Option<&'a str>) -> Vec<(&'static Target, Option<&'a str>)> {
        match self
            .targets
            .iter()
            .find(|target| filter == Some(target.name))
        {
            Some(target) => vec![(target, None)],
            None => self.targets.iter().map(|target| (target, filter)).collect(),
        }
    }

    /// Gets everything that is needed, or says what this machine cannot give.
    async fn ready(&self, children: &mut Children) -> Result<Result<Option<Lock>, String>> {
        if !nix::unistd::geteuid().is_root() {
            return Ok(Err(format!("{} tests need root", self.name)));
        }
        match children.wait_for(self.prepare).await {
            Ok(turn) => Ok(Ok(turn)),
            Err(error) if error.is::<Interrupted>() => Err(error),
            Err(error) => Ok(Err(format!("{error:#}"))),
        }
    }

    /// A cluster ends after the program that brought it up.
    async fn wait_for_the_end_of_clusters(&self, children: &mut Children) -> Result<()> {
        for name in self.clusters {
            children
                .wait_for(|| cluster::wait_until_gone(name))
                .await
                .with_context(|| format!("cluster {name} did not end"))?;
        }
        Ok(())
    }
}

/// What floe was refused, and, if everything has run, which rights it has never used. The former
/// is a fault, the latter one in a nightly run: a single run may miss what is rarely needed.
fn judge_rights(requests: &Requests, is_whole: bool) -> Result<Verdict> {
    let mut verdict = requests.judge(&rights::grants()?);
    if !is_whole {
        verdict.unused.clear();
    }
    Ok(verdict)
}

impl Target {
    fn is(&self, binary: &Binary) -> bool {
        binary.integration
            && binary.target == self.name
            && binary.folder == workspace().join("tests")
    }
}

impl Run<'_> {
    /// Runs the tests where they belong, and counts them in `row`.
    async fn run(
        self,
        children: &mut Children,
        settings: &Settings,
        binary: &Binary,
        row: &mut Row,
    ) -> Result<()> {
        let (selection, filter) = (self.selection, self.filter);
        let tally = match self.target.place {
            Place::Host => {
                let finished = binary.run(children, settings, selection, filter).await?;
                count(row, &binary.title(), &finished)
            }
            Place::Guest => {
                let job = guest_job(settings, binary, filter);
                let (code, stdout) = children.wait_for(move || run_in_guest(&job)).await?;
                build::tally(&stdout, code == 0).unwrap_or_else(|tally| {
                    row.note(format!(
                        "{} ended without a valid result (exit code {code})",
                        binary.title()
                    ));
                    tally
                })
            }
        };
        row.add(tally);
        Ok(())
    }
}

fn guest_job(settings: &Settings, binary: &Binary, filter: Option<&str>) -> Job {
    Job {
        program: binary.executable.clone(),
        args: libtest::arguments(Selection::Ignored, filter),
        env: binary.environment(settings),
        cwd: binary.folder.clone(),
        igb_ports: 2,
        timeout: if settings.nightly {
            GUEST_TIMEOUT_NIGHTLY
        } else {
            GUEST_TIMEOUT
        },
    }
}

/// The exit code and the output, which is also shown as it comes.
fn run_in_guest(job: &Job) -> Result<(u8, String)> {
    let mut stdout = String::new();
    let code = guest::run_with(job, |line| {
        let _ = writeln!(std::io::stdout().lock(), "{line}");
        let _ = writeln!(stdout, "{line}");
    })?;
    Ok((code, stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(part: Part, filter: &str) -> Vec<(&'static str, Option<&str>)> {
        let group = GROUPS.iter().find(|group| group.part == part).unwrap();
        let chosen = group.chosen(Some(filter)).into_iter();
        chosen
            .map(|(target, filter)| (target.name, filter))
            .collect()
    }

    #[test]
    fn the_name_of_a_target_chooses_it_whole_and_no_other_of_its_group() {
        assert_eq!(chosen(Part::Cluster, "lifecycle"), [("lifecycle", None)]);
        assert_eq!(chosen(Part::Cluster, "cluster"), [("cluster", None)]);
    }

    #[test]
    fn all_tests_of_a_target_run_and_those_apart_run_last() {
        let group = GROUPS.iter().find(|it| it.part == Part::Cluster).unwrap();
        let runs = group.runs(None).into_iter();
        let runs: Vec<Vec<String>> = runs
            .map(|run| libtest::arguments(run.selection, run.filter))
            .collect();
        let all = ["--ignored"].as_slice();
        let (others, apart) = (["--ignored", "--skip", "vips::"], ["--ignored", "vips::"]);
        assert_eq!(runs, [others.as_slice(), apart.as_slice(), all]);
        assert_eq!(group.runs(Some("ranges::")).len(), 2);
    }

    #[test]
    fn any_other_word_chooses_tests_by_their_names() {
        for word in ["life", "powered_off", "netns"] {
            assert_eq!(
                chosen(Part::Cluster, word),
                [("cluster", Some(word)), ("lifecycle", Some(word))]
            );
        }
    }
}
