//! Addresses in a pod for a time.

use std::{io::ErrorKind, net::IpAddr, time::Duration};

use floe_core::vip::rules::{POD_PULSES, PodRules};
use floe_net::{
    boottime,
    nft::Nft,
    pulse::{self, PulseError},
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

/// A pod with rules that guard shared addresses, a server in it, and a client beside it.
struct Guarded {
    pod: Space,
    client: Space,
    rules: PodRules,
    _echo: Echo,
}

impl Guarded {
    /// Nothing is lent yet.
    fn new() -> Self {
        let (mut pod, mut client) = cable();
        for (space, last) in [(&mut pod, 2), (&mut client, 1)] {
            space.add("eth0", &format!("10.9.0.{last}/24"));
            space.add("eth0", &format!("fd00:9::{last}/64"));
        }
        let echo = Echo::start(&pod, "pod");
        let mut rules = PodRules::default();
        rules.guard([&"eth0".to_owned()].into_iter()).unwrap();
        let mut guarded = Self {
            pod,
            client,
            rules,
            _echo: echo,
        };
        guarded.lend(&[]);
        guarded
    }

    fn lend(&mut self, lent: &[IpAddr]) {
        let lent = lent.iter().copied().collect();
        self.rules.lend(lent);
        let script = self.rules.script();
        let written = self.pod.netns.run(|| Nft::default().apply(&script));
        written.unwrap().unwrap();
    }

    /// Gives the pod addresses, as late as can be.
    fn get(&mut self, addresses: &[IpAddr]) {
        let link = self.pod.link("eth0").index;
        for &vip in addresses {
            assert!(self.pod.netlink.lend_address(link, vip, LONG).unwrap());
        }
    }

    fn live(&self) {
        let until = boottime::now() + LONG;
        let kept = self
            .pod
            .netns
            .run(|| pulse::OF_PODS.keep(&POD_PULSES, until));
        kept.unwrap().unwrap();
    }

    fn is_silent(&self, vip: IpAddr) {
        // A client that knows the pod's MAC may be answered from the pod's own address.
        let answer = udp(&self.client, vip, VAIN);
        assert!(!answer.is_ok_and(|(_, from)| from == vip), "{vip}");
        assert!(tcp(&self.client, vip, VAIN).is_err(), "{vip}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_says_nothing_in_the_name_of_an_address_that_it_gets_late() {
    let mut guarded = Guarded::new();
    guarded.lend(&vips());

    // The agent is stopped while it renews, and everything that it was about to do comes late.
    let granted = guarded.pod.netns.run(|| {
        let deadline = boottime::now() + LONG;
        let ticket = pulse::OF_PODS.take().unwrap();
        until("the ticket expires", || {
            let listed = Nft::default().list("netdev floe-vip").unwrap();
            !listed.unwrap().contains("expires")
        });
        ticket.grant(&POD_PULSES, deadline)
    });
    assert!(matches!(granted.unwrap(), Err(PulseError::Slow)));
    guarded.get(&vips());
    for vip in vips() {
        guarded.is_silent(vip);
    }
    // The guard does not concern the pod's own addresses.
    for own in ["10.9.0.2", "fd00:9::2"] {
        udp(&guarded.client, ip(own), SOON).unwrap();
    }
    guarded.live();
    for vip in vips() {
        udp(&guarded.client, vip, SOON).unwrap();
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn connections_of_an_address_that_a_pod_has_given_back_send_nothing_beside_another_one() {
    let mut guarded = Guarded::new();
    guarded.lend(&vips());
    guarded.live();
    guarded.get(&vips());
    let mut connections = vips().map(|vip| tcp(&guarded.client, vip, SOON).unwrap());
    for connection in &mut connections {
        connection.say("in time", SOON).unwrap();
    }
    // The first address moves. The kernel still has it, and the pod may speak for the second.
    let [moved, stays] = vips();
    guarded.lend(&[stays]);
    guarded.live();
    let [old, other] = &mut connections;
    let error = old.say("too late", VAIN).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    other.say("in time", SOON).unwrap();
    guarded.is_silent(moved);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn what_an_earlier_agent_has_left_in_a_pod_is_silent_beside_what_is_lent_now() {
    let mut guarded = Guarded::new();
    let [old, lent] = vips();
    guarded.lend(&[old]);
    // Sent late by an agent that was killed right after it. The next one knows nothing of it.
    guarded.get(&[old]);
    guarded.rules = PodRules::default();
    guarded
        .rules
        .guard([&"eth0".to_owned()].into_iter())
        .unwrap();
    guarded.lend(&[lent]);
    guarded.live();
    guarded.get(&[lent]);
    guarded.is_silent(old);
    udp(&guarded.client, lent, SOON).unwrap();
}
