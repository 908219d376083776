//! All jobs of `cargo xtask test`, and what each needs of the machine.
//!
//! Loads and times are those of the report of a whole run on two processors. They decide what runs
//! when, so they need not be exact.

use super::Part;
use super::check::Check;
use super::schedule::{Needs, Resource};
use super::suite::{Modules, Place, Suite, Tests};

/// A piece of work that runs as a whole, beside others.
pub struct Job {
    pub name: &'static str,
    /// The part that asks for it; none if it runs only because others need it.
    pub part: Option<Part>,
    pub needs: Needs,
    pub work: Work,
}

pub enum Work {
    Check(Check),
    /// Compiles everything that the other jobs run.
    Build,
    /// Gets what tests need, which takes long the first time.
    Prepare(Suite),
    Unit,
    /// The examples in the documentation.
    Documentation,
    Tests(Tests),
}

impl Job {
    /// Whether it runs programs that have to be built first.
    pub fn is_after_build(&self) -> bool {
        match self.work {
            Work::Check(_) | Work::Build | Work::Prepare(_) => false,
            Work::Unit | Work::Documentation | Work::Tests(_) => true,
        }
    }

    /// The suite for which it gets what is needed.
    pub fn prepares(&self) -> Option<Suite> {
        match self.work {
            Work::Prepare(suite) => Some(suite),
            Work::Check(_) | Work::Build | Work::Unit | Work::Documentation | Work::Tests(_) => {
                None
            }
        }
    }

    /// The tests on real parts that it runs.
    pub fn tests(&self) -> Option<&Tests> {
        match &self.work {
            Work::Tests(tests) => Some(tests),
            Work::Check(_) | Work::Build | Work::Prepare(_) | Work::Unit | Work::Documentation => {
                None
            }
        }
    }
}

/// The load of jobs that could take all processors, but leave them to others.
const BACKGROUND: u32 = 5;

/// Nodes lose shared addresses when their agents have to wait for a processor for seconds.
const SHARED_IPS_QUIET: u32 = 12;

/// All jobs.
pub const JOBS: &[Job] = &[
    check("formatting", Check::Formatting, 10, 5),
    check("rules", Check::Dependencies, 10, 5),
    check("licences", Check::Licences, 10, 10),
    Job {
        name: "clippy",
        part: Some(Part::Check),
        needs: Needs {
            load: BACKGROUND,
            ..cargo(220)
        },
        work: Work::Check(Check::Clippy),
    },
    Job {
        name: "build",
        part: None,
        // The others wait for it.
        needs: cargo(3600),
        work: Work::Build,
    },
    Job {
        name: "unit",
        part: Some(Part::Unit),
        needs: beside(BACKGROUND, 60),
        work: Work::Unit,
    },
    Job {
        name: "examples",
        part: Some(Part::Unit),
        needs: Needs {
            load: BACKGROUND,
            ..cargo(60)
        },
        work: Work::Documentation,
    },
    prepare("netns-tools", Part::Netns, Suite::Netns),
    tests(
        "netns",
        Part::Netns,
        Needs {
            // Its networks are files.
            shared: &[Resource::Mounts],
            // 200 s, and as long as the test of a cluster's life, which has to follow.
            ..beside(10, 270)
        },
        on_host("netns", Suite::Netns),
    ),
    prepare("image-tools", Part::Shipped, Suite::Shipped),
    tests(
        "shipped",
        Part::Shipped,
        beside(15, 120),
        on_host("shipped", Suite::Shipped),
    ),
    tests(
        "clouds",
        Part::Clouds,
        beside(5, 140),
        on_host("clouds", Suite::Clouds),
    ),
    tests(
        "monitoring",
        Part::Monitoring,
        beside(10, 5),
        on_host("monitoring", Suite::Monitoring),
    ),
    prepare("kernel", Part::Guest, Suite::Guest),
    tests(
        "guest",
        Part::Guest,
        // It emulates two processors, which mostly wait for cards.
        beside(8, 220),
        Tests {
            place: Place::Guest,
            ..on_host("guest", Suite::Guest)
        },
    ),
    tests(
        "guest-runner",
        Part::Guest,
        beside(10, 30),
        on_host("guest_runner", Suite::Guest),
    ),
    prepare("kubernetes", Part::Cluster, Suite::Cluster),
    tests(
        "float-ips",
        Part::Cluster,
        beside(8, 200),
        Tests {
            clusters: &["float-ips"],
            modules: Modules::Others,
            ..on_host("cluster", Suite::Cluster)
        },
    ),
    tests(
        "shared-ips",
        Part::Cluster,
        Needs {
            quiet: Some(SHARED_IPS_QUIET),
            ..beside(5, 500)
        },
        of_cluster(&["shared-ips"], &["vips::"]),
    ),
    tests(
        "shared-ip-faults",
        Part::Cluster,
        Needs {
            quiet: Some(SHARED_IPS_QUIET),
            ..beside(5, 500)
        },
        of_cluster(
            &["shared-ip-faults"],
            &[
                "vips::calico::",
                "vips::cleanup::",
                "vips::clouds::",
                "vips::connections::",
                "vips::fence::",
                "vips::pools::",
                "vips::schedules::",
            ],
        ),
    ),
    tests(
        "node-side",
        Part::Cluster,
        beside(6, 270),
        of_cluster(
            &["node-side"],
            &[
                "attached::",
                "chart::everything_that_is_shipped",
                "edited::",
                "imposter::",
                "moving::",
                "restarts::",
                "returning::",
                "services::",
                "several::",
                "undone::",
            ],
        ),
    ),
    tests(
        "kubernetes-itself",
        Part::Cluster,
        beside(8, 100),
        of_cluster(
            &["tests"],
            &[
                "addresses::",
                "api_server::",
                "connectivity::",
                "controller::",
                "extender::",
                "images::",
                "node_faults::",
            ],
        ),
    ),
    tests(
        "node-pools",
        Part::Cluster,
        beside(4, 210),
        of_cluster(&["node-pools"], &["nodepools::"]),
    ),
    tests(
        "gates",
        Part::Cluster,
        beside(7, 110),
        of_cluster(&["gates"], &["gates::"]),
    ),
    tests(
        "chart",
        Part::Cluster,
        beside(7, 290),
        of_cluster(&["chart"], &["chart::", "guides::"]),
    ),
    tests(
        "cli",
        Part::Cluster,
        beside(5, 85),
        of_cluster(&["cli"], &["cli::"]),
    ),
    tests(
        "restore",
        Part::Cluster,
        beside(7, 75),
        of_cluster(&["restore"], &["restore::"]),
    ),
    tests(
        "lifecycle",
        Part::Cluster,
        Needs {
            // It looks for what is left.
            exclusive: &[Resource::Mounts],
            ..beside(10, 70)
        },
        Tests {
            clusters: &["lifecycle", "lifecycle-2"],
            ..on_host("lifecycle", Suite::Cluster)
        },
    ),
];

const fn check(name: &'static str, check: Check, load: u32, seconds: u32) -> Job {
    Job {
        name,
        part: Some(Part::Check),
        needs: beside(load, seconds),
        work: Work::Check(check),
    }
}

const fn prepare(name: &'static str, part: Part, suite: Suite) -> Job {
    Job {
        name,
        part: Some(part),
        // Nearly always everything is there; the first time the tests wait for it.
        needs: beside(10, 900),
        work: Work::Prepare(suite),
    }
}

const fn tests(name: &'static str, part: Part, needs: Needs, tests: Tests) -> Job {
    Job {
        name,
        part: Some(part),
        needs,
        work: Work::Tests(tests),
    }
}

/// A job that keeps so many tenths of a processor busy for so long, beside others.
const fn beside(load: u32, seconds: u32) -> Needs {
    Needs {
        load,
        quiet: None,
        exclusive: &[],
        shared: &[],
        seconds,
    }
}

/// Cargo takes all processors.
const fn cargo(seconds: u32) -> Needs {
    Needs {
        exclusive: &[Resource::Cargo],
        ..beside(20, seconds)
    }
}

/// All tests of a target, on this machine.
const fn on_host(target: &'static str, suite: Suite) -> Tests {
    Tests {
        target,
        suite,
        place: Place::Host,
        modules: Modules::All,
        clusters: &[],
    }
}

/// The tests of some modules, which have clusters of their own.
const fn of_cluster(clusters: &'static [&'static str], modules: &'static [&'static str]) -> Tests {
    Tests {
        clusters,
        modules: Modules::Of(modules),
        ..on_host("cluster", Suite::Cluster)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_jobs_and_clusters_are_unique() {
        let names: BTreeSet<_> = JOBS.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), JOBS.len());
        let tests = JOBS.iter().filter_map(Job::tests);
        let clusters: Vec<_> = tests.flat_map(|it| it.clusters).collect();
        let unique: BTreeSet<_> = clusters.iter().collect();
        assert_eq!(unique.len(), clusters.len());
    }

    /// The modules of `tests/cluster` that use a cluster by this word in their source.
    fn users_of(word: &str) -> BTreeSet<String> {
        let directory = crate::workspace().join("tests/cluster");
        let files = std::fs::read_dir(directory).unwrap().flatten();
        let users = files.filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let module = name.strip_suffix(".rs")?;
            let text = std::fs::read_to_string(file.path()).ok()?;
            let is_user = ["alone", "together"]
                .iter()
                .any(|it| text.contains(&format!(" {word}::{it}()")));
            is_user.then(|| format!("{module}::"))
        });
        users.collect()
    }

    #[test]
    fn modules_that_share_a_cluster_are_in_its_job() {
        for (word, cluster) in [("segment", "node-side"), ("shared", "tests")] {
            let jobs = JOBS.iter().filter_map(Job::tests);
            let mut jobs = jobs.filter(|it| it.clusters == [cluster]);
            let Some(Modules::Of(modules)) = jobs.next().map(|it| it.modules) else {
                panic!("{cluster} has no modules");
            };
            let users = users_of(word);
            assert!(!users.is_empty());
            for module in users {
                // Of the chart's module one test does, and is listed by its name.
                let is_listed = modules.iter().any(|it| it.starts_with(&module));
                assert!(is_listed, "{module} uses {word} and is not in {cluster}");
            }
        }
    }
}
