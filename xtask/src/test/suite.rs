//! Tests on real parts: network namespaces, clouds, a guest kernel, clusters.
//!
//! They are integration tests of the package `floe-tests` and marked `#[ignore]`, so that plain
//! `cargo test` leaves them alone.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use floe_testbed::cache::Lock;
use floe_testbed::cluster;
use floe_testbed::cnitool;
use floe_testbed::guest;
use floe_testbed::helm;
use floe_testbed::image::debian::Debian;
use floe_testbed::lab;
use floe_testbed::packages::{self, Need};
use floe_testbed::schemathesis;
use nix::unistd::geteuid;

use super::Settings;
use super::build::Binary;
use super::jobs::{JOBS, Job};
use super::libtest;
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

/// How long the guest may take in all. It only ends a test that hangs.
const GUEST_TIMEOUT: Duration = Duration::from_mins(20);
const GUEST_TIMEOUT_NIGHTLY: Duration = Duration::from_hours(1);

/// Tests that need the same things from this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    Netns,
    Shipped,
    Clouds,
    Monitoring,
    Guest,
    Cluster,
}

/// Tests of one target.
#[derive(Clone, Copy, Debug)]
pub struct Tests {
    /// The test target of `floe-tests`.
    pub target: &'static str,
    pub suite: Suite,
    pub place: Place,
    pub modules: Modules,
    /// The clusters that these tests bring up. They end with the program.
    pub clusters: &'static [&'static str],
}

/// Which tests of a target, by the beginnings of their names. Of several that fit, the longest
/// counts.
#[derive(Clone, Copy, Debug)]
pub enum Modules {
    All,
    Of(&'static [&'static str]),
    /// What no other job of the target has.
    Others,
}

/// Where tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Host,
    Guest,
}

impl Suite {
    /// Gets everything that the tests need, which takes long the first time, and waits for
    /// their turn if they cannot run twice on one machine.
    pub fn prepare(self) -> Result<Option<Lock>> {
        ensure!(geteuid().is_root(), "these tests need root");
        match self {
            Self::Netns => {
                lab::prepare()?;
                cnitool::prepare()?;
            }
            Self::Shipped => {
                helm::ensure()?;
                Debian::ensure()?;
            }
            // Each test fetches what it needs.
            Self::Clouds | Self::Monitoring => {}
            Self::Guest => guest::prepare()?,
            Self::Cluster => {
                cluster::prepare()?;
                packages::ensure(&CLIENTS)?;
                schemathesis::prepare()?;
                helm::ensure()?;
                Debian::ensure()?;
                // Another checkout's tests bring up clusters of the same names.
                let turn =
                    Lock::take("cluster-tests").context("cannot lock the cache directory")?;
                return Ok(Some(turn));
            }
        }
        Ok(None)
    }
}

impl Tests {
    /// Whether this is the program that has them.
    pub fn are_in(&self, binary: &Binary) -> bool {
        binary.integration
            && binary.target == self.target
            && binary.folder == workspace().join("tests")
    }

    /// Those of the listed tests that belong here.
    pub fn choose(&self, listed: Vec<String>) -> Vec<String> {
        let modules = |tests: &Tests| match tests.modules {
            Modules::Of(modules) => modules,
            Modules::All | Modules::Others => &[],
        };
        let all = JOBS.iter().filter_map(Job::tests);
        let all = all.filter(|it| it.target == self.target).flat_map(modules);
        let all: Vec<&str> = all.copied().collect();
        let is_ours = |name: &String| {
            let fitting = all.iter().filter(|it| name.starts_with(**it));
            match (self.modules, fitting.max_by_key(|it| it.len())) {
                (Modules::All, _) | (Modules::Others, None) => true,
                (Modules::Others, Some(_)) | (Modules::Of(_), None) => false,
                (Modules::Of(ours), Some(longest)) => ours.contains(longest),
            }
        };
        listed.into_iter().filter(is_ours).collect()
    }

    /// Checks that this job has tests, and that its modules exist.
    pub fn check(&self, names: &[String]) -> Result<()> {
        let target = self.target;
        ensure!(
            !names.is_empty(),
            "no test of target {target} is in this job"
        );
        if let Modules::Of(modules) = self.modules {
            for module in modules {
                let has_test = names.iter().any(|it| it.starts_with(module));
                ensure!(has_test, "target {target} has no test {module}");
            }
        }
        Ok(())
    }

    /// What a filter means to these tests, if tests of these targets were asked for: a target
    /// that is named so runs as a whole.
    pub fn filter<'a>(&self, filter: Option<&'a str>, targets: &[&str]) -> Filter<'a> {
        match filter {
            None => Filter::Everything,
            Some(word) if word == self.target => Filter::Everything,
            Some(word) if targets.contains(&word) => Filter::Nothing,
            Some(word) => Filter::Named(word),
        }
    }
}

/// Which tests a filter asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter<'a> {
    Everything,
    Named(&'a str),
    Nothing,
}

/// What runs tests inside the guest.
pub fn guest_job(settings: &Settings, binary: &Binary, names: &[String]) -> guest::Job {
    guest::Job {
        program: binary.executable.clone(),
        args: libtest::arguments(names),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tests_of(job: &str) -> &'static Tests {
        let job = JOBS.iter().find(|it| it.name == job).unwrap();
        job.tests().expect("it runs tests")
    }

    #[test]
    fn each_test_of_a_target_belongs_to_one_job() {
        let expected = [
            ("chart::everything_that_is_shipped_is_accepted", "node-side"),
            ("chart::upgrades", "chart"),
            ("cli::lists", "cli"),
            ("policies::never", "float-ips"),
            ("vips::fence::late", "shared-ip-faults"),
            ("vips::reach::nodes", "shared-ips"),
        ];
        let expected = expected.map(|(name, job)| (name.to_owned(), job));
        let listed: Vec<String> = expected.iter().map(|(name, _)| name.clone()).collect();
        let mut chosen = Vec::new();
        for job in JOBS {
            let tests = job.tests().filter(|it| it.target == "cluster");
            let names = tests.map(|it| it.choose(listed.clone()));
            chosen.extend(names.into_iter().flatten().map(|name| (name, job.name)));
        }
        chosen.sort();
        assert_eq!(chosen, expected);
    }

    #[test]
    fn the_name_of_a_target_chooses_it_whole_and_no_other() {
        let (lifecycle, cluster) = (tests_of("lifecycle"), tests_of("cli"));
        let targets = ["cluster", "lifecycle"];
        let filter = |tests: &Tests, word| tests.filter(word, &targets);
        assert_eq!(filter(lifecycle, Some("lifecycle")), Filter::Everything);
        assert_eq!(filter(cluster, Some("lifecycle")), Filter::Nothing);
        assert_eq!(filter(cluster, Some("cluster")), Filter::Everything);
        assert_eq!(filter(cluster, None), Filter::Everything);
        // The target of a part that was not asked for is a word like any other.
        assert_eq!(filter(cluster, Some("shipped")), Filter::Named("shipped"));
        for word in ["life", "powered_off"] {
            assert_eq!(filter(cluster, Some(word)), Filter::Named(word));
        }
    }

    #[test]
    fn a_job_without_tests_or_with_a_module_that_is_gone_is_an_error() {
        let cli = tests_of("cli");
        assert!(cli.check(&["cli::lists".to_owned()]).is_ok());
        assert!(cli.check(&[]).is_err());
        let chart = tests_of("chart");
        let error = chart.check(&["chart::upgrades".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "target cluster has no test guides::");
    }
}
