//! The host's own address moves to the bridge, and is never lost on the way.

use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use floe_net::netlink::Netlink;
use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::json;

use super::harness::lab::deliver;
use super::harness::mode::{BRIDGE, Given};
use super::harness::plugin::Attachment;
use super::harness::site::{Node, Site, UPLINK};
use super::harness::view::{Snapshot, View};

/// The addresses of the first node.
const OWN: [&str; 2] = ["192.168.0.2/24", "fd00:c0::2/64"];
/// Where its default routes lead.
const GATEWAYS: [&str; 2] = ["192.168.0.1", "fd00:c0::1"];

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_plugin_killed_at_any_moment_never_costs_the_node_its_address() {
    // An ADD comes to its question about duplicates within a few milliseconds.
    for moment in 0..24 {
        let site = Site::new(1);
        let node = site.node();
        let pod = site.pod("killed");
        let attachment = Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 30)]);
        let config = json!(attachment.config).to_string();
        let mut child = attachment.start("ADD", config.as_bytes());
        thread::sleep(Duration::from_micros(moment * 500));
        child.kill().unwrap();
        child.wait().unwrap();

        let view = View::of(&node.net);
        for own in OWN {
            let places = [UPLINK, "docker"].map(|name| view.addresses(name));
            let there = places.iter().flatten().any(|address| address == own);
            assert!(there, "moment {moment}: {own} is gone");
        }
        let lines = view.lines();
        for gateway in GATEWAYS {
            let is_default = |line: &String| line.contains("\"default\"") && line.contains(gateway);
            let there = lines.iter().any(is_default);
            assert!(there, "moment {moment}: no default route via {gateway}");
        }
        // What a runtime does next: away with it, and once more.
        attachment.del();
        attachment.add();
        is_moved(&site, &format!("moment {moment}"));
        attachment.del();
        let names = View::of(&node.net).names().join(" ");
        assert!(!names.contains("v-"), "moment {moment}: {names}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn at_no_moment_of_the_move_the_node_is_without_address_or_default_route() {
    let site = Site::new(1);
    let node = site.node();
    let pod = site.pod("watched");
    let attachment = Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 29)]);
    let mut looks = 0;
    watched(node, &attachment, |netlink| {
        looks += 1;
        let addresses = netlink.addresses(None).unwrap();
        for own in OWN {
            let there = addresses.iter().any(|it| it.net.to_string() == own);
            assert!(there, "look {looks}: {own} is gone");
        }
        let routes = netlink.routes().unwrap();
        for gateway in GATEWAYS {
            let there = routes.iter().any(|it| {
                let is_through = |it: IpAddr| it.to_string() == gateway;
                it.dst.prefix_len() == 0 && it.gateway.is_some_and(is_through)
            });
            assert!(there, "look {looks}: no default route via {gateway}");
        }
    });
    assert!(looks > 100, "{looks}");
    is_moved(&site, "watched");
}

/// Runs ADD and looks at the node before and after each of its system calls: that is
/// what is there if it is killed at that moment.
#[expect(
    clippy::zombie_processes,
    reason = "it is waited for by its number, as tracing needs it"
)]
fn watched(node: &Node, attachment: &Attachment<'_>, mut look: impl FnMut(&mut Netlink) + Send) {
    let mut program = Command::new(node.bin.join(&attachment.plugin));
    program
        .env_clear()
        .env("FLOE_RUN", &node.run)
        .env("FLOE_STATE", &node.state)
        .env("CNI_COMMAND", "ADD")
        .envs(&attachment.variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let config = json!(attachment.config).to_string();
    node.net.within(|| {
        let mut netlink = Netlink::open().unwrap();
        let mut child = program.spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        // It goes if this test does.
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_EXITKILL;
        ptrace::seize(pid, options).unwrap();
        ptrace::interrupt(pid).unwrap();
        waitpid(pid, None).unwrap();
        // Until now it has waited for this.
        let mut input = child.stdin.take().unwrap();
        input.write_all(config.as_bytes()).unwrap();
        drop(input);
        let mut signal = None;
        loop {
            ptrace::syscall(pid, signal.take()).unwrap();
            match waitpid(pid, None).unwrap() {
                WaitStatus::PtraceSyscall(_) => look(&mut netlink),
                WaitStatus::Stopped(_, other) => signal = Some(other),
                WaitStatus::Exited(_, code) => {
                    assert_eq!(code, 0);
                    return;
                }
                WaitStatus::Signaled(_, by, _) => panic!("it was ended by {by}"),
                WaitStatus::PtraceEvent(..) | WaitStatus::Continued(_) | WaitStatus::StillAlive => {
                }
            }
        }
    });
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_move_that_cannot_be_made_leaves_everything_as_it_was() {
    let site = Site::new(1);
    let node = site.node();
    // Something else has the name of the bridge.
    node.net.ip("link add docker type veth peer name elsewhere");
    let before = Snapshot::of(node);
    let pod = site.pod("unlucky");
    let attachment = Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 31)]);
    let failure = attachment.refused();
    assert!(failure.message.contains("docker"), "{failure:?}");
    before.must_return(node, "a name that is taken");

    // The device belongs to somebody else's bridge.
    node.net.batch(&format!(
        "link delete docker\nlink add theirs type bridge\nlink set theirs up\n\
         link set {UPLINK} master theirs\n"
    ));
    let before = Snapshot::of(node);
    let reply = attachment.call("ADD");
    if reply.is_success() {
        // It may use the bridge that is there, but not take the device out of it.
        let view = View::of(&node.net);
        assert_eq!(view.link_text(UPLINK, "master"), "theirs");
        attachment.del();
    }
    let view = View::of(&node.net);
    assert_eq!(view.link_text(UPLINK, "master"), "theirs");
    let (_, lost) = before.changes(&Snapshot::of(node));
    assert!(
        !lost.iter().any(|line| line.starts_with("link ")),
        "{lost:?}"
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn routes_with_metric_source_and_other_tables_move_too() {
    let site = Site::new(1);
    let node = site.node();
    node.net.batch(&format!(
        "address add 192.168.0.102/24 dev {UPLINK}
         route add 10.50.0.0/16 via 192.168.0.1 metric 7 src 192.168.0.102
         route add 10.51.0.0/16 dev {UPLINK} scope link
         route add 10.52.0.0/16 via 192.168.0.1 table 77
         route add 198.51.100.1 via 192.168.99.1 dev {UPLINK} onlink
         route add fd00:51::/48 via fd00:c0::1 metric 9\n"
    ));
    let pod = site.pod("routes");
    Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 32)]).add();
    let view = View::of(&node.net);
    let via = [("docker", "192.168.0.1")];
    assert_eq!(view.routes("main", "10.50.0.0/16"), via);
    assert_eq!(view.routes("main", "10.51.0.0/16"), [("docker", "")]);
    assert_eq!(view.routes("77", "10.52.0.0/16"), via);
    assert_eq!(
        view.routes("main", "198.51.100.1"),
        [("docker", "192.168.99.1")]
    );
    assert_eq!(
        view.routes("main", "fd00:51::/48"),
        [("docker", "fd00:c0::1")]
    );
    let lines = view.lines();
    let with_source = lines
        .iter()
        .find(|line| line.contains("10.50.0.0/16"))
        .unwrap();
    assert!(
        with_source.contains("\"metric\":7") && with_source.contains("192.168.0.102"),
        "{with_source}"
    );
    let own = ["192.168.0.102/24", OWN[0], OWN[1]];
    assert_eq!(view.global_addresses("docker"), own);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn connections_of_the_node_survive_the_move() {
    let site = Site::new(1);
    let node = site.node();
    let [own, _] = node.addresses();
    let listener = site
        .outside
        .within(|| std::net::TcpListener::bind("192.168.0.1:80").unwrap());
    let near = node
        .net
        .within(|| std::net::TcpStream::connect("192.168.0.1:80").unwrap());
    let (mut far, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), own);
    let pod = site.pod("survivor");
    Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 33)]).add();
    std::io::Write::write_all(&mut far, b"still there").unwrap();
    near.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut text = [0; 11];
    std::io::Read::read_exact(&mut &near, &mut text).unwrap();
    assert_eq!(&text, b"still there");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn pods_that_come_and_go_do_not_change_the_address_by_which_a_bridge_is_known() {
    let site = Site::new(1);
    let node = site.node();
    // Above nearly all that the kernel would give to a veth.
    let mac = "f2:ff:ff:ff:ff:01";
    node.net.batch(&format!(
        "link add theirs type bridge
         link set theirs up
         link set {UPLINK} address {mac}
         link set {UPLINK} master theirs\n"
    ));
    let known_by = || {
        let view = View::of(&node.net);
        view.link_text("theirs", "address").to_owned()
    };
    assert_eq!(known_by(), mac);
    let pods = ["first", "second", "third"].map(|name| site.pod(name));
    for (pod, host) in pods.iter().zip(34..) {
        let attachment =
            Attachment::new(node, &BRIDGE, pod, &[Given::v4(0, host)]).with("device", "theirs");
        attachment.add();
        let view = View::of(&node.net);
        let end = view.link_text(&attachment.host_link("-l0"), "address");
        assert!(end.starts_with("fe:"), "{end}");
        assert_eq!(known_by(), mac);
        attachment.del();
        assert_eq!(known_by(), mac);
    }
}

fn is_moved(site: &Site, what: &str) {
    let node = site.node();
    let view = View::of(&node.net);
    assert_eq!(view.global_addresses("docker"), OWN, "{what}");
    assert_eq!(view.global_addresses(UPLINK), [""; 0], "{what}");
    assert_eq!(
        view.routes("main", "10.99.0.0/16"),
        [("docker", "192.168.0.1")],
        "{what}"
    );
    let mut defaults = view.defaults();
    defaults.sort_unstable();
    let expected = [("docker", "192.168.0.1"), ("docker", "fd00:c0::1")];
    assert_eq!(defaults, expected, "{what}");
    let here = node.net.udp(node.addresses()[0]);
    let there = site.outside.udp("192.168.0.1".parse().unwrap());
    deliver(&there, &here, "the node is reached");
}
