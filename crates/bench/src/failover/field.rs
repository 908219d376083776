//! The ground: a cluster of three nodes with floe on it, a pod on each node, and
//! somebody outside who asks for a shared address.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use floe_api::floe::virtualip::{Holding, VirtualIP};
use floe_testbed::{
    cluster::{
        Cluster,
        namespace::{TestNamespace, is_ready},
        wait::{self, SETTLED},
    },
    floe::{self, agent},
    host::HostRef,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// The pods, and the one address that they share while moves are measured.
pub const APP: &str = "app=web";
/// The address.
pub const ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 200, 0, 230);
/// The object that has it.
pub const NAME: &str = "web";
/// How many nodes there are, with a pod each.
pub const NODES: usize = 3;

/// All pods are on the cluster's own network. The other one is only there because a
/// node has to have one.
const NETWORKS: &str = r#"{
  "NetworkConf": [{ "type": "galaxy-k8s-vlan", "device": "eth0" }],
  "DefaultNetworks": ["pods"],
  "ENIIPNetwork": "galaxy-k8s-vlan"
}"#;

/// A cluster that is ready to be measured.
pub struct Field<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The namespace of pods and objects.
    pub namespace: TestNamespace<'a>,
    /// Where packets come from.
    pub outside: HostRef,
}

impl<'a> Field<'a> {
    /// Installs floe and starts the pods. No address is shared yet.
    pub async fn prepare(cluster: &'a Cluster) -> Result<Self> {
        configure(cluster)?;
        floe::install(cluster)?;
        agent::install(cluster, NETWORKS)?;
        let namespace = TestNamespace::create(cluster, "failover").await?;
        namespace.apply(&deployment().to_string())?;
        namespace.ready_pods(APP, NODES, SETTLED).await?;
        Ok(Self {
            cluster,
            namespace,
            outside: cluster.outside().await?,
        })
    }

    /// Has the pods share the address.
    pub async fn share(&self) -> Result<()> {
        self.namespace
            .apply(&virtual_ip(NAME, &ADDRESS.to_string()).to_string())?;
        self.whole().await
    }

    /// Has them share it no more, and waits until the object is gone.
    pub async fn unshare(&self) -> Result<()> {
        let vips = self.vips();
        vips.delete(NAME, &DeleteParams::default()).await?;
        wait::until("the address is free", SETTLED, async || {
            Ok(vips.get_opt(NAME).await?.is_none().then_some(()))
        })
        .await
    }

    /// All objects of shared addresses.
    pub fn vips(&self) -> Api<VirtualIP> {
        self.namespace.api()
    }

    /// Who has the address.
    pub async fn holder(&self) -> Result<Holding> {
        let vip = self.vips().get(NAME).await?;
        let holder = vip.status.and_then(|status| status.holder);
        holder.context("nobody has the address")
    }

    /// The pod that has it.
    pub async fn holding_pod(&self) -> Result<Pod> {
        let holder = self.holder().await?;
        let pod = self.namespace.api::<Pod>().get(&holder.pod).await?;
        ensure!(
            pod.uid().as_ref() == Some(&holder.uid),
            "another pod of that name has it"
        );
        Ok(pod)
    }

    /// Asks for a move to a pod.
    pub async fn ask_for_move(&self, to: &str) -> Result<()> {
        use floe_api::floe::virtualip::MOVE_TO;
        let wish = json!({ "metadata": { "annotations": { MOVE_TO: to } } });
        let patch = Patch::Merge(&wish);
        self.vips()
            .patch(NAME, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Moves the address to a pod whose node is wanted, if it is not there.
    pub async fn place(&self, wanted: impl Fn(&str) -> bool) -> Result<()> {
        if wanted(&self.holder().await?.node) {
            return Ok(());
        }
        let pods = self.namespace.pods(APP).await?;
        let pod = pods.iter().find(|pod| wanted(&node_of(pod)));
        let pod = pod.context("no pod is on such a node")?;
        self.ask_for_move(&pod.name_any()).await?;
        wait::until("the address is where it is wanted", SETTLED, async || {
            Ok(wanted(&self.holder().await?.node).then_some(()))
        })
        .await
    }

    /// The node on which the leading controller runs.
    pub async fn leading_node(&self) -> Result<String> {
        let leader = floe::leader(self.cluster, SETTLED).await?;
        let pods: Api<Pod> = Api::namespaced(self.cluster.client().await?, floe::NAMESPACE);
        Ok(node_of(&pods.get(&leader).await?))
    }

    /// Waits until every pod could have the address, with the addresses that it has
    /// itself by now, and one of them has it.
    pub async fn whole(&self) -> Result<()> {
        let pods = self.namespace.ready_pods(APP, NODES, SETTLED).await?;
        wait::until("all pods are candidates", SETTLED, async || {
            let vip = self.vips().get(NAME).await?;
            let status = vip.status.unwrap_or_default();
            let known = |pod: &&Pod| {
                let its = status
                    .candidates
                    .iter()
                    .find(|it| Some(&it.uid) == pod.metadata.uid.as_ref());
                its.is_some_and(|it| {
                    it.addresses
                        .iter()
                        .any(|ip| Some(ip.to_string()) == pod_ip(pod))
                })
            };
            let found = pods.iter().filter(known).count();
            ensure!(found == NODES, "{found} candidates: {status:?}");
            ensure!(status.holder.is_some(), "nobody has the address");
            Ok((status.candidates.len() == NODES && status.successor.is_none()).then_some(()))
        })
        .await
    }

    /// Switches a node on again that was switched off at `since`, and waits until its
    /// pods and its agent run: what the API server has of them may be old.
    pub async fn power_on(&self, node: &str, since: Timestamp) -> Result<()> {
        self.cluster.power_on(node).await?;
        let client = self.cluster.client().await?;
        let pods: Api<Pod> = Api::all(client);
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        wait::until("the pods of the node run again", SETTLED, async || {
            let ours = |pod: &&Pod| {
                let has = |label: &str| {
                    let (key, value) = label.split_once('=').unwrap_or_default();
                    pod.labels().get(key).is_some_and(|it| it == value)
                };
                has(APP) || has(agent::AGENT)
            };
            let listed = pods.list(&on_node).await?.items;
            let ours: Vec<&Pod> = listed.iter().filter(ours).collect();
            let back = ours
                .iter()
                .filter(|pod| is_ready(pod) && started(pod).is_some_and(|it| it >= since))
                .count();
            Ok((ours.len() == 2 && back == 2).then_some(()))
        })
        .await?;
        self.cluster.wait_for_node(node, true, SETTLED).await?;
        floe::wait_until_ready(self.cluster)
    }

    /// Lets a pod answer, or not; its readiness follows within a second.
    pub async fn mute(&self, pod: &Pod, mute: bool) -> Result<()> {
        let script = format!(
            "sysctl -qw net.ipv4.icmp_echo_ignore_all={}",
            u8::from(mute)
        );
        // The process by which its network is found may just have ended.
        wait::until("the pod is told", Duration::from_secs(5), async || {
            self.cluster.pod_network(pod)?.network_script(&script)?;
            Ok(Some(()))
        })
        .await
    }
}

/// A shared address of these pods.
pub fn virtual_ip(name: &str, address: &str) -> Value {
    let (key, value) = APP.split_once('=').unwrap_or_default();
    json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": name },
        "spec": { "addresses": [address], "selector": { "matchLabels": { key: value } } },
    })
}

/// The node of a pod that runs.
pub fn node_of(pod: &Pod) -> String {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    node.unwrap_or_default()
}

/// Addresses to share on the segment of the nodes, and more of them on one that needs
/// [addresses of its own](super::crowd).
fn configure(cluster: &Cluster) -> Result<()> {
    let entry = |shared: &str, subnet: &str, gateway: &str| {
        json!({
            "nodeSubnets": ["10.200.0.0/24"], "ips": [], "shared": [shared],
            "subnet": subnet, "gateway": gateway,
        })
    };
    let entries = json!([
        entry("10.200.0.210~10.200.0.230", "10.200.0.0/24", "10.200.0.1"),
        entry("10.201.1.0~10.201.4.255", "10.201.0.0/16", "10.201.255.254"),
    ]);
    let configuration = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "floatingip-config", "namespace": floe::NAMESPACE },
        "data": { "floatingips": entries.to_string() },
    });
    cluster.apply(&configuration.to_string(), floe::NAMESPACE)
}

/// A pod on each node, which is ready as long as it answers pings.
fn deployment() -> Value {
    let (key, value) = APP.split_once('=').unwrap_or_default();
    let labels = json!({ key: value });
    let answers = "test \"$(cat /proc/sys/net/ipv4/icmp_echo_ignore_all)\" = 0";
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": NODES,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "affinity": { "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": { "matchLabels": labels },
                        }],
                    } },
                    "containers": [{
                        "name": "web", "image": "nginx:1.7.9", "imagePullPolicy": "IfNotPresent",
                        "readinessProbe": {
                            "exec": { "command": ["sh", "-c", answers] },
                            "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 5,
                        },
                    }],
                },
            },
        },
    })
}

fn pod_ip(pod: &Pod) -> Option<String> {
    pod.status.as_ref()?.pod_ip.clone()
}

/// When the container of a pod has started.
fn started(pod: &Pod) -> Option<Timestamp> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let running = containers.first()?.state.as_ref()?.running.as_ref()?;
    Some(running.started_at.as_ref()?.0)
}
