//! Random lives of a pool and its cloud.
//!
//! A seed gives a world: nodes that come, fail and go, a cloud of some kind that refuses,
//! falls silent and is slow, and a process that is killed at any moment and begins again
//! with what was written. An address is never ordered twice at once, nothing is bought
//! twice, nothing moves without a cause; and when the faults end, every node that can be
//! served is served, and the cloud is left in peace.

use std::cell::Cell;

use proptest::{prelude::*, test_runner::TestRunner};

use world::World;

mod cloud;
mod dice;
mod world;

#[test]
fn every_life_ends_well() {
    // A life is long: fewer of them than of other cases, here and in a nightly run.
    let config = ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(8),
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let (moves, purchases, crashes) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let lives = TestRunner::new(config).run(&any::<u64>(), |seed| {
        let world = live(seed);
        moves.set(moves.get() + world.cloud.moves);
        purchases.set(purchases.get() + world.cloud.sold);
        crashes.set(crashes.get() + world.crashes);
        Ok(())
    });
    if let Err(failure) = lives {
        panic!("{failure}");
    }
    assert!(moves.get() > 50, "hardly anything moved: {moves:?}");
    assert!(
        purchases.get() > 5,
        "hardly anything was bought: {purchases:?}"
    );
    assert!(crashes.get() > 30, "hardly a process was lost: {crashes:?}");
}

/// One life.
fn live(seed: u64) -> World {
    let mut world = World::new(seed);
    let rough = world.dice.from(60, 400) * 1000;
    while world.now < rough {
        let pause = world.dice.from(1, 8_000);
        world.run(pause);
        world.disturb();
        while world.dice.percent(40) {
            let pause = world.dice.from(1, 800);
            world.run(pause);
            world.disturb();
        }
    }
    world.calm();
    // The slowest retry comes after ten minutes, and an order may be forgotten for an hour.
    world.run(80 * 60_000);
    world.ends_well();
    world.is_left_in_peace();
    world
}
