//! The kernel of this host, and the runtime, which knows the namespaces of pods.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use floe_core::vip::{Candidate, Mode, VipId, keeper::Role};
use tokio::{task::spawn_blocking, time::timeout};
use tracing::warn;

use super::{
    Findings, Plane, PlaneError, Renewal,
    host::{Host, Pod},
};
use crate::{cri::Cri, vips::plan::Order};

/// How long the runtime may take: whatever is to end waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Serves in the kernel of this host.
pub struct Kernel {
    cri: Cri,
    /// The namespaces of pods that have addresses themselves, by uid.
    spaces: BTreeMap<String, PathBuf>,
    /// Away while it works.
    host: Option<Box<Host>>,
    renewal: Renewal,
    order: Option<Arc<Order>>,
}

impl Kernel {
    /// Has done nothing yet.
    pub fn new(cri: Cri) -> Self {
        Self {
            cri,
            spaces: BTreeMap::new(),
            host: None,
            renewal: Renewal::default(),
            order: None,
        }
    }

    async fn work<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Host) -> Result<T, PlaneError> + Send + 'static,
    ) -> Result<T, PlaneError> {
        let host = self.host.take();
        let mut host = host.unwrap_or_else(|| Box::new(Host::new(self.renewal.clone())));
        let done = spawn_blocking(move || {
            let outcome = work(&mut host);
            (host, outcome)
        });
        match done.await {
            Ok((host, outcome)) => {
                self.host = Some(host);
                outcome
            }
            // A panic goes on in whoever waits for the work.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// The pods of an order that have addresses themselves, as far as they are found.
    async fn pods(&mut self, order: &Order) -> Vec<Pod> {
        let direct = order.serving.roles.iter().filter_map(|(id, served)| {
            let pod = match &served.role {
                Role::Holder(pod) | Role::Prepared(pod) => pod,
                Role::HandedTo(_) | Role::Away(_) => return None,
            };
            (pod.mode == Mode::Direct).then_some((id, pod, &served.addresses))
        });
        let direct: Vec<_> = direct.collect();
        self.spaces
            .retain(|uid, _| direct.iter().any(|(_, pod, _)| pod.uid == *uid));
        let mut pods = Vec::new();
        for (id, pod, addresses) in direct {
            if let Some(netns) = self.space(id, pod).await {
                pods.push(Pod {
                    uid: pod.uid.clone(),
                    netns,
                    own: pod.addresses.clone(),
                    addresses: addresses.clone(),
                });
            }
        }
        pods
    }

    async fn space(&mut self, id: &VipId, pod: &Candidate) -> Option<PathBuf> {
        if let Some(netns) = self.spaces.get(&pod.uid) {
            return Some(netns.clone());
        }
        let ask = async {
            let sandboxes = self.cri.sandboxes().await?;
            // The image of a static pod has another uid than the runtime knows.
            let is_its = |namespace: &str, name: &str| namespace == id.namespace && name == pod.pod;
            let mut its = sandboxes
                .iter()
                .filter(|it| it.is_alive && is_its(&it.pod.namespace, &it.pod.name));
            let Some(sandbox) = its.next() else {
                return Ok(None);
            };
            self.cri.netns(&sandbox.id).await
        };
        let found = match timeout(PATIENCE, ask).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let reason = error.reason();
                warn!(reason, pod = pod.pod, %error, "namespace of a pod is not known");
                None
            }
            Err(_) => {
                let reason = "RuntimeSilent";
                warn!(reason, pod = pod.pod, "namespace of a pod is not known");
                None
            }
        };
        if let Some(netns) = &found {
            self.spaces.insert(pod.uid.clone(), netns.clone());
        }
        found
    }
}

impl Plane for Kernel {
    async fn serve(&mut self, order: Arc<Order>) -> Result<Findings, PlaneError> {
        let pods = self.pods(&order).await;
        self.order = Some(Arc::clone(&order));
        self.work(move |host| host.serve(&order, &pods)).await
    }

    fn renewal(&self) -> Option<Renewal> {
        Some(self.renewal.clone())
    }

    async fn conclude(&mut self) {
        let done = self.work(|host| {
            host.end_late_ones();
            Ok(())
        });
        // It says itself what went wrong, and tries again.
        let _: Result<(), PlaneError> = done.await;
    }

    async fn settle(&mut self) -> Result<(), PlaneError> {
        self.work(Host::note).await
    }

    async fn check(&mut self) -> Result<Findings, PlaneError> {
        let Some(order) = self.order.clone() else {
            return Ok(Findings::new());
        };
        // A pod's namespace may have been made anew.
        let broken = self.host.as_ref().map(|host| host.lost());
        for uid in broken.unwrap_or_default() {
            self.spaces.remove(&uid);
        }
        let pods = self.pods(&order).await;
        self.work(move |host| host.check(&order, &pods)).await
    }
}
