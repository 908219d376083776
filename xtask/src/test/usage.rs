//! What the machine did during the tests: how busy its processors were, and how much each
//! cluster computed.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use floe_testbed::cluster;

use super::jobs::Job;

/// Sampled while jobs run.
#[derive(Debug)]
pub struct Usage {
    last: Option<(Ticks, Instant)>,
    /// Of the whole command.
    pub machine: Share,
    /// While each job ran.
    pub jobs: BTreeMap<&'static str, Share>,
    pub clusters: BTreeMap<&'static str, Cost>,
}

/// Time, and how much of it the processors were busy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    time: f64,
    busy: f64,
}

/// What a cluster has computed, with all of its nodes and pods.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How long it existed.
    pub alive: Duration,
    /// How much of that it came up.
    pub starting: Duration,
    /// Time of a processor.
    pub processor: Duration,
}

/// What the kernel has counted for all processors together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    total: u64,
    idle: u64,
}

impl Share {
    /// How busy the processors were, in percent.
    pub fn percent(self) -> f64 {
        if self.time > 0.0 {
            100.0 * self.busy / self.time
        } else {
            0.0
        }
    }

    fn add(&mut self, time: f64, busy: f64) {
        self.time += time;
        self.busy += time * busy;
    }
}

impl Usage {
    pub fn new() -> Self {
        Self {
            last: None,
            machine: Share::default(),
            jobs: BTreeMap::new(),
            clusters: BTreeMap::new(),
        }
    }

    /// Takes in what happened since the last sample.
    pub fn sample(&mut self, running: &[&'static Job]) {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let Some(ticks) = Ticks::parse(&stat) else {
            return;
        };
        let now = Instant::now();
        let Some((before, at)) = self.last.replace((ticks, now)) else {
            return;
        };
        let elapsed = now - at;
        let (time, busy) = (elapsed.as_secs_f64(), ticks.busy_since(before));
        self.machine.add(time, busy);
        for job in running {
            self.jobs.entry(job.name).or_default().add(time, busy);
            for name in job.tests().iter().flat_map(|it| it.clusters) {
                // It comes up only when a test asks for it.
                if let Some(computed) = cluster::computed(name) {
                    let cluster = self.clusters.entry(name).or_default();
                    cluster.alive += elapsed;
                    if !cluster::is_up(name) {
                        cluster.starting += elapsed;
                    }
                    cluster.processor = cluster.processor.max(computed);
                }
            }
        }
    }
}

impl Ticks {
    /// Reads the first line of `/proc/stat`: `cpu  user nice system idle iowait irq softirq
    /// steal guest guest_nice`, where guests count in user and nice, too.
    fn parse(stat: &str) -> Option<Self> {
        let counts = stat.lines().next()?.strip_prefix("cpu ")?;
        let counts: Vec<u64> = counts
            .split_whitespace()
            .take(8)
            .map_while(|it| it.parse().ok())
            .collect();
        let idle = counts.get(3)? + counts.get(4).unwrap_or(&0);
        Some(Self {
            total: counts.iter().sum(),
            idle,
        })
    }

    /// How much of the time between was not idle.
    fn busy_since(self, before: Self) -> f64 {
        let (total, idle) = (
            self.total.saturating_sub(before.total),
            self.idle.saturating_sub(before.idle),
        );
        if total == 0 {
            return 0.0;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "ticks between two samples are few"
        )]
        let share = idle as f64 / total as f64;
        1.0 - share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_not_idle_and_does_not_wait_for_disks() {
        let ticks = |stat: &str| Ticks::parse(stat).unwrap();
        let before = ticks("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n");
        let after = ticks("cpu  130 0 70 840 60 0 0 0 9 0\n");
        let busy = after.busy_since(before);
        assert!((busy - 0.5).abs() < 1e-9, "{busy}");
        assert!(before.busy_since(before).abs() < 1e-9);
        for strange in ["", "intr 1 2", "cpu  1 2 3", "cpu  a b c d"] {
            assert_eq!(Ticks::parse(strange), None, "{strange}");
        }
    }
}
