use super::*;
use crate::schedule::score::{BEST, score};

use ReleasePolicy::{Immutable, Never, OnDelete};

fn scores(world: &World, pod: &Claimant) -> Vec<(&'static str, u8)> {
    score(&world.ledger, pod, &offers("n0 n1 n2 n3 n4 n5 n6"))
}

#[test]
fn subnets_with_more_free_addresses_are_better() {
    let world = World::t();
    // Six are free for n4 and n5, four for n3, three for n6, none for n1.
    let wanted = [
        ("n0", 0),
        ("n1", 0),
        ("n2", 0),
        ("n3", 6),
        ("n4", 9),
        ("n5", 9),
        ("n6", 4),
    ];
    assert_eq!(scores(&world, &sts("sts-0", OnDelete)), wanted);
}

#[test]
fn nodes_for_kept_and_spare_addresses_are_best() {
    let mut world = World::t();
    let pod = sts("sts-0", Immutable);
    world.hold("10.0.80.2", pod.key.as_str());
    let best: Vec<&str> = scores(&world, &pod)
        .iter()
        .filter(|(_, score)| *score == BEST)
        .map(|(node, _)| *node)
        .collect();
    assert_eq!(best, ["n5", "n6"]);

    world.hold("10.49.27.205", "dp_ns1_dp_");
    let pod = dp("dp", "dp-1", Never, 2);
    let found = scores(&world, &pod);
    assert_eq!(found[3], ("n3", BEST));
    assert_eq!(found[4], ("n4", BEST - 1));
    // A pod that has to wait finds no node better than another.
    let pod = dp("dp", "dp-1", Never, 0);
    assert!(scores(&world, &pod).iter().all(|(_, score)| *score == 0));
}

#[test]
fn ranges_count_the_entries_that_they_reach() {
    let world = World::t();
    let mut pod = sts("sts-0", OnDelete);
    pod.wishes = ranges("10.0.80.2~10.0.80.4");
    let found = scores(&world, &pod);
    assert_eq!(found[3], ("n3", 0));
    assert_eq!((found[5].1, found[6].1), (9, 9));
}

#[test]
fn the_scarcer_family_decides_and_large_numbers_do_not_overflow() {
    let text = r#"[
        {"nodeSubnets":["10.49.27.0/24"],"ips":["10.49.27.205"],"subnet":"10.49.27.0/24",
         "gateway":"10.49.27.1"},
        {"nodeSubnets":["10.173.13.0/24"],"ips":["10.173.13.2~10.173.13.4"],
         "subnet":"10.173.13.0/24","gateway":"10.173.13.1"},
        {"nodeSubnets":["10.49.27.0/24"],"ips":["8000::2~c000::"],"subnet":"8000::/1",
         "gateway":"8000::1"},
        {"nodeSubnets":["10.173.13.0/24"],"ips":["fd00::2~fd00::9"],"subnet":"8000::/1",
         "gateway":"8000::1"}]"#;
    let world = World::of(fixture::config(text));
    let mut pod = sts("sts-0", OnDelete);
    let found = |pod: &Claimant| {
        let scored = score(&world.ledger, pod, &offers("n3 n4"));
        (scored[0].1, scored[1].1)
    };
    pod.wishes = vec![Wish::Any(Family::V6)];
    assert_eq!(found(&pod), (9, 0));
    pod.wishes = vec![Wish::Any(Family::V6), Wish::Any(Family::V4)];
    assert_eq!(found(&pod), (3, 9));
}
