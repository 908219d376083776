//! The lines about an address that several pods share.

use floe_api::rest::v2::{IpExplanation, SharedExplanation, Vip, VipMove, VipPod};
use floe_core::ipam::key::HolderKey;
use jiff::Timestamp;

use crate::render::{age, or_none, sheet::Sheet};

/// Adds the lines, if it is such an address.
pub fn add(sheet: &mut Sheet, explained: &IpExplanation, now: Timestamp) {
    if let Some(shared) = &explained.shared {
        of(sheet, shared, now);
    }
    if !explained.refused_to.is_empty() {
        let refused = explained.refused_to.iter();
        let refused = refused.map(|it| format!("{}/{} ({})", it.namespace, it.name, it.reason));
        sheet.list("Refused to", refused);
    }
}

/// The `VirtualIP` that a key names, as lists of addresses say it.
pub fn owner(key: &str) -> Option<String> {
    let vip = HolderKey::from(key).vip()?;
    Some(format!("{}/vip/{}", vip.namespace, vip.name))
}

fn of(sheet: &mut Sheet, shared: &SharedExplanation, now: Timestamp) {
    let SharedExplanation {
        reason,
        vip,
        moved_by,
    } = shared;
    sheet.line("Sharing", reason);
    let Some(vip) = vip else {
        return;
    };
    let Vip {
        holder,
        successor,
        candidates,
        moves,
        last_move,
        conditions,
        ..
    } = vip;
    sheet
        .line("At pod", holder.as_ref().map_or_else(String::new, place))
        .line("At pod since", since(holder.as_ref(), now));
    if let Some(next) = successor {
        sheet.line("Next pod", place(next));
    }
    sheet
        .list("Candidates", candidates.iter().map(place))
        .line("Moves", moves.to_string());
    if let Some(last) = last_move {
        sheet.line("Last move", moved(last, now));
    }
    if !moved_by.is_empty() {
        sheet.list("Moved by", moved_by.iter().cloned());
    }
    let conditions = conditions.iter();
    sheet.list(
        "Conditions",
        conditions.map(|it| format!("{} {} ({}): {}", it.kind, it.status, it.reason, it.message)),
    );
}

fn place(pod: &VipPod) -> String {
    format!("{} on {} ({})", pod.pod, pod.node, pod.mode)
}

fn since(holder: Option<&VipPod>, now: Timestamp) -> String {
    let since = holder.and_then(|it| it.since.as_deref());
    since.map_or_else(String::new, |since| {
        format!("{since} ({} ago)", age::since(since.parse().ok(), now))
    })
}

fn moved(last: &VipMove, now: Timestamp) -> String {
    let from = or_none(last.from.as_deref().unwrap_or_default());
    let to = or_none(last.to.as_deref().unwrap_or_default());
    let ago = age::since(last.at.parse().ok(), now);
    format!("{from} to {to}, {ago} ago ({})", last.reason)
}
