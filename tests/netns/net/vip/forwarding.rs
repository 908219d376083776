//! A firewall that drops what the node should forward is found by what the kernel counts.

use std::net::IpAddr;

use floe_core::vip::{
    forwarding::{self, Detector},
    rules::COUNTERS,
};
use floe_net::nft::Nft;

use super::{
    super::ip,
    SOON, Scene, VIP4,
    echo::{ping, tcp},
    vips,
};

/// What `iptables -P FORWARD DROP` does, for both families.
const CLOSE: &str = "add table inet firewall\n\
    add chain inet firewall forward { type filter hook forward priority 0; policy drop; }\n";

const OPEN: &str = "delete table inet firewall\n";

/// Lets replies out of the node be dropped, and nothing else.
const CLOSE_FOR_REPLIES: &str = "add table inet firewall\n\
    add chain inet firewall forward { type filter hook forward priority 0; policy drop; }\n\
    add rule inet firewall forward ct direction original accept\n";

/// The addresses whose packets are stuck in node a, after a look.
fn stuck(scene: &Scene, detector: &mut Detector) -> Vec<IpAddr> {
    let listed = scene.a.space.netns.run(|| Nft::default().list(COUNTERS));
    let counts = forwarding::counts(&listed.unwrap().unwrap().unwrap());
    assert_eq!(counts.len(), 2, "both addresses are counted: {counts:?}");
    detector.look(counts).stuck.into_iter().collect()
}

fn counting() -> Scene {
    let scene = Scene::serving();
    scene.a.nft(&forwarding::script(&scene.a.rules).unwrap());
    scene
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn packets_that_a_firewall_drops_are_counted_as_stuck_until_they_pass_again() {
    for closed in [CLOSE, CLOSE_FOR_REPLIES] {
        let (scene, mut detector) = (counting(), Detector::default());
        for _ in 0..3 {
            for vip in vips() {
                assert!(ping(&scene.client, vip), "{vip} does not answer");
            }
            assert_eq!(stuck(&scene, &mut detector), [] as [IpAddr; 0]);
        }
        scene.a.nft(closed);
        for _ in 0..2 {
            assert!(!ping(&scene.client, ip(VIP4)), "the firewall is closed");
            // What the node itself sends passes no firewall for forwarded packets.
            let _ = tcp(&scene.a.space, ip(VIP4), SOON);
            stuck(&scene, &mut detector);
        }
        assert_eq!(stuck(&scene, &mut detector), [ip(VIP4)], "{closed}");
        let chains = scene.a.space.netns.run(|| Nft::default().list_chains());
        let chains = forwarding::forward_chains(&chains.unwrap().unwrap());
        let mut closed = chains.iter().filter(|it| it.drops_by_policy);
        assert_eq!(closed.next().unwrap().name, "inet firewall forward");
        assert!(closed.next().is_none());
        scene.a.nft(OPEN);
        assert!(ping(&scene.client, ip(VIP4)));
        assert_eq!(stuck(&scene, &mut detector), [] as [IpAddr; 0]);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn what_is_not_forwarded_is_never_counted_as_stuck() {
    let (scene, mut detector) = (counting(), Detector::default());
    for _ in 0..3 {
        for vip in vips() {
            // The node itself, whose replies are received, and pods on the holder's bridge.
            tcp(&scene.a.space, vip, SOON).unwrap();
            tcp(&scene.a.pod("a2").space, vip, SOON).unwrap();
            tcp(&scene.b.space, vip, SOON).unwrap();
        }
        assert_eq!(stuck(&scene, &mut detector), [] as [IpAddr; 0]);
    }
}
