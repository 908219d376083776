//! Why an address is where it is, and why a pod has none yet.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use axum::{Json, extract::State};
use floe_api::rest::v2::{
    ExplainQuery, Explanation, IpExplanation, PodExplanation, Refusal, State as IpState,
};
use floe_core::{
    catalogue::Item,
    explain::{Account, Facts, nodes::Nodes},
    ipam::{
        ledger::Record,
        owner::App,
        reclaim,
        slot::Sighting,
        workload::{Scale, State as Found, Workload},
    },
    schedule::{
        filter::{self, Offer},
        gate::missed,
    },
};
use jiff::Timestamp;

use super::{parameters::Parameters, problem::Refused, query::address, view};
use crate::{
    claims::Claim,
    cluster::{Phase, Pod, is_name},
    reclaim::sight::Sight,
    rest::{
        Rest,
        access::{Access, Caller},
        openapi::Refusals,
    },
    store::{Books, UNREADABLE_RECORD},
    waiting::HeldUp,
};

mod missing;
mod shared;

/// What is to be explained.
enum Question {
    Ip(IpAddr),
    Pod { namespace: String, name: String },
}

/// Explain who holds an address and why, or why a pod has none yet
///
/// Right: `list floatingips.galaxy.k8s.io`; for a pod also `get pods` of it. Which pod
/// has a shared address is told to who may `get virtualips.floe.dev` of it. For a pod
/// that waits the decision of the scheduler's filter is made for all nodes, as it would
/// be now; nothing is set aside for the pod.
#[utoipa::path(
    get, path = "/v2/explain", tag = "explain", operation_id = "explain",
    params(ExplainQuery),
    responses((status = 200, description = "The explanation", body = Explanation), Refusals),
)]
pub async fn explain(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<Explanation>, Refused> {
    caller.may(&Access::ips("list")).await?;
    Ok(Json(match parameters.read(question)? {
        Question::Ip(ip) => {
            let mut explanation = of_ip(&rest, ip).await;
            shared::add(&rest, &caller, ip, &mut explanation).await?;
            explanation
        }
        Question::Pod { namespace, name } => {
            let access = Access::pod("get", &namespace, &name);
            caller.may(&access).await?;
            let pod = pod(&rest, &namespace, &name).await?;
            of_pod(&rest, pod).await
        }
    }))
}

fn question(all: &mut BTreeMap<String, String>) -> Result<Question, Refused> {
    match (all.remove("ip"), all.remove("pod")) {
        (Some(text), None) => Ok(Question::Ip(address("ip", &text)?)),
        (None, Some(text)) => {
            let parts = text.split_once('/');
            let (namespace, name) = parts
                .filter(|(namespace, name)| {
                    !namespace.is_empty() && !name.is_empty() && !name.contains('/')
                })
                .ok_or_else(|| Refused::parameter("pod", "it must be namespace/name"))?;
            Ok(Question::Pod {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        }
        (None, None) | (Some(_), Some(_)) => {
            let why = "give one of both: ip=ADDRESS or pod=NAMESPACE/NAME";
            Err(Refused::parameter("ip", why))
        }
    }
}

async fn of_ip(rest: &Rest, ip: IpAddr) -> Explanation {
    let (record, asks_the_workload, unreadable) = rest.store.read(|books| {
        let record = books.ledger().record(ip);
        let asks = record.is_some_and(|it| reclaim::asks_the_workload(books.ledger(), it));
        (record.cloned(), asks, is_unreadable(books, ip))
    });
    let sight = match &record {
        Some(record) => sight(rest, record).await,
        None => Sight::Nobody,
    };
    let workload = match &record {
        Some(record) => workload(rest, record, asks_the_workload).await,
        None => None,
    };
    let node = node_with(rest, ip);
    let lacks = match &sight {
        Sight::Pod(pod) => missing::of_pod(rest, pod).await,
        Sight::Nobody | Sight::Unreadable(_) => Vec::new(),
    };
    // The record may be another one by now; then this is about that one, and what was
    // found of pod and workload is about the holder that both have, or of no use.
    let (account, record, lacks) = rest.store.read(|books| {
        let ledger = books.ledger();
        let now = ledger.record(ip);
        let same = now.map(|it| &it.key) == record.as_ref().map(|it| &it.key);
        let sighting = match (&sight, now) {
            (Sight::Pod(pod), Some(now)) if same => view::sighting(Some(pod), ip, &now.uid),
            (Sight::Nobody, _) if same => Sighting::NotFound,
            (Sight::Pod(_) | Sight::Nobody | Sight::Unreadable(_), _) => Sighting::Unreadable,
        };
        let facts = Facts {
            sighting,
            workload: workload.as_ref().filter(|_| same),
            unreadable,
            node: node.as_deref(),
        };
        let lacks = lacks.into_iter().find(|it| same && it.ip == ip);
        (Account::of(ledger, ip, &facts), now.cloned(), lacks)
    });
    let item = rest.directory.get(ip).unwrap_or(Item::Free(ip));
    let mut address = view::one(rest, &item);
    if record.is_none() {
        address.releasable = false;
        if account.why.is_not_for_pods() {
            address.state = IpState::NotForPods;
        }
    }
    let mut summary = account.sentences();
    let mut reason = account.why.reason();
    if let Some(lacks) = lacks {
        // After who has it and since when.
        let place = 1 + usize::from(account.since.is_some());
        summary.insert(place, lacks.sentence());
        reason = lacks.finding.reason();
    }
    Explanation {
        summary,
        ip: Some(IpExplanation {
            address,
            reason: reason.to_owned(),
            released_by: account.end.as_ref().map(ToString::to_string),
            shared: None,
            refused_to: Vec::new(),
        }),
        pod: None,
    }
}

/// The node that has an address itself.
fn node_with(rest: &Rest, ip: IpAddr) -> Option<String> {
    let mut nodes = rest.cluster.all_nodes().into_iter();
    let (name, _) = nodes.find(|(_, address)| *address == Some(ip))?;
    Some(name)
}

fn is_unreadable(books: &Books, ip: IpAddr) -> bool {
    let name = floe_core::addr::name::name(ip);
    books.strange().get(&name) == Some(&UNREADABLE_RECORD)
}

/// The pod that a record names: from the cache, and read directly where the cache has
/// none.
async fn sight(rest: &Rest, record: &Record) -> Sight {
    let Some(parts) = record.key.parts() else {
        return Sight::Nobody;
    };
    if !is_name(parts.namespace) || !is_name(parts.pod) {
        return Sight::Nobody;
    }
    match rest.cluster.pod(parts.namespace, parts.pod) {
        Some(pod) => Sight::Pod(Box::new(Pod::clone(&pod))),
        None => Sight::of(&rest.client, parts.namespace, parts.pod).await,
    }
}

/// The workload that a record names. It is looked for only if something depends on it.
async fn workload(rest: &Rest, record: &Record, asked: bool) -> Option<Workload> {
    let parts = record.key.parts()?;
    let app = App::of_key(&parts, record.workload_note.as_deref())?;
    if asked {
        return Some(rest.claims.workload(app).await);
    }
    Some(Workload {
        app,
        scale: Scale::No,
        state: Found::Unreadable {
            why: "nothing depends on it".into(),
        },
    })
}

async fn pod(rest: &Rest, namespace: &str, name: &str) -> Result<Arc<Pod>, Refused> {
    if let Some(pod) = rest.cluster.pod(namespace, name) {
        return Ok(pod);
    }
    let none = || {
        let what = format!("there is no pod {name:?} in namespace {namespace:?}");
        Refused::not_found("NoSuchPod", what)
    };
    // The names become part of a path.
    if !is_name(namespace) || !is_name(name) {
        return Err(none());
    }
    match Sight::of(&rest.client, namespace, name).await {
        Sight::Pod(pod) => Ok(Arc::from(pod)),
        Sight::Nobody => Err(none()),
        Sight::Unreadable(why) => Err(Refused::unavailable("PodUnreadable", why)),
    }
}

async fn of_pod(rest: &Rest, pod: Arc<Pod>) -> Explanation {
    let named = format!("Pod {}/{}", pod.namespace, pod.name);
    let records: Vec<Record> = rest.store.read(|books| {
        let records = books.of_pod(&pod.namespace, &pod.name);
        records.cloned().collect()
    });
    let own = |record: &&Record| record.uid == pod.uid && !record.uid.is_empty();
    let mut lacking = missing::of_pod(rest, &pod).await;
    // What an agent reports may be a minute old: the record still has to give it to the pod.
    lacking.retain(|it| records.iter().any(|record| record.ip == it.ip));
    let is_lacking = |ip: IpAddr| lacking.iter().any(|it| it.ip == ip);
    let has: Vec<String> = records
        .iter()
        .filter(own)
        .filter(|it| !is_lacking(it.ip))
        .map(|it| it.ip.to_string())
        .collect();
    let waiting = records
        .iter()
        .filter(|it| it.is_idle() && !it.reserved && !is_lacking(it.ip));
    let waiting: Vec<String> = waiting.map(|it| it.ip.to_string()).collect();
    let items: Vec<Item> = records
        .iter()
        .filter(|it| own(it) || it.is_idle())
        .filter_map(|it| rest.directory.get(it.ip))
        .collect();
    let mut explained = PodExplanation {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        node: pod.node.clone(),
        wants_address: pod.wants_address,
        addresses: view::ips(rest, &items),
        refusal: None,
        rollout: None,
        fitting_nodes: Vec::new(),
        unfit_nodes: Vec::new(),
    };
    let mut summary = Vec::new();
    if !has.is_empty() {
        summary.push(format!("{named} has {}.", has.join(", ")));
    }
    for it in &lacking {
        summary.push(format!("{named} lacks {}: {}.", it.ip, it.finding));
        explained.refusal = Some(refusal(it.finding.reason(), it.finding.to_string()));
    }
    if has.is_empty() && lacking.is_empty() {
        without_address(rest, &pod, &named, &mut explained, &mut summary).await;
    }
    if has.is_empty() && !waiting.is_empty() {
        let (addresses, wait) = (
            waiting.join(", "),
            if waiting.len() == 1 { "waits" } else { "wait" },
        );
        summary.push(format!("{addresses} {wait} for a pod of its name."));
    }
    Explanation {
        summary,
        ip: None,
        pod: Some(explained),
    }
}

/// Why a pod has no address.
async fn without_address(
    rest: &Rest,
    pod: &Arc<Pod>,
    named: &str,
    explained: &mut PodExplanation,
    summary: &mut Vec<String>,
) {
    if !pod.wants_address {
        summary.push(format!(
            "{named} asks for no address: none of its regular containers requests {}.",
            floe_core::ipam::names::RESOURCE
        ));
    } else if pod.phase == Phase::Finished {
        summary.push(format!("{named} is over and has no address any more."));
    } else if let Some(node) = &pod.node {
        let message = format!("bound to node {node}, and no record names it");
        summary.push(format!("{named} has no address: {message}."));
        explained.refusal = Some(refusal(missed::REASON, message));
    } else {
        decide(rest, pod, named, explained, summary).await;
        if let Some(HeldUp { reason, message }) = rest.waiting.why_held_up(&pod.uid) {
            summary.push(format!("Its rolling update waits: {message}."));
            explained.rollout = Some(refusal(reason, message));
        }
    }
}

/// The same decision as that of the scheduler's filter over all nodes, of which nothing
/// is kept.
async fn decide(
    rest: &Rest,
    pod: &Arc<Pod>,
    named: &str,
    explained: &mut PodExplanation,
    summary: &mut Vec<String>,
) {
    let mut refused = |reason: &'static str, message: String| {
        summary.push(format!("{named} has no address yet: {message}."));
        explained.refusal = Some(refusal(reason, message));
    };
    let mut claim: Claim = match rest.claims.alone(Arc::clone(pod)).await {
        Ok(claim) => claim,
        Err(error) => return refused(error.reason(), error.to_string()),
    };
    // In their order, so that the same question has the same answer.
    let mut nodes = rest.cluster.all_nodes();
    nodes.sort();
    if nodes.is_empty() {
        return refused("NoNodes", "there are no nodes".into());
    }
    let offers: Vec<Offer<'_>> = nodes
        .iter()
        .map(|(node, address)| Offer {
            node,
            address: *address,
        })
        .collect();
    let sorted = rest.store.read(|books| {
        let ledger = books.ledger();
        claim.claimant.yields_to = rest.claims.ahead_of(&claim, ledger, &offers);
        filter::filter(ledger, &claim.claimant, &offers, Timestamp::MAX)
    });
    let sorted = match sorted {
        Ok(sorted) => sorted,
        Err(error) => return refused(error.reason(), error.to_string()),
    };
    if let Some(most_telling) = sorted.most_telling() {
        refused(most_telling.reason(), most_telling.to_string());
    }
    let nodes = Nodes::of(&sorted);
    if nodes.fit > 0 {
        let (fit, all) = (nodes.fit, offers.len());
        summary.push(format!(
            "{named} has no address yet. As to its addresses it could run on {fit} of {all} nodes now; the scheduler has not bound it."
        ));
    }
    explained.fitting_nodes = nodes.fitting;
    let unfit = nodes.unfit.into_iter();
    explained.unfit_nodes = unfit
        .map(|(it, count)| Refusal {
            nodes: Some(u64::try_from(count).unwrap_or(u64::MAX)),
            ..refusal(it.reason(), it.to_string())
        })
        .collect();
}

fn refusal(reason: &str, message: String) -> Refusal {
    Refusal {
        reason: reason.to_owned(),
        message,
        nodes: None,
    }
}
