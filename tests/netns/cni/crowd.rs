//! Many pods at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::harness::lab::deliver;
use super::harness::mode::{BRIDGE, Given, MACVLAN, Mode, PURE, UNDERLAY};
use super::harness::plugin::Attachment;
use super::harness::site::Site;
use super::harness::view::{Snapshot, View};

const PODS: u8 = 200;
const AT_ONCE: usize = 32;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn two_hundred_pods_at_once_on_a_bridge_that_is_not_there_yet() {
    crowd(&BRIDGE);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn two_hundred_pods_at_once_in_pure_mode() {
    crowd(&PURE);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn two_hundred_pods_at_once_with_macvlan() {
    crowd(&MACVLAN);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn two_hundred_pods_at_once_on_the_underlay() {
    crowd(&UNDERLAY);
}

fn crowd(mode: &Mode) {
    let site = Site::new(1);
    let node = site.node();
    let clean = Snapshot::of(node);
    let numbers = 20..20 + PODS;
    let pods: Vec<_> = numbers
        .map(|host| (Given::v4(0, host), site.pod(&host.to_string())))
        .collect();
    let attachments: Vec<_> = pods
        .iter()
        .map(|(given, pod)| Attachment::new(node, mode, pod, &[*given]))
        .collect();

    all(&attachments, "ADD");
    for (given, pod) in &pods {
        assert_eq!(View::of(pod).global_addresses("eth0"), [given.net()]);
    }
    for (given, pod) in [pods.first().unwrap(), pods.last().unwrap()] {
        let outside = site.outside.udp(given.gateway);
        deliver(&outside, &pod.udp(given.ip), "one of many");
    }
    all(&attachments, "DEL");
    for (_, pod) in &pods {
        assert_eq!(View::of(pod).names(), [""; 0]);
    }
    match mode.shared {
        None => clean.must_return(node, mode.title),
        Some(shared) => {
            let view = View::of(&node.net);
            let mut names = view.names();
            names.sort_unstable();
            assert_eq!(names, [shared, "uplink"]);
            let own = ["192.168.0.2/24", "fd00:c0::2/64"];
            assert_eq!(view.global_addresses(shared), own);
        }
    }
}

/// A command for each, many at once; all must succeed.
fn all(attachments: &[Attachment<'_>], command: &str) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(attachment) = attachments.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let reply = attachment.call(command);
                    assert!(reply.is_success(), "{command}: {reply:?}");
                }
            });
        }
    });
}
