//! What goes on while floe is replaced: pods are asked, others come and go, and people apply
//! new ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::task;

use crate::LIMIT;
use crate::holdings::{POLICY, addresses, records};
use crate::racks;
use crate::underlay::answers;
use crate::witness;

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(20);

/// How long an answer may take on a machine that is busy with everything else; who does not
/// answer at all is found out, too.
const PATIENCE: Duration = Duration::from_secs(5);

/// Hosts outside that ask each of some pods over and over.
pub struct Visitors {
    leave: Arc<AtomicBool>,
    asking: Vec<JoinHandle<Result<usize>>>,
}

impl Visitors {
    /// Begins to ask pods by their addresses, with a new connection each time.
    pub async fn begin(cluster: &Cluster, pods: &BTreeMap<String, String>) -> Result<Self> {
        let leave = Arc::new(AtomicBool::new(false));
        let mut asking = Vec::new();
        for (pod, ip) in pods {
            let network = cluster.outside().await?.network()?;
            let (leave, pod) = (Arc::clone(&leave), pod.clone());
            let to = SocketAddr::new(ip.parse()?, 80);
            asking.push(thread::spawn(move || {
                let mut answered = 0;
                let all = network.run(|| Ok(ask(&leave, &pod, to, &mut answered)))?;
                all.with_context(|| format!("{pod}, after {answered} answers"))?;
                Ok(answered)
            }));
        }
        Ok(Self { leave, asking })
    }

    /// Ends, and tells how often who was asked least has answered. An error if somebody once
    /// did not, or somebody else did.
    pub fn end(self) -> Result<usize> {
        self.leave.store(true, Ordering::Relaxed);
        let mut least = usize::MAX;
        for asking in self.asking {
            let answered = asking.join().ok().context("a visitor panicked")??;
            least = least.min(answered);
        }
        Ok(least)
    }
}

fn ask(leave: &AtomicBool, pod: &str, to: SocketAddr, answered: &mut usize) -> Result<()> {
    let expected = format!("pod={pod} server={} ", to.ip());
    while !leave.load(Ordering::Relaxed) {
        let answer = witness::answers(to, PATIENCE)?;
        ensure!(answer.contains(&expected), "{answer} lacks {expected}");
        *answered += 1;
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Somebody who applies pods that want addresses, one after the other, without having them
/// stored: each of them is asked about by the API server.
pub struct Author {
    leave: Arc<AtomicBool>,
    writing: task::JoinHandle<(usize, Vec<String>)>,
}

impl Author {
    /// Begins to write.
    pub fn begin(namespace: &TestNamespace<'_>) -> Result<Self> {
        let pods: Api<Pod> = namespace.api();
        let pod: Pod = serde_json::from_value(racks::pod("draft", &json!({})))?;
        let leave = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&leave);
        let writing = task::spawn(async move {
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let (mut taken, mut refused) = (0, Vec::new());
            while !told.load(Ordering::Relaxed) {
                match pods.create(&params, &pod).await {
                    Ok(_) => taken += 1,
                    Err(error) => refused.push(error.to_string()),
                }
                tokio::time::sleep(PAUSE).await;
            }
            (taken, refused)
        });
        Ok(Self { leave, writing })
    }

    /// Ends, and tells how often a pod was taken. An error if one was once refused.
    pub async fn end(self) -> Result<usize> {
        self.leave.store(true, Ordering::Relaxed);
        let (taken, refused) = self.writing.await?;
        ensure!(
            refused.is_empty(),
            "{} of {} pods were refused: {}",
            refused.len(),
            refused.len() + taken,
            refused[0]
        );
        Ok(taken)
    }
}

/// A Deployment that is never left in peace.
pub struct Busy<'a> {
    namespace: &'a TestNamespace<'a>,
    version: usize,
}

const NAME: &str = "busy";

impl<'a> Busy<'a> {
    /// Two pods that keep their addresses.
    pub async fn start(namespace: &'a TestNamespace<'_>) -> Result<Self> {
        let workload = racks::workload("Deployment", NAME, 2, &json!({ POLICY: "immutable" }));
        namespace.apply(&workload.to_string())?;
        addresses(namespace, "app=busy", 2).await?;
        Ok(Self {
            namespace,
            version: 1,
        })
    }

    /// More pods, a new version of them, and fewer pods, each to its end.
    pub fn stir(&mut self) -> Result<()> {
        self.change(&json!({ "replicas": 4 }))?;
        self.version += 1;
        let label = json!({ "version": self.version.to_string() });
        self.change(&json!({ "template": { "metadata": { "labels": label } } }))?;
        self.change(&json!({ "replicas": 2 }))
    }

    /// In the end it has as many pods as it wants, of the last version, each of them with its own
    /// address and no address besides, and they answer.
    pub async fn is_well(&self) -> Result<()> {
        let version = format!("app=busy,version={}", self.version);
        let pods = addresses(self.namespace, &version, 2).await?;
        let cluster = self.namespace.cluster();
        let key = format!("_{}_{NAME}_", self.namespace.name());
        wait::until("it has these addresses alone", LIMIT, async || {
            let held = records(cluster, &key).await?;
            ensure!(
                held.keys()
                    .eq(pods.values().collect::<std::collections::BTreeSet<_>>()),
                "{pods:?} have {held:?}"
            );
            Ok(Some(()))
        })
        .await?;
        let outside = cluster.outside().await?;
        for (pod, ip) in &pods {
            answers(&outside, pod, ip)?;
        }
        Ok(())
    }

    fn change(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        let deployment = format!("deployment/{NAME}");
        self.namespace
            .kubectl(&["patch", &deployment, "--patch", &patch])?;
        let waiting = ["rollout", "status", &deployment, "--timeout=90s"];
        self.namespace.kubectl(&waiting)?;
        Ok(())
    }
}
