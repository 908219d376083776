//! The ground of these tests: a cluster with floe as FLIPOP's users install it, and a cloud
//! on the host outside, anew for each test.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, anyhow, ensure};
use axum::Router;
use floe_api::flipop::pool::{FloatingIPPool, FloatingIPPoolStatus};
use floe_providers::fake::digitalocean::{FakeDigitalOcean, Script};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLockWriteGuard};

use crate::LIMIT;
use crate::cli::terminal::Terminal;
use crate::guides::administrator;
use crate::http::{get_path, pod_ip};

/// The nodes.
pub const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// The first address of the account.
pub const A: &str = "192.0.2.10";
/// The second one.
pub const B: &str = "192.0.2.20";
/// The domain of the account.
pub const ZONE: &str = "example.com";
/// What lets floe in at the cloud.
pub const TOKEN: &str = "dop_v1_2c1f9d7be04a6538";
/// The annotation of a node, as FLIPOP writes it.
pub const ANNOTATION: &str = "flipop.digitalocean.com/ipv4-reserved-ip";

/// The namespace, Deployment, Secret and label of FLIPOP.
pub const FLIPOP: &str = "flipop";
const HOME: floe::Home = floe::Home {
    namespace: FLIPOP,
    lease: "floating-ip-pool-controller-leader-election",
    pods: "app=flipop",
};
/// Where addresses and servers are.
pub const REGION: &str = "nyc3";
/// Where the cloud is: on the host outside.
pub const CLOUD: &str = "10.200.0.200:8100";

static CLUSTER: Shared = Shared::new(|| ClusterSpec::new("node-pools"));

static INSTALLED: OnceCell<()> = OnceCell::const_new();

/// All of it, with no other test beside.
pub struct Ground {
    pub cluster: RwLockWriteGuard<'static, Cluster>,
    pub cloud: FakeDigitalOcean,
    pub terminal: Terminal,
}

/// A cluster whose nodes are servers of the cloud, which has two addresses, none of them
/// used, and a domain. What it is asked for is done at once.
pub async fn ground() -> Result<Ground> {
    ground_with(|routes| routes).await
}

/// The same with something around the cloud.
pub async fn ground_with(dress: impl FnOnce(Router) -> Router) -> Result<Ground> {
    let cluster = CLUSTER.alone().await;
    let listener = cluster.outside().await?.network()?.listen(CLOUD.parse()?)?;
    let cloud = FakeDigitalOcean::start_on(listener, TOKEN, dress)?;
    furnish(&cloud)?;
    let terminal = administrator(&cluster)?;
    let ground = Ground {
        cluster,
        cloud,
        terminal,
    };
    ground.clear().await?;
    INSTALLED.get_or_try_init(async || ground.install()).await?;
    // A test before may have left it otherwise.
    ground.scale(2)?;
    let all =
        "kubectl delete floatingippools,nodednsrecordsets --all --all-namespaces --timeout=60s";
    ground.terminal.run(all)?;
    Ok(ground)
}

/// Gives a cloud what the tests begin with.
pub fn furnish(cloud: &FakeDigitalOcean) -> Result<()> {
    let region = || REGION.to_owned();
    for node in NODES {
        let id = droplet(node)?;
        tell(
            cloud,
            Script::Droplet {
                id,
                region: region(),
            },
        )?;
    }
    for ip in [A, B] {
        let ip = ip.parse()?;
        tell(
            cloud,
            Script::Address {
                ip,
                region: region(),
            },
        )?;
    }
    tell(
        cloud,
        Script::Domain {
            name: ZONE.to_owned(),
        },
    )?;
    tell(cloud, Script::Hold { hold: false })
}

/// Tells the cloud what to do.
pub fn tell(cloud: &FakeDigitalOcean, script: Script) -> Result<()> {
    cloud.script(script).map_err(|words| anyhow!(words))
}

/// The server that a node is.
pub fn droplet(node: &str) -> Result<u64> {
    let number: u64 = node.trim_start_matches("node-").parse()?;
    Ok(1000 + number)
}

impl Drop for Ground {
    /// A cluster with a node that is cordoned is not whole for the next test.
    fn drop(&mut self) {
        // A failed test has its own story.
        let _ = self.terminal.run("kubectl uncordon node-1 node-2 node-3");
    }
}

impl Ground {
    /// As the guide tells it.
    fn install(&self) -> Result<()> {
        floe::publish_controller(&self.cluster)?;
        let run = |line: &str| self.terminal.run(line);
        run("kubectl create namespace flipop")?;
        self.let_in()?;
        run("kubectl apply -f k8s/*")?;
        Ok(())
    }

    /// Writes the Secret with what lets a controller in at the cloud.
    pub fn let_in(&self) -> Result<()> {
        let line = format!(
            "kubectl -n flipop create secret generic flipop \
             --from-literal=DIGITALOCEAN_ACCESS_TOKEN={TOKEN} \
             --from-literal=DIGITALOCEAN_API_URL=http://{CLOUD} \
             --from-literal=DIGITALOCEAN_PROJECT_PER_ADDRESS=true"
        );
        self.terminal.run(&line)?;
        Ok(())
    }

    /// Whatever there is in the place of floe, everything is new.
    pub fn reinstall(&self) -> Result<()> {
        let gone = "kubectl delete -f k8s/floe.yaml --ignore-not-found --timeout=90s";
        self.terminal.run(gone)?;
        self.install()
    }

    /// Has so many controllers run, and waits until they do and no others.
    pub fn scale(&self, replicas: u8) -> Result<()> {
        let run = |line: &str| self.terminal.run(line);
        run(&format!(
            "kubectl -n flipop scale deployment flipop --replicas={replicas}"
        ))?;
        if replicas == 0 {
            run("kubectl -n flipop wait pod --for=delete --timeout=60s -l app=flipop")?;
        } else {
            run("kubectl -n flipop rollout status deployment flipop --timeout=90s")?;
        }
        Ok(())
    }

    /// Nodes are servers of the cloud, and nothing of other tests is left on them.
    async fn clear(&self) -> Result<()> {
        for node in NODES {
            self.enlist(node).await?;
            self.terminal
                .run(&format!("kubectl label node {node} pool-"))?;
        }
        Ok(())
    }

    /// Says which server a node is.
    pub async fn enlist(&self, node: &str) -> Result<()> {
        enlist(&self.cluster, node).await
    }

    /// Has a node be of a pool, or of none.
    pub fn label(&self, node: &str, pool: Option<&str>) -> Result<()> {
        let change = pool.map_or("pool-".to_owned(), |pool| format!("pool={pool}"));
        let line = format!("kubectl label --overwrite node {node} {change}");
        self.terminal.run(&line)?;
        Ok(())
    }

    /// The nodes on which the cloud has its addresses.
    pub fn places(&self) -> BTreeMap<IpAddr, Option<String>> {
        places(&self.cloud)
    }

    /// How many orders the cloud has had.
    pub fn orders(&self) -> usize {
        self.cloud.look(|state| state.actions.len())
    }

    /// Waits until the cloud has exactly these addresses on nodes.
    pub async fn placed(&self, wanted: &[(&str, &str)]) -> Result<()> {
        let wanted = wanted
            .iter()
            .map(|(ip, node)| Ok((ip.parse()?, (*node).to_owned())));
        let wanted: BTreeMap<IpAddr, String> = wanted.collect::<Result<_>>()?;
        wait::until(&format!("the cloud has {wanted:?}"), LIMIT, async || {
            let used = self.places().into_iter();
            let used: BTreeMap<_, _> = used.filter_map(|(ip, node)| Some((ip, node?))).collect();
            ensure!(used == wanted, "it has {used:?}");
            Ok(Some(()))
        })
        .await
    }

    /// Waits until a name says exactly these addresses.
    pub async fn says(&self, name: &str, wanted: &[&str]) -> Result<()> {
        let wanted: BTreeSet<String> = wanted.iter().map(|ip| (*ip).to_owned()).collect();
        wait::until(&format!("{name} says {wanted:?}"), LIMIT, async || {
            let said = said(&self.cloud, name);
            ensure!(said == wanted, "it says {said:?}");
            Ok(Some(()))
        })
        .await
    }

    /// Waits until nodes are annotated with these addresses, and no other nodes are.
    pub async fn annotated(&self, wanted: &[(&str, &str)]) -> Result<()> {
        wait::until(&format!("annotations say {wanted:?}"), LIMIT, async || {
            self.are_annotated(wanted).await.map(Some)
        })
        .await
    }

    /// Whether they are now.
    pub async fn are_annotated(&self, wanted: &[(&str, &str)]) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.cluster.client().await?);
        let wanted: BTreeMap<&str, &str> = wanted.iter().map(|(ip, node)| (*node, *ip)).collect();
        for node in NODES {
            let found = nodes.get_opt(node).await?;
            let said = found.and_then(|it| it.annotations().get(ANNOTATION).cloned());
            let wanted = wanted.get(node).copied();
            ensure!(said.as_deref() == wanted, "{node} has {said:?}");
        }
        Ok(())
    }

    /// The controller that leads.
    pub async fn leader(&self) -> Result<Pod> {
        let leader = floe::leader_after(&self.cluster, HOME, None, LIMIT).await?;
        let pods: Api<Pod> = Api::namespaced(self.cluster.client().await?, FLIPOP);
        Ok(pods.get(&leader.pod).await?)
    }

    /// Waits until the leader's metrics say all of this.
    pub async fn measured(&self, wanted: &[(String, f64)]) -> Result<()> {
        let outside = self.cluster.outside().await?;
        wait::until("the metrics say it", LIMIT, async || {
            let address = SocketAddr::new(pod_ip(&self.leader().await?)?, 8080);
            let figures = get_path(&outside, address, "/metrics")?;
            for (name, value) in wanted {
                let mut lines = figures.lines().filter_map(|line| line.rsplit_once(' '));
                let found = lines.find(|(had, _)| had == name).map(|(_, value)| value);
                let found: Option<f64> = found.and_then(|text| text.trim().parse().ok());
                ensure!(found == Some(*value), "{name} is {found:?} in\n{figures}");
            }
            Ok(Some(()))
        })
        .await
    }
}

/// Says which server a node is. A cloud's own controller does that elsewhere.
pub async fn enlist(cluster: &Cluster, node: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let id = format!("digitalocean://{}", droplet(node)?);
    let patch = Patch::Merge(json!({ "spec": { "providerID": id } }));
    nodes.patch(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The nodes on which a cloud has its addresses.
pub fn places(cloud: &FakeDigitalOcean) -> BTreeMap<IpAddr, Option<String>> {
    cloud.look(|state| {
        let addresses = state.addresses.iter();
        let node = |id: u64| format!("node-{}", id.saturating_sub(1000));
        addresses
            .map(|(ip, it)| (*ip, it.droplet.map(node)))
            .collect()
    })
}

/// The addresses that a name says.
pub fn said(cloud: &FakeDigitalOcean, name: &str) -> BTreeSet<String> {
    cloud.look(|state| {
        let records = state.domains[ZONE].iter();
        let own = records.filter(|it| it["type"] == "A" && it["name"] == name);
        own.filter_map(|it| Some(it["data"].as_str()?.to_owned()))
            .collect()
    })
}

/// A pool of both addresses for nodes that are labelled with the namespace's name.
pub fn pool(namespace: &TestNamespace<'_>) -> Value {
    json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
        "metadata": { "name": "ingress" },
        "spec": {
            "provider": "digitalocean", "region": REGION, "ips": [A, B],
            "match": { "nodeLabel": format!("pool={}", namespace.name()) },
            "dnsRecordSet": { "zone": ZONE, "recordName": "www", "ttl": 60 },
        },
    })
}

/// Waits until the status of the pool is as `wanted`.
pub async fn status(
    namespace: &TestNamespace<'_>,
    what: &str,
    wanted: impl Fn(&FloatingIPPoolStatus) -> bool,
) -> Result<FloatingIPPool> {
    let pools = namespace.api::<FloatingIPPool>();
    wait::until(&format!("the pool says: {what}"), LIMIT, async || {
        let pool = pools.get("ingress").await?;
        let status = pool.status.as_ref().context("it says nothing")?;
        ensure!(wanted(status), "it says {status:?}");
        Ok(Some(pool))
    })
    .await
}

/// Waits until the pool is ready, or is not, for this reason.
pub async fn is_ready(
    namespace: &TestNamespace<'_>,
    ready: &str,
    reason: &str,
) -> Result<FloatingIPPool> {
    let what = format!("Ready is {ready}, {reason}");
    status(namespace, &what, |status| {
        let mut conditions = status.conditions.iter();
        let found = conditions.find(|it| it.type_ == "Ready");
        found.is_some_and(|it| it.status == ready && it.reason == reason)
    })
    .await
}
