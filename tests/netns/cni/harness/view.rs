//! Everything that can be seen of a namespace, and what has changed in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::lab::{Namespace, wait_for};
use super::site::Node;

/// Links, addresses, routes of all tables, rules, fixed neighbours, and nft, as `ip`
/// and `nft` show them.
pub struct View {
    links: Vec<Value>,
    neighbours: Vec<Value>,
    proxies: Vec<Value>,
    routes: Vec<Value>,
    rules: Vec<Value>,
    nft: String,
}

impl View {
    /// Looks at a namespace.
    pub fn of(namespace: &Namespace) -> Self {
        let both = "address show\nneighbour show nud permanent\nneighbour show proxy\n";
        let [links, neighbours, proxies] = lists(namespace, &["-d"], both);
        let each = "route show table all\nrule show\n";
        let [mut routes, mut rules] = lists(namespace, &["-4"], each);
        let [routes_v6, rules_v6] = lists(namespace, &["-6"], each);
        routes.extend(routes_v6);
        rules.extend(rules_v6);
        Self {
            links,
            neighbours,
            proxies,
            routes,
            rules,
            nft: namespace.read("nft", &["list", "ruleset"], ""),
        }
    }

    /// The names of all links but the loopback.
    pub fn names(&self) -> Vec<&str> {
        let names = self.links.iter().map(|link| text(link, "ifname"));
        names.filter(|name| *name != "lo").collect()
    }

    /// A link as `ip -d -j` shows it.
    pub fn link(&self, name: &str) -> Option<&Value> {
        self.links.iter().find(|link| text(link, "ifname") == name)
    }

    /// A text of a link, empty if it has none.
    pub fn link_text(&self, name: &str, member: &str) -> &str {
        let link = self.link(name);
        text(
            link.unwrap_or_else(|| panic!("no link {name} among {:?}", self.names())),
            member,
        )
    }

    /// What kind of link it is.
    pub fn kind(&self, name: &str) -> &str {
        let link = self.link(name).unwrap_or(&Value::Null);
        link["linkinfo"]["info_kind"].as_str().unwrap_or_default()
    }

    /// The addresses of a link, with their lengths.
    pub fn addresses(&self, name: &str) -> Vec<String> {
        let link = self.link(name).unwrap_or(&Value::Null);
        let list = link["addr_info"].as_array();
        list.into_iter().flatten().map(address).collect()
    }

    /// The addresses of a link that reach farther than the link.
    pub fn global_addresses(&self, name: &str) -> Vec<String> {
        let mut addresses = self.addresses(name);
        addresses.retain(|address| !address.starts_with("fe80:"));
        addresses.sort();
        addresses
    }

    /// The routes of a table with this destination: device and gateway.
    pub fn routes(&self, table: &str, dst: &str) -> Vec<(&str, &str)> {
        self.routes
            .iter()
            .filter(|route| {
                let own = text(route, "table");
                (own == table || (own.is_empty() && table == "main")) && text(route, "dst") == dst
            })
            .map(|route| (text(route, "dev"), text(route, "gateway")))
            .collect()
    }

    /// The default routes of the main table, of both families: device and gateway.
    pub fn defaults(&self) -> Vec<(&str, &str)> {
        self.routes("main", "default")
    }

    /// Everything as sorted lines, without numbers that differ from time to time.
    pub fn lines(&self) -> BTreeSet<String> {
        let links = self.links.iter().map(link_line);
        let addresses = self.links.iter().flat_map(|link| {
            let list = link["addr_info"].as_array();
            list.into_iter().flatten().map(|it| {
                let (name, fixed) = (text(link, "ifname"), it["noprefixroute"] == true);
                let scope = text(it, "scope");
                format!("address {} {name} {scope} {fixed}", address(it))
            })
        });
        let routes = self.routes.iter().map(|it| plain("route", it));
        let rules = self.rules.iter().map(|it| plain("rule", it));
        let neighbours = self.neighbours.iter().map(|it| plain("neighbour", it));
        let proxies = self.proxies.iter().map(|it| plain("proxy", it));
        let nft = self.nft.lines().map(|line| format!("nft {line}"));
        links
            .chain(addresses)
            .chain(routes)
            .chain(rules)
            .chain(neighbours)
            .chain(proxies)
            .chain(nft)
            .collect()
    }
}

/// All that a plugin could leave on a node: its network, and files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot(BTreeSet<String>);

impl Snapshot {
    /// Looks at a node.
    pub fn of(node: &Node) -> Self {
        let mut lines = View::of(&node.net).lines();
        for folder in [&node.run, &node.state] {
            files(folder, &mut lines);
        }
        // By contract these stay: an empty file, and what leads back.
        lines.retain(|line| !(line.starts_with("file ") && line.ends_with("/net.lock")));
        Self(lines)
    }

    /// Waits until the node looks like this again: namespaces go in the kernel's own
    /// time. Panics with the difference.
    pub fn must_return(&self, node: &Node, what: &str) {
        let mut last = self.clone();
        let mut rounds = 0;
        wait_for("a look without result", || {
            last = Self::of(node);
            rounds += 1;
            (last == *self || rounds == 50).then_some(())
        });
        let (more, less) = self.changes(&last);
        assert!(
            last == *self,
            "{what}: left behind: {more:#?}, lost: {less:#?}"
        );
    }

    /// What `later` has more and what it has less.
    pub fn changes(&self, later: &Self) -> (Vec<String>, Vec<String>) {
        let minus = |a: &Self, b: &Self| a.0.difference(&b.0).cloned().collect();
        (minus(later, self), minus(self, later))
    }
}

fn lists<const N: usize>(
    namespace: &Namespace,
    options: &[&str],
    commands: &str,
) -> [Vec<Value>; N] {
    let mut words = options.to_vec();
    words.extend(["-j", "-batch", "-"]);
    let output = namespace.read("ip", &words, commands);
    let lists: Result<Vec<Vec<Value>>, _> = serde_json::Deserializer::from_str(&output)
        .into_iter()
        .collect();
    let lists = lists.unwrap_or_else(|error| panic!("{error}: {output}"));
    lists.try_into().unwrap_or_else(|_| panic!("{output}"))
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

fn address(it: &Value) -> String {
    format!("{}/{}", text(it, "local"), it["prefixlen"])
}

fn link_line(link: &Value) -> String {
    let flags = link["flags"].as_array().into_iter().flatten();
    let up = flags.clone().any(|flag| flag == "UP");
    let info = &link["linkinfo"];
    format!(
        "link {} {} {} mtu {} up {up} master {:?} parent {:?} alias {:?} id {} mode {}",
        text(link, "ifname"),
        text(info, "info_kind"),
        text(link, "address"),
        link["mtu"],
        text(link, "master"),
        text(link, "link"),
        text(link, "ifalias"),
        info["info_data"]["id"],
        info["info_data"]["mode"],
    )
}

/// A thing as JSON, without what the carrier changes.
fn plain(what: &str, value: &Value) -> String {
    let mut value = value.clone();
    if let Some(members) = value.as_object_mut() {
        members.remove("flags");
    }
    format!("{what} {value}")
}

fn files(folder: &Path, lines: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, lines);
        } else {
            lines.insert(format!("file {}", path.display()));
        }
    }
}
