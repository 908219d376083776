//! `kubectl floe explain`.

use std::net::IpAddr;

use floe_api::rest::v2::{Explanation, Ip, IpExplanation, PodExplanation, Refusal};
use floe_core::addr::{canonical, name};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};

use crate::{
    args,
    args::Format,
    cluster::Cluster,
    console::Console,
    failure::Failure,
    fetch,
    ip::KIND,
    record,
    remote::{self, Connect, Remote, encoded},
    render::{self, age, harmless, sheet::Sheet},
    suggest,
};

mod shared;

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    args: &args::Explain,
) -> Result<(), Failure> {
    let question = Question::read(&args.what, cluster.namespace())?;
    let mut remote = remote::find(cluster, &args.api).await?;
    ask(cluster, console, &mut remote, &question, args.output.format).await
}

/// What is to be explained.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    Ip(IpAddr),
    Pod { namespace: String, name: String },
}

impl Question {
    /// What somebody typed; a pod without a namespace is in this one.
    fn read(text: &str, namespace: &str) -> Result<Self, Failure> {
        let bare = record::bare(text);
        let typed = bare.parse().ok().or_else(|| name::parse(bare).ok());
        if let Some(ip) = typed {
            return Ok(Self::Ip(canonical(ip)));
        }
        if is_meant_as_address(bare) {
            return Err(Failure::Usage(format!(
                "{text:?} is no IP address; an IPv4 address has four numbers from 0 to 255"
            )));
        }
        let (namespace, name) = match text.split_once('/') {
            // As kubectl names a pod; a namespace `pod` is named with -n.
            Some(("pod" | "pods" | "po", name)) => (namespace, name),
            // A namespace of such a name is named with -n, too.
            Some((kind, name)) if is_workload(kind) => {
                return Err(Failure::Usage(format!(
                    "{text:?} is a workload, and only an address or a pod can be explained; \
                     kubectl floe ip list -n {namespace} --app {name} lists its addresses"
                )));
            }
            Some(both) => both,
            None => (namespace, text),
        };
        let good = |part: &str| {
            let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.".contains(&c);
            !part.is_empty() && part.bytes().all(plain)
        };
        if !good(namespace) || !good(name) {
            return Err(Failure::Usage(format!(
                "{text:?} is no address, and no pod as NAME or NAMESPACE/NAME"
            )));
        }
        Ok(Self::Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The question as a part of a URL.
    fn path(&self) -> String {
        match self {
            Self::Ip(ip) => format!("/v2/explain?ip={}", encoded(&ip.to_string())),
            Self::Pod { namespace, name } => {
                let pod = format!("{namespace}/{name}");
                format!("/v2/explain?pod={}", encoded(&pod))
            }
        }
    }
}

/// Whether a text can only be a mistyped address: no pod has a name of four numbers with dots
/// in between, or one with a colon.
fn is_meant_as_address(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let parts: Vec<&str> = text.split('.').collect();
    text.contains(':') || parts.len() > 1 && parts.iter().all(|it| is_number(it))
}

/// Whether kubectl takes a word for a kind that makes pods.
fn is_workload(kind: &str) -> bool {
    let kind = kind.split('.').next().unwrap_or(kind);
    matches!(
        kind,
        "deployment"
            | "deployments"
            | "deploy"
            | "statefulset"
            | "statefulsets"
            | "sts"
            | "daemonset"
            | "daemonsets"
            | "ds"
            | "replicaset"
            | "replicasets"
            | "rs"
            | "job"
            | "jobs"
            | "cronjob"
            | "cronjobs"
            | "cj"
    )
}

async fn ask<C: Connect>(
    cluster: &Cluster,
    console: &mut Console,
    remote: &mut Remote<C>,
    question: &Question,
    format: Option<Format>,
) -> Result<(), Failure> {
    let answer = remote.get(console, &question.path()).await;
    let explanation: Explanation = match (answer, question) {
        (Err(Failure::Api { reason, .. }), Question::Pod { namespace, name })
            if reason == "NoSuchPod" =>
        {
            return Err(no_such_pod(cluster, namespace, name).await);
        }
        (answer, _) => answer?,
    };
    let text = match format {
        Some(Format::Name) => names(&explanation),
        Some(format @ (Format::Json | Format::Yaml)) => render::value(format, &explanation)?,
        Some(Format::Wide) | None => told(&explanation, Timestamp::now()),
    };
    console.print(&text)
}

/// That there is no such pod, with one that may have been meant.
async fn no_such_pod(cluster: &Cluster, namespace: &str, name: &str) -> Failure {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    // Who may not list pods gets no help, which is no failure of its own.
    let pods = fetch::all(&api, None, "pods").await.unwrap_or_default();
    let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
    let near = suggest::closest(name, names.iter().map(String::as_str));
    Failure::NoSuch {
        kind: "pod",
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        hint: near.map(|near| format!("did you mean {near:?}?")),
    }
}

/// The records of all addresses that it is about.
fn names(explanation: &Explanation) -> String {
    let one = explanation.ip.iter().map(|it| &it.address);
    let several = explanation.pod.iter().flat_map(|it| &it.addresses);
    let held = one.chain(several).filter(|it| it.key.is_some());
    let lines = held.filter_map(|it| {
        let ip: IpAddr = it.ip.parse().ok()?;
        Some(format!("{KIND}/{}\n", name::name(ip)))
    });
    lines.collect()
}

/// The explanation for people: first in words, then everything line by line.
fn told(explanation: &Explanation, now: Timestamp) -> String {
    let words: Vec<_> = explanation.summary.iter().map(|it| harmless(it)).collect();
    let parts = [
        Some(words.join("\n") + "\n"),
        explanation.ip.as_ref().map(|ip| of_ip(ip, now).text()),
        explanation.pod.as_ref().map(|pod| of_pod(pod).text()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn of_ip(explained: &IpExplanation, now: Timestamp) -> Sheet {
    let IpExplanation {
        address, reason, ..
    } = explained;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let since = address.since.as_deref().map_or_else(String::new, |since| {
        let ago = age::since(since.parse().ok(), now);
        format!("{since} ({ago} ago)")
    });
    let vlan = address.vlan.map_or_else(String::new, |it| it.to_string());
    let is_releasable = if address.releasable { "yes" } else { "no" };
    let phase = address.pod_phase.map(|phase| format!("{phase:?}"));
    let mut sheet = Sheet::default();
    for (name, value) in [
        ("Address", address.ip.clone()),
        ("State", format!("{:?}", address.state)),
        ("Reason", reason.clone()),
        ("Holder", holder(address)),
        ("Pod phase", phase.unwrap_or_default()),
        ("Node", text(&address.node)),
        ("Policy", text(&address.policy)),
        ("Since", since),
        ("Released by", text(&explained.released_by)),
        ("Releasable", is_releasable.to_owned()),
        ("Subnet", text(&address.subnet)),
        ("Gateway", text(&address.gateway)),
        ("VLAN", vlan),
        ("Node subnets", address.node_subnets.join(", ")),
    ] {
        // Most of it makes no sense for an address that nobody has.
        if !value.is_empty() {
            sheet.line(name, value);
        }
    }
    shared::add(&mut sheet, explained, now);
    sheet
}

fn of_pod(pod: &PodExplanation) -> Sheet {
    let mut sheet = Sheet::default();
    let addresses = pod.addresses.iter();
    let refusal = pod.refusal.as_ref();
    sheet
        .line("Pod", format!("{}/{}", pod.namespace, pod.name))
        .line("Node", pod.node.as_deref().unwrap_or_default())
        .line("Asks", if pod.wants_address { "yes" } else { "no" })
        .list(
            "Addresses",
            addresses.map(|it| format!("{} ({:?})", it.ip, it.state)),
        );
    if let Some(refusal) = refusal {
        sheet.line("Reason", &refusal.reason);
    }
    if let Some(rollout) = &pod.rollout {
        sheet.line(
            "Rollout",
            format!("{} ({})", rollout.message, rollout.reason),
        );
    }
    if !pod.fitting_nodes.is_empty() {
        sheet.line("Nodes that fit", pod.fitting_nodes.join(", "));
    }
    if !pod.unfit_nodes.is_empty() {
        sheet.list("Nodes that do not", pod.unfit_nodes.iter().map(unfit));
    }
    sheet
}

fn unfit(refusal: &Refusal) -> String {
    let count = refusal.nodes.unwrap_or_default();
    format!("{count}: {} ({})", refusal.message, refusal.reason)
}

/// Who has it, as lists say it.
fn holder(address: &Ip) -> String {
    let Some(holder) = &address.holder else {
        let key = address.key.clone().unwrap_or_default();
        return shared::owner(&key).unwrap_or(key);
    };
    if !holder.pod.is_empty() {
        return format!("{}/{}", holder.namespace, holder.pod);
    }
    if !holder.app.is_empty() {
        return format!("{}/{}/{}", holder.namespace, holder.app_type, holder.app);
    }
    format!("pool/{}", holder.pool)
}

#[cfg(test)]
mod tests;
