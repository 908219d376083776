//! Pages against a list that is made, filtered, sorted and cut the plain way.

use std::collections::BTreeMap;

use proptest::{collection::vec, option::of, prelude::*, sample::select};
use serde_json::json;

use super::*;
use crate::addr::IpRange;

/// Regions of addresses with a network and gateway, and where in it the addresses of
/// a test are. Their texts are mixed when sorted, and they cross borders of bytes.
const REGIONS: [(&str, &str, &str); 7] = [
    ("10.0.0.0/8", "10.0.0.1", "10.0.9.240"),
    ("1.2.0.0/16", "1.2.0.1", "1.2.99.250"),
    ("100.0.0.0/8", "100.0.0.1", "100.9.255.248"),
    ("192.0.0.0/4", "193.0.0.1", "199.255.255.250"),
    ("fd00::/64", "fd00::1", "fd00::7"),
    ("1000::/64", "1000::1", "1000::9a"),
    ("10::/64", "10::1", "10::fffa"),
];

const SPAN: u8 = 40;

pub(super) const KEYS: [&str; 12] = [
    "sts_ns1_web_web-0",
    "sts_ns1_web_web-1",
    "sts_ns1_web_web-10",
    "dp_ns2_api_api-x-y",
    "dp_ns2_api_",
    "pool__p1_",
    "pool__p1_dp_ns2_api_api-x-z",
    "pool__P10_sts_ns1_web_web-1",
    "vip__ns1_web_",
    "vip__ns2_Web_",
    "Ähnlich 1.2",
    "",
];

const TEXTS: [&str; 14] = [
    "", "1", "0.9.2", ".1", "10.", "25", "WEB", "node", "ähn", "fd00", "::", "10:", "9.255.25",
    "\0",
];

pub(super) const SORTS: [Sort; 8] = [
    Sort::Ip,
    Sort::IpText,
    Sort::Pod,
    Sort::Namespace,
    Sort::App,
    Sort::Node,
    Sort::Policy,
    Sort::Since,
];

const STATES: [State; 7] = [
    State::Free,
    State::Bound,
    State::Kept,
    State::Spare,
    State::Reserved,
    State::Shared,
    State::Foreign,
];

const POLICIES: [ReleasePolicy; 3] = [
    ReleasePolicy::OnDelete,
    ReleasePolicy::Immutable,
    ReleasePolicy::Never,
];

fn address(region: usize, offset: u8) -> IpAddr {
    match ip(REGIONS[region].2) {
        IpAddr::V4(ip) => std::net::Ipv4Addr::from_bits(ip.to_bits() + u32::from(offset)).into(),
        IpAddr::V6(ip) => std::net::Ipv6Addr::from_bits(ip.to_bits() + u128::from(offset)).into(),
    }
}

pub(super) fn addresses() -> impl Strategy<Value = IpAddr> {
    (0..REGIONS.len(), 0..SPAN).prop_map(|(region, offset)| address(region, offset))
}

fn ranges() -> impl Strategy<Value = IpRange> {
    (0..REGIONS.len(), 0..SPAN, 0..SPAN).prop_map(|(region, a, b)| {
        IpRange::new(address(region, a.min(b)), address(region, a.max(b))).unwrap()
    })
}

pub(super) fn configs() -> impl Strategy<Value = AddressConfig> {
    vec(of((0..SPAN / 2, 0..SPAN / 2, 2..SPAN / 2)), REGIONS.len()).prop_map(|regions| {
        let mut entries = Vec::new();
        for (region, ranges) in regions.into_iter().enumerate() {
            let Some((start, length, gap)) = ranges else {
                continue;
            };
            let (subnet, gateway, _) = REGIONS[region];
            let range = |a: u8, b: u8| format!("{}~{}", address(region, a), address(region, b));
            let end = start + length;
            let ips = [range(start, end), range(end + gap, end + gap + 3)];
            let shared = [range(end + gap + 5, end + gap + 9)];
            entries.push(json!({
                "nodeSubnets": ["10.0.0.0/16"], "ips": ips, "subnet": subnet, "gateway": gateway,
                "shared": shared,
            }));
        }
        fixture::config(&json!(entries).to_string())
    })
}

pub(super) fn any_record() -> impl Strategy<Value = Record> {
    let text = |texts: &'static [&'static str]| select(texts).prop_map(str::to_owned);
    let record = (
        addresses(),
        select(&KEYS[..]),
        select(&POLICIES[..]),
        text(&["", "node-a", "Node-B"]),
        text(&["", "uid"]),
        prop_oneof![
            Just(Timestamp::MIN),
            (0i64..4).prop_map(|s| Timestamp::from_second(s).unwrap())
        ],
        any::<bool>(),
    );
    record.prop_map(|(ip, key, policy, node, uid, updated, reserved)| Record {
        ip,
        key: key.into(),
        policy,
        node,
        uid,
        updated,
        reserved,
        workload_note: None,
    })
}

pub(super) fn records() -> impl Strategy<Value = Vec<Record>> {
    vec(any_record(), 0..80)
}

fn filters() -> impl Strategy<Value = Filter> {
    fn rarely<T: Clone + std::fmt::Debug + 'static>(
        values: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = Option<T>> {
        prop_oneof![6 => Just(None), 1 => values.prop_map(Some)]
    }
    let text = |texts: &'static [&'static str]| rarely(select(texts).prop_map(str::to_owned));
    (
        prop_oneof![
            Just(None),
            select(&TEXTS[..]).prop_map(|text| Some(text.to_owned()))
        ],
        text(&["", "web", "Web", "1"]),
        rarely(
            select(&["", "sts_ns1_web_web-1", "pool__p1_", "dp_", "?"][..])
                .prop_map(HolderKey::from),
        ),
        rarely(vec(ranges(), 0..6).prop_map(|ranges| ranges.into_iter().collect())),
        rarely(prop::collection::btree_set(select(&STATES[..]), 0..4)),
        (
            text(&["", "p1"]),
            text(&["", "sts", "dp"]),
            text(&["", "ns1"]),
            text(&["", "web"]),
            text(&["", "web-1"]),
        ),
        text(&["", "node-a", "Node-B"]),
        rarely(select(&POLICIES[..])),
        rarely(any::<bool>()),
    )
        .prop_map(
            |(text, keyword, selector, within, states, parts, node, policy, outside)| {
                let (pool, kind, namespace, app, pod) = parts;
                Filter {
                    text,
                    keyword,
                    selector,
                    within,
                    states,
                    pool,
                    kind,
                    namespace,
                    app,
                    pod,
                    node,
                    policy,
                    outside,
                }
            },
        )
}

fn queries() -> impl Strategy<Value = Query> {
    let offset = prop_oneof![Just(0), 0u64..200, Just(u64::MAX)];
    let limit = prop_oneof![0usize..20, Just(1000)];
    (filters(), select(&SORTS[..]), any::<bool>(), offset, limit).prop_map(
        |(filter, sort, descending, offset, limit)| Query {
            filter,
            sort,
            descending,
            offset,
            limit,
        },
    )
}

/// What a record has, or a free address as if it had an empty one.
struct Plain<'a> {
    ip: IpAddr,
    record: Option<&'a Record>,
    outside: bool,
}

impl Plain<'_> {
    fn state(&self) -> State {
        self.record.map_or(State::Free, State::of)
    }

    fn passes(&self, filter: &Filter) -> bool {
        let (record, key) = (self.record, self.record.map(|record| &record.key));
        let parts = key.map(|key| key.parts().unwrap_or_default());
        let has = |field: &str, text: &str| field.to_lowercase().contains(&text.to_lowercase());
        let is = |wanted: &Option<String>, part: Option<&str>| {
            wanted.as_deref().is_none_or(|text| part == Some(text))
        };
        filter.text.as_deref().is_none_or(|text| {
            has(&self.ip.to_string(), text)
                || record
                    .is_some_and(|record| has(record.key.as_str(), text) || has(&record.node, text))
        }) && filter
            .keyword
            .as_deref()
            .is_none_or(|text| key.is_some_and(|key| key.as_str().contains(text)))
            && filter.selector.as_ref().is_none_or(|selector| {
                selector.as_str().is_empty() || key.is_some_and(|key| key.is_selected_by(selector))
            })
            && filter
                .within
                .as_ref()
                .is_none_or(|within| within.contains(self.ip))
            && filter
                .states
                .as_ref()
                .is_none_or(|states| states.contains(&self.state()))
            && is(
                &filter.pool,
                parts.map(|parts| parts.pool.unwrap_or_default()),
            )
            && is(&filter.kind, parts.map(|parts| parts.kind))
            && is(&filter.namespace, parts.map(|parts| parts.namespace))
            && is(&filter.app, parts.map(|parts| parts.app))
            && is(&filter.pod, parts.map(|parts| parts.pod))
            && is(&filter.node, record.map(|record| record.node.as_str()))
            && filter
                .policy
                .is_none_or(|policy| record.is_some_and(|record| record.policy == policy))
            && filter.outside.is_none_or(|outside| outside == self.outside)
    }

    /// What to sort by: a text or a number, held before free, and the address.
    fn rank(&self, sort: Sort) -> (String, i128, bool, IpAddr) {
        let parts = self
            .record
            .and_then(|record| record.key.parts())
            .unwrap_or_default();
        let text = match sort {
            Sort::IpText => return (self.ip.to_string(), 0, false, self.ip),
            Sort::Pod => parts.pod,
            Sort::Namespace => parts.namespace,
            Sort::App => parts.app,
            Sort::Node => self.record.map_or("", |record| &record.node),
            Sort::Ip | Sort::Policy | Sort::Since => "",
        };
        let number = match sort {
            Sort::Policy => self
                .record
                .map_or(0, |record| record.policy.number())
                .into(),
            Sort::Since => self
                .record
                .map_or(Timestamp::MIN, |record| record.updated)
                .as_nanosecond(),
            Sort::Ip | Sort::IpText | Sort::Pod | Sort::Namespace | Sort::App | Sort::Node => 0,
        };
        (
            text.to_owned(),
            number,
            sort != Sort::Ip && self.record.is_none(),
            self.ip,
        )
    }
}

pub(super) fn naive(
    config: &AddressConfig,
    records: &BTreeMap<IpAddr, Record>,
    query: &Query,
) -> (Vec<IpAddr>, usize) {
    let configured = config.addresses();
    let free = (0..configured.len()).filter_map(|n| configured.nth(n));
    let all: BTreeSet<IpAddr> = free.chain(records.keys().copied()).collect();
    let plain = all.into_iter().map(|ip| Plain {
        ip,
        record: records.get(&ip),
        outside: match records.get(&ip) {
            Some(record) if record.key.is_vip() => !config.shared().contains(ip),
            _ => !configured.contains(ip),
        },
    });
    let mut list: Vec<Plain> = plain.filter(|plain| plain.passes(&query.filter)).collect();
    list.sort_by_key(|plain| plain.rank(query.sort));
    if query.descending {
        list.reverse();
    }
    let offset = usize::try_from(query.offset).unwrap();
    let page = list.iter().skip(offset).take(query.limit);
    (page.map(|plain| plain.ip).collect(), list.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_page_is_what_plain_work_would_give(
        config in configs(),
        records in records(),
        changes in vec((addresses(), any::<bool>()), 0..10),
        queries in vec(queries(), 4),
    ) {
        let mut catalogue = Catalogue::default();
        catalogue.configure(config.clone());
        catalogue.replace(records.iter());
        let mut records: BTreeMap<IpAddr, Record> =
            records.into_iter().map(|record| (record.ip, record)).collect();
        for (ip, held) in changes {
            let new = held.then(|| record(&ip.to_string(), KEYS[1]));
            catalogue.set(ip, new.as_ref());
            records.remove(&ip);
            records.extend(new.map(|record| (ip, record)));
        }
        for query in &queries {
            let page = catalogue.page(query);
            let (wanted, total) = naive(&config, &records, query);
            let got: Vec<IpAddr> = page.items.iter().map(Item::ip).collect();
            prop_assert_eq!(got, wanted, "{:?}", query);
            prop_assert_eq!(page.total, total as u64);
            for item in &page.items {
                match (item, records.get(&item.ip())) {
                    (Item::Free(_), None) => {}
                    (Item::Held(row), Some(record)) => {
                        prop_assert_eq!((&row.key, &*row.node), (&record.key, record.node.as_str()));
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}
