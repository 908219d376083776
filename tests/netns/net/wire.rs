//! Frames: sent, received, asked, told.

use std::{
    fs, io,
    net::IpAddr,
    os::{fd::AsFd, unix::net::UnixDatagram},
    thread,
    time::{Duration, Instant},
};

use floe_core::announce::{Mac, arp, ndp, probe::Conflict};
use floe_net::{
    announce::{ArpForm, ask, ask_as, tell},
    netlink::{LinkChange, Neighbour, NewKind, NewLink},
    packet::{Ethertype, Packets, receive_all},
    sysctl,
};

use super::{Space, address, cable, ip, plain};

const WINDOW: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_secs(5);

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_frame_is_received_by_the_other_end_and_not_by_its_sender() {
    let (mut left, mut right) = cable();
    let (near, far) = (
        packets(&mut left, Ethertype::Arp),
        packets(&mut right, Ethertype::Arp),
    );
    let mac = left.link("eth0").mac.unwrap();
    let frame = arp::probe(mac, "10.0.0.9".parse().unwrap());
    near.send(&frame).unwrap();
    let received = far.receive(Instant::now() + SOON).unwrap().unwrap();
    assert_eq!(received[..frame.len()], frame);
    let start = Instant::now();
    let nothing = near.receive(start + Duration::from_millis(30)).unwrap();
    assert_eq!(nothing, None);
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn only_neighbour_discovery_is_received_of_ipv6() {
    let (mut left, mut right) = cable();
    right.add("eth0", "fd00::2/64");
    let far = packets(&mut left, Ethertype::Ipv6);
    let near = packets(&mut right, Ethertype::Ipv6);
    let (mac, target) = (right.link("eth0").mac.unwrap(), "fd00::9".parse().unwrap());
    let question = ndp::probe(mac, target);
    // The same in all but the type, which is the one of an echo.
    let mut other = question.clone();
    other[54] = 128;
    near.send(&other).unwrap();
    near.send(&question).unwrap();
    let deadline = Instant::now() + SOON;
    loop {
        let frame = far.receive(deadline).unwrap().expect("the question");
        assert!([135, 136].contains(&frame[54]), "{frame:?}");
        if frame == question {
            break;
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_link_that_filters_groups_lets_those_pass_that_were_joined() {
    let (mut left, mut right) = cable();
    let parent = left.link("eth0").index;
    let mut pod = Space::new();
    let new = NewLink {
        kind: NewKind::Macvlan { parent },
        namespace: Some(pod.netns.as_fd()),
        up: true,
        ..plain("eth0")
    };
    left.netlink.create(&new).unwrap();
    let ear = packets(&mut pod, Ethertype::Ipv6);
    let mouth = packets(&mut right, Ethertype::Ipv6);
    let mac = right.link("eth0").mac.unwrap();
    let target = "fd00::9".parse().unwrap();
    ear.join(ndp::group_mac(ndp::solicited_node(target)))
        .unwrap();
    let question = ndp::probe(mac, target);
    mouth.send(&question).unwrap();
    let deadline = Instant::now() + SOON;
    loop {
        let frame = ear.receive(deadline).unwrap().expect("the question");
        if frame == question {
            break;
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn frames_of_other_links_and_for_other_stations_are_not_received() {
    let (mut left, mut right) = cable();
    let far = packets(&mut right, Ethertype::Arp);
    let near = packets(&mut left, Ethertype::Arp);
    let mac = left.link("eth0").mac.unwrap();
    let mut stray = arp::probe(mac, "10.0.0.9".parse().unwrap());
    stray[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    near.send(&stray).unwrap();
    let wanted = arp::probe(mac, "10.0.0.8".parse().unwrap());
    near.send(&wanted).unwrap();
    let first = far.receive(Instant::now() + SOON).unwrap().unwrap();
    assert_eq!(first[..wanted.len()], wanted);
    let missing = right.netns.run(|| Packets::open(4711, Ethertype::Arp));
    assert_eq!(
        missing.unwrap().unwrap_err().raw_os_error(),
        Some(nix::libc::ENODEV)
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_address_that_somebody_has_is_found_and_his_mac_is_told() {
    for used in ["10.0.0.9/24", "fd00::9/64"] {
        let (mut left, mut right) = cable();
        right.add("eth0", used);
        let mac = right.link("eth0").mac.unwrap();
        let address = address(used).net.addr();
        let free = [ip("10.0.0.7"), ip("fd00::7")];
        let start = Instant::now();
        let found = question(&mut left, &[free[0], free[1], address]).unwrap();
        assert_eq!(found, Some(Conflict { address, mac }));
        assert!(start.elapsed() < SOON);
        assert_eq!(question(&mut left, &free).unwrap(), None);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_address_that_somebody_has_with_its_own_mac_is_found_too() {
    let mac = Mac([2, 0x42, 10, 0, 0, 9]);
    for used in ["10.0.0.9/24", "fd00::9/64"] {
        let (mut left, mut right) = cable();
        let link = right.link("eth0").index;
        right.netlink.change(link, &[LinkChange::Mac(mac)]).unwrap();
        right.add("eth0", used);
        let address = address(used).net.addr();
        assert_eq!(
            question(&mut left, &[address]).unwrap(),
            Some(Conflict { address, mac })
        );
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn free_addresses_take_one_window_however_many_they_are() {
    let (mut left, _right) = cable();
    let addresses: Vec<_> = (1..=8)
        .flat_map(|n| [ip(&format!("10.0.0.{n}")), ip(&format!("fd00::{n}"))])
        .collect();
    let start = Instant::now();
    assert_eq!(question(&mut left, &addresses).unwrap(), None);
    let took = start.elapsed();
    assert!((WINDOW..WINDOW * 8).contains(&took), "{took:?}");
    assert_eq!(question(&mut left, &[]).unwrap(), None);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn of_two_who_ask_for_the_same_address_at_the_same_time_not_both_take_it() {
    for address in ["10.0.0.9", "fd00::9"] {
        let (mut left, mut right) = cable();
        let macs = [&mut left, &mut right].map(|space| space.link("eth0").mac.unwrap());
        let (one, two) = thread::scope(|scope| {
            let one = scope.spawn(|| question(&mut left, &[ip(address)]).unwrap());
            let two = scope.spawn(|| question(&mut right, &[ip(address)]).unwrap());
            (one.join().unwrap(), two.join().unwrap())
        });
        // Who hears the other stops asking, so the other may never hear him.
        assert!(one.is_some() || two.is_some());
        for (found, mac) in [(one, macs[1]), (two, macs[0])] {
            assert!(found.is_none_or(|conflict| conflict.mac == mac));
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn everything_that_came_in_is_received_even_when_the_time_is_over() {
    let (mut left, mut right) = cable();
    let near = [Ethertype::Arp, Ethertype::Ipv6].map(|what| packets(&mut left, what));
    let ear = packets(&mut left, Ethertype::Ipv6);
    let far = packets(&mut right, Ethertype::Arp);
    let mac = right.link("eth0").mac.unwrap();
    let noise = arp::probe(mac, "10.0.0.7".parse().unwrap());
    for _ in 0..40 {
        far.send(&noise).unwrap();
    }
    let last = arp::probe(mac, "10.0.0.9".parse().unwrap());
    far.send(&last).unwrap();
    let question = ndp::probe(mac, "fd00::9".parse().unwrap());
    far.send(&question).unwrap();
    // Where the last frame is, those before it are too.
    let deadline = Instant::now() + SOON;
    while ear.receive(deadline).unwrap().expect("the question") != question {}
    let seen = receive_all(&[&near[0], &near[1]], Instant::now()).unwrap();
    let has = |wanted: &[u8]| seen.iter().any(|frame| frame.starts_with(wanted));
    assert!(has(&last) && has(&question), "{} frames", seen.len());
    let noise = seen.iter().filter(|frame| frame.starts_with(&noise));
    assert_eq!(noise.count(), 40);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_packet_socket_that_was_left_to_the_kernel_is_ended_by_it() {
    let (mut left, _right) = cable();
    let socket = packets(&mut left, Ethertype::Arp);
    let open = |space: &Space| {
        let listed = space.netns.run(|| {
            // Any local socket that is closed makes the kernel look for such messages.
            drop(UnixDatagram::pair());
            fs::read_to_string("/proc/thread-self/net/packet").unwrap()
        });
        listed.unwrap().lines().count() - 1
    };
    assert_eq!(open(&left), 1);
    drop(socket);
    let deadline = Instant::now() + SOON;
    while open(&left) > 0 {
        assert!(Instant::now() < deadline, "the kernel keeps the socket");
        thread::yield_now();
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_proxy_answers_only_who_asks_on_behalf_of_an_address() {
    let (mut left, mut right) = cable();
    left.add("eth0", "10.0.0.1/24");
    right.add("eth0", "10.0.0.2/24");
    // The address is reached through another link of the right one.
    right.ip("link add inner type bridge");
    right.ip("link set inner up");
    right.ip("route add 10.0.0.9/32 dev inner");
    let settings = right.netns.run(|| {
        sysctl::write("net/ipv4/ip_forward", "1")?;
        sysctl::write("net/ipv4/neigh/eth0/proxy_delay", "0")?;
        sysctl::write("net/ipv4/conf/eth0/proxy_arp", "1")
    });
    settings.unwrap().unwrap();
    let address = ip("10.0.0.9");
    assert_eq!(question(&mut left, &[address]).unwrap(), None);

    let link = left.link("eth0");
    let own = link.mac.unwrap();
    let askers = [ip("10.0.0.1")];
    let asked = left
        .netns
        .run(|| ask_as(link.index, own, &askers, &[address], WINDOW));
    let mac = right.link("eth0").mac.unwrap();
    assert_eq!(asked.unwrap().unwrap(), Some(Conflict { address, mac }));
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn nobody_can_be_asked_through_a_link_without_a_signal() {
    let (mut left, mut right) = cable();
    let far = right.link("eth0").index;
    right.netlink.change(far, &[LinkChange::Up(false)]).unwrap();
    let error = question(&mut left, &[ip("10.0.0.9")]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NetworkDown, "{error}");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn who_is_told_about_a_move_looks_there_from_then_on() {
    for form in [ArpForm::Reply, ArpForm::Request] {
        let (mut left, mut right) = cable();
        left.add("eth0", "10.0.0.1/24");
        left.add("eth0", "fd00::1/64");
        let link = left.link("eth0").index;
        let moved = [ip("10.0.0.9"), ip("fd00::9")];
        for address in moved {
            let entry = Neighbour {
                link,
                ip: address,
                mac: Some(Mac([2, 0, 0, 0, 0, 1])),
                is_proxy: false,
                is_permanent: false,
            };
            left.netlink.put_neighbour(&entry).unwrap();
        }
        let new = Mac([2, 0x42, 10, 0, 0, 9]);
        let far = right.link("eth0").index;
        let told = right.netns.run(|| tell(far, new, &moved, form));
        told.unwrap().unwrap();
        for address in moved {
            wait_for(&mut left, address, new);
        }
    }
}

fn packets(space: &mut Space, what: Ethertype) -> Packets {
    let link = space.link("eth0").index;
    space
        .netns
        .run(|| Packets::open(link, what))
        .unwrap()
        .unwrap()
}

fn question(space: &mut Space, addresses: &[IpAddr]) -> io::Result<Option<Conflict>> {
    let link = space.link("eth0");
    let own = link.mac.unwrap();
    space
        .netns
        .run(|| ask(link.index, own, addresses, WINDOW))
        .unwrap()
}

fn wait_for(space: &mut Space, address: IpAddr, mac: Mac) {
    let deadline = Instant::now() + SOON;
    loop {
        let entries = space.netlink.neighbours().unwrap();
        let entry = entries.iter().find(|entry| entry.ip == address).unwrap();
        if entry.mac == Some(mac) {
            return;
        }
        assert!(Instant::now() < deadline, "{entry:?} did not move to {mac}");
        thread::yield_now();
    }
}
