//! Courses of events that chance hardly ever finds, and what a takeover costs.

use std::collections::BTreeMap;

use super::{
    super::model::dice::Dice,
    agent::{Act, Agent, Call},
    chain::{Deed, LeaseObject, Tenant, VipObject},
    flaw::Flaw,
    server::{Answer, Request},
    world::World,
};

const FIRST: Tenant = Tenant { node: 0, term: 1 };
const SECOND: Tenant = Tenant { node: 1, term: 1 };
const HEIR: Tenant = Tenant { node: 2, term: 1 };

fn object(version: u64, holder: Tenant, number: u64) -> VipObject {
    VipObject {
        version,
        holder: Some(holder),
        number,
        emptied: false,
    }
}

fn lease(version: u64, term: u64, ended: bool, deeds: &[(usize, u64, u64)]) -> LeaseObject {
    let deeds = deeds.iter().map(|&(vip, number, term)| {
        let to = Some(HEIR);
        ((vip, number), Deed { term, to })
    });
    LeaseObject {
        version,
        term,
        ended,
        deeds: deeds.collect::<BTreeMap<_, _>>(),
    }
}

/// The heir, with a term and a first list. It knows the first node as the holder of both
/// addresses.
fn heir(flaw: Option<Flaw>, dice: &mut Dice) -> Agent {
    let vips = vec![object(1, FIRST, 1), object(2, FIRST, 1)];
    let leases = vec![
        lease(3, 1, false, &[]),
        lease(4, 1, false, &[]),
        lease(5, 0, true, &[]),
    ];
    let mut agent = Agent::new(HEIR.node, flaw, vips.clone(), leases, 0);
    agent.poll(0, dice);
    agent.answered(Call::ReadOwn, Some(Answer::Lease(lease(5, 0, true, &[]))), 1);
    agent.poll(1_000, dice);
    let renewed = Answer::Lease(lease(6, HEIR.term, false, &[]));
    agent.answered(Call::Renew, Some(renewed), 1_001);
    assert!(asks_for_list(&agent.poll(1_002, dice)));
    agent.answered(Call::List, Some(Answer::List(vips)), 1_003);
    agent
}

fn asks_for_list(acts: &[Act]) -> bool {
    let is_list = |act: &Act| matches!(act, Act::Ask(Call::List, _));
    acts.iter().any(is_list)
}

/// The second node has long got address 1 and the first one has dropped the deed. Who ended
/// the term of the first did not know of it.
#[test]
fn a_list_that_was_asked_for_before_the_deed_was_seen_proves_nothing() {
    for flaw in [None, Some(Flaw::ListBeforeDeed)] {
        let dice = &mut Dice::new(1);
        let mut agent = heir(flaw, dice);
        let then = vec![object(1, FIRST, 1), object(2, FIRST, 1)];
        agent.see_lease(0, &lease(7, 1, true, &[(0, 1, 1)]), 1_100);
        assert!(asks_for_list(&agent.poll(1_100, dice)));
        agent.see_lease(0, &lease(9, 1, true, &[(0, 1, 1), (1, 1, 1)]), 1_200);
        agent.answered(Call::List, Some(Answer::List(then)), 1_300);
        let acts = agent.poll(1_300, dice);
        assert!(agent.speaks_for(0));
        assert_eq!(agent.speaks_for(1), flaw.is_some());
        assert_eq!(asks_for_list(&acts), flaw.is_none());
        if flaw.is_none() {
            let now = vec![object(1, FIRST, 1), object(8, SECOND, 2)];
            agent.answered(Call::List, Some(Answer::List(now)), 1_400);
            agent.poll(1_400, dice);
            assert!(agent.speaks_for(0) && !agent.speaks_for(1));
        }
    }
}

/// The same, but the first node is back in a new term before the heir has seen the end of the
/// old one.
#[test]
fn a_deed_of_a_term_that_is_over_is_not_one_of_the_holder() {
    for flaw in [None, Some(Flaw::TrustOldDeeds)] {
        let dice = &mut Dice::new(1);
        let mut agent = heir(flaw, dice);
        agent.see_lease(0, &lease(9, 2, false, &[(1, 1, 1)]), 1_200);
        let acts = agent.poll(1_200, dice);
        assert_eq!(agent.speaks_for(1), flaw.is_some());
        assert_eq!(asks_for_list(&acts), flaw.is_none());
    }
}

#[test]
fn what_a_holder_gives_is_served_without_a_list() {
    let dice = &mut Dice::new(1);
    let mut agent = heir(None, dice);
    agent.see_lease(0, &lease(9, 1, false, &[(1, 1, 1)]), 1_200);
    let acts = agent.poll(1_200, dice);
    assert!(agent.speaks_for(1) && !asks_for_list(&acts));
}

#[test]
fn all_addresses_of_a_dead_node_move_by_one_write_and_a_list_for_each_heir() {
    const VIPS: usize = 333;
    let mut world = World::new(1, 3, VIPS, None);
    (world.rough, world.eager, world.misses) = (false, 0, 0);
    for vip in 0..VIPS {
        let object = object(0, FIRST, 1);
        world.server.ask(0, &Request::PutVip { vip, object }, 0);
    }
    let (node, lease) = (0, lease(0, 1, false, &[]));
    world.server.ask(0, &Request::PutLease { node, lease }, 0);
    world.run_until(3_000);
    assert!((0..VIPS).all(|vip| world.speakers(vip) == [0]));

    let (writes, before) = (world.server.vip_log.len(), world.server.count);
    let died = world.now;
    world.power_off(0, 1_000_000);
    while (0..VIPS).any(|vip| world.speakers(vip).is_empty()) {
        assert!(world.now < died + 5_000, "not all are spoken for");
        let next = world.now + 10;
        world.run_until(next);
    }
    let log = world.server.lease_log.iter();
    let written: Vec<u64> = log.filter(|it| it.1 == 0).map(|it| it.0).collect();
    let ended: Vec<&u64> = written.iter().filter(|at| **at > died + 100).collect();
    assert_eq!(ended.len(), 1, "writes of the dead node's lease");
    assert!(world.now < ended[0] + 500, "{} after {ended:?}", world.now);
    assert_eq!(world.server.count.ends, before.ends + 1);
    assert_eq!(world.server.vip_log.len(), writes, "objects need not follow");
    assert!(world.server.count.lists <= before.lists + 2);
    let heirs = |node: usize| (0..VIPS).filter(|vip| world.speakers(*vip) == [node]).count();
    assert!(heirs(1) > 0 && heirs(2) > 0);

    // And then the objects follow, one write for each.
    for machine in &mut world.nodes {
        if let Some(agent) = &mut machine.agent {
            agent.eager = 30;
        }
    }
    let end = world.now + 5_000;
    world.run_until(end);
    assert_eq!(world.server.vip_log.len(), writes + VIPS);
    for vip in 0..VIPS {
        let holder = world.server.vips[vip].holder.map(|it| it.node);
        assert_eq!(world.speakers(vip), holder.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(world.violation, None);
}
