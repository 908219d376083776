//! `kubectl floe nodepool show`.

use floe_api::flipop::{
    Match,
    memory::Move,
    pool::{FloatingIPPoolSpec, FloatingIPPoolStatus, IpStatus, ReclaimPolicy},
};
use floe_core::wording::counted;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::{KIND, NodePool};
use crate::{
    args::Format,
    cluster::Cluster,
    console::Console,
    failure::Failure,
    render::{self, age, sheet::Sheet},
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    names: &[String],
    format: Option<Format>,
) -> Result<(), Failure> {
    let mut pools = Vec::new();
    for name in names {
        pools.push(super::one(cluster, console, name).await?);
    }
    if let Some(format) = format.filter(|_| render::is_raw(format)) {
        let objects = pools.iter().map(|pool| &pool.raw);
        return console.print(&render::objects(format, KIND, objects, false)?);
    }
    let now = Timestamp::now();
    let told: Vec<_> = pools.iter().map(|pool| sheet(pool, now).text()).collect();
    console.print(&told.join("\n"))
}

fn sheet(pool: &NodePool, now: Timestamp) -> Sheet {
    let spec = &pool.object.spec;
    let status = pool.object.status.clone().unwrap_or_default();
    let mut sheet = Sheet::default();
    sheet
        .line("Name", pool.raw.name_any())
        .line("Namespace", pool.raw.namespace().unwrap_or_default())
        .line("Provider", provider(spec))
        .line("Wanted", wanted(spec));
    if !status.error.is_empty() {
        sheet.line("Error", &status.error);
    }
    sheet
        .list(
            "Addresses",
            status.ips.iter().map(|(ip, it)| address(ip, it)),
        )
        .list("Waiting", status.assignable_nodes.iter().cloned())
        .list("Failing", status.node_errors.iter().cloned())
        .list("Last moves", moves(&status, now));
    if let Some(purchase) = &status.memory.purchase {
        let since = purchase.since.as_ref().map(|it| it.0);
        let ago = age::since(since, now);
        sheet.line("Purchase", format!("intended {ago} ago ({})", purchase.id));
    }
    sheet
        .list("Conditions", status.conditions.iter().map(condition))
        .list("Match", rule(&spec.rule))
        .line("Grace", grace(spec))
        .line("On deletion", reclaim(spec));
    if let Some(dns) = &spec.dns_record_set {
        sheet.line("DNS", format!("{} in {}", dns.record_name, dns.zone));
    }
    sheet
}

fn provider(spec: &FloatingIPPoolSpec) -> String {
    match spec.region.as_str() {
        "" => spec.provider.clone(),
        region => format!("{} ({region})", spec.provider),
    }
}

fn wanted(spec: &FloatingIPPoolSpec) -> String {
    let listed = spec.ips.len();
    let are = if listed == 1 { "is" } else { "are" };
    match spec.desired_ips {
        0 => format!(
            "the {} of the list",
            counted(listed, "address", "addresses")
        ),
        count => {
            let wanted = counted(count, "address", "addresses");
            format!("{wanted}, {listed} {are} in the list")
        }
    }
}

fn address(ip: &str, status: &IpStatus) -> String {
    let mut text = format!("{ip} {}", status.state);
    if !status.node_name.is_empty() {
        text.extend([" on ", &status.node_name]);
    } else if !status.provider_id.is_empty() {
        text.extend([" on ", &status.provider_id]);
    }
    if !status.error.is_empty() {
        text.extend([" (", &status.reason, ": ", &status.error, ")"]);
    }
    text
}

fn moves(status: &FloatingIPPoolStatus, now: Timestamp) -> impl Iterator<Item = String> {
    status.memory.moves.iter().map(move |(ip, it)| {
        let Move {
            at,
            from,
            to,
            reason,
        } = it;
        let (from, to) = (render::or_none(from), render::or_none(to));
        let ago = age::since(Some(at.0), now);
        format!("{ip} from {from} to {to}, {ago} ago ({reason})")
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

fn rule(rule: &Match) -> Vec<String> {
    let mut told = Vec::new();
    let mut say = |what: &str, value: &str| {
        if !value.is_empty() {
            told.push(format!("{what} {value}"));
        }
    };
    say("nodes with", &rule.node_label);
    say("a ready pod with", &rule.pod_label);
    say("pods of namespace", &rule.pod_namespace);
    for it in &rule.tolerations {
        let parts = [&it.key, &it.operator, &it.value, &it.effect];
        let parts: Vec<&str> = parts
            .iter()
            .map(|it| it.as_str())
            .filter(|it| !it.is_empty())
            .collect();
        say("tolerates", &parts.join(" "));
    }
    if told.is_empty() {
        told.push("every node that is ready and has no taint".to_owned());
    }
    told
}

fn grace(spec: &FloatingIPPoolSpec) -> String {
    let each = spec.grace_periods.unwrap_or_default();
    let of = |own: Option<f64>| own.or(spec.grace_period_seconds).unwrap_or(0.0);
    format!(
        "{} s pod not ready, {} s node not ready, {} s node gone",
        of(each.pod_not_ready_seconds),
        of(each.node_not_ready_seconds),
        of(each.node_gone_seconds),
    )
}

fn reclaim(spec: &FloatingIPPoolSpec) -> &'static str {
    match spec.reclaim_policy {
        Some(ReclaimPolicy::Delete) => "addresses that floe has bought are given back",
        Some(ReclaimPolicy::Retain) | None => "all addresses stay",
    }
}
