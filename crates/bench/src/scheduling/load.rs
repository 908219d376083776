//! Who computes how much, by the kernel's count.
//!
//! Where all processors are busy from the first pod to the last, this is what a rate comes
//! from, and it is told more exactly than the rate: it knows nothing of others who had
//! the processors meanwhile.

use std::{collections::BTreeMap, ffi::OsStr, fs};

use anyhow::{Context as _, Result};
use nix::unistd::{SysconfVar, sysconf};

/// Programs that are told by their name, as the kernel has it. All others are one.
const NAMED: [&str; 5] = [
    "kube-apiserver",
    "kube-scheduler",
    "floe-controller",
    "floe-bench",
    "etcd",
];
const OTHERS: &str = "others";
/// What the processors did not do.
const IDLE: &str = "idle";
/// What the machine below had of them.
const STOLEN: &str = "stolen";

/// The time of processors, in seconds, by who had it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load(BTreeMap<&'static str, f64>);

impl Load {
    /// All since the machine has started.
    pub fn so_far() -> Result<Self> {
        let ticks = sysconf(SysconfVar::CLK_TCK)?.context("nobody knows how long a tick is")?;
        #[allow(clippy::cast_precision_loss, reason = "100 on all machines")]
        let ticks = ticks as f64;
        let mut load = Self(BTreeMap::new());
        load.add_processors(&fs::read_to_string("/proc/stat")?);
        for entry in fs::read_dir("/proc")?.flatten() {
            if !is_process(&entry.file_name()) {
                continue;
            }
            // It may have ended meanwhile.
            if let Ok(stat) = fs::read_to_string(entry.path().join("stat")) {
                load.add_process(&stat);
            }
        }
        for time in load.0.values_mut() {
            *time /= ticks;
        }
        Ok(load)
    }

    /// That since an earlier moment.
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (who, time) in &before.0 {
            let now = since.0.entry(who).or_default();
            // One that has ended takes its time along.
            *now = (*now - time).max(0.0);
        }
        since
    }

    /// In words, for each of so many pods.
    pub fn told(&self, pods: u32) -> String {
        let mut all: Vec<(&&str, f64)> = self.0.iter().map(|(who, time)| (who, *time)).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        let words = all.into_iter().filter_map(|(who, time)| {
            let time = 1_000.0 * time / f64::from(pods);
            (time >= 0.01).then(|| format!("{who} {time:.2} ms"))
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn add_process(&mut self, stat: &str) {
        // A name may have spaces and brackets.
        let Some((name, rest)) = stat
            .split_once('(')
            .and_then(|(_, rest)| rest.rsplit_once(") "))
        else {
            return;
        };
        let name = NAMED.into_iter().find(|it| *it == name).unwrap_or(OTHERS);
        let mut fields = rest.split(' ').skip(11);
        let mut next = || fields.next().and_then(|it| it.parse::<u32>().ok());
        let (user, system) = (next().unwrap_or(0), next().unwrap_or(0));
        *self.0.entry(name).or_default() += f64::from(user) + f64::from(system);
    }

    fn add_processors(&mut self, stat: &str) {
        let all = stat
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("cpu "));
        let fields: Vec<f64> = all
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|it| it.parse().ok())
            .collect();
        let field = |place: usize| fields.get(place).copied().unwrap_or(0.0);
        self.0.insert(IDLE, field(3) + field(4));
        self.0.insert(STOLEN, field(7));
    }
}

/// Processes have numbers. Other names are those of this one (`self`) and of the machine.
fn is_process(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart_by_their_names() {
        let mut before = Load::default();
        before.add_processors("cpu  139645 0 10842 14437 1211 0 81 148 0 0\ncpu0 1 2 3 4\n");
        before.add_process("7 (etcd) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 0 0 20 0 9");
        before.add_process("8 (a) (b c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 0 0 20 0 9");
        before.add_process("no process");
        let all = BTreeMap::from([
            ("etcd", 120.0),
            (OTHERS, 11.0),
            (IDLE, 15_648.0),
            (STOLEN, 148.0),
        ]);
        assert_eq!(before.0, all);
        let mut after = before.clone();
        after.add_process("9 (etcd) S 1 7 7 0 -1 4194560 1 2 3 4 1 2 0 0 20 0 9");
        assert_eq!(after.since(&before).told(1_000), "etcd 3.00 ms");
    }

    #[test]
    fn nobody_is_counted_twice() {
        assert!(is_process(OsStr::new("4711")));
        for name in ["self", "thread-self", "stat"] {
            assert!(!is_process(OsStr::new(name)), "{name}");
        }
        let all = Load::so_far().unwrap();
        assert!(
            all.0.contains_key(IDLE) && all.0.contains_key(OTHERS),
            "{all:?}"
        );
    }
}
