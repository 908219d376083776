//! A model of how all addresses of a dead node could move by one write (decision 0006).
//!
//! The rules here are not yet those of the [`Keeper`](crate::vip::keeper::Keeper). The model
//! has what they have to withstand: writes and answers that are late or lost, watches that
//! show the past, processes that stop, go on and begin anew, clocks of different speed,
//! heirs that die, and a controller that takes addresses back. Two nodes never speak for an
//! address, and when the faults end, each address is spoken for. Each rule is needed: a
//! model that lacks one is found out.

use flaw::Flaw;
use server::Count;
use world::World;

mod agent;
mod chain;
pub mod flaw;
mod scripts;
mod server;
mod world;

/// How many lives are tried for each flaw, at most.
const TRIES: u64 = 4_000;

#[test]
fn nobody_speaks_twice_and_somebody_speaks_when_it_is_calm() {
    let mut sum = Count::default();
    for seed in 0..lives() {
        match live(seed, None) {
            Ok(count) => {
                sum.ends += count.ends;
                sum.inherited += count.inherited;
                sum.deeds += count.deeds;
                sum.chains += count.chains;
                sum.freed += count.freed;
            }
            Err(why) => panic!("seed {seed}: {why:?}"),
        }
    }
    // All that can go wrong has had its chance.
    assert!(sum.ends > 50 && sum.inherited > 50, "{sum:?}");
    assert!(sum.deeds > 50 && sum.chains > 10, "{sum:?}");
    assert!(sum.freed > 10, "{sum:?}");
}

#[test]
fn two_speak_when_a_rule_is_left_out() {
    for (flaw, seed) in flaw::IN_LIVES {
        let harms = |seed: &u64| matches!(live(*seed, Some(flaw)), Err(Wrong::Spoken(_)));
        let found = [seed].into_iter().chain(0..TRIES).find(harms);
        assert!(found.is_some(), "{flaw:?} does no harm in {TRIES} lives");
    }
}

/// As many lives as the nightly run wants, or a few.
fn lives() -> u64 {
    u64::from(proptest::prelude::ProptestConfig::default().cases.div_ceil(2))
}

/// What must not be.
#[derive(Debug)]
pub enum Wrong {
    /// Two speak for an address, or one for an address that somebody else has by now.
    Spoken(String),
    /// Nobody speaks for an address, and no fault is the reason.
    Silent(String),
}

/// One life; what was done in it, or what went wrong.
pub fn live(seed: u64, flaw: Option<Flaw>) -> Result<Count, Wrong> {
    let (nodes, vips) = (2 + seed % 3, 1 + seed / 3 % 4);
    let (nodes, vips) = (usize::try_from(nodes).unwrap(), usize::try_from(vips).unwrap());
    let mut world = World::new(seed, nodes, vips, flaw);
    let gap = [300, 1_000, 3_000][world.dice.index(3)];
    world.rough = world.dice.percent(80);
    while world.now < 40_000 && world.violation.is_none() {
        let next = world.now + world.dice.from(1, gap);
        world.run_until(next);
        fault(&mut world);
    }
    world.heal();
    // What was on its way arrives, and addresses that were taken back are granted again.
    let settled = world.now + 20_000;
    world.run_until(settled);
    for _ in 0..50 {
        let next = world.now + 100;
        world.run_until(next);
        let silent = (0..vips).find(|vip| world.speakers(*vip).is_empty());
        if let (Some(vip), None) = (silent, &world.violation) {
            let truth = world.truth(vip);
            return Err(Wrong::Silent(format!("{vip}: {truth:?}")));
        }
    }
    match world.violation {
        Some(what) => Err(Wrong::Spoken(what)),
        None => Ok(world.server.count),
    }
}

fn fault(world: &mut World) {
    let node = world.dice.index(world.nodes.len());
    let vip = world.dice.index(world.server.vips.len());
    let span = match world.dice.from(0, 10) {
        0..4 => world.dice.from(100, 3_000),
        4..9 => world.dice.from(2_000, 8_000),
        _ => world.dice.from(8_000, 15_000),
    };
    let until = world.now + span;
    match world.dice.from(0, 100) {
        0..12 => world.nodes[node].cut = until,
        12..22 => world.nodes[node].paused = until,
        22..32 => world.crash(node, span / 4),
        32..36 => world.power_off(node, span),
        36..44 => world.nodes[node].vip_lag = span,
        44..50 => world.nodes[node].lease_lag = span / 2,
        50..56 => {
            world.nodes[node].vip_lag = 5;
            world.nodes[node].lease_lag = 5;
        }
        // The API server itself is behind with what it shows.
        56..61 => world.nodes.iter_mut().for_each(|it| it.vip_lag = span),
        61..66 => world.take_back(vip),
        _ => {
            let by = world.ask_for_move(vip);
            // Bad luck seldom comes alone.
            if let Some(node) = by.filter(|_| world.dice.percent(30)) {
                let next = world.now + world.dice.from(1, 200);
                world.run_until(next);
                match world.dice.index(3) {
                    0 => world.nodes[node].paused = until,
                    1 => world.nodes[node].cut = until,
                    _ => world.power_off(node, span),
                }
            }
        }
    }
}
