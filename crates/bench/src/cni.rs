//! How long a pod waits for its interface, beside the reference plugins of the CNI
//! project.
//!
//! 1. [`turns`]: ADD and DEL of both, in turns, on this kernel.
//! 2. [`guest`]: the same for VLANs, on a kernel that has them.
//! 3. [`agent`]: the memory of an agent that has nothing to do.
//!
//! Everything happens in network namespaces and a folder that only this process can
//! see ([`node`]), so that nothing is left however it ends.

mod agent;
mod apiserver;
mod guest;
mod mode;
mod node;
mod plugin;
mod report;
mod turns;

use std::fs;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use floe_testbed::{
    host::sibling_program,
    packages::{self, Need},
    progress::Step,
};

use crate::table::{Figure, Row, Wanted};
use mode::Mode;
use report::Report;

/// What the programs are compared with.
const NEEDS: &[Need] = &[
    Need {
        program: "/usr/lib/cni/bridge",
        package: "containernetworking-plugins",
    },
    Need {
        program: "ip",
        package: "iproute2",
    },
];
/// The promised size of the program.
const SIZE: Wanted = Wanted::AtMost(Figure::Bytes(3e6));

/// What can be measured alone.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The plugins on this kernel
    Host,
    /// The plugins in the guest, which has VLANs
    Guest,
    /// The sizes of programs, on disk and in memory
    Size,
}

/// How much of it there is.
#[derive(Clone, Copy)]
pub struct Effort {
    /// How often each command is measured on this machine.
    host: u32,
    /// The same in the guest, where everything takes longer.
    guest: u32,
    /// How often each is measured that waits for others to answer.
    asking: u32,
}

impl Effort {
    /// What the promises are about.
    pub const FULL: Self = Self {
        host: 200,
        guest: 60,
        asking: 20,
    };
    /// A tenth, to try the benchmarks themselves.
    pub const QUICK: Self = Self {
        host: 20,
        guest: 6,
        asking: 2,
    };
}

/// Measures all parts, or one. What fails is told in the table; the rest goes on.
pub fn measure(only: Option<Part>, effort: Effort) -> Result<Vec<Row>> {
    packages::ensure(NEEDS)?;
    let wants = |part| only.is_none_or(|only| only == part);
    let mut rows = Vec::new();
    if wants(Part::Size) {
        rows.push(size()?);
        let idle = Step::run("watching an agent that is idle", agent::measure);
        rows.push(idle.unwrap_or_else(|error| Row::failed("agent, idle", &error)));
    }
    if wants(Part::Host) {
        for mode in Mode::on_host() {
            let title = format!("{} in turns", mode.title);
            let report = Step::run(title, || turns::measure(&mode, effort.host, effort.asking));
            add(&mut rows, mode.title, report);
        }
    }
    if wants(Part::Guest) {
        match Step::run("VLANs in the guest", || {
            guest::measure(effort.guest, effort.asking)
        }) {
            Ok(reports) => rows.extend(reports.iter().flat_map(Report::rows)),
            Err(error) => rows.push(Row::failed("VLANs in the guest", &error)),
        }
    }
    Ok(rows)
}

/// Measures what only the guest can, and tells it in lines that [`measure`] reads.
pub fn measure_in_guest(rounds: u32, asking: u32) -> Result<()> {
    guest::tell(rounds, asking)
}

fn add(rows: &mut Vec<Row>, title: &str, report: Result<Report>) {
    match report {
        Ok(report) => rows.extend(report.rows()),
        Err(error) => rows.push(Row::failed(title, &error)),
    }
}

/// The program as it ships: built alone, without what others link to.
fn size() -> Result<Row> {
    let path = sibling_program("floe-cni")?;
    let bytes = fs::metadata(&path)
        .with_context(|| format!("cannot look at {}", path.display()))?
        .len();
    let bytes = u32::try_from(bytes).context("the program is larger than any disk of a node")?;
    Ok(Row::new(
        "size of floe-cni",
        Figure::Bytes(f64::from(bytes)),
        SIZE,
    ))
}
