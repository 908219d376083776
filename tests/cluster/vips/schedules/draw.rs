//! What goes wrong in a schedule, and when: drawn from a number, so that the same number
//! always draws the same.

use std::time::Duration;

/// Something that goes wrong, or that somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A node's cable is out.
    Cable,
    /// A node does not reach the API server, but all others.
    CutOff,
    /// An agent's process stands still.
    FrozenAgent,
    /// All processes of a node stand still, those of its pods as well.
    FrozenNode,
    /// An agent is killed.
    KilledAgent,
    /// An agent is told to end, as at an update.
    EndedAgent,
    /// The clock on the wall of an agent is wrong.
    Clock,
    /// A node has no power.
    Power,
    /// The pod of a node is not ready.
    Unready,
    /// The pod of a node is deleted.
    Deleted,
    /// Somebody wants the addresses to move to a node.
    MoveTo,
    /// Nobody reaches the API server.
    ApiServer,
}

/// All of them.
pub const FAULTS: [Fault; 12] = [
    Fault::Cable,
    Fault::CutOff,
    Fault::FrozenAgent,
    Fault::FrozenNode,
    Fault::KilledAgent,
    Fault::EndedAgent,
    Fault::Clock,
    Fault::Power,
    Fault::Unready,
    Fault::Deleted,
    Fault::MoveTo,
    Fault::ApiServer,
];

/// Whom it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The node that has the addresses then.
    Holder,
    /// The node of this number, counted from none.
    Node(usize),
}

/// One thing of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long after the one before it begins.
    pub gap: Duration,
    /// What happens.
    pub fault: Fault,
    /// To whom.
    pub target: Target,
    /// The object that is meant, counted from none.
    pub object: usize,
    /// How long it is so.
    pub lasts: Duration,
    /// By how many seconds a clock is wrong.
    pub seconds: i32,
}

/// How many things happen in a schedule.
const STEPS: u64 = 6;

/// Draws a schedule over so many nodes and objects.
pub fn draw(seed: u64, nodes: usize, objects: usize) -> Vec<Step> {
    let mut dice = Dice(seed);
    (0..STEPS)
        .map(|_| step(&mut dice, nodes, objects))
        .collect()
}

fn step(dice: &mut Dice, nodes: usize, objects: usize) -> Step {
    let fault = FAULTS[dice.below(FAULTS.len())];
    // Half of all are over before anybody gives up somebody, and the others are not.
    let lasts = if dice.below(2) == 0 {
        dice.between(200, 2500)
    } else {
        dice.between(3500, 7000)
    };
    let target = if dice.below(3) < 2 {
        Target::Holder
    } else {
        Target::Node(dice.below(nodes))
    };
    Step {
        gap: dice.between(100, 2500),
        fault,
        target,
        object: dice.below(objects),
        lasts,
        seconds: if dice.below(2) == 0 { 3600 } else { -3600 },
    }
}

/// Numbers that look random, the same after the same seed: `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit that is not zero.
    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("limits are small");
        usize::try_from(self.roll() % limit).expect("it is below the limit")
    }

    /// So many milliseconds.
    fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.roll() % (most - least))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_number_draws_the_same_each_time_and_others_draw_others() {
        let drawn: Vec<_> = (1..=20).map(|seed| draw(seed, 3, 2)).collect();
        for (seed, steps) in (1..).zip(&drawn) {
            assert_eq!(*steps, draw(seed, 3, 2));
            let same = drawn.iter().filter(|it| *it == steps).count();
            assert_eq!(same, 1, "{seed}");
        }
    }

    #[test]
    fn each_fault_is_drawn_for_holders_and_others_short_and_long() {
        let all: Vec<Step> = (1..=100).flat_map(|seed| draw(seed, 3, 2)).collect();
        for fault in FAULTS {
            let its: Vec<_> = all.iter().filter(|it| it.fault == fault).collect();
            let hit: BTreeSet<bool> = its.iter().map(|it| it.target == Target::Holder).collect();
            let long = |it: &&Step| it.lasts > Duration::from_secs(3);
            let long: BTreeSet<bool> = its.iter().map(long).collect();
            assert_eq!((hit.len(), long.len()), (2, 2), "{fault:?}");
        }
        let objects: BTreeSet<usize> = all.iter().map(|it| it.object).collect();
        assert_eq!(objects.len(), 2);
    }
}
