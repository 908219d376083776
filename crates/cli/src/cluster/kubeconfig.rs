//! The way to a cluster, as the kubeconfig or the pod around has it.

use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::causes::chain;
use crate::{args::Connection, failure::Failure, suggest};

/// The configuration of a client, and the name of the context that it comes from.
pub async fn configuration(connection: &Connection) -> Result<(Config, String), Failure> {
    let read = match &connection.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let names_one = connection.kubeconfig.is_some()
        || connection.context.is_some()
        || connection.cluster.is_some()
        || connection.user.is_some();
    let kubeconfig = match read {
        Ok(kubeconfig) => kubeconfig,
        // In a pod there is a service account instead.
        Err(error) => {
            return match Config::incluster() {
                Ok(config) if !names_one => Ok((config, "in-cluster".into())),
                _ => Err(Failure::Kubeconfig(chain(&error))),
            };
        }
    };
    let options = KubeConfigOptions {
        context: connection.context.clone(),
        cluster: connection.cluster.clone(),
        user: connection.user.clone(),
    };
    let context = options
        .context
        .clone()
        .or(kubeconfig.current_context.clone());
    if let Some(name) = &options.context {
        known(name, &kubeconfig)?;
    }
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.map_err(|error| Failure::Kubeconfig(chain(&error)))?;
    Ok((config, context.unwrap_or_default()))
}

/// Makes sure that there is such a context.
fn known(name: &str, kubeconfig: &Kubeconfig) -> Result<(), Failure> {
    let contexts = kubeconfig.contexts.iter();
    let contexts: Vec<_> = contexts.map(|it| it.name.as_str()).collect();
    if contexts.contains(&name) {
        return Ok(());
    }
    let near = suggest::closest(name, contexts);
    Err(Failure::NoSuch {
        kind: "context",
        name: name.to_owned(),
        namespace: None,
        hint: Some(near.map_or_else(
            || "kubectl config get-contexts lists them".into(),
            |near| format!("did you mean {near:?}?"),
        )),
    })
}
