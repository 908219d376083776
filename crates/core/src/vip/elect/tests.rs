use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::vip::Mode;

/// A pod whose uid is its name.
pub(super) fn candidate(pod: &str, ready_since: i64) -> Candidate {
    Candidate {
        pod: pod.into(),
        uid: pod.into(),
        node: format!("node-of-{pod}"),
        node_address: [10, 0, 0, 1].into(),
        addresses: vec![[10, 1, 0, 1].into()],
        mode: Mode::Nat,
        ready_since,
    }
}

/// Some of the pods `p0`, `p1` and so on, in any order.
pub(super) fn candidates(most: usize) -> impl Strategy<Value = Vec<Candidate>> {
    let some = prop::collection::btree_map(0..most, 0_i64..4, 0..=most);
    some.prop_map(|some| {
        let all = some.into_iter();
        all.map(|(pod, since)| candidate(&format!("p{pod}"), since))
            .collect::<Vec<_>>()
    })
    .prop_shuffle()
}

pub(super) fn names<'a>(ranked: &[&'a Candidate]) -> Vec<&'a str> {
    ranked.iter().map(|it| it.pod.as_str()).collect()
}

fn ranked<'a>(all: &'a [Candidate], preferred: &[&str], held: &[(&str, usize)]) -> Vec<&'a str> {
    let preferred: Vec<String> = preferred.iter().map(|&it| it.into()).collect();
    let load = held.iter().map(|&(uid, count)| (uid.into(), count));
    names(&rank(all, &preferred, &load.collect()))
}

fn ids(count: usize) -> Vec<VipId> {
    let id = |number| VipId {
        namespace: "shop".into(),
        name: format!("v{number:04}"),
    };
    (0..count).map(id).collect()
}

/// How many addresses each pod holds when everybody has what is planned.
fn outcome(plan: &BTreeMap<&VipId, Vec<&Candidate>>, before: &Load) -> Load {
    let mut load = before.clone();
    for best in plan.values().filter_map(|ranked| ranked.first()) {
        *load.entry(best.uid.clone()).or_default() += 1;
    }
    load
}

#[test]
fn who_holds_fewest_comes_first_then_the_oldest_then_the_name() {
    let all = [
        candidate("d", 10),
        candidate("c", 10),
        candidate("b", 20),
        candidate("a", 5),
    ];
    assert_eq!(ranked(&all, &[], &[]), ["a", "c", "d", "b"]);
    assert_eq!(ranked(&all, &[], &[("a", 1)]), ["c", "d", "b", "a"]);
    let held = [("a", 2), ("c", 1), ("d", 1), ("z", 0)];
    assert_eq!(ranked(&all, &[], &held), ["b", "c", "d", "a"]);
}

#[test]
fn preferred_pods_come_first_in_their_order_however_much_they_hold() {
    let all = [candidate("a", 1), candidate("b", 2), candidate("c", 3)];
    let held = [("c", 9), ("b", 5)];
    let preferred = ["gone", "c", "b", "c"];
    assert_eq!(ranked(&all, &preferred, &held), ["c", "b", "a"]);
}

#[test]
fn a_pod_that_is_replaced_under_its_name_counts_by_its_uid() {
    let mut young = candidate("a", 9);
    young.uid = "young".into();
    let all = [candidate("a", 1), young];
    let load = load(["a", "a", "other"]);
    assert_eq!(load["a"], 2);
    let uids: Vec<_> = rank(&all, &[], &load).iter().map(|it| &it.uid).collect();
    assert_eq!(uids, ["young", "a"]);
}

#[test]
fn nobody_is_ranked_where_nobody_can() {
    let id = &ids(1)[0];
    let vacant = Vacant {
        candidates: Vec::new(),
        preferred: &["a".to_owned()],
        ..Vacant::default()
    };
    let plan = plan(&BTreeMap::from([(id, vacant)]), &Load::new());
    assert_eq!(plan, BTreeMap::from([(id, Vec::new())]));
}

#[test]
fn the_addresses_of_a_dead_node_are_spread_over_what_the_others_hold() {
    let all = [candidate("a", 1), candidate("b", 2)];
    let ids = ids(4);
    let vacant = Vacant {
        candidates: all.iter().collect(),
        preferred: &[],
        ..Vacant::default()
    };
    let vacant = ids.iter().map(|id| (id, vacant.clone())).collect();
    let before = load(["b", "b"]);
    let plan = plan(&vacant, &before);
    let best: Vec<_> = plan.values().map(|ranked| names(ranked)[0]).collect();
    assert_eq!(best, ["a", "a", "a", "b"]);
    assert_eq!(
        outcome(&plan, &before),
        load(["a", "a", "a", "b", "b", "b"])
    );
}

#[test]
fn a_thousand_addresses_are_spread_over_three_pods() {
    let all = [candidate("a", 1), candidate("b", 2), candidate("c", 3)];
    let ids = ids(1000);
    let vacant = Vacant {
        candidates: all.iter().collect(),
        preferred: &[],
        ..Vacant::default()
    };
    let vacant = ids.iter().map(|id| (id, vacant.clone())).collect();
    let load = outcome(&plan(&vacant, &Load::new()), &Load::new());
    let counts: Vec<_> = load.into_values().collect();
    assert_eq!(counts, [334, 333, 333]);
}

/// Pods with facts, of which only some are fit.
fn facts() -> impl Strategy<Value = Vec<(Phase, [bool; 4], bool)>> {
    let phase = prop_oneof![
        6 => Just(Phase::Running),
        1 => Just(Phase::Pending),
        1 => Just(Phase::Succeeded),
        1 => Just(Phase::Failed),
        1 => Just(Phase::Unknown),
    ];
    let flags = prop::array::uniform4(prop::bool::weighted(0.8));
    prop::collection::vec((phase, flags, prop::bool::weighted(0.8)), 0..8)
}

fn load_of(most: usize) -> impl Strategy<Value = Load> {
    let pod = (0..most).prop_map(|pod| format!("p{pod}"));
    prop::collection::btree_map(pod, 0_usize..4, 0..=most)
}

fn preferred_of(most: usize) -> impl Strategy<Value = Vec<String>> {
    let pod = (0..most).prop_map(|pod| format!("p{pod}"));
    prop::collection::vec(pod, 0..3)
}

proptest! {
    #[test]
    fn the_order_in_which_candidates_come_changes_nothing(
        (one, other) in candidates(6).prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        preferred in preferred_of(6),
        load in load_of(6),
    ) {
        let first = rank(&one, &preferred, &load);
        prop_assert_eq!(&first, &rank(&other, &preferred, &load));
        let ids = ids(5);
        let planned = |all| {
            let all: &Vec<Candidate> = all;
            let vacant = Vacant { candidates: all.iter().collect(), preferred: &preferred, ..Vacant::default() };
            plan(&ids.iter().map(|id| (id, vacant.clone())).collect(), &load)
        };
        prop_assert_eq!(planned(&one), planned(&other));
        // Everybody is in it once.
        let all: BTreeSet<_> = one.iter().collect();
        prop_assert_eq!(first.len(), one.len());
        prop_assert_eq!(first.into_iter().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn addresses_are_spread_evenly_over_the_pods_that_can_hold_all(
        common in candidates(4),
        extra in prop::collection::vec(candidates(3), 1..30),
        before in load_of(4),
        is_fresh in any::<bool>(),
    ) {
        // Besides the common pods, each address has some of its own: e0, e1, e2.
        let extra: Vec<Vec<Candidate>> = extra
            .into_iter()
            .map(|some| some.iter().map(|it| {
                candidate(&it.pod.replace('p', "e"), it.ready_since)
            }).collect())
            .collect();
        let before = if is_fresh { Load::new() } else { before };
        let ids = ids(extra.len());
        let vacant = ids.iter().zip(&extra).map(|(id, some)| {
            let candidates = common.iter().chain(some).collect();
            (id, Vacant { candidates, preferred: &[], ..Vacant::default() })
        });
        let plan = plan(&vacant.collect(), &before);
        let after = outcome(&plan, &before);
        let width = |load: &Load| {
            let counts = common.iter().map(|it| load.get(&it.uid).copied().unwrap_or(0));
            let (least, most) = (counts.clone().min(), counts.max());
            most.unwrap_or(0) - least.unwrap_or(0)
        };
        prop_assert!(width(&after) <= width(&before).max(1), "{before:?} {after:?}");
        if is_fresh {
            prop_assert!(width(&after) <= 1);
        }
        // Nobody who can be served is forgotten.
        for (ranked, some) in plan.values().zip(&extra) {
            prop_assert_eq!(ranked.len(), common.len() + some.len());
        }
    }

    #[test]
    fn a_plan_stays_while_it_is_carried_out_and_more_comes(
        all in candidates(5),
        before in load_of(5),
        steps in prop::collection::vec((any::<bool>(), 0..40_usize), 1..60),
    ) {
        // Some become vacant, some are taken by whom the plan has for them, in any order.
        // Names are not in the order in which addresses come.
        let ids: Vec<VipId> = ids(steps.len()).into_iter().rev().collect();
        let mut planned: BTreeMap<VipId, String> = BTreeMap::new();
        let mut load = before.clone();
        let mut count = 0;
        for (comes, index) in steps {
            if comes || planned.is_empty() {
                planned.insert(ids[count].clone(), String::new());
                count += 1;
            } else {
                let id = planned.keys().nth(index % planned.len()).unwrap().clone();
                let holder = planned.remove(&id).unwrap();
                *load.entry(holder).or_default() += 1;
            }
            let earlier = planned.clone();
            let vacant = earlier.iter().map(|(id, first)| {
                let first = Some(first.as_str()).filter(|it| !it.is_empty());
                (id, Vacant { candidates: all.iter().collect(), first, ..Vacant::default() })
            });
            let now = plan(&vacant.collect(), &load);
            if all.is_empty() {
                return Ok(());
            }
            for (id, ranked) in now {
                prop_assert_eq!(ranked.len(), all.len());
                let first = planned.insert(id.clone(), ranked[0].uid.clone()).unwrap();
                prop_assert!(first.is_empty() || first == ranked[0].uid);
            }
        }
        for holder in planned.into_values() {
            *load.entry(holder).or_default() += 1;
        }
        let width = |load: &Load| {
            let counts = all.iter().map(|it| load.get(&it.uid).copied().unwrap_or(0));
            let (least, most) = (counts.clone().min(), counts.max());
            most.unwrap_or(0) - least.unwrap_or(0)
        };
        prop_assert!(width(&load) <= width(&before).max(1), "{before:?} {load:?}");
    }

    #[test]
    fn an_unfit_pod_is_never_chosen(
        facts in facts(),
        preferred in preferred_of(8),
        load in load_of(8),
    ) {
        let address = [10, 1, 0, 1].into();
        let floating = [[10, 0, 0, 100].into()];
        let mut fit = Vec::new();
        for (number, &(phase, flags, has_address)) in facts.iter().enumerate() {
            let [is_ready, stays, is_node_ready, is_agent_live] = flags;
            let pod = Facts {
                phase,
                is_ready,
                is_terminating: !stays,
                is_node_ready,
                is_agent_live,
                addresses: if has_address { &[address] } else { &[] },
            };
            if fitness(pod, &floating).is_fit() {
                fit.push(candidate(&format!("p{number}"), 0));
            }
        }
        let chosen = rank(&fit, &preferred, &load);
        let is_well = |(phase, flags, has_address): &(Phase, [bool; 4], bool)| {
            *phase == Phase::Running && flags.iter().all(|it| *it) && *has_address
        };
        let well = facts.iter().filter(|it| is_well(it)).count();
        prop_assert_eq!(chosen.len(), well);
        for pod in names(&chosen) {
            let number: usize = pod[1..].parse().unwrap();
            prop_assert!(is_well(&facts[number]));
        }
    }
}
