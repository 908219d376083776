//! Does what a schedule says, and undoes it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::time::timeout;

use super::draw::{Fault, Step, Target};
use super::field::{OBJECTS, pod_on};
use crate::vips::ground::{NODES_OF_PODS, make_ready, status};
use crate::vips::standstill::{Frozen, agent_process};
use crate::vips::wall_clock;

/// How long the API server may take while nothing is known to be wrong with it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is to be done for something to be well again.
#[derive(Debug)]
pub enum Undo {
    Cable(&'static str),
    CutOff(&'static str),
    Thaw(Frozen),
    Resume(&'static str),
    Power(&'static str),
    Clock(i32),
    Ready(String),
    ApiServer,
    Nothing,
}

/// A cluster in which things go wrong.
pub struct Trouble<'a> {
    namespace: &'a TestNamespace<'a>,
    /// Nodes with which something is wrong: one thing at a time.
    busy: Vec<&'static str>,
    is_headless: bool,
    /// Who had which object, as far as it was learnt.
    holders: BTreeMap<&'static str, String>,
}

impl<'a> Trouble<'a> {
    /// Nothing is wrong yet.
    pub fn new(namespace: &'a TestNamespace<'a>) -> Self {
        Self {
            namespace,
            busy: Vec::new(),
            is_headless: false,
            holders: BTreeMap::new(),
        }
    }

    /// Begins what a step says. It fails, and nothing is wrong, where that cannot be: with a
    /// pod that is not there, or when nobody can be asked for it.
    pub async fn begin(&mut self, step: &Step) -> Result<(Option<&'static str>, Undo)> {
        if step.fault == Fault::ApiServer {
            ensure!(!self.is_headless, "the API server is away already");
            self.namespace.cluster().stop_api_server().await?;
            self.is_headless = true;
            return Ok((None, Undo::ApiServer));
        }
        let object = OBJECTS[step.object].0;
        self.learn(object).await;
        let node = self.choose(step, object)?;
        let undo = self.hit(step, object, node).await;
        let undo = undo.with_context(|| format!("{:?} on {node}", step.fault))?;
        if !matches!(undo, Undo::Nothing) {
            self.busy.push(node);
        }
        Ok((Some(node), undo))
    }

    /// Ends what was begun.
    pub async fn end(&mut self, node: Option<&'static str>, undo: Undo) -> Result<()> {
        self.busy.retain(|it| Some(*it) != node);
        let cluster = self.namespace.cluster();
        match undo {
            Undo::Cable(node) => cluster.plug_cable(node).await,
            Undo::CutOff(node) => cluster.reunite_with_api_server(Some(node)).await,
            Undo::Thaw(frozen) => {
                drop(frozen);
                Ok(())
            }
            Undo::Resume(node) => cluster.resume(node).await,
            Undo::Power(node) => cluster.power_on(node).await,
            // A process that was killed for something else has a clock like all others.
            Undo::Clock(process) => {
                let _ = wall_clock::set_off(process, 0).await;
                Ok(())
            }
            // A pod that has gone meanwhile has a successor, which is ready.
            Undo::Ready(pod) => {
                let _ = make_ready(self.namespace, &pod, true);
                Ok(())
            }
            Undo::ApiServer => {
                self.is_headless = false;
                cluster.start_api_server().await
            }
            Undo::Nothing => Ok(()),
        }
    }

    /// Whom a step hits: the one that is meant, or the next with which nothing is wrong.
    fn choose(&self, step: &Step, object: &str) -> Result<&'static str> {
        let holder = self.holders.get(object);
        let holder = NODES_OF_PODS
            .iter()
            .position(|it| holder.is_some_and(|its| its == it));
        let first = match step.target {
            Target::Holder => holder.unwrap_or_default(),
            Target::Node(number) => number,
        };
        // To where it is already nothing moves.
        let first = first + usize::from(step.fault == Fault::MoveTo && holder == Some(first));
        let nodes = NODES_OF_PODS.into_iter().cycle().skip(first);
        let mut free = nodes
            .take(NODES_OF_PODS.len())
            .filter(|it| !self.busy.contains(it));
        free.next().context("something is wrong with every node")
    }

    async fn hit(&self, step: &Step, object: &str, node: &'static str) -> Result<Undo> {
        let cluster = self.namespace.cluster();
        Ok(match step.fault {
            Fault::Cable => {
                cluster.pull_cable(node).await?;
                Undo::Cable(node)
            }
            Fault::CutOff => {
                cluster.cut_off_from_api_server(Some(node)).await?;
                Undo::CutOff(node)
            }
            Fault::FrozenAgent => Undo::Thaw(Frozen::new(agent_process(cluster, node).await?)?),
            Fault::FrozenNode => {
                cluster.pause(node).await?;
                Undo::Resume(node)
            }
            Fault::KilledAgent | Fault::EndedAgent => {
                let signal = if step.fault == Fault::KilledAgent {
                    Signal::SIGKILL
                } else {
                    Signal::SIGTERM
                };
                kill(Pid::from_raw(agent_process(cluster, node).await?), signal)?;
                Undo::Nothing
            }
            Fault::Clock => {
                let process = agent_process(cluster, node).await?;
                wall_clock::set_off(process, step.seconds).await?;
                Undo::Clock(process)
            }
            Fault::Power => {
                cluster.power_off(node).await?;
                Undo::Power(node)
            }
            Fault::Unready | Fault::Deleted | Fault::MoveTo => {
                ensure!(!self.is_headless, "nobody can be asked for it");
                let asked = timeout(PATIENCE, self.ask(step.fault, object, node));
                asked.await.context("nobody answers")??
            }
            Fault::ApiServer => bail!("it is on no node"),
        })
    }

    /// What people ask the API server for.
    async fn ask(&self, fault: Fault, object: &str, node: &str) -> Result<Undo> {
        let pod = pod_on(self.namespace, object, node).await?.name_any();
        if fault == Fault::Unready {
            make_ready(self.namespace, &pod, false)?;
            return Ok(Undo::Ready(pod));
        }
        if fault == Fault::Deleted {
            let pods = self.namespace.api::<Pod>();
            pods.delete(&pod, &DeleteParams::default()).await?;
            return Ok(Undo::Nothing);
        }
        let wish = json!({ "metadata": { "annotations": { "floe.dev/move-to": pod } } });
        let vips = self.namespace.api::<VirtualIP>();
        vips.patch(object, &PatchParams::default(), &Patch::Merge(wish))
            .await?;
        Ok(Undo::Nothing)
    }

    /// Learns who has an object. While the API server is away it is who had it before.
    async fn learn(&mut self, object: &'static str) {
        if self.is_headless {
            return;
        }
        let vips = self.namespace.api::<VirtualIP>();
        if let Ok(Ok(vip)) = timeout(PATIENCE, vips.get(object)).await
            && let Some(holder) = status(&vip).holder
        {
            self.holders.insert(object, holder.node);
        }
    }
}
