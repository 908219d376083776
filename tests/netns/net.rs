//! `floe-net` against the real kernel.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of these tests for ordinary code"
)]

mod host;
mod links;
mod places;
mod routing;
mod vip;
mod wire;

use std::{
    net::IpAddr,
    os::fd::AsFd,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use floe_net::{
    netlink::{Address, Link, Netlink, NewKind, NewLink},
    netns::Netns,
};
use nix::sched::{CloneFlags, unshare};

/// An empty network namespace with a connection to its kernel; gone when dropped.
struct Space {
    netns: Netns,
    netlink: Netlink,
}

impl Space {
    fn new() -> Self {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            Self {
                netns: Netns::current().unwrap(),
                netlink: Netlink::open().unwrap(),
            }
        });
        made.join().unwrap()
    }

    /// What a program says about the namespace, as a second opinion.
    fn ip(&self, arguments: &str) -> String {
        let output = self.netns.run(|| {
            Command::new("ip")
                .args(arguments.split_whitespace())
                .output()
                .unwrap()
        });
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {arguments}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn link(&mut self, name: &str) -> Link {
        let link = self.netlink.link(name).unwrap();
        link.unwrap_or_else(|| panic!("no link {name}"))
    }

    fn add(&mut self, link: &str, net: &str) {
        let address = Address {
            link: self.link(link).index,
            ..address(net)
        };
        assert!(self.netlink.add_address(&address).unwrap());
    }
}

/// Two namespaces with a cable between them: `left` has `eth0`, `right` has `eth0`, both
/// up and carrying.
fn cable() -> (Space, Space) {
    let (mut left, mut right) = (Space::new(), Space::new());
    let peer = NewLink {
        namespace: Some(right.netns.as_fd()),
        up: true,
        ..plain("eth0")
    };
    let made = left.netlink.create(&NewLink {
        kind: NewKind::Veth {
            peer: Box::new(peer),
        },
        up: true,
        ..plain("eth0")
    });
    made.unwrap();
    for space in [&mut left, &mut right] {
        let index = space.link("eth0").index;
        let deadline = Instant::now() + Duration::from_secs(5);
        assert!(space.netlink.wait_for_carrier(index, deadline).unwrap());
    }
    (left, right)
}

/// A bridge of this name, to be changed by the caller.
fn plain(name: &str) -> NewLink<'_> {
    NewLink {
        name,
        kind: NewKind::Bridge,
        alias: None,
        mac: None,
        mtu: None,
        master: None,
        namespace: None,
        up: false,
    }
}

fn address(net: &str) -> Address {
    Address {
        link: 0,
        net: net.parse().unwrap(),
        scope: 0,
        no_prefix_route: false,
        is_temporary: false,
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
