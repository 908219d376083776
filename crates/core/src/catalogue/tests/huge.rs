//! Configurations with more addresses than anybody could write down.

use super::*;

/// 254 * 65,536 addresses.
fn huge() -> AddressConfig {
    config("10.1.0.0~10.254.255.255", "10.0.0.1", "10.0.0.0/8")
}

fn page(catalogue: &Catalogue, sort: Sort, text: &str, offset: u64, limit: usize) -> Page {
    catalogue.page(&Query {
        filter: Filter {
            text: Some(text.into()),
            ..Filter::default()
        },
        sort,
        offset,
        limit,
        descending: false,
    })
}

fn texts(page: &Page) -> Vec<String> {
    page.items
        .iter()
        .map(|item| item.ip().to_string())
        .collect()
}

fn sorted_bytes(from: u8, to: u8) -> Vec<String> {
    let mut bytes: Vec<String> = (from..=to).map(|byte| byte.to_string()).collect();
    bytes.sort();
    bytes
}

#[test]
fn any_page_of_millions_of_free_addresses_is_found() {
    let catalogue = catalogue(huge(), &[]);
    let (second, any) = (sorted_bytes(1, 254), sorted_bytes(0, 255));
    for (b, c, d) in [
        (0, 0, 0),
        (17, 3, 250),
        (100, 255, 255),
        (253, 0, 1),
        (253, 255, 255),
    ] {
        let offset = ((b * 256 + c) * 256 + d) as u64;
        let got = page(&catalogue, Sort::IpText, "", offset, 1);
        assert_eq!(
            texts(&got),
            [format!("10.{}.{}.{}", second[b], any[c], any[d])]
        );
        assert_eq!(got.total, 254 << 16);
        let got = page(&catalogue, Sort::Ip, "", offset, 2);
        let wanted = catalogue.configured.nth(offset.into()).unwrap();
        assert_eq!(got.items[0], Item::Free(wanted));
        assert_eq!(got.items.len(), if b == 253 && d == 255 { 1 } else { 2 });
    }
}

#[test]
fn a_search_among_millions_of_free_addresses_counts_them_right() {
    let mut catalogue = catalogue(huge(), &[]);
    // One of three bytes has "77" in it, which are 77 and 177.
    let total = (254 << 16) - 252 * 254 * 254;
    let records = ["10.77.0.1", "10.1.77.1", "10.1.2.3", "10.1.1.177"].map(|ip| record(ip, "77"));
    let one_more = 1;
    for records in [&[], &records[..]] {
        catalogue.replace(records.iter());
        let wanted = total + if records.is_empty() { 0 } else { one_more };
        for sort in [Sort::Ip, Sort::IpText] {
            let mut before = String::new();
            for offset in [0, 1, 255, 1_000, 123_456, wanted / 2, wanted - 100] {
                let got = page(&catalogue, sort, "77", offset, 100);
                assert_eq!((got.total, got.items.len()), (wanted, 100), "{sort:?}");
                for item in &got.items {
                    let held = records.iter().any(|record| record.ip == item.ip());
                    assert_eq!(matches!(item, Item::Held(_)), held);
                    assert!(held || item.ip().to_string().contains("77"));
                }
                if sort == Sort::IpText {
                    assert!(texts(&got).is_sorted() && before < texts(&got)[99]);
                    before.clone_from(&texts(&got)[99]);
                } else {
                    assert!(got.items.iter().map(Item::ip).is_sorted());
                }
            }
            assert_eq!(page(&catalogue, sort, "77", wanted, 1).items, []);
        }
    }
}

#[test]
fn free_addresses_of_a_large_ipv6_range_are_not_listed_but_records_are() {
    let everything = query(Filter::default());
    let records = [
        record("fd00::5", "sts_a_b_c"),
        record("fd00::a:5", "sts_a_b_d"),
    ];
    let wide = |last: &str| config(&format!("fd00::2~{last}"), "fd00::1", "fd00::/64");
    let catalogue = catalogue(wide("fd00::ffff:ffff:ffff:fffe"), &records);
    for sort in [Sort::Ip, Sort::IpText, Sort::Node] {
        let got = catalogue.page(&Query {
            sort,
            ..everything.clone()
        });
        assert_eq!(
            (got.total, texts(&got)),
            (2, vec!["fd00::5".into(), "fd00::a:5".into()])
        );
    }
    assert_eq!(
        catalogue.get(ip("fd00::77")),
        Some(Item::Free(ip("fd00::77"))),
        "still found by itself"
    );
    let within = Some([ip("fd00::4"), ip("fd00::5")].into_iter().collect());
    let few = query(Filter {
        within,
        ..Filter::default()
    });
    assert_eq!(catalogue.page(&few).total, 1, "under no filter");

    for (last, total) in [("fd00::1:1", 65_537), ("fd00::1:2", 2)] {
        let catalogue = super::catalogue(wide(last), &records);
        assert_eq!(catalogue.page(&everything).total, total, "{last}");
    }
}
