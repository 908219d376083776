//! `kubectl floe pool set`.

use floe_api::galaxy;
use floe_core::ipam::key::PoolName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Map, Value, json};

use super::{KIND, Pool};
use crate::{
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
};

/// What to set; what is not given stays as it is.
pub struct Wish {
    /// The limit.
    pub size: Option<i64>,
    /// Whether addresses are taken ahead of pods.
    pub preallocate: Option<bool>,
    /// Whether the server only checks it.
    pub dry_run: bool,
}

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    namespace: &str,
    name: &str,
    wish: &Wish,
) -> Result<(), Failure> {
    PoolName::new(name).map_err(|error| Failure::Usage(error.to_string()))?;
    let access = Access::pools("get", Some(namespace));
    let found = find(&cluster.pools(Some(namespace)), name).await;
    let found = found.map_err(|error| cluster.failure(&error, access))?;
    let done = match found.map(Pool::read).transpose()? {
        None => create(cluster, namespace, name, wish).await?,
        Some(pool) => change(cluster, namespace, name, &pool.object, wish).await?,
    };
    let suffix = if wish.dry_run {
        " (server dry run)"
    } else {
        ""
    };
    console.done(&format!("{KIND}/{name} {done}{suffix}"))
}

async fn create(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    wish: &Wish,
) -> Result<&'static str, Failure> {
    let Some(size) = wish.size else {
        let told = format!(
            "there is no pool {name:?} in namespace {namespace} yet: a new one needs --size"
        );
        return Err(Failure::Usage(told));
    };
    let pool = galaxy::Pool {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        size,
        pre_allocate_ip: wish.preallocate.unwrap_or_default(),
    };
    let params = PostParams {
        dry_run: wish.dry_run,
        ..PostParams::default()
    };
    let api: Api<galaxy::Pool> = Api::namespaced(cluster.client.clone(), namespace);
    match api.create(&params, &pool).await {
        Ok(_) => Ok("created"),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            Err(Failure::Conflict(format!("pool {name:?}")))
        }
        Err(error) => Err(cluster.failure(&error, Access::pools("create", Some(namespace)))),
    }
}

async fn change(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    pool: &galaxy::Pool,
    wish: &Wish,
) -> Result<&'static str, Failure> {
    let mut patch = Map::new();
    if let Some(size) = wish.size.filter(|&size| size != pool.size) {
        patch.insert("size".into(), json!(size));
    }
    if let Some(ahead) = wish
        .preallocate
        .filter(|&ahead| ahead != pool.pre_allocate_ip)
    {
        patch.insert("preAllocateIP".into(), json!(ahead));
    }
    if patch.is_empty() {
        return Ok("unchanged");
    }
    let params = PatchParams {
        dry_run: wish.dry_run,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(Value::Object(patch));
    let patched = cluster
        .pools(Some(namespace))
        .patch(name, &params, &patch)
        .await;
    patched.map_err(|error| cluster.failure(&error, Access::pools("patch", Some(namespace))))?;
    Ok("configured")
}
