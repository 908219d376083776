//! How many pods are bound each second, from created to bound, with floe's two ways of
//! scheduling, beside a scheduler without floe.
//!
//! The cluster is one of `floe-testbed` of which little is left: API server and etcd. Nodes
//! are objects without a machine, nobody runs pods, and nobody else writes. The scheduler
//! is the real one, a process of the [benchmark](scheduler), so that each turn has the one
//! it needs: with an extender or without, and otherwise with the same settings.
//!
//! - [`field`]: the cluster, and what has to be there before anything is measured.
//! - [`turn`]: one [`Case`], measured once. All take turns, so that whatever else the
//!   machine does hits all of them alike.
//! - [`bare`]: the writes of floe without floe.
//! - [`load`]: who computes how much meanwhile.
//! - [`rows`]: what comes of all turns.

mod bare;
mod changes;
mod field;
mod load;
mod pods;
mod rows;
mod scheduler;
mod turn;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use floe_testbed::{
    cluster::{Cluster, spec::ClusterSpec},
    progress::Step,
};

use crate::{
    scene::Size,
    table::{Figure, Row},
};
use field::Field;
use rows::{Measured, Round};

/// The name of the cluster.
const NAME: &str = "bench-scheduling";

/// How much of it there is.
#[derive(Clone, Copy)]
pub struct Effort {
    /// How often every case has its turn. An odd number has a middle.
    rounds: usize,
    /// Pods of each turn.
    pods: u32,
}

impl Effort {
    /// What the promises are about.
    pub const FULL: Self = Self {
        rounds: 9,
        pods: 1_000,
    };
    /// Small enough to try the benchmark itself.
    pub const QUICK: Self = Self {
        rounds: 3,
        pods: 100,
    };

    /// With this many pods in each turn and this many rounds, if that is said.
    pub fn with(mut self, pods: Option<u32>, rounds: Option<u32>) -> Self {
        self.pods = pods.unwrap_or(self.pods);
        self.rounds = rounds.map_or(self.rounds, |it| it as usize);
        self
    }

    /// The nodes, and their addresses: twice as many as pods, in ten node subnets.
    fn size(self) -> Size {
        let subnets = 10;
        Size {
            subnets,
            nodes_per_subnet: 10,
            held_per_subnet: 0,
            free_per_subnet: (2 * self.pods).div_ceil(subnets) + turn::WARM_UP,
            pods: self.pods,
            ..Size::FULL
        }
    }
}

/// What can be measured alone.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Scheduling gates
    Gates,
    /// The scheduler's extender
    Extender,
}

impl Part {
    /// A way of floe, and the reference that makes its writes.
    fn pair(self) -> [Case; 2] {
        match self {
            Self::Gates => [Case::Gates, Case::BareGates],
            Self::Extender => [Case::Extender, Case::BareExtender],
        }
    }

    /// What is measured if only this is wanted.
    fn wanted(only: Option<Self>) -> Vec<Self> {
        only.map_or_else(|| Self::value_variants().to_vec(), |only| vec![only])
    }
}

/// Who schedules what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// The scheduler alone; pods want no address.
    Plain,
    /// The scheduler alone, and the writes of gates made by a bare loop.
    BareGates,
    /// floe lets pods through their gates.
    Gates,
    /// The scheduler alone, and the writes of an extender made by a bare loop.
    BareExtender,
    /// floe is the scheduler's extender.
    Extender,
}

impl Case {
    /// The flags of the controller, where there is one.
    fn controller(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Gates => Some(&["--scheduling=gates"]),
            Self::Extender => Some(&["--scheduling=extender"]),
            Self::Plain | Self::BareGates | Self::BareExtender => None,
        }
    }

    /// Whether pods get addresses.
    fn has_addresses(self) -> bool {
        self != Self::Plain
    }

    /// Whether pods are created with the gate.
    fn has_gates(self) -> bool {
        matches!(self, Self::BareGates | Self::Gates)
    }

    /// Whether a bare loop writes.
    fn is_bare(self) -> bool {
        matches!(self, Self::BareGates | Self::BareExtender)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Plain => "the scheduler alone",
            Self::BareGates => "the scheduler and bare writes of gates",
            Self::Gates => "gates",
            Self::BareExtender => "the scheduler and bare writes of an extender",
            Self::Extender => "extender",
        }
    }
}

/// The cases of a round. One and its reference come one after the other, since the machine
/// is not as fast at all times; now this one is first and now that one, and so are pairs,
/// since nobody knows what a turn leaves to the next one.
fn order(round: usize, parts: &[Part]) -> Vec<Case> {
    let mut pairs = vec![vec![Case::Plain]];
    pairs.extend(parts.iter().map(|part| {
        let [floe, bare] = part.pair();
        vec![bare, floe]
    }));
    let first = round % pairs.len();
    pairs.rotate_left(first);
    let mut order = pairs.concat();
    // With an even number of them, each would else always stand in the same place.
    let turned = if pairs.len() % 2 == 1 {
        round
    } else {
        round / pairs.len()
    };
    if turned % 2 == 1 {
        order.reverse();
    }
    order
}

/// Makes a cluster and measures on it. It is gone afterwards, however that ends.
pub async fn measure(only: Option<Part>, effort: Effort) -> Result<Vec<Row>> {
    let cluster = tokio::task::spawn_blocking(|| Cluster::up(&ClusterSpec::new(NAME).nodes(1)))
        .await?
        .context("cannot make a cluster")?;
    let rows = Box::pin(measure_on(&cluster, &Part::wanted(only), effort)).await;
    // It waits for the cluster's end, which blocks.
    tokio::task::spawn_blocking(|| drop(cluster)).await?;
    rows
}

async fn measure_on(cluster: &Cluster, parts: &[Part], effort: Effort) -> Result<Vec<Row>> {
    let size = effort.size();
    let title = format!("writing {} nodes", size.nodes());
    let field = Step::run_async(title, Field::prepare(cluster, size)).await?;
    let mut rounds = Vec::new();
    for number in 0..effort.rounds {
        let mut round = Round::new();
        for case in order(number, parts) {
            let title = format!("round {} of {}: {}", number + 1, effort.rounds, case.text());
            let measured = Step::run_async(title, Box::pin(turn::take(&field, case))).await?;
            tell(&measured);
            round.insert(case, measured);
        }
        for (name, ratio) in rows::ratios(&round, parts) {
            eprintln!("    {name}: {ratio:.2} of the pods of its bare writes each second");
        }
        rounds.push(round);
    }
    Ok(rows::of(&rounds, parts))
}

/// Says on standard error what a turn came to.
fn tell(measured: &Measured) {
    eprintln!(
        "    {}: {} until all are bound, {} until all is written, {:.2} writes for each pod",
        Figure::PerSecond(measured.rate()),
        Figure::Seconds(measured.bound),
        Figure::Seconds(measured.written),
        measured.writes,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_its_turn_beside_its_reference_now_before_and_now_after_it() {
        let position = |order: &[Case], case| order.iter().position(|it| *it == case).unwrap();
        for (case, reference) in [
            (Case::Gates, Case::BareGates),
            (Case::Extender, Case::BareExtender),
        ] {
            let mut before = 0;
            for round in 0..Effort::FULL.rounds {
                let order = order(round, &Part::wanted(None));
                assert_eq!(order.len(), 5);
                let (one, other) = (position(&order, case), position(&order, reference));
                assert_eq!(one.abs_diff(other), 1, "{order:?}");
                before += usize::from(one < other);
            }
            assert_eq!(before, Effort::FULL.rounds / 2);
        }
        let alone = |round| order(round, &Part::wanted(Some(Part::Gates)));
        let (plain, floe, bare) = (Case::Plain, Case::Gates, Case::BareGates);
        assert_eq!(alone(0), [plain, bare, floe]);
        assert_eq!(alone(1), [bare, floe, plain]);
        assert_eq!(alone(2), [floe, bare, plain]);
        assert_eq!(alone(3), [plain, floe, bare]);
    }
}
