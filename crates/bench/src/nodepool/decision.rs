//! The decision alone.

use std::{collections::BTreeSet, hint::black_box, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use floe_core::nodepool::{
    census::{Census, Field, Glance, News},
    cloud::{Capabilities, Listed, Listing, Taken},
    matching::{NodeFacts, PodFacts, Rule, Selector},
    pool::{Answer, Call, Grace, Memory, Pool, Spec},
};
use jiff::Timestamp;

use super::{PER_POOL, Size, address, node_at, node_name, server};
use crate::{
    clock::Turn,
    filter::percentile_99_of,
    table::{Figure, Row, Wanted},
};

/// The slowest that one in a hundred decisions may be.
const LIMIT: Wanted = Wanted::AtMost(Figure::Seconds(0.005));

/// Which nodes pools select.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Those with a label, which several pools share.
    Label,
    /// All of them.
    Every,
}

/// Measures both ways to select nodes.
pub fn measure(size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for choice in [Choice::Label, Choice::Every] {
        let before = resident()?;
        let mut scene = Scene::new(size, choice)?;
        let memory = (resident()? - before).max(0.0);
        let concerned = scene.groups[0].pools.len();
        let name = match choice {
            Choice::Label => format!("pools that select by label, {concerned} concerned"),
            Choice::Every => format!("pools that select every node, {concerned} concerned"),
        };
        let (lost, other, anew) = scene.events(size)?;
        let row = |what: &str, times: Vec<f64>| {
            let figure = percentile_99_of(times);
            Row::new(format!("p99, {what}: {name}"), figure, LIMIT).against(anew)
        };
        rows.push(row("a node with addresses fails", lost));
        rows.push(row("it is ready again", other));
        let name = format!("memory of what is decided with: {name}");
        rows.push(Row::new(name, Figure::Bytes(memory), Wanted::Nothing));
    }
    Ok(rows)
}

/// Pools with the same selector, and the nodes that it selects.
struct Group {
    nodes: Census<NodeFacts>,
    pools: Vec<Member>,
}

struct Member {
    rule: Rule,
    glance: Glance,
    machine: Pool,
}

struct Scene {
    groups: Vec<Group>,
    /// What the cloud has.
    cloud: Vec<Listed>,
    now: Timestamp,
    dead: BTreeSet<String>,
}

impl Scene {
    fn new(size: Size, choice: Choice) -> Result<Self> {
        let mut cloud = Vec::new();
        let mut pools = Vec::new();
        for pool in 0..size.pools {
            for nth in 0..PER_POOL {
                let home = server(size.home(pool, nth));
                cloud.push(listed(pool, nth, home));
            }
            let label = format!("kind=k{}", size.kind_of_pool(pool));
            let text = if choice == Choice::Label { &label } else { "" };
            pools.push(Member {
                rule: Rule {
                    node_selector: Selector::parse(text)?,
                    ..Rule::default()
                },
                glance: Glance::default(),
                machine: Pool::new(spec(pool), Memory::default()),
            });
        }
        let count = if choice == Choice::Label {
            size.kinds
        } else {
            1
        };
        let mut groups: Vec<Group> = (0..count)
            .map(|_| Group {
                nodes: Census::default(),
                pools: Vec::new(),
            })
            .collect();
        for node in 0..size.nodes {
            let group = &mut groups[size.kind_of_node(node) % count];
            group.enter(size, node, true);
        }
        for (pool, member) in pools.into_iter().enumerate() {
            groups[size.kind_of_pool(pool) % count].pools.push(member);
        }
        let mut scene = Self {
            groups,
            cloud,
            now: Timestamp::UNIX_EPOCH,
            dead: BTreeSet::new(),
        };
        for group in 0..count {
            scene.settle(group);
        }
        Ok(scene)
    }

    /// Nodes fail and are ready again, one by one: how long each decision took, and how long
    /// it takes when all concerned pools look at all of their nodes.
    fn events(&mut self, size: Size) -> Result<(Vec<f64>, Vec<f64>, Figure)> {
        let (mut lost, mut again, mut anew) = (Vec::new(), Vec::new(), Vec::new());
        for event in 0..size.events {
            let pool = event % size.pools;
            let node = self.node_of(pool, event % PER_POOL)?;
            let group = size.kind_of_node(node) % self.groups.len();
            for (ready, times) in [(false, &mut lost), (true, &mut again)] {
                self.now += Duration::from_mins(1);
                // Lists that have become due meanwhile are not the node's doing.
                self.settle(group);
                let start = Turn::now();
                self.groups[group].enter(size, node, ready);
                let calls = self.groups[group].decide(&self.dead, self.now);
                times.push(start.elapsed().as_secs_f64());
                let held = !is_idle(&calls);
                ensure!(ready || held, "a failed node kept its addresses");
                self.answer(group, calls);
                self.settle(group);
            }
            if event % 10 == 0 {
                let group = &mut self.groups[group];
                for member in &mut group.pools {
                    member.glance.reset();
                }
                let start = Turn::now();
                black_box(group.decide(&self.dead, self.now));
                anew.push(start.elapsed().as_secs_f64());
                self.settle(size.kind_of_node(node) % self.groups.len());
            }
        }
        Ok((lost, again, percentile_99_of(anew)))
    }

    /// The node that has an address now.
    fn node_of(&self, pool: usize, nth: usize) -> Result<usize> {
        let listed = self.cloud.iter().find(|it| it.ip == address(pool, nth));
        let server = listed.and_then(|it| it.server.as_deref());
        node_at(server.context("no server has the address")?)
    }

    /// Does what pools ask for until they ask for nothing.
    fn settle(&mut self, group: usize) {
        for _ in 0..100 {
            let calls = self.groups[group].decide(&self.dead, self.now);
            if calls.iter().all(Vec::is_empty) {
                return;
            }
            self.answer(group, calls);
            self.now += Duration::from_secs(2);
        }
    }

    fn answer(&mut self, group: usize, calls: Vec<Vec<Call>>) {
        let mut listing: Option<Arc<Listing>> = None;
        for (number, calls) in calls.into_iter().enumerate() {
            for call in calls {
                let answer = match &call {
                    Call::List => {
                        let all = || Arc::new(self.cloud.iter().cloned().collect());
                        Answer::Listed(Arc::clone(listing.get_or_insert_with(all)))
                    }
                    Call::Assign { ip, server } => {
                        let found = self.cloud.iter_mut().find(|it| it.ip == *ip);
                        found.expect("it is listed").server = Some(server.clone());
                        listing = None;
                        Answer::Taken(Taken::Done)
                    }
                    Call::Check { .. }
                    | Call::Detach { .. }
                    | Call::Write
                    | Call::Buy { .. }
                    | Call::Enter { .. }
                    | Call::Release { .. } => {
                        unreachable!("the cloud does everything at once: {call:?}")
                    }
                };
                let machine = &mut self.groups[group].pools[number].machine;
                machine.answered(&call, answer, self.now);
            }
        }
    }
}

impl Group {
    fn enter(&mut self, size: Size, node: usize, ready: bool) {
        let kind = format!("k{}", size.kind_of_node(node));
        let facts = NodeFacts {
            name: node_name(node),
            provider_id: server(node),
            labels: [("kind".to_owned(), kind)].into(),
            ready,
            ..NodeFacts::default()
        };
        self.nodes.put((String::new(), node_name(node)), facts);
    }

    /// What the controller does when something has changed: the calls of each pool.
    fn decide(&mut self, dead: &BTreeSet<String>, now: Timestamp) -> Vec<Vec<Call>> {
        let field = Field {
            nodes: &self.nodes,
            pods: None::<&Census<PodFacts>>,
            dead,
        };
        let decide = |member: &mut Member| {
            let judge = |server: &str| field.judge(&member.rule, server).map(|(_, seen)| seen);
            match member.glance.look(&field) {
                News::All => {
                    let all = field.servers();
                    let all = all.filter_map(|it| Some((it.clone(), judge(it)?)));
                    member.machine.nodes(all.collect(), now);
                }
                News::Of(servers) => {
                    for server in servers {
                        member.machine.node(&server, judge(&server), now);
                    }
                }
            }
            member.machine.poll(now)
        };
        self.pools.iter_mut().map(decide).collect()
    }
}

/// Whether no address is to move.
fn is_idle(calls: &[Vec<Call>]) -> bool {
    let mut calls = calls.iter().flatten();
    !calls.any(|call| matches!(call, Call::Assign { .. }))
}

fn listed(pool: usize, nth: usize, server: String) -> Listed {
    Listed {
        ip: address(pool, nth),
        server: Some(server),
        busy: false,
        mark: None,
    }
}

fn spec(pool: usize) -> Spec {
    Spec {
        cluster: "bench".into(),
        pool: format!("pool-{pool}"),
        capabilities: Capabilities {
            per_server: None,
            steals: true,
            displaces: false,
            configured_by_node: true,
            v4: true,
            v6: false,
            buys: true,
            marks: true,
        },
        provider: "hetzner".into(),
        region: "fsn1".into(),
        ips: (0..PER_POOL).map(|nth| address(pool, nth)).collect(),
        desired: 0,
        cool_off: Duration::ZERO,
        grace: Grace::default(),
        reclaims: false,
    }
}

/// The resident memory of this process, in bytes.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kilobytes: u32 = line.unwrap_or("0").trim_end_matches("kB").trim().parse()?;
    Ok(f64::from(kilobytes) * 1024.0)
}
