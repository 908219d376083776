//! The rules as scripts of `nft`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display, Write},
    net::IpAddr,
};

use super::{NodeRules, Pair, Target};

/// The family and name of the table that rewrites and guards.
pub const TABLE: &str = "inet floe-vip";

/// The family and name of the table that stops announcements.
pub const ANNOUNCEMENTS: &str = "netdev floe-vip";

/// The family and name of the table that keeps the kernel from answering for addresses of
/// the host itself. IPv6 needs none: there the kernel answers on the link that has the
/// address, and these are on no link to anybody.
pub const ANSWERS: &str = "arp floe-vip";

/// The family and name of the table that counts what the node forwards
/// ([`crate::vip::forwarding`]).
pub const COUNTERS: &str = "inet floe-vip-counters";

/// All tables of shared addresses, in the order in which they are removed.
pub const TABLES: [&str; 4] = [TABLE, ANNOUNCEMENTS, ANSWERS, COUNTERS];

/// Removes a table, whether it is there or not. A script for each, because there are kernels
/// that do not know all families.
pub fn removal(table: &str) -> String {
    format!("add table {table}\ndelete table {table}\n")
}

/// A set `alive`, for those who fill it without a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// The family and name of its table.
    pub table: &'static str,
    /// Its name.
    pub set: &'static str,
    /// Its elements, each in the order of the network.
    pub keys: &'static [&'static [u8]],
}

/// The set whose only element says that the time granted to `alive` was computed a moment
/// ago. A grant has to delete that element, and the kernel refuses a grant that comes after
/// the element has expired: a message that was held up cannot make a node live longer.
pub const TICKET: Pulse = Pulse {
    table: TABLE,
    set: "ticket",
    keys: &[&[2]],
};

/// All sets `alive`: `ipv4` and `ipv6` as numbers of families, and `arp`, `ip` and `ip6` as
/// types of frames.
pub const PULSES: [Pulse; 2] = [
    Pulse {
        table: TABLE,
        set: "alive",
        keys: &[&[2], &[10]],
    },
    Pulse {
        table: ANNOUNCEMENTS,
        set: "alive",
        keys: &[&[0x08, 0x06], &[0x08, 0x00], &[0x86, 0xdd]],
    },
];

/// The sets and maps of the first table. Each script fills them again; only the sets with a
/// timeout stay as they are.
const SETS: [(&str, &str, &str); 18] = [
    ("set", "uplinks", "type ifname;"),
    ("set", "hairpin", "type ifname . ifname;"),
    ("map", "held4", "type ipv4_addr : ipv4_addr;"),
    ("map", "held6", "type ipv6_addr : ipv6_addr;"),
    ("map", "away4", "type ipv4_addr : ipv4_addr;"),
    ("map", "away6", "type ipv6_addr : ipv6_addr;"),
    ("map", "egress4", "type ipv4_addr : ipv4_addr;"),
    ("map", "egress6", "type ipv6_addr : ipv6_addr;"),
    ("set", "here4", "type ipv4_addr;"),
    ("set", "here6", "type ipv6_addr;"),
    ("set", "mapped4", "type ipv4_addr;"),
    ("set", "mapped6", "type ipv6_addr;"),
    ("set", "ended4", "type ipv4_addr . ipv4_addr;"),
    ("set", "ended6", "type ipv6_addr . ipv6_addr;"),
    ("set", "leaving4", "type ipv4_addr . ipv4_addr;"),
    ("set", "leaving6", "type ipv6_addr . ipv6_addr;"),
    (
        "set",
        "inside4",
        "type ipv4_addr; flags interval; auto-merge;",
    ),
    (
        "set",
        "inside6",
        "type ipv6_addr; flags interval; auto-merge;",
    ),
];

/// Those of the second one. The target of an advertisement has no name of its own in
/// older versions of the program.
const ANNOUNCED_SETS: [(&str, &str, &str); 5] = [
    ("set", "known4", "type ipv4_addr;"),
    ("set", "known6", "type ipv6_addr;"),
    ("set", "known_targets", "typeof @th,64,128;"),
    ("set", "announced4", "type ipv4_addr;"),
    ("set", "announced_targets", "typeof @th,64,128;"),
];

/// Before those of the cluster's own network: whoever rewrites first has it.
const CHAINS: [(&str, &str); 6] = [
    ("prerouting", "type nat hook prerouting priority -110;"),
    ("output", "type nat hook output priority -110;"),
    ("postrouting", "type nat hook postrouting priority 90;"),
    ("forwarded", "type filter hook forward priority -10;"),
    ("received", "type filter hook input priority -10;"),
    ("sent", "type filter hook output priority -10;"),
];

/// In their order. A lookup that finds nothing lets the packet go on to the next rule.
pub(super) const RULES: [(&str, &str); 30] = [
    (
        "prerouting",
        "meta nfproto @alive dnat ip to ip daddr map @held4",
    ),
    (
        "prerouting",
        "meta nfproto @alive dnat ip6 to ip6 daddr map @held6",
    ),
    (
        "prerouting",
        "iifname != @uplinks dnat ip to ip daddr map @away4",
    ),
    (
        "prerouting",
        "iifname != @uplinks dnat ip6 to ip6 daddr map @away6",
    ),
    (
        "output",
        "meta nfproto @alive dnat ip to ip daddr map @held4",
    ),
    (
        "output",
        "meta nfproto @alive dnat ip6 to ip6 daddr map @held6",
    ),
    ("output", "dnat ip to ip daddr map @away4"),
    ("output", "dnat ip6 to ip6 daddr map @away6"),
    // The answer would go from pod to pod through their bridge, and not come back here.
    (
        "postrouting",
        "iifname . oifname @hairpin ct status dnat ct original ip daddr @mapped4 masquerade",
    ),
    (
        "postrouting",
        "iifname . oifname @hairpin ct status dnat ct original ip6 daddr @mapped6 masquerade",
    ),
    // The source was chosen for the way to the shared address, and not for this one.
    (
        "postrouting",
        "ct status dnat ct original ip daddr @mapped4 fib saddr type local masquerade",
    ),
    (
        "postrouting",
        "ct status dnat ct original ip6 daddr @mapped6 fib saddr type local masquerade",
    ),
    (
        "postrouting",
        "meta nfproto @alive oifname @uplinks ip daddr != @inside4 snat ip to ip saddr map @egress4",
    ),
    (
        "postrouting",
        "meta nfproto @alive oifname @uplinks ip6 daddr != @inside6 snat ip6 to ip6 saddr map @egress6",
    ),
    // Connections to a pod that no longer serves the address, and those that left with it.
    (
        "guard",
        "ct original ip daddr . ct reply ip saddr @ended4 drop",
    ),
    (
        "guard",
        "ct original ip6 daddr . ct reply ip6 saddr @ended6 drop",
    ),
    (
        "guard",
        "ct reply ip daddr . ct original ip saddr @ended4 drop",
    ),
    (
        "guard",
        "ct reply ip6 daddr . ct original ip6 saddr @ended6 drop",
    ),
    // Also what was never rewritten: the kernel would remember it so, and go on like that.
    ("guard", "meta nfproto @alive return"),
    ("guard", "ct original ip daddr @here4 drop"),
    ("guard", "ct original ip6 daddr @here6 drop"),
    ("guard", "ct reply ip daddr @here4 drop"),
    ("guard", "ct reply ip6 daddr @here6 drop"),
    (
        "guard",
        "ct original ip daddr . ct reply ip saddr @leaving4 drop",
    ),
    (
        "guard",
        "ct original ip6 daddr . ct reply ip6 saddr @leaving6 drop",
    ),
    (
        "guard",
        "ct reply ip daddr . ct original ip saddr @leaving4 drop",
    ),
    (
        "guard",
        "ct reply ip6 daddr . ct original ip6 saddr @leaving6 drop",
    ),
    ("forwarded", "jump guard"),
    ("received", "jump guard"),
    ("sent", "jump guard"),
];

/// What leaves through an exit.
const EXIT_RULES: [&str; 6] = [
    "arp saddr ip @known4 arp saddr ip != @announced4 drop",
    "arp saddr ip @known4 meta protocol != @alive drop",
    "icmpv6 type nd-neighbor-advert @th,64,128 @known_targets @th,64,128 != @announced_targets drop",
    "icmpv6 type nd-neighbor-advert @th,64,128 @known_targets meta protocol != @alive drop",
    "ip saddr @known4 meta protocol != @alive drop",
    "ip6 saddr @known6 meta protocol != @alive drop",
];

impl NodeRules {
    /// Makes the kernel's rules these, whatever they were, and leaves `alive` as it is:
    /// where there was none, nothing is served until somebody fills it.
    pub fn script(&self) -> String {
        self.lines().to_string()
    }

    /// The same for a kernel that has the rules `earlier`, if they differ by elements of sets
    /// alone: only those are in it. With a thousand addresses that is what a move takes. The
    /// program refuses it where the kernel has something else.
    pub fn script_since(&self, earlier: &Self) -> Option<String> {
        self.lines().since(&earlier.lines())
    }

    fn lines(&self) -> Script {
        let mut script = Script::default();
        script.table(TABLE, "type nf_proto; flags timeout;", &SETS);
        script.ticket(&TICKET, "type nf_proto; flags timeout;");
        for (name, hook) in CHAINS {
            script.line(format_args!("add chain {TABLE} {name} {{ {hook} }}"));
        }
        script.line(format_args!("add chain {TABLE} guard"));
        script.line(format_args!("flush table {TABLE}"));
        for (chain, rule) in RULES {
            script.line(format_args!("add rule {TABLE} {chain} {rule}"));
        }
        self.fill(&mut script);
        if !self.exits.is_empty() {
            self.guard_exits(&mut script);
        }
        if self.has_own() {
            self.leave_answers_to_others(&mut script);
        }
        script
    }

    /// The sets `alive` of these rules. Whoever fills them puts all keys into them, with the
    /// same time.
    pub fn pulses(&self) -> &'static [Pulse] {
        if self.exits.is_empty() {
            &PULSES[..1]
        } else {
            &PULSES
        }
    }

    fn fill(&self, script: &mut Script) {
        let links = |link: &String| format!("\"{link}\"");
        script.elements(TABLE, "uplinks", self.uplinks.iter().map(links));
        let (mut held, mut away, mut here) = (Vec::new(), Vec::new(), self.egressed());
        let mut hairpins = Vec::new();
        for (vip, target) in &self.targets {
            match target {
                Target::Here { pod, link } => {
                    held.push((*vip, *pod));
                    here.push(*vip);
                    hairpins.push(format!("\"{link}\" . \"{link}\""));
                }
                Target::Elsewhere { pod } => away.push((*vip, *pod)),
            }
        }
        here.extend(&self.own);
        hairpins.sort();
        hairpins.dedup();
        here.sort();
        here.dedup();
        script.elements(TABLE, "hairpin", hairpins);
        script.map("held", held);
        script.map("away", away);
        script.map("egress", self.egress.iter().map(|(pod, vip)| (*pod, *vip)));
        script.addresses(TABLE, "here", here);
        script.addresses(TABLE, "mapped", self.targets.keys().copied());
        script.pairs("ended", &self.ended);
        script.pairs("leaving", &self.leaving);
        let (v4, v6): (Vec<_>, Vec<_>) = self
            .inside
            .iter()
            .copied()
            .partition(|net| net.addr().is_ipv4());
        script.elements(TABLE, "inside4", v4);
        script.elements(TABLE, "inside6", v6);
    }

    fn egressed(&self) -> Vec<IpAddr> {
        self.egress.values().copied().collect()
    }

    fn leave_answers_to_others(&self, script: &mut Script) {
        let table = ANSWERS;
        script.line(format_args!("add table {table}"));
        script.line(format_args!("add set {table} own {{ type ipv4_addr; }}"));
        script.line(format_args!("flush set {table} own"));
        let hook = "type filter hook input priority 0;";
        script.line(format_args!("add chain {table} asked {{ {hook} }}"));
        script.line(format_args!("flush table {table}"));
        let rule = "arp operation request arp daddr ip @own drop";
        script.line(format_args!("add rule {table} asked {rule}"));
        script.elements(table, "own", self.own.iter().filter(|vip| vip.is_ipv4()));
    }

    fn guard_exits(&self, script: &mut Script) {
        let table = ANNOUNCEMENTS;
        script.table(table, "type ether_type; flags timeout;", &ANNOUNCED_SETS);
        script.exits(table, &self.exits, &EXIT_RULES);
        script.addresses(table, "known", self.known.iter().copied());
        script.elements(table, "known_targets", targets(&self.known));
        let announced = self.announced.iter().filter(|vip| vip.is_ipv4());
        script.elements(table, "announced4", announced);
        script.elements(table, "announced_targets", targets(&self.announced));
    }
}

/// A script, line by line.
#[derive(Default)]
pub(super) struct Script(Vec<Line>);

#[derive(PartialEq, Eq)]
enum Line {
    Plain(String),
    /// What a set or map has, never nothing: the program refuses an empty list.
    Elements {
        table: &'static str,
        set: String,
        all: Vec<String>,
    },
}

impl Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.0 {
            match line {
                Line::Plain(line) => writeln!(f, "{line}")?,
                Line::Elements { table, set, all } => {
                    writeln!(f, "add element {table} {set} {{ {} }}", all.join(", "))?;
                }
            }
        }
        Ok(())
    }
}

impl Script {
    /// What has to be done after another script, if elements alone are different.
    fn since(&self, earlier: &Self) -> Option<String> {
        if !self.plain().eq(earlier.plain()) {
            return None;
        }
        let (before, after) = (earlier.elements_by_set(), self.elements_by_set());
        let none = BTreeSet::new();
        let sets: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let (mut ended, mut begun) = (String::new(), String::new());
        for place in sets {
            let (table, set) = place;
            let old = before.get(place).unwrap_or(&none);
            let new = after.get(place).unwrap_or(&none);
            // Networks are merged with their neighbours, so none of them can be taken out.
            if old != new && set.starts_with("inside") {
                return None;
            }
            for (script, verb, one, other) in [
                (&mut ended, "delete", old, new),
                (&mut begun, "add", new, old),
            ] {
                let all: Vec<&str> = one.difference(other).copied().collect();
                if !all.is_empty() {
                    let all = all.join(", ");
                    writeln!(script, "{verb} element {table} {set} {{ {all} }}")
                        .expect("a string takes all that is written to it");
                }
            }
        }
        // What is mapped to something else goes before it comes.
        Some(ended + &begun)
    }

    fn plain(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|line| match line {
            Line::Plain(line) => Some(line.as_str()),
            Line::Elements { .. } => None,
        })
    }

    fn elements_by_set(&self) -> BTreeMap<(&str, &str), BTreeSet<&str>> {
        let lines = self.0.iter().filter_map(|line| match line {
            Line::Plain(_) => None,
            Line::Elements { table, set, all } => {
                let all = all.iter().map(String::as_str).collect();
                Some(((*table, set.as_str()), all))
            }
        });
        lines.collect()
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        self.0.push(Line::Plain(line.to_string()));
    }

    /// A table with its sets, of which all but `alive` are empty then.
    pub(super) fn table(&mut self, table: &str, alive: &str, sets: &[(&str, &str, &str)]) {
        self.line(format_args!("add table {table}"));
        self.set(table, "alive", alive);
        for (kind, name, what) in sets {
            self.line(format_args!("add {kind} {table} {name} {{ {what} }}"));
            self.line(format_args!("flush {kind} {table} {name}"));
        }
    }

    /// The rules for what leaves through each of these links, in place of all rules that the
    /// table had: also those of links that are no exits any more.
    pub(super) fn exits(&mut self, table: &str, links: &BTreeSet<String>, rules: &[&str]) {
        for link in links {
            let chain = chain_of(link);
            self.line(format_args!(
                "add chain {table} {chain} {{ type filter hook egress device \"{link}\" priority 0; }}"
            ));
        }
        self.line(format_args!("flush table {table}"));
        for link in links {
            let chain = chain_of(link);
            for rule in rules {
                self.line(format_args!("add rule {table} {chain} {rule}"));
            }
        }
    }

    /// The set of a ticket. Its table must be there.
    pub(super) fn ticket(&mut self, ticket: &Pulse, what: &str) {
        self.set(ticket.table, ticket.set, what);
    }

    /// A set that keeps its elements.
    pub(super) fn set(&mut self, table: &str, set: &str, what: &str) {
        self.line(format_args!("add set {table} {set} {{ {what} }}"));
    }

    /// Adds elements to a set or map.
    pub(super) fn elements(
        &mut self,
        table: &'static str,
        set: &str,
        all: impl IntoIterator<Item: Display>,
    ) {
        let all: Vec<_> = all.into_iter().map(|it| it.to_string()).collect();
        if !all.is_empty() {
            let set = set.to_owned();
            self.0.push(Line::Elements { table, set, all });
        }
    }

    /// Adds to the set of each family.
    pub(super) fn addresses(
        &mut self,
        table: &'static str,
        set: &str,
        all: impl IntoIterator<Item = IpAddr>,
    ) {
        let (v4, v6): (Vec<_>, Vec<_>) = all.into_iter().partition(IpAddr::is_ipv4);
        self.elements(table, &format!("{set}4"), v4);
        self.elements(table, &format!("{set}6"), v6);
    }

    /// Adds to the set of pairs of each family.
    fn pairs(&mut self, set: &str, all: &BTreeSet<Pair>) {
        let (v4, v6): (Vec<_>, Vec<_>) = all.iter().partition(|it| it.vip.is_ipv4());
        let words = |it: &Pair| format!("{} . {}", it.vip, it.pod);
        self.elements(TABLE, &format!("{set}4"), v4.into_iter().map(words));
        self.elements(TABLE, &format!("{set}6"), v6.into_iter().map(words));
    }

    /// Adds to the map of each family.
    fn map(&mut self, map: &str, all: impl IntoIterator<Item = (IpAddr, IpAddr)>) {
        let (v4, v6): (Vec<_>, Vec<_>) = all.into_iter().partition(|(key, _)| key.is_ipv4());
        let words = |(key, value): (IpAddr, IpAddr)| format!("{key} : {value}");
        self.elements(TABLE, &format!("{map}4"), v4.into_iter().map(words));
        self.elements(TABLE, &format!("{map}6"), v6.into_iter().map(words));
    }
}

/// Addresses of IPv6 as plain numbers.
pub(super) fn targets<'a>(
    all: impl IntoIterator<Item = &'a IpAddr>,
) -> impl Iterator<Item = String> {
    all.into_iter().filter_map(|ip| match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => Some(format!("{:#034x}", ip.to_bits())),
    })
}

/// The chain of an exit. Names of links have characters that names of chains must not have.
fn chain_of(link: &str) -> String {
    let mut name = "exit_".to_owned();
    for byte in link.bytes() {
        if byte.is_ascii_alphanumeric() {
            name.push(char::from(byte));
        } else {
            write!(name, "_{byte:02x}").expect("a string takes all that is written to it");
        }
    }
    name
}
