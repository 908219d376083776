//! CHECK finds what is missing on the host.

use super::harness::mode::{BRIDGE, Family, Mode, PURE, UNDERLAY};
use super::harness::plugin::Attachment;
use super::harness::site::{Site, UPLINK};

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn whatever_the_host_lost_of_a_pod_is_found() {
    for mode in [PURE, UNDERLAY] {
        let veth = mode.veth.unwrap();
        finds(
            &mode,
            veth,
            "route delete 192.168.0.60 dev VETH",
            "192.168.0.60",
        );
        finds(
            &mode,
            veth,
            "route delete fd00:c0::60 dev VETH",
            "fd00:c0::60",
        );
        let proxy = format!("neighbour delete proxy fd00:c0::60 dev {UPLINK}");
        finds(&mode, veth, &proxy, "does not answer for fd00:c0::60");
        let gateway = "neighbour delete proxy fd00:c0::1 dev VETH";
        finds(&mode, veth, gateway, "gateway fd00:c0::1");
        finds(&mode, veth, "link set VETH down", "missing or down");
    }
    finds(&BRIDGE, "-l0", "link set VETH nomaster", "is in no bridge");
}

/// A pod passes CHECK, and after a command on the host it does not.
fn finds(mode: &Mode, suffix: &str, harm: &str, part: &str) {
    let site = Site::new(1);
    let pod = site.pod("checked");
    let all = mode.addresses(Family::Dual, 60);
    let attachment = Attachment::new(site.node(), mode, &pod, &all);
    let result = attachment.add();
    attachment.check(&result).nothing();
    let harm = harm.replace("VETH", &attachment.host_link(suffix));
    site.node().net.ip(&harm);
    let failure = attachment.check(&result).failure();
    assert_eq!(failure.code, 103, "{} {harm}: {failure:?}", mode.title);
    assert!(
        failure.message.contains(part),
        "{} {harm}: {failure:?}",
        mode.title
    );
}
