//! `kubectl floe ip reserve`.
//!
//! The controller is asked to do it, because it alone knows when all running pods have
//! their records: after a restore an address can have none and be in use. Where there
//! is no controller to ask, the records are written directly, and that is told.

use std::net::IpAddr;

use floe_api::rest::v2::{Outcome, Reservation, ReservedAnswer};
use floe_core::{
    addr::{IpSet, name},
    ipam::{key::HolderKey, reservation},
};

use self::direct::Written;
use super::KIND;
use crate::{
    args::{CONFIG_MAP, Reserve},
    cluster::Cluster,
    console::Console,
    failure::Failure,
    remote::{self, Connect, Remote},
    render::harmless,
    subnet::settings,
};

mod direct;

/// Runs the command.
pub async fn run(cluster: &Cluster, console: &mut Console, args: &Reserve) -> Result<(), Failure> {
    let wish = Wish::read(args)?;
    let asked = match remote::find(cluster, &args.api).await {
        Ok(mut remote) => ask(console, &mut remote, &wish).await,
        Err(failure) => Err(failure),
    };
    reserve(cluster, console, &wish, asked).await
}

/// What somebody wants to have reserved.
struct Wish {
    ips: Vec<IpAddr>,
    purpose: Option<String>,
    key: HolderKey,
    dry_run: bool,
}

impl Wish {
    fn read(args: &Reserve) -> Result<Self, Failure> {
        let purpose = args.purpose.clone();
        let key = reservation::key(purpose.as_deref());
        Ok(Self {
            key: key.map_err(|error| Failure::Usage(error.to_string()))?,
            ips: super::expand(&args.ips)?,
            purpose,
            dry_run: args.dry_run,
        })
    }
}

/// What the controller makes of each address, in their order.
async fn ask<C: Connect>(
    console: &mut Console,
    remote: &mut Remote<C>,
    wish: &Wish,
) -> Result<Vec<Outcome>, Failure> {
    let wanted = Reservation {
        ips: wish.ips.iter().map(ToString::to_string).collect(),
        purpose: wish.purpose.clone(),
        dry_run: wish.dry_run,
    };
    let answer: ReservedAnswer = remote.post(console, "/v2/ips/reserve", &wanted).await?;
    let ReservedAnswer { results, dry_run } = answer;
    if results.len() != wish.ips.len() || dry_run != wish.dry_run {
        return Err(Failure::other_answer());
    }
    Ok(results)
}

/// Finishes what the controller has done, or does it without one.
async fn reserve(
    cluster: &Cluster,
    console: &mut Console,
    wish: &Wish,
    asked: Result<Vec<Outcome>, Failure>,
) -> Result<(), Failure> {
    let outcomes = match asked {
        Ok(outcomes) => {
            // It reserves nothing that no pod could get, but people may have a reason.
            let strange = outcomes.iter().zip(&wish.ips);
            let strange = strange.filter(|(it, _)| is_outside(it)).map(|(_, ip)| *ip);
            warn_of(console, &strange.collect());
            outcomes.into_iter().map(Some).collect()
        }
        Err(failure) if failure.leaves_nobody_to_ask() => {
            console.warn(&format!(
                "{failure}; the records are written without the controller, so nobody looks \
                 whether a pod runs with an address that has lost its record"
            ));
            mind_ranges(cluster, console, &wish.ips).await;
            vec![None; wish.ips.len()]
        }
        Err(failure) => return Err(failure),
    };
    let mut failed = 0;
    for (&ip, outcome) in wish.ips.iter().zip(outcomes) {
        let written = match &outcome {
            Some(it) if it.done && it.reason == "Reserved" => Written::Reserved,
            Some(it) if it.reason == "AlreadyReserved" || it.reason == "HeldByAnother" => {
                direct::holder(cluster, ip).await?
            }
            Some(it) if !is_outside(it) => {
                failed += usize::from(!it.done);
                let Outcome {
                    reason, message, ..
                } = it;
                console.error(&format!("{ip} is not reserved: {message} ({reason})"));
                continue;
            }
            Some(_) | None => direct::create(cluster, ip, &wish.key, wish.dry_run).await?,
        };
        failed += usize::from(!tell(console, ip, &written, wish.dry_run)?);
    }
    if failed == 0 {
        return Ok(());
    }
    let total = wish.ips.len();
    Err(Failure::Some { failed, total })
}

fn is_outside(outcome: &Outcome) -> bool {
    !outcome.done && outcome.reason == "NotConfigured"
}

/// Tells what became of an address; false if it is not reserved.
fn tell(
    console: &mut Console,
    ip: IpAddr,
    written: &Written,
    dry_run: bool,
) -> Result<bool, Failure> {
    let suffix = if dry_run { " (server dry run)" } else { "" };
    let name = name::name(ip);
    match written {
        Written::Reserved => console.done(&format!("{KIND}/{name} reserved{suffix}"))?,
        Written::Unchanged(purpose) => {
            let purpose = harmless(purpose);
            console.done(&format!("{KIND}/{name} is reserved already: {purpose}"))?;
        }
        Written::Held(record) => {
            let (state, holder) = (record.state.text(), record.holder());
            console.error(&format!("{ip} is held by {holder} ({state})"));
            return Ok(false);
        }
        Written::Taken => {
            console.error(&format!("{ip} has a record that cannot be read"));
            return Ok(false);
        }
        Written::Gone => {
            console.error(&Failure::Conflict(format!("the record of {ip}")).to_string());
            return Ok(false);
        }
    }
    Ok(true)
}

/// Warns of addresses that no pod could get anyway, as far as that is known.
async fn mind_ranges(cluster: &Cluster, console: &mut Console, ips: &[IpAddr]) {
    let topology = match settings::read_quietly(cluster, CONFIG_MAP).await {
        Ok(topology) => topology,
        Err(failure) => {
            console.warn(&format!(
                "whether these addresses are configured is not known: {failure}"
            ));
            return;
        }
    };
    let strange = ips.iter().filter(|ip| topology.entry_of(**ip).is_none());
    warn_of(console, &strange.copied().collect());
}

/// Somebody may have mistyped these.
fn warn_of(console: &mut Console, strange: &IpSet) {
    for range in strange.ranges() {
        let are = if range.first() == range.last() {
            "is"
        } else {
            "are"
        };
        console.warn(&format!("{range} {are} in no configured range"));
    }
}

#[cfg(test)]
mod tests;
