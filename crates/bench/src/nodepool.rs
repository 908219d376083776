//! How long it takes to decide what an event of a node means for the pools of node addresses.
//!
//! [`decision`] measures the decision alone, as the controller makes it: the event enters the
//! census of nodes, and each pool that selects the node looks at what is new and says which
//! calls to begin. [`program`] measures the controller as it ships, from outside.

mod cloud;
mod decision;
mod program;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use floe_testbed::progress::Step;

use crate::table::Row;

/// What can be measured alone.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The decision, without any program
    Pure,
    /// The controller beside an API server in memory and a cloud that does everything at once
    Program,
}

/// How big everything is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Pools.
    pub pools: usize,
    /// Nodes.
    pub nodes: usize,
    /// Kinds of nodes, for pools that select by a label.
    pub kinds: usize,
    /// Events that are measured.
    pub events: usize,
}

/// What stands before the id of a server, and the id of the first one.
const SCHEME: &str = "hcloud://";
const FIRST: usize = 1_000_000;

/// Addresses of each pool.
const PER_POOL: usize = 4;

impl Size {
    /// What the promise is about.
    pub const FULL: Self = Self {
        pools: 500,
        nodes: 1_000,
        kinds: 50,
        events: 400,
    };

    /// Small enough to try the benchmark itself.
    pub const QUICK: Self = Self {
        pools: 50,
        nodes: 100,
        kinds: 5,
        events: 100,
    };

    /// The kind of a node.
    fn kind_of_node(self, node: usize) -> usize {
        node % self.kinds
    }

    /// The kind of nodes that a pool selects, when it selects by label.
    fn kind_of_pool(self, pool: usize) -> usize {
        pool % self.kinds
    }

    /// Where an address lies before anything happens: each pool has its own on different
    /// nodes of its kind.
    fn home(self, pool: usize, nth: usize) -> usize {
        let kind = self.kind_of_pool(pool);
        let of_kind = self.nodes / self.kinds;
        let first = pool / self.kinds * PER_POOL;
        (first + nth) % of_kind * self.kinds + kind
    }
}

/// Measures everything, or one part.
pub fn measure(only: Option<Part>, size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if only != Some(Part::Program) {
        let title = format!("deciding for {} pools", size.pools);
        rows.extend(Step::run(title, || decision::measure(size))?);
    }
    if only != Some(Part::Pure) {
        let runtime = tokio::runtime::Runtime::new()?;
        let title = format!("the controller with {} pools", size.pools);
        let measured = Step::run_async(title, Box::pin(program::measure(size)));
        rows.extend(runtime.block_on(measured)?);
    }
    Ok(rows)
}

/// The address of a pool.
fn address(pool: usize, nth: usize) -> std::net::IpAddr {
    let number = u32::try_from(pool * PER_POOL + nth).unwrap_or(u32::MAX);
    std::net::Ipv4Addr::from_bits(0xc612_0000 + number).into()
}

/// The server of a node; Hetzner's writing, whose servers can have many addresses.
fn server(node: usize) -> String {
    format!("{SCHEME}{}", FIRST + node)
}

/// The node of a server.
fn node_at(server: &str) -> Result<usize> {
    let id = server.strip_prefix(SCHEME).context("another cloud")?;
    let id: usize = id.parse()?;
    id.checked_sub(FIRST).context("an unknown server")
}

fn node_name(node: usize) -> String {
    format!("worker-{node:04}.example")
}
