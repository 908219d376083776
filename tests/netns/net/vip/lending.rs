//! Addresses in a pod for a time.

use std::time::Duration;

use super::{
    super::{Space, cable, ip},
    until, vips,
};

fn has(space: &mut Space, address: std::net::IpAddr) -> bool {
    let link = space.link("eth0").index;
    let addresses = space.netlink.addresses(Some(link)).unwrap();
    addresses.iter().any(|it| it.net.addr() == address)
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_lent_address_goes_by_itself_unless_it_is_lent_again() {
    let (mut pod, _other) = cable();
    let link = pod.link("eth0").index;
    pod.add("eth0", "10.9.0.2/24");
    pod.add("eth0", "fd00:9::2/64");
    let lend = |pod: &mut Space, left| {
        vips().map(|vip| pod.netlink.lend_address(link, vip, left).unwrap())
    };
    assert_eq!(lend(&mut pod, Duration::from_secs(2)), [true; 2]);
    let shown = pod.ip("addr show dev eth0");
    assert!(shown.contains("10.9.0.100/32"), "{shown}");
    assert!(shown.contains("fd00:9::100/128"), "{shown}");
    let mut shared = shown.lines().filter(|line| line.contains("::100/"));
    assert!(!shared.any(|line| line.contains("tentative")), "{shown}");
    assert!(shown.contains("valid_lft 2sec"), "{shown}");
    // More time for the same address.
    assert_eq!(lend(&mut pod, Duration::from_mins(1)), [true; 2]);
    let shown = pod.ip("addr show dev eth0");
    assert_eq!(shown.matches("10.9.0.100/32").count(), 1, "{shown}");
    assert!(!shown.contains("valid_lft 2sec"), "{shown}");
    // The pod's own address stays the one that it sends from.
    for (to, own) in [("10.9.0.7", "10.9.0.2"), ("fd00:9::7", "fd00:9::2")] {
        let route = pod.ip(&format!("route get {to}"));
        assert!(route.contains(&format!("src {own} ")), "{route}");
    }
    assert_eq!(lend(&mut pod, Duration::from_secs(1)), [true; 2]);
    let pod = std::cell::RefCell::new(pod);
    until("both are gone", || {
        vips().iter().all(|vip| !has(&mut pod.borrow_mut(), *vip))
    });
    assert!(has(&mut pod.borrow_mut(), ip("10.9.0.2")));
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn with_no_time_left_a_lent_address_is_removed_at_once() {
    let (mut pod, _other) = cable();
    let link = pod.link("eth0").index;
    for vip in vips() {
        let long = Duration::from_mins(10);
        assert!(pod.netlink.lend_address(link, vip, long).unwrap());
        assert!(has(&mut pod, vip));
        let short = Duration::from_millis(999);
        assert!(!pod.netlink.lend_address(link, vip, short).unwrap());
        assert!(!has(&mut pod, vip));
        assert!(!pod.netlink.lend_address(link, vip, short).unwrap());
    }
}
