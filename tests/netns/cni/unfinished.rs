//! A move that was cut short is finished when the agent starts.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use floe_testbed::host::sibling_program;
use serde_json::Value;

use super::harness::mode::{BRIDGE, Given};
use super::harness::plugin::Attachment;
use super::harness::site::{Node, Site, UPLINK};
use super::harness::view::{Snapshot, View};

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_agent_finishes_a_move_that_was_cut_short() {
    let site = Site::new(1);
    let node = site.node();
    moved(&site);
    // As after a kill in the middle, of a plugin that knew less.
    node.net.batch(&format!(
        "address add 192.168.0.2/24 dev {UPLINK}
         address del 192.168.0.2/24 dev docker
         address del fd00:c0::2/64 dev docker
         route del default via fd00:c0::1\n"
    ));
    mark(node, false);
    let view = View::of(&node.net);
    assert_eq!(view.defaults(), []);

    start_agent(node);
    let view = View::of(&node.net);
    let own = ["192.168.0.2/24", "fd00:c0::2/64"];
    assert_eq!(view.global_addresses("docker"), own);
    assert_eq!(view.global_addresses(UPLINK), [""; 0]);
    let mut defaults = view.defaults();
    defaults.sort_unstable();
    let expected = [("docker", "192.168.0.1"), ("docker", "fd00:c0::1")];
    assert_eq!(defaults, expected);
    assert_eq!(journal(node)["complete"], true);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_agent_leaves_alone_what_was_finished_or_what_a_boot_has_undone() {
    let site = Site::new(1);
    let node = site.node();
    moved(&site);
    // What the administrator changes on the bridge is his.
    node.net.ip("route delete default via 192.168.0.1");
    let before = Snapshot::of(node);
    start_agent(node);
    before.must_return(node, "a move that was finished");

    mark(node, false);
    node.net.batch(&format!(
        "link delete docker\naddress add 192.168.0.2/24 dev {UPLINK}\n"
    ));
    let before = Snapshot::of(node);
    start_agent(node);
    before.must_return(node, "a host that was booted");
}

fn moved(site: &Site) {
    let pod = site.pod("moved");
    let attachment = Attachment::new(site.node(), &BRIDGE, &pod, &[Given::v4(0, 50)]);
    attachment.add();
    attachment.del();
    assert_eq!(journal(site.node())["complete"], true);
}

/// Starts the agent on a node. It gives up when it has no configuration, which comes after.
fn start_agent(node: &Node) {
    let program = sibling_program("floe-agent").unwrap();
    let output = node.net.within(|| {
        Command::new(program)
            .args(["--hostname-override", "node"])
            .arg("--json-config-path")
            .arg(node.state.join("not-there.json"))
            .env("FLOE_STATE", &node.state)
            .env("FLOE_RUN", &node.run)
            .output()
            .unwrap()
    });
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("not-there.json"), "{told}");
}

fn path(node: &Node) -> PathBuf {
    node.state.join(format!("moves/{UPLINK}.json"))
}

fn journal(node: &Node) -> Value {
    serde_json::from_str(&fs::read_to_string(path(node)).unwrap()).unwrap()
}

fn mark(node: &Node, complete: bool) {
    let mut journal = journal(node);
    journal["complete"] = complete.into();
    fs::write(path(node), journal.to_string()).unwrap();
}
