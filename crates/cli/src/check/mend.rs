//! Mends what can be mended without harm.

use std::net::IpAddr;

use floe_api::{galaxy::FloatingIP, labels};
use floe_core::{
    addr::name,
    audit::{Fix, Life},
    config::{AddressConfig, Mode, Topology},
    ipam::state::State,
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
    failure::Failure,
};

/// What became of it: done, or why not.
type Outcome = Result<(), &'static str>;

const CHANGED: &str = "it has changed since; check again";

/// Mends one thing, if all is still as it was found.
pub async fn mend(cluster: &Cluster, scene: &Scene, fix: &Fix) -> Result<Outcome, Failure> {
    let (Fix::RewriteLabels(ip) | Fix::DeleteRecord(ip)) = fix;
    let found = find(&cluster.records(), &name::name(*ip)).await;
    let found = found.map_err(|error| cluster.failure(&error, Access::records("get")))?;
    let Some(raw) = found else {
        return Ok(Err("its record is gone"));
    };
    if !scene.records.contains(&scene::record(raw.clone())) {
        return Ok(Err(CHANGED));
    }
    let Ok(object) = raw.clone().try_parse::<FloatingIP>() else {
        return Ok(Err("its record cannot be read"));
    };
    match fix {
        Fix::RewriteLabels(_) => rewrite(cluster, scene, *ip, &raw, &object).await,
        Fix::DeleteRecord(_) => delete(cluster, &raw, &object).await,
    }
}

async fn rewrite(
    cluster: &Cluster,
    scene: &Scene,
    ip: IpAddr,
    raw: &DynamicObject,
    object: &FloatingIP,
) -> Result<Outcome, Failure> {
    let text = scene.configuration.as_deref().unwrap_or("[]");
    let config = AddressConfig::parse(text, Mode::Lenient).map(|loaded| loaded.config);
    let topology = Topology::new(config.unwrap_or_default());
    // Without a configuration every address is outside, which says nothing.
    let configured = !topology.config().entries().is_empty();
    let outside = configured && topology.entry_of(ip).is_none();
    let place = object.spec.place().attribute;
    let state = if object.is_reserved() {
        State::Reserved
    } else {
        State::of_holding(&object.spec.holder(), place.is_empty())
    };
    let node = Some(&place.node_name).filter(|node| !node.is_empty());
    let patch = json!({ "metadata": {
        "resourceVersion": raw.resource_version(),
        "labels": {
            labels::OUTSIDE_CONFIGURATION: outside.then_some("true"),
            labels::NODE: labels::node_label(&place.node_name),
        },
        "annotations": { labels::NODE: node, labels::STATE: state.text() },
    } });
    let params = PatchParams::default();
    let (api, name) = (cluster.records(), raw.name_any());
    let patched = api.patch(&name, &params, &Patch::Merge(patch)).await;
    done(cluster, patched.map(|_| ()), "patch")
}

/// Only when a direct look shows that there is no such pod. Whoever binds one of that
/// name meanwhile changes the record first, and then the deletion is refused.
async fn delete(
    cluster: &Cluster,
    raw: &DynamicObject,
    object: &FloatingIP,
) -> Result<Outcome, Failure> {
    let key = object.spec.holder();
    let Some(parts) = key.parts().filter(|parts| !parts.pod.is_empty()) else {
        return Ok(Err(CHANGED));
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
        return Ok(Err("there is such a pod again"));
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
) -> Result<Outcome, Failure> {
    match result {
        Ok(()) => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Err(CHANGED)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err("its record is gone")),
        Err(error) => Err(cluster.failure(&error, Access::records(verb))),
    }
}
