//! Addresses that pods share: how long nobody answers when one moves, beside
//! keepalived.
//!
//! 1. [`keepalived`]: the reference, on plain hosts.
//! 2. [`moves`]: one address on a cluster, and all the ways in which it comes to move.
//! 3. [`crowd`]: many addresses, which appear, stay, and move all at once, beside
//!    [`bare_patches`].
//!
//! What is measured are packets: a [`prober`] asks from outside at a steady pace, and its
//! [`history`] tells what was lost.

mod bare_patches;
mod crowd;
mod echo;
mod field;
mod history;
mod keepalived;
mod learned;
mod moves;
mod prober;
mod taken;
pub mod writes;

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use floe_testbed::{
    cluster::{Cluster, spec::ClusterSpec},
    progress::Step,
};

use crate::table::{Figure, Row, Wanted};
use field::Field;
use history::{Outage, Spread};
use keepalived::Reference;
use moves::{Kind, Round};

/// The name of the cluster.
const CLUSTER: &str = "bench-failover";
/// What a planned move may lose.
const PLANNED: Wanted = Wanted::AtMost(Figure::Count(2.0));
/// How long packets may be lost once the API server knows.
const KNOWN: Wanted = Wanted::AtMost(Figure::Seconds(0.3));
/// How long nobody may answer after a node has died.
const DEAD: Wanted = Wanted::AtMost(Figure::Seconds(4.0));

/// What can be measured alone.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The reference, without a cluster
    Keepalived,
    /// One address that moves
    Moves,
    /// Many addresses
    Crowd,
}

/// How much of it there is.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Rounds of the reference, of each kind.
    keepalived: usize,
    /// Planned moves.
    planned: usize,
    /// Moves because of a pod, of each kind.
    pods: usize,
    /// Moves because of a node, of each kind.
    nodes: usize,
    /// The many.
    crowd: crowd::Size,
}

impl Effort {
    /// What the promises are about.
    pub const FULL: Self = Self {
        keepalived: 5,
        planned: 10,
        pods: 5,
        nodes: 3,
        crowd: crowd::Size {
            all: 1_000,
            watched: Duration::from_mins(1),
        },
    };
    /// A round of each, to try the benchmarks themselves.
    pub const QUICK: Self = Self {
        keepalived: 1,
        planned: 1,
        pods: 1,
        nodes: 1,
        crowd: crowd::Size {
            all: 100,
            watched: Duration::from_secs(10),
        },
    };

    /// With this many addresses as the many, if that is said.
    pub fn with_addresses(mut self, addresses: Option<u32>) -> Self {
        self.crowd.all = addresses.unwrap_or(self.crowd.all);
        self
    }
}

/// Measures all parts, or one. What fails is told in the table; the rest goes on.
pub fn measure(only: Option<Part>, effort: Effort) -> Result<Vec<Row>> {
    let wants = |part| only.is_none_or(|only| only == part);
    let mut rows = Vec::new();
    let mut reference = Reference::default();
    if wants(Part::Keepalived) {
        match Step::run("keepalived", || keepalived::measure(effort.keepalived)) {
            Ok(measured) => reference = measured,
            Err(error) => rows.push(Row::failed("keepalived", &error)),
        }
        rows.extend(of_reference(&reference));
    }
    if wants(Part::Moves) || wants(Part::Crowd) {
        let cluster = Cluster::up(&ClusterSpec::new(CLUSTER)).context("cannot make a cluster")?;
        let runtime = tokio::runtime::Runtime::new()?;
        rows.extend(runtime.block_on(on_cluster(&cluster, only, effort, &reference))?);
    }
    Ok(rows)
}

async fn on_cluster(
    cluster: &Cluster,
    only: Option<Part>,
    effort: Effort,
    reference: &Reference,
) -> Result<Vec<Row>> {
    let wants = |part| only.is_none_or(|only| only == part);
    let field = Step::run_async("installing floe", Field::prepare(cluster)).await?;
    let mut rows = Vec::new();
    if wants(Part::Moves) {
        Step::run_async("sharing an address", field.share()).await?;
        for kind in Kind::ALL {
            match moves::measure(&field, kind, effort).await {
                Ok(rounds) => rows.extend(of_moves(kind, &rounds, reference)),
                Err(error) => rows.push(Row::failed(kind.title(), &error)),
            }
        }
        Step::run_async("giving the address back", field.unshare()).await?;
    }
    if wants(Part::Crowd) {
        match crowd::measure(&field, effort.crowd).await {
            Ok(measured) => rows.extend(measured),
            Err(error) => rows.push(Row::failed("many addresses", &error)),
        }
    }
    Ok(rows)
}

/// The rows of the reference itself.
fn of_reference(reference: &Reference) -> Vec<Row> {
    let kinds = [
        ("keepalived, host switched off", &reference.power_off),
        ("keepalived, told to end", &reference.stopped),
    ];
    let rows = kinds.into_iter().filter_map(|(title, outages)| {
        let (lost, gap) = (losses(outages)?, gaps(outages)?);
        Some([
            Row::new(packets(title, outages.len()), lost.max, Wanted::Nothing),
            Row::new("  longest gap, p50", gap.p50, Wanted::Nothing),
            Row::new("  longest gap, max", gap.max, Wanted::Nothing),
        ])
    });
    rows.flatten().collect()
}

/// The rows of a kind of move, beside what keepalived takes for the like of it.
fn of_moves(kind: Kind, rounds: &[Round], reference: &Reference) -> Vec<Row> {
    let outages: Vec<Outage> = rounds.iter().map(|it| it.outage).collect();
    let (Some(lost), Some(gap)) = (losses(&outages), gaps(&outages)) else {
        return Vec::new();
    };
    let (of_lost, of_gap, theirs) = match kind {
        Kind::Planned => (PLANNED, Wanted::Nothing, &reference.stopped[..]),
        Kind::PowerOff | Kind::LeaderOff => (Wanted::Nothing, DEAD, &reference.power_off[..]),
        // It knows no pods.
        Kind::Unready | Kind::Deleted | Kind::Drain => (Wanted::Nothing, Wanted::Nothing, &[][..]),
    };
    let beside = |row: Row, figure: Option<Figure>| match figure {
        Some(figure) => row.against(figure),
        None => row,
    };
    let (their_lost, their_gap) = (losses(theirs), gaps(theirs));
    let mut rows = vec![
        beside(
            Row::new(packets(kind.title(), rounds.len()), lost.max, of_lost),
            their_lost.map(|it| it.max),
        ),
        beside(
            Row::new("  longest gap, p50", gap.p50, Wanted::Nothing),
            their_gap.map(|it| it.p50),
        ),
        beside(
            Row::new("  longest gap, max", gap.max, of_gap),
            their_gap.map(|it| it.max),
        ),
    ];
    let known = Spread::of(rounds.iter().filter_map(|it| it.after_known));
    if let Some(known) = known {
        // A drain is only promised to be a move like another.
        let wanted = match kind {
            Kind::Unready | Kind::Deleted => KNOWN,
            Kind::Planned | Kind::Drain | Kind::PowerOff | Kind::LeaderOff => Wanted::Nothing,
        };
        let name = "  lost after the API server knew";
        rows.push(Row::new(
            format!("{name}, p50"),
            seconds(known.p50),
            Wanted::Nothing,
        ));
        rows.push(Row::new(format!("{name}, max"), seconds(known.max), wanted));
    }
    rows
}

fn packets(title: &str, rounds: usize) -> String {
    format!("{title}: packets lost, most of {rounds}")
}

fn losses(outages: &[Outage]) -> Option<Spread<Figure>> {
    let lost = Spread::of(outages.iter().map(|it| it.lost))?;
    Some(Spread {
        p50: Figure::Count(f64::from(lost.p50)),
        max: Figure::Count(f64::from(lost.max)),
    })
}

fn gaps(outages: &[Outage]) -> Option<Spread<Figure>> {
    let gaps = Spread::of(outages.iter().map(|it| it.gap))?;
    Some(Spread {
        p50: seconds(gaps.p50),
        max: seconds(gaps.max),
    })
}

fn seconds(duration: Duration) -> Figure {
    Figure::Seconds(duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn outage(lost: u32, gap: u64) -> Outage {
        Outage {
            lost,
            gap: ms(gap),
            over: None,
        }
    }

    fn round(lost: u32, gap: u64, after_known: Option<u64>) -> Round {
        Round {
            outage: outage(lost, gap),
            after_known: after_known.map(ms),
        }
    }

    fn table(kind: Kind, rounds: &[Round], reference: &Reference) -> (String, bool) {
        let mut table = Table::default();
        table.extend(of_moves(kind, rounds, reference));
        (table.to_string(), table.holds())
    }

    #[test]
    fn the_worst_round_is_held_to_the_promise_of_its_kind() {
        let none = Reference::default();
        let holds = |kind, round| table(kind, &[round], &none).1;
        assert!(holds(Kind::Planned, round(2, 30, None)));
        assert!(!holds(Kind::Planned, round(3, 40, None)));
        assert!(holds(Kind::PowerOff, round(400, 4_000, None)));
        assert!(!holds(Kind::PowerOff, round(401, 4_001, None)));
        assert!(!holds(Kind::LeaderOff, round(401, 4_001, None)));
        for kind in [Kind::Unready, Kind::Deleted] {
            assert!(holds(kind, round(130, 1_300, Some(300))));
            assert!(!holds(kind, round(131, 1_310, Some(301))));
        }
        assert!(holds(Kind::Drain, round(131, 1_310, Some(301))));
        let rounds = [round(0, 10, None), round(9, 100, None), round(1, 20, None)];
        assert!(!table(Kind::Planned, &rounds, &none).1);
    }

    #[test]
    fn moves_stand_beside_the_like_of_them_in_the_reference() {
        let reference = Reference {
            power_off: vec![outage(300, 3_000), outage(400, 4_000), outage(350, 3_500)],
            stopped: vec![outage(60, 600)],
        };
        let (text, _) = table(Kind::PowerOff, &[round(200, 2_000, None)], &reference);
        let cells: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|it| !it.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(cells[0][1..4], ["200", "400", "0.50"]);
        assert_eq!(cells[1][1..4], ["2.00 s", "3.50 s", "0.57"]);
        assert_eq!(cells[2][1..4], ["2.00 s", "4.00 s", "0.50"]);
        let (text, _) = table(Kind::Planned, &[round(1, 20, None)], &reference);
        assert!(text.contains("60"), "{text}");
        let (text, _) = table(Kind::Deleted, &[round(1, 20, Some(5))], &reference);
        assert!(!text.contains("60"), "{text}");
        assert_eq!(of_reference(&reference).len(), 6);
        assert!(of_reference(&Reference::default()).is_empty());
    }
}
