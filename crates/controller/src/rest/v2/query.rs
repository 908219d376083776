//! From parameters to a question.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use floe_core::{
    addr::{self, IpRange, IpSet},
    catalogue::{Filter, Holding, Item, Query, Row, Sort},
    config::AddressConfig,
    ipam::{
        key::{KeyParts, KindPrefix},
        policy::ReleasePolicy,
        state::State,
    },
};
use ipnet::IpNet;

use super::{
    parameters::{Page, take},
    problem::Refused,
};

/// What a list of addresses is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpQuestion {
    /// Which page.
    pub page: Page,
    query: Query,
    subnet: Option<IpNet>,
    node_subnet: Option<IpNet>,
}

/// Which holders. What is given must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// A text, in small letters.
    text: Option<String>,
    pool: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    app: Option<String>,
}

impl IpQuestion {
    /// Takes the parameters of a list of addresses.
    pub fn take(all: &mut BTreeMap<String, String>) -> Result<Self, Refused> {
        let page = Page::take(all)?;
        let (sort, descending) = match all.remove("sort") {
            None => (Sort::Ip, false),
            Some(text) => self::sort(&text)?,
        };
        let filter = Filter {
            text: all.remove("q"),
            within: read(all, "ip", self::within)?,
            states: read(all, "state", self::states)?,
            pool: all.remove("pool"),
            kind: all.remove("appType").map(|text| kind(&text)),
            namespace: all.remove("namespace"),
            app: all.remove("app"),
            pod: all.remove("pod"),
            node: all.remove("node"),
            policy: read(all, "policy", policy)?,
            outside: take(all, "outside")?,
            ..Filter::default()
        };
        Ok(Self {
            page,
            query: Query {
                filter,
                sort,
                descending,
                offset: page.offset(),
                limit: usize::try_from(page.size).unwrap_or(usize::MAX),
            },
            subnet: read(all, "subnet", net)?,
            node_subnet: read(all, "nodeSubnet", net)?,
        })
    }

    /// The question, where some of it depends on the configuration.
    pub fn query(mut self, config: &AddressConfig) -> Query {
        if self.subnet.is_some() || self.node_subnet.is_some() {
            let entries = config.entries().iter().filter(|entry| {
                self.subnet.is_none_or(|net| entry.network() == net)
                    && (self.node_subnet).is_none_or(|net| entry.node_subnets().contains(&net))
            });
            let those: IpSet = entries
                .flat_map(|entry| entry.addresses().ranges())
                .collect();
            let within = &mut self.query.filter.within;
            *within = Some(match within.take() {
                None => those,
                Some(wished) => wished.intersection(&those),
            });
        }
        self.query
    }

    /// Whether [`query`](IpQuestion::query) looks at the configuration.
    pub fn asks_the_configuration(&self) -> bool {
        self.subnet.is_some() || self.node_subnet.is_some()
    }
}

impl Wanted {
    /// Takes the parameters about holders.
    pub fn take(all: &mut BTreeMap<String, String>) -> Self {
        Self {
            text: all.remove("q").map(|text| text.to_lowercase()),
            pool: all.remove("pool"),
            kind: all.remove("appType").map(|text| kind(&text)),
            namespace: all.remove("namespace"),
            app: all.remove("app"),
        }
    }

    /// Whether all are wanted.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a holder is wanted.
    pub fn admits_holding(&self, holding: &Holding<'_>) -> bool {
        self.admits_parts(&holding.parts) && self.is_text_of(holding.prefix)
    }

    /// Whether an address is wanted.
    pub fn admits(&self, item: &Item) -> bool {
        match item {
            Item::Held(row) => self.admits_row(row),
            Item::Free(ip) => {
                let about_holders = [&self.pool, &self.kind, &self.namespace, &self.app];
                about_holders.iter().all(|it| it.is_none()) && self.is_text_of(&ip.to_string())
            }
        }
    }

    /// Whether an address with a record is wanted.
    pub fn admits_row(&self, row: &Row) -> bool {
        self.admits_parts(&row.key.parts().unwrap_or_default())
            && (self.is_text_of(row.key.as_str())
                || self.is_text_of(&row.ip.to_string())
                || self.is_text_of(&row.node))
    }

    fn admits_parts(&self, parts: &KeyParts<'_>) -> bool {
        let same = |wanted: &Option<String>, part: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == part)
        };
        same(&self.pool, parts.pool.unwrap_or_default())
            && same(&self.kind, parts.kind)
            && same(&self.namespace, parts.namespace)
            && same(&self.app, parts.app)
    }

    fn is_text_of(&self, text: &str) -> bool {
        let wanted = self.text.as_deref();
        wanted.is_none_or(|wanted| text.to_lowercase().contains(wanted))
    }
}

/// Addresses that a text stands for: one, a range `a~b` or a network `a/n`.
pub fn within(text: &str) -> Result<IpSet, &'static str> {
    let range = if text.contains('/') {
        let net = addr::parse_net(text);
        net.and_then(|net| IpRange::new(net.network(), net.broadcast()).ok())
    } else {
        text.parse().ok()
    };
    let why = "it must be an address, a range a~b or a network a/n";
    range.map(IpSet::from).ok_or(why)
}

/// An address.
pub fn address(field: &str, text: &str) -> Result<IpAddr, Refused> {
    let why = || format!("{text:?} is no address");
    addr::parse(text).ok_or_else(|| Refused::parameter(field, why()))
}

fn read<T>(
    all: &mut BTreeMap<String, String>,
    name: &str,
    read: impl FnOnce(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, Refused> {
    let read = all.remove(name).map(|text| read(&text)).transpose();
    read.map_err(|why| Refused::parameter(name, why))
}

fn sort(text: &str) -> Result<(Sort, bool), Refused> {
    let (name, descending) = match text.strip_prefix('-') {
        Some(name) => (name, true),
        None => (text, false),
    };
    let sort = match name {
        "ip" => Sort::Ip,
        "pod" => Sort::Pod,
        "namespace" => Sort::Namespace,
        "app" => Sort::App,
        "node" => Sort::Node,
        "policy" => Sort::Policy,
        "since" => Sort::Since,
        _ => {
            let why = "it must be ip, pod, namespace, app, node, policy or since, maybe after a -";
            return Err(Refused::parameter("sort", why));
        }
    };
    Ok((sort, descending))
}

fn states(text: &str) -> Result<BTreeSet<State>, &'static str> {
    use State::{Bound, Foreign, Free, Kept, Reserved, Shared, Spare};
    let all = [Free, Bound, Kept, Spare, Reserved, Shared, Foreign];
    let names = text.split(',');
    names
        .map(|name| {
            let found = all.into_iter().find(|state| state.text() == name);
            found.ok_or("it must be of Free, Bound, Kept, Spare, Reserved, Shared and Foreign")
        })
        .collect()
}

fn policy(text: &str) -> Result<ReleasePolicy, &'static str> {
    let all = [
        ReleasePolicy::OnDelete,
        ReleasePolicy::Immutable,
        ReleasePolicy::Never,
    ];
    let found = all.into_iter().find(|policy| policy.text() == text);
    found.ok_or("it must be on-delete, immutable or never")
}

fn net(text: &str) -> Result<IpNet, &'static str> {
    addr::parse_net(text).ok_or("it must be a network a/n")
}

/// The kind as keys have it. An empty one is that of holders without a workload.
fn kind(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    KindPrefix::from_parameter(text).as_str().to_owned()
}
