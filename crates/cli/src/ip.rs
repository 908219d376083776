//! `kubectl floe ip`: addresses and who holds them.

use std::net::IpAddr;

use floe_core::addr::{self, IpRange, IpSet, name};

use crate::{args, cluster::Cluster, console::Console, failure::Failure, record, release};

pub mod list;
mod reserve;
mod show;
mod unreserve;

/// The kind of a record, as kubectl writes it before a name.
pub const KIND: &str = "floatingip.galaxy.k8s.io";

/// How many addresses one command may reserve or unreserve.
const MOST: u128 = 256;

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    command: &args::Ip,
) -> Result<(), Failure> {
    match command {
        args::Ip::List(list) => list::run(cluster, console, list).await,
        args::Ip::Show { ips, output } => show::run(cluster, console, ips, *output).await,
        args::Ip::Release(release) => release::run(cluster, console, release).await,
        args::Ip::Reserve(reserve) => reserve::run(cluster, console, reserve).await,
        args::Ip::Unreserve(unreserve) => unreserve::run(cluster, console, unreserve).await,
    }
}

/// The addresses that somebody typed as addresses, ranges or networks, in order and
/// each once.
pub fn expand(texts: &[String]) -> Result<Vec<IpAddr>, Failure> {
    let mut wanted = IpSet::new();
    for text in texts {
        let range = range_of(text).ok_or_else(|| {
            Failure::Usage(format!("{text:?} is no address, range a~b or network a/n"))
        })?;
        wanted.insert_range(&range);
    }
    if wanted.len() > MOST {
        let count = wanted.len();
        let told = format!("these are {count} addresses, and at most {MOST} are possible at once");
        return Err(Failure::Usage(told));
    }
    Ok((0..wanted.len())
        .map_while(|place| wanted.nth(place))
        .collect())
}

fn range_of(text: &str) -> Option<IpRange> {
    // What `-o name` prints is taken back.
    let text = record::bare(text);
    if let Ok(ip) = name::parse(text) {
        return IpRange::new(ip, ip).ok();
    }
    if text.contains('/') {
        let net = addr::parse_net(text)?;
        return IpRange::new(net.network(), net.broadcast()).ok();
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests;
