//! The controller is killed at each call of the cloud and at each write to the API server: when
//! an address is bought, when two are given to nodes, when one moves. Whatever was under way,
//! in the end each address is on exactly one right node and nothing was bought twice.
//!
//! A number says at which call, before it was done or after, and a second kill in what
//! comes then. `FLOE_SEED=17` plays that of one number, `FLOE_SEED=0-40` several, and
//! `FLOE_NIGHTLY=1` those of all calls that there are.

mod process;
mod toll;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_api::flipop::pool::FloatingIPPool;
use floe_providers::fake::digitalocean::{FakeDigitalOcean, Script};
use floe_providers::fake::server::Server;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::interval;

use process::{Controller, Neighbours};
use toll::{Moment, Toll};

use super::ground::{self, A, B, Ground, TOKEN, furnish, places, pool, said};
use crate::LIMIT;

/// The numbers of an ordinary run.
const NUMBERS: [u64; 6] = [6, 9, 25, 33, 46, 65];

/// With whose rights the controller runs: those of `k8s/floe.yaml`, or of [`MANIFEST`].
const USERS: [&str; 2] = [
    "system:serviceaccount:flipop:flipop",
    "system:serviceaccount:kube-system:floe-controller",
];

/// What those install who want all of floe.
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/controller.yaml");

/// The line by which a right in a manifest is known.
const RIGHTS: &str = "apiVersion: rbac.authorization.k8s.io/v1";

/// How many numbers in a row may find nothing to kill before all calls are through.
const UNMET: usize = 4;

/// What is done to a story.
#[derive(Debug)]
struct Schedule {
    kills: Vec<(usize, Moment)>,
    /// Whether the cloud takes its time.
    slow: bool,
    user: &'static str,
}

impl Schedule {
    /// The same number always draws the same.
    fn draw(number: u64) -> Result<Self> {
        let moment = |odd: bool| if odd { Moment::After } else { Moment::Before };
        let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let first = (usize::try_from(number / 2)?, moment(number % 2 == 1));
        let second = (usize::try_from(mixed % 11)?, moment(mixed & 64 == 0));
        Ok(Self {
            kills: vec![first, second],
            slow: mixed & 128 == 0,
            user: USERS[usize::from(mixed & 256 != 0)],
        })
    }
}

/// Tells how it goes, at once.
fn tell(line: &str) {
    // Without anybody who reads it goes on all the same.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_controller_that_is_killed_at_any_call_leaves_each_address_on_one_right_node()
-> Result<()> {
    let ground = ground::ground().await?;
    // Who leads there would do the work.
    ground.scale(0)?;
    grant(&ground)?;
    if let Ok(asked) = std::env::var("FLOE_SEED") {
        let (first, last) = asked.split_once('-').unwrap_or((&asked, &asked));
        let number = |text: &str| text.parse::<u64>().context("FLOE_SEED is no number");
        for number in number(first)?..=number(last)? {
            play(&ground, number).await?;
        }
        return Ok(());
    }
    if std::env::var_os("FLOE_NIGHTLY").is_none() {
        for number in NUMBERS {
            let met = play(&ground, number).await?;
            ensure!(
                met,
                "number {number} kills nobody: the story has become shorter"
            );
        }
        return Ok(());
    }
    let mut unmet = 0;
    for number in 0.. {
        unmet = if play(&ground, number).await? {
            0
        } else {
            unmet + 1
        };
        if unmet == UNMET {
            break;
        }
    }
    Ok(())
}

/// Grants the second user what its manifest grants, and nothing else of it.
fn grant(ground: &Ground) -> Result<()> {
    let manifest = fs::read_to_string(MANIFEST)?;
    let rights: Vec<&str> = manifest
        .split("\n---\n")
        .filter(|it| it.lines().any(|line| line == RIGHTS))
        .collect();
    ensure!(!rights.is_empty(), "{MANIFEST} grants nothing");
    ground.cluster.apply_all(&rights.join("\n---\n"))
}

/// Plays the story of a number. Returns whether the call was there at which to kill first.
async fn play(ground: &Ground, number: u64) -> Result<bool> {
    let schedule = Schedule::draw(number)?;
    tell(&format!("number {number}: {schedule:?}"));
    let story = Story::begin(ground, schedule).await?;
    let outcome = story.play().await;
    if outcome.is_err() {
        for (number, log) in story.controller.logs().iter().enumerate() {
            tell(&format!("log {number}:\n{log}"));
        }
        for (what, status) in story.toll.done() {
            tell(&format!("{what} {status}"));
        }
    }
    outcome.with_context(|| format!("number {number}"))?;
    let killed = story.controller.logs().len() - 1;
    story.end()?;
    Ok(killed > 0)
}

struct Story<'a> {
    ground: &'a Ground,
    namespace: TestNamespace<'a>,
    cloud: FakeDigitalOcean,
    toll: Toll,
    slow: bool,
    controller: Controller,
    _way: Server,
}

impl<'a> Story<'a> {
    async fn begin(ground: &'a Ground, schedule: Schedule) -> Result<Self> {
        let Schedule { kills, slow, user } = schedule;
        let namespace = TestNamespace::create(&ground.cluster, "crash").await?;
        let toll = Toll::default();
        let listen = || TcpListener::bind("127.0.0.1:0");
        let cloud = FakeDigitalOcean::start_on(listen().await?, TOKEN, |it| toll.around(it))?;
        furnish(&cloud)?;
        ground::tell(&cloud, Script::Hold { hold: slow })?;
        let way = toll.before(ground.cluster.client().await?, user);
        let way = Server::on(listen().await?, way)?;
        for (node, pool) in [
            ("node-1", Some(namespace.name())),
            ("node-2", Some(namespace.name())),
            ("node-3", None),
        ] {
            ground.label(node, pool)?;
        }
        let mut wanted = pool(&namespace);
        wanted["spec"]["ips"] = json!([A]);
        wanted["spec"]["desiredIPs"] = 2.into();
        namespace.apply(&wanted.to_string())?;
        let neighbours = Neighbours {
            api_server: way.address(),
            cloud: cloud.server().address(),
        };
        let controller = Controller::start(toll.clone(), neighbours, kills)?;
        Ok(Self {
            ground,
            namespace,
            cloud,
            toll,
            slow,
            controller,
            _way: way,
        })
    }

    async fn play(&self) -> Result<()> {
        let orders = async {
            let mut moments = interval(Duration::from_millis(700));
            loop {
                moments.tick().await;
                if self.slow {
                    ground::tell(&self.cloud, Script::Settle { failed: false })?;
                }
            }
        };
        let story = async {
            self.settled(&["node-1", "node-2"]).await?;
            self.ground.label("node-3", Some(self.namespace.name()))?;
            self.ground.label("node-1", None)?;
            self.settled(&["node-2", "node-3"]).await
        };
        tokio::select! {
            ended = orders => ended,
            ended = story => ended,
        }
    }

    /// Waits until all is as it shall be.
    async fn settled(&self, nodes: &[&str]) -> Result<()> {
        wait::until(&format!("{nodes:?} are served"), LIMIT, async || {
            self.is_settled(nodes).await.map(Some)
        })
        .await?;
        self.nothing_is_wrong()
    }

    async fn is_settled(&self, nodes: &[&str]) -> Result<()> {
        let places = places(&self.cloud);
        let had: BTreeSet<&str> = places.values().flatten().map(String::as_str).collect();
        let wanted: BTreeSet<&str> = nodes.iter().copied().collect();
        ensure!(had == wanted, "the cloud has {places:?}");
        let used = places.iter().filter(|(_, node)| node.is_some());
        let used: BTreeSet<IpAddr> = used.map(|(ip, _)| *ip).collect();
        ensure!(used.len() == 2 && used.contains(&A.parse()?), "{places:?}");
        let pools = self.namespace.api::<FloatingIPPool>();
        let pool = pools.get("ingress").await?;
        let listed = pool.spec.ips.iter().map(|ip| ip.parse());
        let listed: Vec<IpAddr> = listed.collect::<Result<_, _>>()?;
        ensure!(listed.len() == 2, "the list has {listed:?}");
        ensure!(used == listed.into_iter().collect(), "the list has others");
        let status = pool.status.context("it says nothing")?;
        let served = status.conditions.iter().any(|it| it.reason == "Served");
        ensure!(
            served && status.memory.purchase.is_none(),
            "it says {status:?}"
        );
        ensure!(status.memory.pending.is_empty(), "it says {status:?}");
        for (ip, it) in &status.ips {
            let place = places.get(&ip.parse()?).context("another address")?;
            ensure!(it.state == "active", "{ip} is {it:?}");
            ensure!(place.as_deref() == Some(&it.node_name), "{ip} is {it:?}");
        }
        let texts: BTreeSet<String> = used.iter().map(ToString::to_string).collect();
        let names = said(&self.cloud, "www");
        ensure!(names == texts, "the name says {names:?}");
        let texts: Vec<(String, &String)> = places
            .iter()
            .filter_map(|(ip, node)| Some((ip.to_string(), node.as_ref()?)))
            .collect();
        let wanted: Vec<(&str, &str)> = texts
            .iter()
            .map(|(ip, node)| (ip.as_str(), node.as_str()))
            .collect();
        self.ground.are_annotated(&wanted).await
    }

    /// What no kill excuses.
    fn nothing_is_wrong(&self) -> Result<()> {
        let places = places(&self.cloud);
        ensure!(places.len() == 3, "the account has {places:?}");
        ensure!(places[&B.parse()?].is_none(), "{B} is not the pool's");
        let done = self.toll.done();
        let bought = done.iter();
        let bought =
            bought.filter(|(what, status)| what == "POST /v2/reserved_ips" && status.is_success());
        ensure!(bought.count() == 1, "it was bought twice");
        let projects = self.cloud.look(|state| state.projects.len());
        ensure!(projects == 2, "there are {projects} projects");
        let records = self.cloud.look(|state| state.domains[ground::ZONE].clone());
        // Two addresses, and one note of whose they are.
        ensure!(records.len() == 3, "the zone has {records:?}");
        let refused = done.iter().find(|(_, status)| status.as_u16() == 403);
        ensure!(refused.is_none(), "floe may not: {refused:?}");
        for log in self.controller.logs() {
            ensure!(!log.contains(TOKEN), "the token is in a log");
            let refused = log.lines().find(|it| it.contains("forbidden"));
            ensure!(refused.is_none(), "floe may not: {refused:?}");
        }
        Ok(())
    }

    /// The pool goes while no controller runs, as a kill may still be to come. What it has
    /// annotated is left for the next one to take off.
    fn end(self) -> Result<()> {
        drop(self.controller);
        self.namespace
            .kubectl(&["delete", "floatingippool", "ingress"])?;
        Ok(())
    }
}
