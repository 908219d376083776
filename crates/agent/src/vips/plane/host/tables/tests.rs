use super::*;

const LISTED: &str = "table inet floe-vip {
\tset alive {
\t\ttype nf_proto
\t\tflags timeout
\t\telements = { ipv4 timeout 2s300ms expires 2s300ms,
\t\t\t     ipv6 timeout 2s300ms expires 2s300ms }
\t}

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

\tchain output {
\t\ttype nat hook output priority -110; policy accept;
\t\tmeta nfproto @alive dnat ip to ip daddr map @held4
\t}
}
";

#[test]
fn what_counts_down_is_not_compared_and_everything_else_is() {
    let later = LISTED.replace("expires 2s300ms", "expires 1s4ms");
    assert_eq!(lasting(&later), lasting(LISTED));
    assert_ne!(lasting(&LISTED.replace("@alive ", "")), lasting(LISTED));
    let other = LISTED.replace("10.9.0.102 : 10.1.0.12", "10.9.0.102 : 10.1.0.13");
    assert_ne!(lasting(&other), lasting(LISTED));
    assert!(lasting(LISTED).contains("map held4"));
}

#[test]
fn how_long_rules_hold_is_no_loss_and_an_address_is() {
    let listing = include_str!("../../../../../../core/src/vip/rules/golden/listing.txt");
    let mut rules = NodeRules::default();
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    rules
        .hold(ip("10.9.0.100"), ip("10.244.1.5"), "cni0")
        .unwrap();
    let dead: Vec<&str> = listing
        .lines()
        .filter(|line| !line.contains("expires"))
        .collect();
    let dead = dead.join("\n");
    assert_eq!(lost(&rules, &dead), None);
    let less = dead.replace("10.9.0.100 : 10.244.1.5", "10.9.0.90 : 10.244.1.5");
    let missing = RuleFault::ElementMissing(ip("10.9.0.100"));
    assert_eq!(lost(&rules, &less), Some(missing));
}
