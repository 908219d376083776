use super::*;

const LISTED: &str = "table inet floe-vip {
\tmap held4 {
\t\ttype ipv4_addr : ipv4_addr
\t\telements = { 10.9.0.100 : 10.1.0.11, 10.9.0.101 : 10.1.0.12,
\t\t\t     10.9.0.102 : 10.1.0.12 }
\t}

\tmap away6 {
\t\ttype ipv6_addr : ipv6_addr
\t\telements = { fd00::1 : fd00:1::2 }
\t}

\tmap egress4 {
\t\ttype ipv4_addr : ipv4_addr
\t\telements = { 10.1.0.11 : 10.9.0.100 }
\t}

\tset here4 {
\t\ttype ipv4_addr
\t\telements = { 10.9.0.100, 10.9.0.101,
\t\t\t     10.9.0.102, 10.9.0.103 }
\t}

\tset ended4 {
\t\ttype ipv4_addr . ipv4_addr
\t\telements = { 10.9.0.104 . 10.1.0.14,
\t\t\t     10.9.0.105 . 10.1.0.14 }
\t}

\tmap held6 {
\t\ttype ipv6_addr : ipv6_addr
\t}

\tset inside4 {
\t\ttype ipv4_addr
\t\tflags interval
\t\telements = { 10.200.0.11 }
\t}

\tchain output {
\t\ttype nat hook output priority -110; policy accept;
\t\tmeta nfproto @alive dnat ip to ip daddr map @held4
\t}
}
";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pair(vip: &str, pod: &str) -> Pair {
    Pair {
        vip: ip(vip),
        pod: ip(pod),
    }
}

fn addresses<const N: usize>(all: [&str; N]) -> BTreeSet<IpAddr> {
    all.map(ip).into()
}

#[test]
fn a_listing_names_what_an_earlier_process_served() {
    let remains = Remains::read(LISTED);
    let pairs = [
        pair("10.9.0.100", "10.1.0.11"),
        pair("10.9.0.101", "10.1.0.12"),
        pair("10.9.0.102", "10.1.0.12"),
        pair("10.9.0.104", "10.1.0.14"),
        pair("10.9.0.105", "10.1.0.14"),
    ];
    assert_eq!(remains.pairs, BTreeSet::from(pairs));
    let all = [
        "10.9.0.100",
        "10.9.0.101",
        "10.9.0.102",
        "10.9.0.103",
        "10.9.0.104",
        "10.9.0.105",
        "fd00::1",
    ];
    assert_eq!(remains.addresses, addresses(all));
    assert_eq!(Remains::read(""), Remains::default());
}

#[test]
fn connections_that_already_follow_the_rules_go_on() {
    let mut rules = NodeRules::default();
    for (vip, pod) in [("10.9.0.100", "10.1.0.11"), ("10.9.0.101", "10.1.0.99")] {
        rules.hold(ip(vip), ip(pod), "cni0").unwrap();
    }
    rules.send_away(ip("fd00::1"), ip("fd00:1::2")).unwrap();
    rules.own(ip("10.9.0.103"));
    let changed = Remains::read(LISTED).changed(&rules);
    let wanted = ["10.9.0.101", "10.9.0.102", "10.9.0.104", "10.9.0.105"];
    assert_eq!(changed, addresses(wanted));
}

#[test]
fn what_an_earlier_process_has_not_finished_is_finished() {
    let listed = LISTED.replace("10.9.0.104 . 10.1.0.14", "10.9.0.100 . 10.1.0.14");
    let mut rules = NodeRules::default();
    let (vip, pod) = (ip("10.9.0.100"), ip("10.1.0.11"));
    rules.hold(vip, pod, "cni0").unwrap();
    assert!(!Remains::read(LISTED).changed(&rules).contains(&vip));
    assert!(Remains::read(&listed).changed(&rules).contains(&vip));
}

#[test]
fn connections_that_began_without_rules_end() {
    let mut rules = NodeRules::default();
    let (held, away) = ("10.9.0.100", "10.9.0.101");
    rules.hold(ip(held), ip("10.1.0.11"), "cni0").unwrap();
    rules.send_away(ip(away), ip("10.2.0.11")).unwrap();
    let changed = Remains::default().changed(&rules);
    assert_eq!(changed, addresses([held, away]));
}
