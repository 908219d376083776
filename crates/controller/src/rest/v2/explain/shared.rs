//! Of an address that several pods share: who has it, and what would move it.

use std::net::IpAddr;

use floe_api::{
    floe::virtualip::VirtualIP,
    rest::v2::{Explanation, IpExplanation, SharedExplanation, VipRefusal},
};
use floe_core::{addr, explain::shared::Account, ipam::key::HolderKey, vip::VipId};

use crate::rest::{
    Rest,
    access::{Access, Caller, Denied},
    v2::{problem::Refused, vips::view},
};

/// Adds what `VirtualIPs` have to do with an address to its explanation, as far as the
/// caller may see them.
pub async fn add(
    rest: &Rest,
    caller: &Caller,
    ip: IpAddr,
    explanation: &mut Explanation,
) -> Result<(), Refused> {
    let Explanation {
        summary,
        ip: Some(explained),
        ..
    } = explanation
    else {
        return Ok(());
    };
    let key = explained.address.key.as_deref();
    let owner = key.and_then(|key| HolderKey::from(key).vip());
    if let Some(id) = &owner {
        let told = of_owner(rest, caller, id, ip, explained).await?;
        // Before the last sentence, which says what would release it.
        let place = summary.len().saturating_sub(1);
        summary.splice(place..place, told);
    }
    let refused = refused(rest, ip, owner.as_ref());
    if !refused.is_empty() && may(caller, &Access::vip("list", "", "")).await? {
        for it in &refused {
            let VipRefusal {
                namespace,
                name,
                reason,
                message,
            } = it;
            summary.push(format!(
                "VirtualIP {namespace}/{name} asks for it and does not get it: {message} ({reason})."
            ));
        }
        explained.refused_to = refused;
    }
    Ok(())
}

/// What is told about the `VirtualIP` that the record names.
async fn of_owner(
    rest: &Rest,
    caller: &Caller,
    id: &VipId,
    ip: IpAddr,
    explained: &mut IpExplanation,
) -> Result<Vec<String>, Refused> {
    let VipId { namespace, name } = id;
    let access = Access::vip("get", namespace, name);
    if !may(caller, &access).await? {
        let told = access.told();
        return Ok(vec![format!(
            "Which pod has it is not told: you may not get {told}."
        )]);
    }
    let (shared, told) = match rest.vips.get(id) {
        Some(vip) => {
            let facts = vip.facts();
            let account = Account::of_address(&facts, ip);
            let shared = SharedExplanation {
                reason: account.why.reason().to_owned(),
                vip: Some(view::vip(&vip)),
                moved_by: account.movers.iter().map(ToString::to_string).collect(),
            };
            (shared, account.sentences())
        }
        None if rest.vips.is_complete() => {
            let told = "That VirtualIP is gone or cannot be read. If it is gone, the address is \
                        free some minutes later, when no node can serve it any more.";
            (without("VirtualIPGone"), vec![told.to_owned()])
        }
        None => {
            let told = "Which pod has it is not known yet: the VirtualIPs are not listed.";
            (without("VirtualIPsUnknown"), vec![told.to_owned()])
        }
    };
    explained.shared = Some(shared);
    Ok(told)
}

fn without(reason: &str) -> SharedExplanation {
    SharedExplanation {
        reason: reason.to_owned(),
        vip: None,
        moved_by: Vec::new(),
    }
}

/// Those who ask for an address by name and do not get it.
fn refused(rest: &Rest, ip: IpAddr, owner: Option<&VipId>) -> Vec<VipRefusal> {
    let others = rest.vips.all().into_iter();
    let others = others.filter(|(id, vip)| Some(id) != owner && asks_for(vip, ip));
    others
        .filter_map(|(id, vip)| {
            let facts = vip.facts();
            let told = facts.accepted.filter(|it| it.status != "True")?;
            let (reason, message) = (told.reason.to_owned(), told.message.to_owned());
            (!facts.addresses.contains(&ip)).then_some(VipRefusal {
                namespace: id.namespace,
                name: id.name,
                reason,
                message,
            })
        })
        .collect()
}

fn asks_for(vip: &VirtualIP, ip: IpAddr) -> bool {
    let mut asked = vip.spec.addresses.iter();
    asked.any(|text| addr::parse(text) == Some(ip))
}

/// Whether a caller may do something on which his answer does not depend as a whole.
async fn may(caller: &Caller, access: &Access) -> Result<bool, Refused> {
    match caller.may(access).await {
        Ok(()) => Ok(true),
        Err(Denied::Forbidden { .. }) => Ok(false),
        Err(denied) => Err(denied.into()),
    }
}
