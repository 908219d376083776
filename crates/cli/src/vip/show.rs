//! `kubectl floe vip show`.

use floe_api::floe::virtualip::{CLAIMED_BY, Failover, Holding, ModeChoice, Move};
use floe_core::explain::shared::Account;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::{KIND, Vip};
use crate::{
    args::Format,
    cluster::Cluster,
    console::Console,
    failure::Failure,
    render::{self, age, harmless, sheet::Sheet},
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    names: &[String],
    format: Option<Format>,
) -> Result<(), Failure> {
    let mut vips = Vec::new();
    for name in names {
        vips.push(super::one(cluster, console, name).await?);
    }
    if let Some(format) = format.filter(|_| render::is_raw(format)) {
        let objects = vips.iter().map(|vip| &vip.raw);
        return console.print(&render::objects(format, KIND, objects, false)?);
    }
    let now = Timestamp::now();
    let told: Vec<_> = vips.iter().map(|vip| told(vip, now)).collect();
    console.print(&told.join("\n"))
}

/// First in words, then everything line by line.
fn told(vip: &Vip, now: Timestamp) -> String {
    let facts = vip.object.facts();
    let words = Account::of(&facts).sentences();
    let words: Vec<String> = words.iter().map(|it| harmless(it)).collect();
    format!("{}\n\n{}", words.join("\n"), sheet(vip, now).text())
}

fn sheet(vip: &Vip, now: Timestamp) -> Sheet {
    let object = &vip.object;
    let status = object.status.clone().unwrap_or_default();
    let labels = object.metadata.labels.as_ref();
    let claimed_by = labels.and_then(|all| all.get(CLAIMED_BY));
    let announcement = &object.spec.announcement;
    let mode = match announcement.mode {
        ModeChoice::Auto => "auto",
        ModeChoice::Nat => "nat",
        ModeChoice::Direct => "direct",
    };
    let egress = if announcement.egress { "yes" } else { "no" };
    let mut sheet = Sheet::default();
    sheet
        .line("Name", vip.raw.name_any())
        .line("Namespace", vip.raw.namespace().unwrap_or_default())
        .line("State", object.facts().state().text())
        .list(
            "Addresses",
            status.addresses.iter().map(ToString::to_string),
        )
        .line("Holder", place(status.holder.as_ref()))
        .line("Since", since(status.holder.as_ref(), now));
    if status.successor.is_some() {
        sheet.line("Next", next(status.successor.as_ref()));
    }
    sheet
        .list(
            "Candidates",
            status.candidates.iter().map(|it| {
                let ready = age::since(Some(it.ready_since.0), now);
                format!("{} on {} ({}, ready for {ready})", it.pod, it.node, it.mode)
            }),
        )
        .line("Moves", status.moves.to_string())
        .line("Last move", last_move(status.last_move.as_ref(), now))
        .list("Conditions", status.conditions.iter().map(condition))
        .line("Failover", failover(&object.spec.failover))
        .line("Mode", mode)
        .line("Egress", egress);
    if !announcement.interface.is_empty() {
        sheet.line("Interface", &announcement.interface);
    }
    if let Some(by) = claimed_by {
        sheet.line("Claimed by", by);
    }
    sheet
}

fn place(holding: Option<&Holding>) -> String {
    holding.map_or_else(String::new, |it| {
        format!("{} on {} ({})", it.pod, it.node, it.mode)
    })
}

fn since(holder: Option<&Holding>, now: Timestamp) -> String {
    let since = holder.and_then(|it| it.since.as_ref());
    since.map_or_else(String::new, |since| {
        format!("{} ({} ago)", since.0, age::since(Some(since.0), now))
    })
}

fn next(successor: Option<&Holding>) -> String {
    successor.map_or_else(String::new, |it| {
        let ready = if it.ready { "prepared" } else { "prepares" };
        format!("{} on {} ({ready}, {})", it.pod, it.node, it.reason)
    })
}

fn last_move(last: Option<&Move>, now: Timestamp) -> String {
    last.map_or_else(String::new, |it| {
        let (from, to) = (render::or_none(&it.from), render::or_none(&it.to));
        let ago = age::since(Some(it.at.0), now);
        format!("{from} to {to}, {ago} ago ({})", it.reason)
    })
}

fn condition(condition: &Condition) -> String {
    let Condition {
        type_,
        status,
        reason,
        message,
        ..
    } = condition;
    format!("{type_} {status} ({reason}): {message}")
}

fn failover(failover: &Failover) -> String {
    let Failover {
        unready_grace_seconds: grace,
        min_seconds_between_moves: pause,
        failback,
        preferred_pods,
    } = failover;
    let mut told = vec![
        format!("{grace} s grace for unready pods"),
        format!("{pause} s between moves for that"),
    ];
    if !preferred_pods.is_empty() {
        told.push(format!("prefers {}", preferred_pods.join(" ")));
    }
    if *failback {
        told.push("back to preferred pods".into());
    }
    told.join(", ")
}
