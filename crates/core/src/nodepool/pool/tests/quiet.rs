//! An event of a node with which a pool has nothing to do costs it next to nothing, and
//! means the same to it as if it had looked at everything.

use super::desk::{A, B, Desk, server};
use crate::nodepool::pool::{Seen, Unfit};

#[test]
fn conclusions_are_drawn_only_from_nodes_that_have_an_address() {
    let mut desk = Desk::new(A);
    desk.nodes(&[("x", None), ("y", None)]);
    desk.pass(60);
    // Whoever draws conclusions finds out again who has an address.
    let held = std::mem::take(&mut desk.pool.held);
    assert_eq!(held.len(), 1);
    for unfit in [Some(Unfit::NodeNotReady), None] {
        desk.node("y", unfit);
        assert_ne!(desk.pool.wake(desk.now), Some(desk.now));
        assert_eq!(desk.pool.poll(desk.now), []);
        assert!(desk.pool.held.is_empty());
    }
    desk.node("x", Some(Unfit::NodeNotReady));
    assert_eq!(desk.pool.held, held);
}

#[test]
fn a_pool_that_leaves_conclusions_out_does_the_same_as_one_that_does_not() {
    let mut moved = 0;
    for seed in 1..200_u64 {
        let mut desks = [
            Desk::new(&format!("{A} {B}")),
            Desk::new(&format!("{A} {B}")),
        ];
        let mut drawn = seed;
        for _ in 0..40 {
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let mut draw = drawn >> 33;
            let mut below = |most: u64| {
                let it = draw % most;
                draw /= most;
                it
            };
            let name = ["a", "b", "c", "d", "e"][usize::try_from(below(5)).unwrap()];
            let seen = match below(5) {
                0 => None,
                1 => Some(Some(Unfit::NodeNotReady)),
                2 => Some(Some(Unfit::Tainted)),
                _ => Some(None),
            };
            let seen = seen.map(|unfit| Seen {
                name: name.to_owned(),
                unfit,
            });
            let (passes, polls) = (below(4), below(3) > 0);
            for (number, desk) in desks.iter_mut().enumerate() {
                desk.pool.is_concluded &= number == 0;
                desk.pool.node(&server(name), seen.clone(), desk.now);
                desk.pool.is_concluded &= number == 0;
                if polls {
                    desk.pass(passes);
                }
            }
            let [one, other] = &desks;
            assert_eq!(one.calls, other.calls, "seed {seed}");
            assert_eq!(one.view(), other.view(), "seed {seed}");
            assert_eq!(one.pool.memory(), other.pool.memory(), "seed {seed}");
        }
        moved += desks[0].count("Assign");
    }
    assert!(moved > 1000, "only {moved} addresses have moved");
}
