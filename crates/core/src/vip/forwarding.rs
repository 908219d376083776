//! Whether a node forwards the packets of the shared addresses that it holds.
//!
//! Rules of others may drop them between the uplink and the pod, while the node holds the
//! address, answers ARP and looks well: a firewall whose `FORWARD` policy is `DROP` does that.
//! The kernel therefore counts the packets of each address in both directions, where they
//! enter the node and where they leave it again. The table of the counters is separate from
//! the rules that serve, so that nothing is lost where a kernel does not support it.
//!
//! Counters alone prove nothing: a network policy may rightly drop all that the present
//! clients send. A node counts as not forwarding only if an [`Obstacle`] is found as well,
//! which drops whatever no earlier rule accepts. Even then it can be wrong: a firewall may drop
//! by default, accept some clients, and only others may be asking. So a wrong verdict must be
//! harmless: it costs one planned move in ten minutes ([`may_hand_over`]), and any packet that
//! passes ends it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    net::IpAddr,
    time::Duration,
};

use super::{
    elect::MoveReason,
    rules::{
        COUNTERS, NodeRules, TABLES,
        listing::{Blocks, blocks, elements},
        removal,
    },
};
use crate::lease::Moment;

/// How many looks must find packets that enter and none that leaves. One packet may be on its
/// way through the node during a look.
const LOOKS: u32 = 2;

/// After so many looks without any packet the earlier ones do not count any more.
const IDLE: u32 = 15;

/// How long a verdict holds, also after the address has moved.
pub const VERDICT: Duration = Duration::from_mins(10);

/// The counting rules, of which `#` stands for the family. Packets of clients on the node
/// itself are not forwarded, so they must not hide that others do not pass.
const RULES: [(&str, &str); 4] = [
    (
        "entering",
        "iifname @uplinks ct direction original ct original ip# daddr @requests_entering",
    ),
    (
        "leaving",
        "iifname @uplinks ct direction original ct original ip# daddr @requests_leaving",
    ),
    (
        "entering",
        "ct direction reply fib daddr type != local ct original ip# daddr @replies_entering",
    ),
    (
        "leaving",
        "ct direction reply ct original ip# daddr @replies_leaving",
    ),
];

const SETS: [&str; 4] = [
    "requests_entering",
    "requests_leaving",
    "replies_entering",
    "replies_leaving",
];

/// The packets of an address in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Those that have entered the node.
    pub entered: u64,
    /// Those that have left it again.
    pub left: u64,
}

/// What the kernel has counted for an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// From clients to the pod.
    pub requests: Passage,
    /// From the pod to clients.
    pub replies: Passage,
}

/// Finds the addresses whose packets enter the node and do not leave it.
#[derive(Debug, Default)]
pub struct Detector {
    counts: BTreeMap<IpAddr, Counts>,
    suspects: BTreeMap<IpAddr, Suspicion>,
}

/// What speaks against an address since its last packet left the node.
#[derive(Clone, Copy, Debug, Default)]
struct Suspicion {
    /// The looks that have found packets which entered.
    looks: u32,
    /// The looks after those that have found none.
    idle: u32,
}

/// What a look has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The addresses whose packets enter the node and do not leave it.
    pub stuck: BTreeSet<IpAddr>,
    /// Those of which a packet has left the node since the last look.
    pub passing: BTreeSet<IpAddr>,
}

/// The addresses that a node does not forward, with what drops their packets. A verdict
/// outlasts the holding: the node must not be prepared to get the address back.
#[derive(Debug, Default)]
pub struct Verdicts(BTreeMap<IpAddr, (Obstacle, Moment)>);

impl Verdicts {
    /// Forgets what was found too long ago, also while no look succeeds.
    pub fn expire(&mut self, now: Moment) {
        self.0.retain(|_, (_, since)| now < since.after(VERDICT));
    }

    /// Takes in what a look has found; the addresses for which an obstacle is to be searched.
    pub fn suspects(&mut self, look: &Look) -> BTreeSet<IpAddr> {
        self.0.retain(|ip, _| !look.passing.contains(ip));
        let known = self.0.keys().chain(&look.stuck);
        known.copied().collect()
    }

    /// Takes in what was found for them. Without an obstacle there is no verdict.
    pub fn found(&mut self, look: &Look, obstacles: BTreeMap<IpAddr, Obstacle>, now: Moment) {
        let before = std::mem::take(&mut self.0);
        for (ip, obstacle) in obstacles {
            let since = before.get(&ip).map(|(_, since)| *since);
            let since = since.filter(|_| !look.stuck.contains(&ip)).unwrap_or(now);
            self.0.insert(ip, (obstacle, since));
        }
    }

    /// What drops the packets of an address.
    pub fn obstacle(&self, ip: IpAddr) -> Option<&Obstacle> {
        self.0.get(&ip).map(|(obstacle, _)| obstacle)
    }
}

/// What drops packets that no earlier rule accepts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The policy of a base chain.
    #[error("the policy of chain {0} is drop")]
    Policy(String),
    /// The last rule of a base chain.
    #[error("the last rule of chain {0} drops or rejects everything")]
    LastRule(String),
    /// A setting of the kernel.
    #[error("{0} is 0")]
    Setting(String),
}

/// A base chain of the forward hook that belongs to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseChain {
    /// The family, table and name.
    pub name: String,
    /// Whether it sees packets of IPv4.
    pub sees_v4: bool,
    /// Whether it sees packets of IPv6.
    pub sees_v6: bool,
    /// Whether it drops what its rules let pass.
    pub drops_by_policy: bool,
}

impl BaseChain {
    /// Whether it sees packets of the family of this address.
    pub fn sees(&self, ip: IpAddr) -> bool {
        if ip.is_ipv4() {
            self.sees_v4
        } else {
            self.sees_v6
        }
    }
}

/// Makes the kernel count from zero for the addresses that these rules forward; none if there
/// are no such addresses.
pub fn script(rules: &NodeRules) -> Option<String> {
    let (v4, v6): (Vec<_>, Vec<_>) = rules.forwarded().partition(IpAddr::is_ipv4);
    if v4.is_empty() && v6.is_empty() {
        return None;
    }
    let table = COUNTERS;
    let mut script = removal(table);
    let mut line = |line: String| {
        writeln!(script, "add {line}").expect("a string takes all that is written to it");
    };
    line(format!("table {table}"));
    line(format!("set {table} uplinks {{ type ifname; }}"));
    let uplinks: Vec<String> = rules.uplinks().map(|it| format!("\"{it}\"")).collect();
    if !uplinks.is_empty() {
        let uplinks = uplinks.join(", ");
        line(format!("element {table} uplinks {{ {uplinks} }}"));
    }
    // After the translation of destinations, and after all other rules.
    let hooks = [
        ("entering", "prerouting", 0),
        ("leaving", "postrouting", 310),
    ];
    for (chain, hook, priority) in hooks {
        let hook = format!("type filter hook {hook} priority {priority};");
        line(format!("chain {table} {chain} {{ {hook} }}"));
    }
    for (number, word, addresses) in [("4", "", v4), ("6", "6", v6)] {
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        if addresses.is_empty() {
            continue;
        }
        let addresses = addresses.join(", ");
        for set in SETS {
            let kind = format!("type ipv{number}_addr; counter;");
            line(format!("set {table} {set}{number} {{ {kind} }}"));
            line(format!("element {table} {set}{number} {{ {addresses} }}"));
        }
        for (chain, rule) in RULES {
            let rule = rule.replace("ip#", &format!("ip{word}"));
            line(format!("rule {table} {chain} {rule}{number}"));
        }
    }
    Some(script)
}

/// What `nft list table` says of [`COUNTERS`].
pub fn counts(listing: &str) -> BTreeMap<IpAddr, Counts> {
    let blocks = blocks(listing);
    let mut all = BTreeMap::<IpAddr, Counts>::new();
    let [
        requests_entering,
        requests_leaving,
        replies_entering,
        replies_leaving,
    ] = SETS;
    read(&blocks, requests_entering, &mut all, |it| {
        &mut it.requests.entered
    });
    read(&blocks, requests_leaving, &mut all, |it| {
        &mut it.requests.left
    });
    read(&blocks, replies_entering, &mut all, |it| {
        &mut it.replies.entered
    });
    read(&blocks, replies_leaving, &mut all, |it| {
        &mut it.replies.left
    });
    all
}

fn read(
    blocks: &Blocks<'_>,
    set: &str,
    all: &mut BTreeMap<IpAddr, Counts>,
    count: fn(&mut Counts) -> &mut u64,
) {
    for family in ["4", "6"] {
        for element in elements(blocks, "set", &format!("{set}{family}")) {
            let mut words = element.split_whitespace();
            let ip = words.next().and_then(|it| it.parse().ok());
            let packets = words.skip_while(|it| *it != "packets").nth(1);
            let packets = packets.and_then(|it| it.parse().ok());
            if let Some((ip, packets)) = ip.zip(packets) {
                *count(all.entry(ip).or_default()) = packets;
            }
        }
    }
}

impl Detector {
    /// Takes in what was counted.
    pub fn look(&mut self, counts: BTreeMap<IpAddr, Counts>) -> Look {
        let mut look = Look::default();
        self.suspects.retain(|ip, _| counts.contains_key(ip));
        for (ip, now) in &counts {
            let before = self.counts.get(ip).copied().unwrap_or_default();
            let requests = now.requests.since(before.requests);
            let replies = now.replies.since(before.replies);
            if requests.is_stuck() || replies.is_stuck() {
                let suspicion = self.suspects.entry(*ip).or_default();
                suspicion.looks += 1;
                suspicion.idle = 0;
            } else if requests.left > 0 || replies.left > 0 {
                self.suspects.remove(ip);
                look.passing.insert(*ip);
            } else if let Some(suspicion) = self.suspects.get_mut(ip) {
                suspicion.idle += 1;
                if suspicion.idle >= IDLE {
                    self.suspects.remove(ip);
                }
            }
        }
        self.counts = counts;
        let stuck = self.suspects.iter().filter(|(_, it)| it.looks >= LOOKS);
        look.stuck = stuck.map(|(ip, _)| *ip).collect();
        look
    }

    /// Takes in that the kernel counts from zero.
    pub fn restart(&mut self) {
        self.counts.clear();
    }
}

impl Passage {
    fn since(self, earlier: Self) -> Self {
        Self {
            entered: self.entered.saturating_sub(earlier.entered),
            left: self.left.saturating_sub(earlier.left),
        }
    }

    fn is_stuck(self) -> bool {
        self.entered > 0 && self.left == 0
    }
}

/// Whether a holder that does not forward hands an address over, by the reason of the last move
/// and the time since then. Where it came because another node could not serve it, it stays for
/// a while: nodes with the same firewall would pass it on without end.
pub fn may_hand_over(last: Option<(&str, Duration)>) -> bool {
    last.is_none_or(|(reason, age)| {
        MoveReason::parse(reason) != Some(MoveReason::CannotServe) || age >= VERDICT
    })
}

/// The base chains of the forward hook that belong to others, in what `nft list chains` says.
pub fn forward_chains(listing: &str) -> Vec<BaseChain> {
    let mut found = Vec::new();
    let (mut table, mut chain) = ("", "");
    for line in listing.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches([' ', '{']);
        } else if let Some(name) = line.strip_prefix("chain ") {
            chain = name.trim_end_matches([' ', '{']);
        } else if line.starts_with("type filter hook forward ") && !TABLES.contains(&table) {
            let family = table.split(' ').next().unwrap_or_default();
            found.push(BaseChain {
                name: format!("{table} {chain}"),
                sees_v4: ["ip", "inet"].contains(&family),
                sees_v6: ["ip6", "inet"].contains(&family),
                drops_by_policy: line.contains("policy drop;"),
            });
        }
    }
    found
}

/// Whether a chain, as `nft list chain` prints it, ends with a rule that drops or rejects all
/// that reaches it.
pub fn ends_with_drop(listing: &str) -> bool {
    let mut lines = listing.lines().map(str::trim);
    let last = lines.rfind(|it| !it.is_empty() && *it != "}");
    let mut words = last.unwrap_or_default().split(' ').peekable();
    // `counter packets 3 bytes 252`, or `counter` alone in a listing without state.
    if words.next_if_eq(&"counter").is_some() && words.peek() == Some(&"packets") {
        words.nth(3);
    }
    matches!(words.next(), Some("drop" | "reject"))
}

#[cfg(test)]
mod tests;
