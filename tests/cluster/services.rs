//! What pods with float IPs can expect of kubelet probes, Services and the firewall of
//! their node: what works and what does not, as the guide has it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;
use floe_testbed::supervisor::addresses::CONTROL_PLANE;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::http::pod_ip;
use crate::moving::bridges;
use crate::witness::answers;
use crate::{segment, underlay};

/// Pods with float IPs: two on one node and one on another.
const FLOATING: [(&str, &str); 3] = [
    ("float-1", "node-1"),
    ("beside-1", "node-1"),
    ("float-2", "node-2"),
];

/// Pods of the ordinary network, which is routed and not masqueraded.
const ORDINARY: [(&str, &str); 2] = [("plain-1", "node-1"), ("plain-2", "node-2")];

/// How the nodes and the gateway of the float IPs are set.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// `net.bridge.bridge-nf-call-iptables` of the nodes.
    br_netfilter: bool,
    /// What the nodes do with what they forward.
    forward: Forward,
    /// How ordinary pods and float IPs find each other.
    between: Between,
}

#[derive(Clone, Copy, Debug)]
enum Forward {
    Accept,
    /// Policy DROP, and nothing else.
    Drop,
    /// Policy DROP, with the two rules of the guide.
    DropOthers,
}

#[derive(Clone, Copy, Debug)]
enum Between {
    /// The gateway has routes to ordinary pods.
    Routes,
    /// It has not.
    Nothing,
    /// It has not, but nodes masquerade what ordinary pods send elsewhere.
    Masquerade,
}

/// The settings, of which each is a column in the tables below.
const SETTINGS: [Setting; 7] = [
    setting(true, Forward::Accept, Between::Routes),
    setting(true, Forward::Drop, Between::Routes),
    setting(true, Forward::DropOthers, Between::Routes),
    setting(false, Forward::Accept, Between::Routes),
    setting(false, Forward::Drop, Between::Routes),
    setting(true, Forward::Accept, Between::Nothing),
    setting(true, Forward::Accept, Between::Masquerade),
];

const fn setting(br_netfilter: bool, forward: Forward, between: Between) -> Setting {
    Setting {
        br_netfilter,
        forward,
        between,
    }
}

/// Who asks whom, and in which settings there is an answer (`+`).
type Row = (&'static str, &'static str, &'static str);

/// Mode bridge. `br_netfilter` is off in the fourth and fifth column.
const BRIDGED: [Row; 16] = [
    // As the kubelet does.
    ("node-1", "pod float-1", "+++++++"),
    ("node-2", "pod float-1", "+-+++++"),
    ("outside", "pod float-1", "+-+++++"),
    ("float-1", "pod beside-1", "+-+++++"),
    ("float-1", "pod float-2", "+-+++++"),
    ("plain-1", "pod float-1", "+-++--+"),
    ("plain-1", "pod float-2", "+-++--+"),
    ("node-1", "service float-1", "+++++++"),
    ("node-2", "service float-1", "+-+++++"),
    // See the guide: the answer is rewritten too early.
    ("plain-1", "service float-1", "---+--+"),
    ("plain-1", "service float-2", "+-++--+"),
    // A bridge sends nothing back through the port that it came from.
    ("float-1", "service float-1", "-------"),
    ("float-1", "service beside-1", "+-+--++"),
    ("float-1", "service float-2", "+-+--++"),
    ("float-1", "service plain-1", "+-+--++"),
    ("float-1", "service plain-2", "+-+--++"),
];

/// A host that routes to its pods: everything passes its firewall, whatever
/// `br_netfilter` is, and answers too, so that it rewrites them back.
fn routed() -> [Row; 16] {
    BRIDGED.map(|(from, to, _)| match from {
        "node-1" => (from, to, "+++++++"),
        _ => (from, to, "+-++-++"),
    })
}

/// Pods with float IPs and ordinary ones, with a kubelet that asks whether they are
/// ready, and a Service for each.
fn manifests(network: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (name, node) in FLOATING.iter().chain(&ORDINARY) {
        let mut pod = underlay::pod_on(node, name, &json!({}));
        pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json!(network);
        let container = &mut pod["spec"]["containers"][0];
        container["readinessProbe"] =
            json!({ "httpGet": { "path": "/", "port": 80 }, "periodSeconds": 1 });
        if ORDINARY.contains(&(name, node)) {
            container["resources"] = json!({});
            pod["metadata"]["annotations"] = json!({});
        }
        all.push(pod);
        all.push(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "selector": { "app": name }, "ports": [{ "port": 80 }] },
        }));
    }
    all
}

/// Where one can ask from, and what one can ask.
struct Places {
    from: BTreeMap<String, HostRef>,
    to: BTreeMap<String, SocketAddr>,
}

impl Places {
    /// Creates all pods and waits until the kubelets say that they are ready.
    async fn prepare(namespace: &TestNamespace<'_>, network: &str) -> Result<Self> {
        for manifest in manifests(network) {
            namespace.apply(&manifest.to_string())?;
        }
        let cluster = namespace.cluster();
        let (mut from, mut to) = (BTreeMap::new(), BTreeMap::new());
        for host in ["node-1", "node-2", "outside"] {
            from.insert(host.to_owned(), cluster.host(host).await?);
        }
        for (name, _) in FLOATING.iter().chain(&ORDINARY) {
            let label = format!("app={name}");
            let pods = namespace.ready_pods(&label, 1, LIMIT).await?;
            let service = namespace.api::<Service>().get(name).await?;
            let ip = service.spec.and_then(|spec| spec.cluster_ip);
            let ip: IpAddr = ip.context("the Service has no address")?.parse()?;
            from.insert((*name).to_owned(), cluster.pod_network(&pods[0])?);
            to.insert(
                format!("pod {name}"),
                SocketAddr::new(pod_ip(&pods[0])?, 80),
            );
            to.insert(format!("service {name}"), SocketAddr::new(ip, 80));
        }
        Ok(Self { from, to })
    }

    /// Asks all questions of one column at the same time, and tells which ones went
    /// otherwise than the table has it.
    fn surprises(&self, rows: &[Row], column: usize) -> Result<Vec<String>> {
        let asked: Vec<_> = thread::scope(|scope| {
            let ask = |(from, to, expected): &Row| {
                let works = expected.as_bytes().get(column) == Some(&b'+');
                let answered = self.ask(from, to, works)?;
                let said = if answered { "answers" } else { "is silent" };
                Ok((answered != works).then(|| format!("{to} {said} when {from} asks")))
            };
            let asked: Vec<_> = rows
                .iter()
                .map(|row| scope.spawn(move || ask(row)))
                .collect();
            let asked = asked.into_iter().map(|it| it.join().ok());
            asked.collect()
        });
        let mut surprises = Vec::new();
        for answer in asked {
            let answer: Result<_> = answer.context("a thread panicked")?;
            surprises.extend(answer?);
        }
        Ok(surprises)
    }

    /// Whether there is an answer. One that is expected gets time: rules of Services
    /// follow their pods, and packets are lost on busy machines.
    fn ask(&self, from: &str, to: &str, patiently: bool) -> Result<bool> {
        /// Longer than it takes to send a lost packet again.
        const ONCE: Duration = Duration::from_millis(1500);
        let host = self.from.get(from).with_context(|| from.to_owned())?;
        let to = *self.to.get(to).with_context(|| to.to_owned())?;
        let limit = if patiently {
            Duration::from_secs(15)
        } else {
            Duration::ZERO
        };
        let deadline = Instant::now() + limit;
        let answered = host.network()?.run(|| {
            loop {
                if answers(to, ONCE).is_ok() {
                    return Ok(true);
                }
                if Instant::now() >= deadline {
                    return Ok(false);
                }
            }
        })?;
        Ok(answered)
    }
}

/// Nodes and gateway, which are as before when this is dropped.
struct Ground {
    nodes: Vec<HostRef>,
    gateway: HostRef,
}

impl Ground {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let mut nodes = Vec::new();
        for node in ["node-1", "node-2", "node-3"] {
            nodes.push(cluster.host(node).await?);
        }
        let gateway = cluster.host(CONTROL_PLANE).await?;
        Ok(Self { nodes, gateway })
    }

    fn set(&self, setting: Setting) -> Result<()> {
        self.restore()?;
        let (policy, rules) = match setting.forward {
            Forward::Accept => ("accept", ""),
            Forward::Drop => ("drop", ""),
            Forward::DropOthers => (
                "drop",
                "nft add rule inet test forward ip saddr 10.200.0.0/24 accept
                 nft add rule inet test forward ip daddr 10.200.0.0/24 accept",
            ),
        };
        let masquerade = match setting.between {
            Between::Routes | Between::Nothing => "",
            Between::Masquerade => {
                "nft 'add chain inet test post { type nat hook postrouting priority 90; }'
                 nft add rule inet test post ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade"
            }
        };
        for node in &self.nodes {
            node.network_script(&format!(
                "sysctl -qw net.bridge.bridge-nf-call-iptables={}
                 nft add table inet test
                 nft 'add chain inet test forward {{ type filter hook forward priority 0; policy {policy}; }}'
                 {rules}
                 {masquerade}",
                u8::from(setting.br_netfilter),
            ))?;
        }
        // The gateway of the testbed is a host of Kubernetes, which others' are not:
        // it must not serve Services to float IPs.
        let unknown = match setting.between {
            Between::Routes => "10.96.0.0/16",
            Between::Nothing | Between::Masquerade => "10.96.0.0/16, 10.244.0.0/16",
        };
        self.gateway.network_script(&format!(
            "nft add table inet test
             nft 'add chain inet test pre {{ type filter hook prerouting priority -300; }}'
             nft add rule inet test pre ip saddr 10.200.0.100-10.200.0.180 ip daddr '{{ {unknown} }}' drop"
        ))?;
        Ok(())
    }

    /// Whether the nodes still are as set. Agents set this one from time to time.
    fn is_set(&self, setting: Setting) -> Result<bool> {
        let wanted = u8::from(setting.br_netfilter).to_string();
        for node in &self.nodes {
            let found = node.network_script("sysctl -n net.bridge.bridge-nf-call-iptables")?;
            if found.trim() != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn restore(&self) -> Result<()> {
        const SCRIPT: &str = "sysctl -qw net.bridge.bridge-nf-call-iptables=1";
        const TABLE: &str =
            "nft list table inet test >/dev/null 2>&1 && nft delete table inet test || true";
        for node in &self.nodes {
            node.network_script(&format!("{SCRIPT}\n{TABLE}"))?;
        }
        self.gateway.network_script(TABLE)?;
        Ok(())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            eprintln!("nodes are not as before: {error:#}");
        }
    }
}

/// Asks everything in every setting, and compares with a table.
async fn compare(namespace: &TestNamespace<'_>, network: &str, rows: &[Row]) -> Result<()> {
    let places = Places::prepare(namespace, network).await?;
    let ground = Ground::of(namespace.cluster()).await?;
    let mut all = Vec::new();
    for (column, setting) in SETTINGS.into_iter().enumerate() {
        let surprises = loop {
            ground.set(setting)?;
            let surprises = places.surprises(rows, column)?;
            if ground.is_set(setting)? {
                break surprises;
            }
        };
        all.extend(surprises.iter().map(|it| format!("{setting:?}: {it}")));
    }
    ensure!(all.is_empty(), "{network}: {all:#?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn services_probes_and_firewalls_meet_bridged_pods_as_the_guide_says() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "services").await?;
    compare(&namespace, "galaxy-k8s-vlan", &BRIDGED).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn services_probes_and_firewalls_meet_routed_pods_as_the_guide_says() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "services").await?;
    bridges(&namespace).await?;
    compare(&namespace, "routed", &routed()).await
}
