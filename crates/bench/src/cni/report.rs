//! What was measured of a mode, in a form that can leave the guest.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plugin::Took;
use crate::table::{Figure, Row, Wanted};

/// What floe may take of the time of the reference plugin.
const BOUND: Wanted = Wanted::RatioAtMost(1.0);

/// One mode.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was measured.
    pub title: String,
    /// The name of the reference plugin.
    pub reference: String,
    /// floe, with the address in its arguments.
    pub floe: Calls,
    /// The reference plugin, with the address from the plugin `static`.
    pub theirs: Calls,
    /// floe, with the address from the same plugin.
    pub by_static: Option<Calls>,
    /// floe, asking first whether somebody uses the address.
    pub asking: Calls,
    /// For so many milliseconds.
    pub window: u32,
}

/// Calls of one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// Attaching.
    pub add: Times,
    /// Detaching.
    pub del: Times,
}

/// What calls took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Half of them took no more.
    p50: f64,
    /// The mean.
    wall: f64,
    /// The mean time on a processor.
    processor: f64,
    /// The mean of its part outside of the kernel, at most.
    user: f64,
}

impl Times {
    /// What these calls took; none without calls.
    pub fn of(calls: &[Took]) -> Option<Self> {
        let mut walls: Vec<f64> = calls.iter().map(|it| it.wall.as_secs_f64()).collect();
        walls.sort_by(f64::total_cmp);
        let p50 = *walls.get(walls.len().div_ceil(2).checked_sub(1)?)?;
        let count = f64::from(u32::try_from(calls.len()).ok()?);
        let mean = |of: fn(&Took) -> Duration| {
            calls.iter().map(|it| of(it).as_secs_f64()).sum::<f64>() / count
        };
        Some(Self {
            p50,
            wall: mean(|it| it.wall),
            processor: mean(|it| it.processor),
            user: mean(|it| it.user),
        })
    }

    fn p50(self) -> Figure {
        Figure::Seconds(self.p50)
    }

    fn processor(self) -> Figure {
        Figure::Seconds(self.processor)
    }

    /// The part of the time in which the kernel worked or waited for itself, at least.
    /// Threads at work at the same time could make it less than nothing.
    fn kernel(self) -> Figure {
        Figure::Share((1.0 - self.user / self.wall).max(0.0))
    }
}

impl Report {
    /// Its rows. Only calls that do the same are compared.
    pub fn rows(&self) -> Vec<Row> {
        let (title, reference) = (&self.title, &self.reference);
        let mut rows = Vec::new();
        for (command, ours, theirs) in [
            ("ADD", self.floe.add, self.theirs.add),
            ("DEL", self.floe.del, self.theirs.del),
        ] {
            let name = format!("{title}: p50 of {command}, beside {reference}");
            rows.push(Row::new(name, ours.p50(), BOUND).against(theirs.p50()));
            let name = "  on a processor, mean";
            rows.push(
                Row::new(name, ours.processor(), Wanted::Nothing).against(theirs.processor()),
            );
            let name = "  the kernel's share, at least";
            rows.push(Row::new(name, ours.kernel(), Wanted::Nothing).against(theirs.kernel()));
        }
        if let Some(by_static) = &self.by_static {
            for (command, ours, theirs) in [
                ("ADD", by_static.add, self.theirs.add),
                ("DEL", by_static.del, self.theirs.del),
            ] {
                let name = format!("{title}: p50 of {command}, both by IPAM static");
                rows.push(Row::new(name, ours.p50(), Wanted::Nothing).against(theirs.p50()));
            }
        }
        let name = format!("{title}: p50 of ADD, asking for {} ms", self.window);
        rows.push(Row::new(name, self.asking.add.p50(), Wanted::Nothing));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(wall: u64, processor: u64, user: u64) -> Took {
        Took {
            wall: Duration::from_millis(wall),
            processor: Duration::from_millis(processor),
            user: Duration::from_millis(user),
        }
    }

    #[test]
    fn the_middle_of_calls_is_one_of_them() {
        let times = Times::of(&[took(13, 0, 0), took(1, 3, 2), took(2, 3, 2)]).unwrap();
        assert_eq!(times.p50(), Figure::Seconds(0.002));
        assert_eq!(times.processor(), Figure::Seconds(0.002));
        let even = Times::of(&[took(4, 0, 0), took(1, 0, 0)]).unwrap();
        assert_eq!(even.p50(), Figure::Seconds(0.001));
        assert!(Times::of(&[]).is_none());
    }

    #[test]
    fn all_but_the_time_outside_of_the_kernel_is_its_share() {
        let share = |wall, user| Times::of(&[took(wall, user, user)]).unwrap().kernel();
        assert_eq!(share(8, 2), Figure::Share(0.75));
        assert_eq!(share(8, 16), Figure::Share(0.0));
    }

    #[test]
    fn a_report_survives_the_way_out_of_the_guest() {
        let calls = |wall| {
            let times = Times::of(&[took(wall, 1, 1)]).unwrap();
            Calls {
                add: times,
                del: times,
            }
        };
        let report = Report {
            title: "vlan".into(),
            reference: "vlan".into(),
            floe: calls(3),
            theirs: calls(7),
            by_static: None,
            asking: calls(203),
            window: 200,
        };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        assert_eq!(report.rows().len(), 7);
    }
}
