use super::*;
use crate::config::fixture;

mod huge;
mod kept;
mod model;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A record of nobody in particular.
fn record(address: &str, key: &str) -> Record {
    Record {
        ip: ip(address),
        key: key.into(),
        policy: ReleasePolicy::OnDelete,
        node: String::new(),
        uid: String::new(),
        updated: Timestamp::UNIX_EPOCH,
        reserved: false,
        workload_note: None,
    }
}

fn bound(address: &str, key: &str, node: &str, policy: ReleasePolicy) -> Record {
    Record {
        node: node.into(),
        uid: format!("uid of {address}"),
        policy,
        ..record(address, key)
    }
}

fn at(second: i64, record: Record) -> Record {
    Record {
        updated: Timestamp::from_second(second).unwrap(),
        ..record
    }
}

fn config(ips: &str, gateway: &str, subnet: &str) -> AddressConfig {
    let text = format!(
        r#"[{{"nodeSubnets":["10.0.0.0/16"],"ips":["{ips}"],"subnet":"{subnet}","gateway":"{gateway}"}}]"#
    );
    fixture::config(&text)
}

fn catalogue(config: AddressConfig, records: &[Record]) -> Catalogue {
    let mut catalogue = Catalogue::default();
    catalogue.replace(records.iter());
    catalogue.configure(config);
    catalogue
}

/// Six addresses with a record, two of them outside, and three free ones.
fn some() -> Catalogue {
    use ReleasePolicy::{Immutable, Never, OnDelete};
    let records = [
        at(
            5,
            bound("10.0.70.2", "sts_ns1_web_web-1", "Node-A", Immutable),
        ),
        at(
            2,
            bound("10.0.70.3", "sts_ns1_web_web-10", "node-b", OnDelete),
        ),
        at(
            9,
            bound("10.0.70.4", "pool__p1_dp_ns2_api_api-x-y", "node-b", Never),
        ),
        at(
            1,
            Record {
                policy: Never,
                ..record("10.0.70.5", "pool__p1_")
            },
        ),
        Record {
            reserved: true,
            policy: Never,
            ..record("10.0.71.9", "pool__For-Rack_")
        },
        record("fd00::1", "what is this"),
    ];
    catalogue(
        config("10.0.70.2~10.0.70.8", "10.0.70.1", "10.0.70.0/24"),
        &records,
    )
}

fn query(filter: Filter) -> Query {
    Query {
        filter,
        limit: 100,
        ..Query::default()
    }
}

/// The last part of each address.
fn list(catalogue: &Catalogue, query: &Query) -> String {
    let page = catalogue.page(query);
    let texts = page.items.iter().map(|item| item.ip().to_string());
    let short = texts.map(|text| text.rsplit(['.', ':']).next().unwrap().to_owned());
    let list = short.collect::<Vec<_>>().join(" ");
    if query.limit >= 100 && query.offset == 0 {
        assert_eq!(page.total, page.items.len() as u64);
    }
    list
}

#[test]
fn each_filter_admits_what_it_says() {
    let text = |text: &str| Some(text.to_owned());
    let none = Filter::default;
    let states = |states: &[State]| Some(states.iter().copied().collect());
    let within = |texts: &[&str]| {
        Some(
            texts
                .iter()
                .map(|text| text.parse::<crate::addr::IpRange>().unwrap())
                .collect(),
        )
    };
    #[rustfmt::skip]
    let table = [
        (none(), "2 3 4 5 6 7 8 9 1"),
        (Filter { text: text(""), ..none() }, "2 3 4 5 6 7 8 9 1"),
        (Filter { text: text("WEB-1"), ..none() }, "2 3"),
        (Filter { text: text("node-a"), ..none() }, "2"),
        (Filter { text: text("NODE"), ..none() }, "2 3 4"),
        (Filter { text: text("for-rack"), ..none() }, "9"),
        (Filter { text: text("0.70.7"), ..none() }, "7"),
        (Filter { text: text(".7"), ..none() }, "2 3 4 5 6 7 8 9"),
        (Filter { text: text("FD00:"), ..none() }, "1"),
        (Filter { text: text("10.0.70.2\0sts"), ..none() }, ""),
        (Filter { keyword: text("web-1"), ..none() }, "2 3"),
        (Filter { keyword: text("Web-1"), ..none() }, ""),
        (Filter { keyword: text("node"), ..none() }, ""),
        (Filter { keyword: text(""), ..none() }, "2 3 4 5 9 1"),
        (Filter { selector: Some("".into()), ..none() }, "2 3 4 5 6 7 8 9 1"),
        (Filter { selector: Some("sts_ns1_web_web-1".into()), ..none() }, "2 3"),
        (Filter { selector: Some("pool__p1_".into()), ..none() }, "4 5"),
        (Filter { selector: Some("sts_ns1_".into()), ..none() }, "2 3"),
        (Filter { within: within(&["10.0.70.4~10.0.70.6", "fd00::~fd00::ff"]), ..none() }, "4 5 6 1"),
        (Filter { within: within(&[]), ..none() }, ""),
        (Filter { states: states(&[State::Free]), ..none() }, "6 7 8"),
        (Filter { states: states(&[State::Bound]), ..none() }, "2 3 4"),
        (Filter { states: states(&[State::Spare, State::Free]), ..none() }, "5 6 7 8"),
        (Filter { states: states(&[State::Reserved]), ..none() }, "9"),
        (Filter { states: states(&[State::Foreign]), ..none() }, "1"),
        (Filter { states: states(&[]), ..none() }, ""),
        (Filter { pool: text("p1"), ..none() }, "4 5"),
        (Filter { pool: text(""), ..none() }, "2 3 1"),
        (Filter { kind: text("dp"), ..none() }, "4"),
        (Filter { namespace: text("ns1"), ..none() }, "2 3"),
        (Filter { namespace: text("ns"), ..none() }, ""),
        (Filter { app: text("api"), ..none() }, "4"),
        (Filter { pod: text("web-1"), ..none() }, "2"),
        (Filter { node: text("node-b"), ..none() }, "3 4"),
        (Filter { node: text(""), ..none() }, "5 9 1"),
        (Filter { policy: Some(ReleasePolicy::Never), ..none() }, "4 5 9"),
        (Filter { policy: Some(ReleasePolicy::OnDelete), ..none() }, "3 1"),
        (Filter { outside: Some(true), ..none() }, "9 1"),
        (Filter { outside: Some(false), ..none() }, "2 3 4 5 6 7 8"),
        (Filter { text: text("web"), node: text("node-b"), ..none() }, "3"),
        (Filter { outside: Some(false), text: text("0.8"), ..none() }, "8"),
    ];
    let catalogue = some();
    for (filter, wanted) in table {
        assert_eq!(
            list(&catalogue, &query(filter.clone())),
            wanted,
            "{filter:?}"
        );
    }
}

#[test]
fn each_order_is_the_one_that_it_says() {
    let table = [
        (Sort::Ip, "2 3 4 5 6 7 8 9 1"),
        (Sort::IpText, "2 3 4 5 6 7 8 9 1"),
        (Sort::Pod, "5 9 1 6 7 8 4 2 3"),
        (Sort::Namespace, "5 9 1 6 7 8 2 3 4"),
        (Sort::App, "5 9 1 6 7 8 4 2 3"),
        (Sort::Node, "5 9 1 6 7 8 2 3 4"),
        (Sort::Policy, "3 1 6 7 8 2 4 5 9"),
        (Sort::Since, "6 7 8 9 1 5 3 2 4"),
    ];
    let catalogue = some();
    for (sort, wanted) in table {
        let up = Query {
            sort,
            ..query(Filter::default())
        };
        assert_eq!(list(&catalogue, &up), wanted, "{sort:?}");
        let down = list(
            &catalogue,
            &Query {
                descending: true,
                ..up
            },
        );
        let turned: Vec<&str> = wanted.split(' ').rev().collect();
        assert_eq!(down, turned.join(" "), "{sort:?}");
    }
}

#[test]
fn the_order_of_texts_is_that_of_galaxy() {
    let texts = [
        "10.0.0.2",
        "10.0.0.10",
        "10.0.0.100",
        "9.0.0.1",
        "100.0.0.1",
        "10:1::1",
        "9::1",
        "1000::",
        "::1",
        "f::",
    ];
    let records = texts.map(|text| record(text, "key"));
    let catalogue = catalogue(AddressConfig::default(), &records);
    let page = catalogue.page(&Query {
        sort: Sort::IpText,
        ..query(Filter::default())
    });
    let got: Vec<String> = page
        .items
        .iter()
        .map(|item| item.ip().to_string())
        .collect();
    let mut wanted = texts.map(str::to_owned);
    wanted.sort();
    assert_eq!(got, wanted);
    assert_eq!(got[..3], ["10.0.0.10", "10.0.0.100", "10.0.0.2"]);
}

#[test]
fn pages_are_pieces_of_the_list() {
    let catalogue = some();
    let page = |offset, limit, descending| {
        list(
            &catalogue,
            &Query {
                descending,
                offset,
                limit,
                ..Query::default()
            },
        )
    };
    assert_eq!(page(0, 4, false), "2 3 4 5");
    assert_eq!(page(3, 4, false), "5 6 7 8");
    assert_eq!(page(7, 4, false), "9 1");
    assert_eq!(page(9, 4, false), "");
    assert_eq!(page(u64::MAX, usize::MAX, false), "");
    assert_eq!(page(0, 4, true), "1 9 8 7");
    assert_eq!(page(7, 4, true), "3 2");
    assert_eq!(page(0, 0, false), "");
    let nothing = catalogue.page(&Query::default());
    assert_eq!(
        (nothing.items, nothing.total),
        (vec![], 9),
        "the total needs no page"
    );
}

#[test]
fn an_address_is_found_by_itself() {
    let catalogue = some();
    let held = catalogue.get(ip("10.0.70.2")).unwrap();
    let Item::Held(row) = &held else {
        panic!("{held:?}");
    };
    assert_eq!((&*row.node, &*row.uid), ("Node-A", "uid of 10.0.70.2"));
    assert_eq!(row.state, State::Bound);
    assert_eq!(catalogue.get(ip("::ffff:10.0.70.2")), Some(held));
    assert_eq!(
        catalogue.get(ip("10.0.70.8")),
        Some(Item::Free(ip("10.0.70.8")))
    );
    assert_eq!(catalogue.get(ip("10.0.70.9")), None);
    assert!(
        catalogue.get(ip("fd00::1")).is_some(),
        "also outside of the configuration"
    );
}

#[test]
fn what_is_set_is_listed_at_once() {
    let mut catalogue = some();
    let everything = query(Filter::default());
    let new = record("10.0.70.7", "sts_a_b_c");
    catalogue.set(new.ip, Some(&new));
    catalogue.set(ip("10.0.70.2"), None);
    catalogue.set(ip("10.0.71.9"), None);
    catalogue.set(ip("10.0.71.9"), None);
    assert_eq!(list(&catalogue, &everything), "2 3 4 5 6 7 8 1");
    let kept = query(Filter {
        states: Some([State::Kept].into()),
        ..Filter::default()
    });
    assert_eq!(list(&catalogue, &kept), "7");
    catalogue.set(
        new.ip,
        Some(&Record {
            reserved: true,
            ..new.clone()
        }),
    );
    assert_eq!(list(&catalogue, &kept), "");

    catalogue.configure(config("10.0.71.8~10.0.71.9", "10.0.71.1", "10.0.71.0/24"));
    assert_eq!(list(&catalogue, &everything), "3 4 5 7 8 9 1");
    let outside = query(Filter {
        outside: Some(true),
        ..Filter::default()
    });
    assert_eq!(list(&catalogue, &outside), "3 4 5 7 1");
}

#[test]
fn many_changes_at_once_are_like_one_after_the_other() {
    let record_of = |n: u8, key: &str| record(&format!("10.0.70.{n}"), key);
    let old: Vec<Record> = (0..200).step_by(3).map(|n| record_of(n, "old")).collect();
    let new: Vec<Record> = (0..200).step_by(2).map(|n| record_of(n, "new")).collect();
    let mut changes: Vec<_> = new.iter().map(|record| (record.ip, Some(record))).collect();
    for n in (0..250).step_by(5) {
        changes.push((ip(&format!("10.0.70.{n}")), None));
    }
    let [mut together, mut apart] = [0, 1].map(|_| catalogue(AddressConfig::default(), &old));
    assert!(changes.len() >= MANY);
    together.update(&changes);
    for (ip, record) in changes {
        apart.update(&[(ip, record)]);
    }
    let everything = Query {
        limit: 1000,
        ..Query::default()
    };
    assert!(apart.page(&everything).total > 50);
    assert_eq!(together.page(&everything), apart.page(&everything));
}

#[test]
fn a_node_has_its_name_in_memory_once_and_not_for_ever() {
    let mut catalogue = Catalogue::default();
    let on = |n: u32, node: &str| Record {
        node: node.into(),
        ..record("10.0.0.1", &format!("key-{n}"))
    };
    let two = [
        on(0, "node"),
        Record {
            ip: ip("10.0.0.2"),
            ..on(1, "node")
        },
    ];
    catalogue.replace(two.iter());
    let nodes: Vec<&Arc<str>> = catalogue.lines.iter().map(|line| &line.row.node).collect();
    assert!(Arc::ptr_eq(nodes[0], nodes[1]));
    for n in 0..3000 {
        catalogue.set(ip("10.0.0.1"), Some(&on(n, &format!("node-{n}"))));
    }
    assert!(catalogue.nodes.len() <= 1100, "{}", catalogue.nodes.len());
}
