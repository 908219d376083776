//! The lab itself: hosts on a segment are what later tests take them for.

use std::fs;
use std::time::Duration;

use floe_testbed::host::Inside;
use floe_testbed::lab::Lab;
use floe_testbed::leftovers::Machine;

const SOON: Duration = Duration::from_secs(5);

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn hosts_answer_each_other_in_both_families_and_the_wire_shows_it() {
    let lab = Lab::new(&["left", "right"]).unwrap();
    let left = lab.host("left").unwrap();
    let wire = lab.switch().capture("br0", "arp or icmp or icmp6").unwrap();

    left.network_script("ping -c 1 -W 2 10.9.0.2").unwrap();
    left.network_script("ping -c 1 -W 2 fd00:9::2").unwrap();

    wire.wait_for(SOON, |line| {
        line.contains("ARP") && line.contains("who-has 10.9.0.2")
    })
    .unwrap();
    wire.wait_for(SOON, |line| {
        line.contains("10.9.0.2 > 10.9.0.1: ICMP echo reply")
    })
    .unwrap();
    wire.wait_for(SOON, |line| {
        line.contains("fd00:9::2 > fd00:9::1: ICMP6, echo reply")
    })
    .unwrap();
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_host_that_is_switched_off_answers_no_more_and_others_go_on() {
    let mut lab = Lab::new(&["left", "middle", "right"]).unwrap();
    lab.power_off("middle").unwrap();
    let left = lab.host("left").unwrap();
    left.network_script("ping -c 1 -W 2 10.9.0.3").unwrap();
    assert!(left.network_script("ping -c 1 -W 1 10.9.0.2").is_err());
    assert!(lab.host("middle").is_err());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_host_has_a_name_processes_and_sockets_of_its_own() {
    let lab = Lab::new(&["left", "right"]).unwrap();
    let right = lab.host("right").unwrap();
    assert_eq!(right.shell("hostname").unwrap().trim(), "right");
    // Its first process is its anchor.
    let first = right.shell("cat /proc/1/cmdline").unwrap();
    assert!(first.contains("anchor"), "{first}");
    // A socket opened inside is reached from the other host, and from nowhere else.
    let network = right.network().unwrap();
    let listener = network
        .run(|| std::net::TcpListener::bind("10.9.0.2:80"))
        .unwrap();
    let address = listener.local_addr().unwrap();
    let left = lab.host("left").unwrap().network().unwrap();
    left.run(|| std::net::TcpStream::connect_timeout(&address, SOON))
        .unwrap();
    assert!(
        std::net::TcpListener::bind(address).is_err(),
        "the machine itself has no such address"
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_lab_leaves_no_process_and_no_namespace_even_with_programs_running() {
    let (mut sleeper, namespaces, _kept) = {
        let lab = Lab::new(&["left"]).unwrap();
        let left = lab.host("left").unwrap();
        let sleeper = left
            .command(Inside::Host, "sleep")
            .arg("3600")
            .spawn()
            .unwrap();
        left.shell("mount -t tmpfs tmpfs /mnt; sleep 3600 >/dev/null 2>&1 &")
            .unwrap();
        let files: Vec<String> = [left, lab.switch()]
            .iter()
            .flat_map(|host| ["net", "mnt", "pid", "uts"].map(|kind| (host.anchor, kind)))
            .map(|(anchor, kind)| format!("/proc/{anchor}/ns/{kind}"))
            .collect();
        let namespaces: Vec<String> = files
            .iter()
            .map(|file| fs::read_link(file).unwrap().display().to_string())
            .collect();
        // While a namespace is open, nobody else's gets its number.
        let kept: Vec<_> = files.iter().map(|it| fs::File::open(it).unwrap()).collect();
        let during = Machine::look();
        assert!(
            namespaces
                .iter()
                .all(|namespace| during.has_namespace(namespace))
        );
        (sleeper, namespaces, kept)
    };
    // The kernel ended it with its host.
    sleeper.wait().unwrap();
    let after = Machine::look();
    for namespace in namespaces {
        assert!(
            !after.has_namespace(&namespace),
            "{namespace} still has processes"
        );
    }
}
