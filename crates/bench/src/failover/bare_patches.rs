//! What the API server does by itself: status patches, each bound to a version, of objects
//! that are as large as shared addresses and that nobody watches.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::{Cluster, wait};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, ResourceExt as _,
    api::{
        ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    },
};
use serde_json::{Value, json};

/// It only ends what hangs.
const LIMIT: Duration = Duration::from_mins(1);

/// Patches so many objects like this one, `at_once` of them at a time, as an agent that
/// takes addresses does. Returns how long that takes.
pub async fn measure(
    cluster: &Cluster,
    like: &VirtualIP,
    count: usize,
    at_once: usize,
) -> Result<Duration> {
    cluster.apply(&definition().to_string(), "default")?;
    let kind = GroupVersionKind::gvk("bench.floe.dev", "v1", "Bare");
    let kind = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client().await?, "default", &kind);
    wait::until("bare objects can be made", LIMIT, async || {
        Ok(api.list_metadata(&ListParams::default()).await.ok())
    })
    .await?;
    let status = json!(like.status);
    let made: Vec<DynamicObject> = stream::iter(0..count)
        .map(|number| make(&api, &kind, number, like, &status))
        .buffer_unordered(at_once)
        .try_collect()
        .await?;
    let holder = status.get("holder").context("nobody holds the address")?;
    let begun = Instant::now();
    stream::iter(&made)
        .map(|it| take(&api, it, holder))
        .buffer_unordered(at_once)
        .try_collect::<()>()
        .await?;
    Ok(begun.elapsed())
}

async fn make(
    api: &Api<DynamicObject>,
    kind: &ApiResource,
    number: usize,
    like: &VirtualIP,
    status: &Value,
) -> Result<DynamicObject> {
    let name = format!("bare-{number}");
    let object = DynamicObject::new(&name, kind).data(json!({ "spec": like.spec }));
    api.create(&PostParams::default(), &object).await?;
    let patch = json!({ "status": status });
    patched(api, &name, &patch).await
}

async fn take(api: &Api<DynamicObject>, object: &DynamicObject, holder: &Value) -> Result<()> {
    let mut holder = holder.clone();
    holder["term"] = json!(1_000_000);
    let patch = json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": { "holder": holder, "successor": null, "moves": 1_000_000 },
    });
    patched(api, &object.name_any(), &patch).await.map(drop)
}

async fn patched(api: &Api<DynamicObject>, name: &str, patch: &Value) -> Result<DynamicObject> {
    let params = PatchParams::default();
    let patched = api.patch_status(name, &params, &Patch::Merge(patch)).await;
    patched.with_context(|| format!("cannot patch {name}"))
}

fn definition() -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "bares.bench.floe.dev" },
        "spec": {
            "group": "bench.floe.dev", "scope": "Namespaced",
            "names": { "kind": "Bare", "plural": "bares", "singular": "bare" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": anything, "status": anything },
                } },
            }],
        },
    })
}
