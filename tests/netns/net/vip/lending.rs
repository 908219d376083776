//! Addresses in a pod for a time.

use std::{collections::BTreeSet, io::ErrorKind, time::Duration};

use floe_core::vip::rules::{POD_PULSES, POD_TICKET, PodRules};
use floe_net::{
    boottime,
    nft::Nft,
    pulse::{self, PulseError, Ticket},
};

use super::{
    super::{Space, cable, ip},
    Echo, LONG, SOON,
    echo::{tcp, udp},
    until, vips,
};

/// How long is waited for what must not come.
const VAIN: Duration = Duration::from_millis(400);

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

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_says_nothing_in_the_name_of_an_address_that_it_gets_late() {
    let (mut pod, mut client) = cable();
    for (space, last) in [(&mut pod, 2), (&mut client, 1)] {
        space.add("eth0", &format!("10.9.0.{last}/24"));
        space.add("eth0", &format!("fd00:9::{last}/64"));
    }
    let _echo = Echo::start(&pod, "pod");
    let links = BTreeSet::from(["eth0".to_owned()]);
    let rules = PodRules::new(&links, &BTreeSet::from(vips())).unwrap();
    let written = pod.netns.run(|| Nft::default().apply(&rules.script()));
    written.unwrap().unwrap();

    // The agent is stopped while it renews, and everything that it was about to do comes late.
    let granted = pod.netns.run(|| {
        let deadline = boottime::now() + LONG;
        let ticket = Ticket::take(&POD_TICKET).unwrap();
        until("the ticket expires", || {
            let listed = Nft::default().list("netdev floe-vip").unwrap();
            !listed.unwrap().contains("expires")
        });
        ticket.grant(&POD_PULSES, deadline)
    });
    assert!(matches!(granted.unwrap(), Err(PulseError::Slow)));
    let link = pod.link("eth0").index;
    for vip in vips() {
        assert!(pod.netlink.lend_address(link, vip, LONG).unwrap());
        assert!(udp(&client, vip, VAIN).is_err(), "{vip}");
        assert!(tcp(&client, vip, VAIN).is_err(), "{vip}");
    }
    // Its own addresses are nobody's business.
    for own in ["10.9.0.2", "fd00:9::2"] {
        udp(&client, ip(own), SOON).unwrap();
    }

    let keep = |left| {
        let until = boottime::now() + left;
        let kept = pod
            .netns
            .run(|| pulse::keep(&POD_TICKET, &POD_PULSES, until));
        kept.unwrap().unwrap();
    };
    keep(LONG);
    let mut connections = vips().map(|vip| tcp(&client, vip, SOON).unwrap());
    for connection in &mut connections {
        connection.say("in time", SOON).unwrap();
    }
    let ended = pod.netns.run(|| pulse::end(&POD_PULSES));
    ended.unwrap().unwrap();
    for connection in &mut connections {
        let error = connection.say("too late", VAIN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}
