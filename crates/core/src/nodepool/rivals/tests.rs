use super::*;

fn ips(last: &[u8]) -> BTreeSet<IpAddr> {
    last.iter().map(|it| [192, 0, 2, *it].into()).collect()
}

fn claim(listed: &[u8], held: &[u8], created: i64) -> Claim {
    Claim {
        provider: "cloud".into(),
        ips: ips(listed),
        held: ips(held),
        created: Timestamp::from_second(created).ok(),
    }
}

fn refused(pools: &[(&'static str, Claim)]) -> Vec<(&'static str, u8, &'static str)> {
    let pools = pools.iter().cloned().collect();
    let refused = rivals(&pools).into_iter().map(|(id, rival)| {
        let IpAddr::V4(ip) = rival.ip else {
            panic!("all are IPv4");
        };
        (id, ip.octets()[3], rival.keeper)
    });
    refused.collect()
}

#[test]
fn pools_with_addresses_of_their_own_have_no_rivals() {
    let pools = [("a", claim(&[1, 2], &[1], 1)), ("b", claim(&[3], &[3], 2))];
    assert_eq!(refused(&pools), []);
    let elsewhere = Claim {
        provider: "other".into(),
        ..claim(&[1], &[], 2)
    };
    let pools = [("a", claim(&[1], &[], 1)), ("b", elsewhere)];
    assert_eq!(refused(&pools), []);
}

#[test]
fn the_later_one_is_refused_and_equals_go_by_name() {
    let pools = [("a", claim(&[1, 2], &[], 9)), ("b", claim(&[2, 3], &[], 8))];
    assert_eq!(refused(&pools), [("a", 2, "b")]);
    let pools = [("a", claim(&[2], &[], 8)), ("b", claim(&[2], &[], 8))];
    assert_eq!(refused(&pools), [("b", 2, "a")]);
}

#[test]
fn who_has_it_keeps_it_whoever_writes_it_down() {
    let pools = [("old", claim(&[1], &[], 1)), ("new", claim(&[1], &[1], 9))];
    assert_eq!(refused(&pools), [("old", 1, "new")]);
    // Both have looked after it, as two of FLIPOP's pools do.
    let pools = [("old", claim(&[1], &[1], 1)), ("new", claim(&[1], &[1], 9))];
    assert_eq!(refused(&pools), [("new", 1, "old")]);
}

#[test]
fn with_two_lists_less_nobody_is_refused() {
    let pools = [
        ("a", claim(&[1], &[1], 1)),
        ("b", claim(&[1], &[], 2)),
        ("c", claim(&[1], &[], 3)),
    ];
    assert_eq!(refused(&pools), [("b", 1, "a"), ("c", 1, "a")]);
    assert_eq!(refused(&pools[1..]), [("c", 1, "b")]);
    assert_eq!(refused(&pools[2..]), []);
}
