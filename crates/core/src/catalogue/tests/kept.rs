//! What is made once and kept from then on: the orders, and what holders have.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::{
    model::{SORTS, addresses, any_record, configs, naive, records},
    *,
};
use crate::ipam::key::KeyParts;

type Records = BTreeMap<IpAddr, Record>;
type Holder = (String, String, String, String);

/// What each holder has, counted the plain way.
fn counted(records: &Records) -> Vec<(Holder, u64, u64)> {
    let mut counts: BTreeMap<Holder, (u64, u64)> = BTreeMap::new();
    for record in records.values().filter(|record| !record.reserved) {
        if let Some(parts) = record.key.parts() {
            let names = [
                parts.pool.unwrap_or_default(),
                parts.namespace,
                parts.kind,
                parts.app,
            ];
            let count = counts.entry(names.map(str::to_owned).into()).or_default();
            count.0 += 1;
            count.1 += u64::from(State::of(record) == State::Bound);
        }
    }
    let counts = counts.into_iter();
    counts
        .map(|(holder, (all, bound))| (holder, all, bound))
        .collect()
}

fn holders(catalogue: &Catalogue) -> Vec<(Holder, u64, u64)> {
    let all = catalogue.holders().map(|holding| {
        let KeyParts {
            pool,
            kind,
            namespace,
            app,
            pod,
        } = holding.parts;
        assert_eq!(pod, "");
        let key = HolderKey::from(holding.prefix);
        assert_eq!(key.parts(), Some(holding.parts), "{key}");
        let names = [pool.unwrap_or_default(), namespace, kind, app];
        let names: Holder = names.map(str::to_owned).into();
        (names, holding.addresses, holding.bound)
    });
    all.collect()
}

fn list_of(catalogue: &Catalogue, sort: Sort, descending: bool) -> (Query, Vec<IpAddr>) {
    let query = Query {
        sort,
        descending,
        limit: 1000,
        ..Query::default()
    };
    let page = catalogue.page(&query);
    let got = page.items.iter().map(Item::ip).collect();
    (query, got)
}

/// Some changes at once: fewer or more than are entered one by one.
fn changes() -> impl Strategy<Value = Vec<(IpAddr, Option<Record>)>> {
    let change = prop_oneof![
        3 => any_record().prop_map(|record| (record.ip, Some(record))),
        2 => addresses().prop_map(|ip| (ip, None)),
    ];
    prop_oneof![vec(change.clone(), 1..4), vec(change, MANY..3 * MANY)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_order_and_all_holders_stay_true_whatever_changes(
        config in configs(),
        records in records(),
        asked_before in any::<bool>(),
        steps in vec(changes(), 1..6),
        descending in any::<bool>(),
    ) {
        let mut catalogue = Catalogue::default();
        catalogue.configure(config.clone());
        catalogue.replace(records.iter());
        let mut records: Records = records.into_iter().map(|record| (record.ip, record)).collect();
        if asked_before {
            for sort in SORTS {
                list_of(&catalogue, sort, descending);
            }
            prop_assert_eq!(holders(&catalogue), counted(&records));
        }
        for step in steps {
            let changes: Vec<_> = step.iter().map(|(ip, record)| (*ip, record.as_ref())).collect();
            catalogue.update(&changes);
            for (ip, record) in step {
                records.remove(&ip);
                records.extend(record.map(|record| (ip, record)));
            }
            for sort in SORTS {
                let (query, got) = list_of(&catalogue, sort, descending);
                prop_assert_eq!(got, naive(&config, &records, &query).0, "{:?}", sort);
            }
            prop_assert_eq!(holders(&catalogue), counted(&records));
        }
        catalogue.replace(records.values().take(5));
        for sort in SORTS {
            let (query, got) = list_of(&catalogue, sort, descending);
            let few = records.iter().take(5).map(|(ip, record)| (*ip, record.clone())).collect();
            prop_assert_eq!(got, naive(&config, &few, &query).0, "{:?} of a new list", sort);
        }
    }
}

#[test]
fn an_order_stays_true_when_texts_move_together() {
    let new = |n: u32| {
        let (app, pod) = ("a".repeat(60), n.wrapping_mul(2_654_435_761) % 1000);
        let key = format!("sts_{}_{app}_{app}-{pod}", "n".repeat(60));
        record(&format!("10.0.0.{}", n % 50), &key)
    };
    let mut catalogue = Catalogue::default();
    let mut records = Records::new();
    let mut moved = 0;
    for n in 0..2000 {
        let (record, before) = (new(n), catalogue.texts.size());
        catalogue.set(record.ip, Some(&record));
        records.insert(record.ip, record);
        if catalogue.texts.size() < before {
            moved += 1;
            let (query, got) = list_of(&catalogue, Sort::Pod, false);
            let wanted = naive(&AddressConfig::default(), &records, &query).0;
            assert_eq!(got, wanted, "after {n} changes");
        }
    }
    assert!(moved > 2, "moved {moved} times");
}

#[test]
fn the_holder_of_a_key_that_is_too_long_to_cut_is_counted_too() {
    let long = format!("sts_ns_{}_", "a".repeat(70_000));
    let records = ["x", "y"].map(|pod| format!("{long}{pod}"));
    let records = [
        record("10.0.0.1", &records[0]),
        bound("10.0.0.2", &records[1], "n", ReleasePolicy::Never),
        record("10.0.0.3", "sts_ns_a_b"),
    ];
    let catalogue = catalogue(AddressConfig::default(), &records);
    let got: Vec<_> = catalogue
        .holders()
        .map(|it| (it.prefix.len(), it.addresses, it.bound))
        .collect();
    assert_eq!(got, [(9, 1, 0), (long.len(), 2, 1)]);
}
