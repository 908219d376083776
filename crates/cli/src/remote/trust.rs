//! By what the controller is known: the authority that floe has made for itself.

use std::{fs, io, path::Path, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::Stream;
use crate::{
    args::ApiAccess,
    cluster::{Access, Cluster, is_missing},
    failure::Failure,
};

/// The `ConfigMap` in which the controller shows its authority, and the member.
const SHOWN: (&str, &str) = ("floe-api-ca", "ca.crt");

/// The service whose name every certificate of floe has.
const SERVICE: &str = "galaxy-ipam";

/// Whom to trust, and under which name.
pub struct Trust {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Whether the user has named whom to trust, so that TLS must be.
    is_named: bool,
}

/// Why there is no TLS.
pub enum Unsecured {
    /// The other side speaks something else.
    NoTls,
    /// The other side is not who it should be.
    Untrusted(String),
    /// The connection broke.
    Broken(io::Error),
}

impl Trust {
    /// Reads whom to trust.
    pub async fn read(cluster: &Cluster, access: &ApiAccess) -> Result<Self, Failure> {
        let namespace = &access.floe_namespace;
        let name = access.api_server_name.clone();
        let name = name.unwrap_or_else(|| format!("{SERVICE}.{namespace}.svc"));
        let pem = match &access.api_ca_file {
            Some(file) => named(file)?,
            None => shown(cluster, namespace).await?.into_bytes(),
        };
        let is_named = access.api_ca_file.is_some() || access.api_server_name.is_some();
        Ok(Self {
            is_named,
            ..Self::of(&pem, &name)?
        })
    }

    /// Trusts these authorities. Without any, nobody is trusted.
    pub fn of(pem: &[u8], name: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::ApiUntrusted(format!("{what} cannot be used"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| wrong("its authority"))?;
            let added = roots.add(certificate);
            added.map_err(|_| wrong("its authority"))?;
        }
        let name = ServerName::try_from(name.to_owned());
        let name = name.map_err(|_| wrong("the name --api-server-name or --floe-namespace"))?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
            name,
            is_named: false,
        })
    }

    /// The name under which the controller is asked.
    pub fn host(&self) -> String {
        self.name.to_str().into_owned()
    }

    /// TLS with a controller, which is who it should be.
    pub async fn secure<S: Stream>(&self, stream: S) -> Result<TlsStream<S>, Unsecured> {
        let connector = TlsConnector::from(self.config.clone());
        let secured = connector.connect(self.name.clone(), stream).await;
        secured.map_err(|error| {
            let inner = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
            match inner {
                Some(Error::InvalidMessage(_)) if self.is_named => {
                    Unsecured::Untrusted("it does not speak TLS".into())
                }
                Some(Error::InvalidMessage(_)) => Unsecured::NoTls,
                Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                    Unsecured::Untrusted("its certificate is from another authority".into())
                }
                Some(error @ Error::InvalidCertificate(_)) => {
                    Unsecured::Untrusted(error.to_string())
                }
                _ => Unsecured::Broken(error),
            }
        })
    }
}

/// The authorities that the user names; a file without any was hardly meant.
fn named(file: &Path) -> Result<Vec<u8>, Failure> {
    let pem = fs::read(file).map_err(|source| Failure::Io {
        what: format!("cannot read {}", file.display()),
        source,
    })?;
    if CertificateDer::pem_slice_iter(&pem).next().is_none() {
        let told = format!("{} has no certificate in PEM", file.display());
        return Err(Failure::Usage(told));
    }
    Ok(pem)
}

/// The authority that the controller shows; nothing if it shows none.
async fn shown(cluster: &Cluster, namespace: &str) -> Result<String, Failure> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let map = match api.get(SHOWN.0).await {
        Ok(map) => map,
        // It may serve without TLS; if not, nobody is trusted.
        Err(error) if is_missing(&error) => return Ok(String::new()),
        Err(error) => {
            let access = Access {
                verb: "get",
                resource: "configmaps",
                namespace: Some(namespace),
            };
            return Err(cluster.failure(&error, access));
        }
    };
    let mut data = map.data.unwrap_or_default();
    Ok(data.remove(SHOWN.1).unwrap_or_default())
}

#[cfg(test)]
mod tests;
