//! The cluster that is asked, as the kubeconfig names it.

use std::time::Duration;

use floe_api::{
    flipop::pool::FloatingIPPool,
    floe::virtualip::VirtualIP,
    galaxy::{FloatingIP, Pool},
};
use kube::{
    Api, Client, Config, Resource,
    api::{ApiResource, DynamicObject},
    core::response::reason,
};

pub use self::causes::chain;
use self::causes::root;
use crate::{args::Connection, failure::Failure};

mod causes;
mod kubeconfig;
mod plugin;

/// The resource of records, as rights name it.
pub const RECORDS: &str = "floatingips.galaxy.k8s.io";
/// The resource of pools, as rights name it.
pub const POOLS: &str = "pools.galaxy.k8s.io";

/// The resource of shared addresses, as rights name it.
pub const VIPS: &str = "virtualips.floe.dev";

/// The resource of node pools, as rights name it.
pub const NODE_POOLS: &str = "floatingippools.flipop.digitalocean.com";

/// What forwards the port of a pod, as rights name it.
pub const PORT_FORWARD: &str = "pods/portforward";

/// The longest time to wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The cluster that is asked.
#[derive(Clone)]
pub struct Cluster {
    /// The way to its API server.
    pub client: Client,
    /// How that way was found, and who goes it.
    pub config: Config,
    /// The context that it comes from.
    pub context: String,
    /// The address of its API server.
    pub server: String,
    /// The namespace that was typed.
    pub typed_namespace: Option<String>,
    /// The namespace of the context.
    pub context_namespace: String,
}

/// A call, as rights see it.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The verb.
    pub verb: &'static str,
    /// The resource with its group.
    pub resource: &'static str,
    /// The namespace; none if it is about all.
    pub namespace: Option<&'a str>,
}

impl Access<'static> {
    /// A call about records, which have no namespace.
    pub fn records(verb: &'static str) -> Self {
        Self {
            verb,
            resource: RECORDS,
            namespace: None,
        }
    }
}

impl<'a> Access<'a> {
    /// A call about pools of one namespace, or of all.
    pub fn pools(verb: &'static str, namespace: Option<&'a str>) -> Self {
        Self {
            verb,
            resource: POOLS,
            namespace,
        }
    }

    /// A call about shared addresses of one namespace, or of all.
    pub fn vips(verb: &'static str, namespace: Option<&'a str>) -> Self {
        Self {
            verb,
            resource: VIPS,
            namespace,
        }
    }

    /// A call about node pools of one namespace, or of all.
    pub fn node_pools(verb: &'static str, namespace: Option<&'a str>) -> Self {
        Self {
            verb,
            resource: NODE_POOLS,
            namespace,
        }
    }
}

impl Cluster {
    /// Finds the cluster; does not connect yet. A `watch` may wait for news for ever.
    pub async fn find(connection: &Connection, is_watch: bool) -> Result<Self, Failure> {
        let (mut config, context) = kubeconfig::configuration(connection).await?;
        // Who watches for long needs a new token now and then, which the client gets.
        if !is_watch {
            plugin::settle(&mut config.auth_info)?;
        }
        let patience = Some(connection.request_timeout).filter(|time| !time.is_zero());
        config.connect_timeout = Some(patience.map_or(CONNECT, |time| time.min(CONNECT)));
        config.write_timeout = patience;
        config.read_timeout = patience.filter(|_| !is_watch);
        config.reset_reader_on_write = true;
        let server = config.cluster_url.to_string();
        let context_namespace = config.default_namespace.clone();
        let client =
            Client::try_from(config.clone()).map_err(|error| Failure::Kubeconfig(chain(&error)))?;
        Ok(Self {
            client,
            config,
            context,
            server,
            typed_namespace: connection.namespace.clone(),
            context_namespace,
        })
    }

    /// The namespace that a command is about.
    pub fn namespace(&self) -> &str {
        let typed = self.typed_namespace.as_deref();
        typed.unwrap_or(&self.context_namespace)
    }

    /// The records, with all that they have.
    pub fn records(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource::<FloatingIP>())
    }

    /// The pools of one namespace, or of all, with all that they have.
    pub fn pools(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let client = self.client.clone();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource::<Pool>()),
            None => Api::all_with(client, &resource::<Pool>()),
        }
    }

    /// The shared addresses of one namespace, or of all, with all that they have.
    pub fn vips(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let client = self.client.clone();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource::<VirtualIP>()),
            None => Api::all_with(client, &resource::<VirtualIP>()),
        }
    }

    /// The node pools of one namespace, or of all, with all that they have.
    pub fn node_pools(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let client = self.client.clone();
        let resource = resource::<FloatingIPPool>();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    /// What it means that a call failed. That an object is not there is for the caller
    /// to tell: it knows what was looked for.
    pub fn failure(&self, error: &kube::Error, access: Access<'_>) -> Failure {
        let Access { verb, resource, .. } = access;
        let refused = |told| Failure::Refused {
            verb,
            resource,
            told,
        };
        let kube::Error::Api(status) = error else {
            return self.broken(error).unwrap_or_else(|| refused(chain(error)));
        };
        match status.code {
            401 => Failure::Unauthorized {
                context: self.context.clone(),
            },
            403 if is_admission(&status.message) => refused(status.message.clone()),
            403 => Failure::Forbidden {
                verb,
                resource,
                namespace: access.namespace.map(str::to_owned),
            },
            // A server that knows the resource says which object it lacks.
            404 if is_undefined(error)
                && matches!(resource, RECORDS | POOLS | VIPS | NODE_POOLS) =>
            {
                Failure::Undefined { resource }
            }
            _ => refused(status.message.clone()),
        }
    }

    /// What it means that no answer came; none if one came and makes no sense.
    fn broken(&self, error: &kube::Error) -> Option<Failure> {
        if let kube::Error::Auth(error) = error {
            return Some(Failure::Kubeconfig(chain(error)));
        }
        let is_connection = matches!(
            error,
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_)
        );
        is_connection.then(|| Failure::Unreachable {
            context: self.context.clone(),
            server: self.server.clone(),
            told: root(error),
        })
    }
}

/// An object, or none when there is none of that name.
pub async fn find(
    api: &Api<DynamicObject>,
    name: &str,
) -> Result<Option<DynamicObject>, kube::Error> {
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an object that was asked for is not there.
pub fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404) && !is_undefined(error)
}

/// Whether the server does not know what kind of object was asked for: it then speaks
/// plain text, or knows the group but not the resource.
fn is_undefined(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    status.code == 404
        && (status.reason != reason::NOT_FOUND
            || status.message == "the server could not find the requested resource")
}

/// Compat: a refusal of an admission plugin is a 403, too, but no right would help.
fn is_admission(message: &str) -> bool {
    message.contains("admission") || message.contains("is being terminated")
}

fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

#[cfg(test)]
mod tests;
