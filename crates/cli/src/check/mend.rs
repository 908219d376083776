//! Mends what can be mended without harm.

use std::net::IpAddr;

use floe_api::{
    galaxy::FloatingIP,
    labels,
    rest::v2::{Outcome, Release, ReleaseAnswer, Released},
};
use floe_core::{
    addr::name,
    audit::{Fix, Life},
    config::{AddressConfig, Mode},
    ipam::{ledger::Ledger, state::State},
};
use k8s_openapi::api::core::v1;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
};
use serde_json::json;

use super::scene::{self, Scene};
use crate::{
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    remote::{Connect, Remote},
};

/// What became of it: done, or why not.
pub type Mended = Result<(), String>;

const CHANGED: &str = "it has changed since; check again";

const GONE: &str = "its record is gone";

/// Mends one thing after the other.
pub struct Mender<'a, C> {
    cluster: &'a Cluster,
    scene: &'a Scene,
    /// Frees addresses, if somebody can be asked: the controller also takes them off
    /// nodes in the cloud, and does one thing at a time for each pod.
    remote: Option<Remote<C>>,
}

impl<'a, C: Connect> Mender<'a, C> {
    /// Mends what was found there, without a controller.
    pub fn new(cluster: &'a Cluster, scene: &'a Scene) -> Self {
        Self {
            cluster,
            scene,
            remote: None,
        }
    }

    /// Has the controller free addresses, unless there is none to ask.
    pub fn ask(
        &mut self,
        console: &mut Console,
        remote: Result<Remote<C>, Failure>,
    ) -> Result<(), Failure> {
        match remote {
            Ok(remote) => self.remote = Some(remote),
            Err(failure) => self.go_alone(console, failure)?,
        }
        Ok(())
    }

    /// Mends one thing, if all is still as it was found.
    pub async fn mend(&mut self, console: &mut Console, fix: &Fix) -> Result<Mended, Failure> {
        let (cluster, scene) = (self.cluster, self.scene);
        let (Fix::RewriteLabels(ip) | Fix::DeleteRecord(ip)) = fix;
        let found = find(&cluster.records(), &name::name(*ip)).await;
        let found = found.map_err(|error| cluster.failure(&error, Access::records("get")))?;
        let Some(raw) = found else {
            return Ok(Err(GONE.into()));
        };
        if !scene.records.contains(&scene::record(raw.clone())) {
            return Ok(Err(CHANGED.into()));
        }
        let Ok(object) = raw.clone().try_parse::<FloatingIP>() else {
            return Ok(Err("its record cannot be read".into()));
        };
        match fix {
            Fix::RewriteLabels(_) => rewrite(cluster, scene, *ip, &raw, &object).await,
            Fix::DeleteRecord(_) => match self.release(console, *ip, &object).await? {
                Some(mended) => Ok(mended),
                None => delete(cluster, &raw, &object).await,
            },
        }
    }

    /// Has the controller free an address; none if there is none to ask.
    async fn release(
        &mut self,
        console: &mut Console,
        ip: IpAddr,
        object: &FloatingIP,
    ) -> Result<Option<Mended>, Failure> {
        let Some(remote) = &mut self.remote else {
            return Ok(None);
        };
        let wanted = Release {
            ips: vec![Released {
                ip: ip.to_string(),
                key: Some(object.spec.holder().as_str().to_owned()),
            }],
            dry_run: false,
        };
        let answer = remote.post(console, "/v2/ips/release", &wanted).await;
        let answer: ReleaseAnswer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                self.go_alone(console, failure)?;
                return Ok(None);
            }
        };
        let [outcome] = answer.results.as_slice() else {
            return Err(Failure::other_answer());
        };
        let Outcome {
            reason, message, ..
        } = outcome;
        let why = || format!("{message} ({reason})");
        Ok(Some(if outcome.done { Ok(()) } else { Err(why()) }))
    }

    fn go_alone(&mut self, console: &mut Console, failure: Failure) -> Result<(), Failure> {
        if !failure.leaves_nobody_to_ask() {
            return Err(failure);
        }
        console.warn(&format!("{failure}; addresses are freed without it"));
        self.remote = None;
        Ok(())
    }
}

async fn rewrite(
    cluster: &Cluster,
    scene: &Scene,
    ip: IpAddr,
    raw: &DynamicObject,
    object: &FloatingIP,
) -> Result<Mended, Failure> {
    let text = scene.configuration.as_deref().unwrap_or("[]");
    let config = AddressConfig::parse(text, Mode::Lenient).map(|loaded| loaded.config);
    let ledger = Ledger::new(config.unwrap_or_default());
    // Without a configuration nobody knows, and the label stays as it is.
    let configured = !ledger.topology().config().entries().is_empty();
    let outside = ledger.is_taken_out_for(&object.spec.holder(), ip);
    let place = object.spec.place().attribute;
    let state = if object.is_reserved() {
        State::Reserved
    } else {
        State::of_holding(&object.spec.holder(), place.is_empty())
    };
    let node = Some(&place.node_name).filter(|node| !node.is_empty());
    let mut patch = json!({ "metadata": {
        "resourceVersion": raw.resource_version(),
        "labels": { labels::NODE: labels::node_label(&place.node_name) },
        "annotations": { labels::NODE: node, labels::STATE: state.text() },
    } });
    if configured {
        let outside = json!(outside.then_some("true"));
        patch["metadata"]["labels"][labels::OUTSIDE_CONFIGURATION] = outside;
    }
    let params = PatchParams::default();
    let (api, name) = (cluster.records(), raw.name_any());
    let patched = api.patch(&name, &params, &Patch::Merge(patch)).await;
    done(cluster, patched.map(|_| ()), "patch")
}

/// Only when a direct look shows that there is no such pod. Whoever binds one of that
/// name meanwhile changes the record first, and then the deletion is refused. What may
/// still be on a node in the cloud waits for the controller.
async fn delete(
    cluster: &Cluster,
    raw: &DynamicObject,
    object: &FloatingIP,
) -> Result<Mended, Failure> {
    let node = object.spec.place().attribute.node_name;
    if !node.is_empty() {
        let told = format!("it is bound for node {node}, so only a controller frees it");
        return Ok(Err(told));
    }
    let key = object.spec.holder();
    let Some(parts) = key.parts().filter(|parts| !parts.pod.is_empty()) else {
        return Ok(Err(CHANGED.into()));
    };
    let pods: Api<v1::Pod> = Api::namespaced(cluster.client.clone(), parts.namespace);
    let access = Access {
        verb: "get",
        resource: "pods",
        namespace: Some(parts.namespace),
    };
    let pod = pods.get_opt(parts.pod).await;
    let pod = pod.map_err(|error| cluster.failure(&error, access))?;
    let phase = pod.map(|pod| pod.status.unwrap_or_default().phase);
    if phase.is_some_and(|phase| scene::life(phase.as_deref()) != Life::Finished) {
        return Ok(Err("there is such a pod again".into()));
    }
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: raw.uid(),
        resource_version: raw.resource_version(),
    });
    let deleted = cluster.records().delete(&raw.name_any(), &params).await;
    done(cluster, deleted.map(|_| ()), "delete")
}

fn done(
    cluster: &Cluster,
    result: Result<(), kube::Error>,
    verb: &'static str,
) -> Result<Mended, Failure> {
    match result {
        Ok(()) => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Err(CHANGED.into())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(GONE.into())),
        Err(error) => Err(cluster.failure(&error, Access::records(verb))),
    }
}
