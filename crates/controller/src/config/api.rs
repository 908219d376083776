//! How people and tools are answered.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Args, ValueEnum};
use rustls::pki_types::ServerName;

use super::TlsFiles;

/// How people and tools are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSettings {
    /// Where their calls are taken.
    pub addr: SocketAddr,
    /// How callers are known.
    pub auth: Auth,
    /// Where the certificate comes from; `None`: plain HTTP.
    pub tls: Option<ApiTls>,
}

/// How callers of the API are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// By a bearer token, which the API server checks, as it does their rights
    Kubernetes,
    /// Not at all: everybody may do everything. Without certificate files also
    /// without TLS, as galaxy-ipam serves it
    None,
}

/// Where the certificate of the API comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiTls {
    /// From files of the administrator.
    Files(TlsFiles),
    /// From floe itself.
    Issued(Issued),
}

/// The certificates that floe makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The namespace of the Secret, and of the service.
    pub namespace: String,
    /// The Secret that has them.
    pub secret: String,
    /// Names and addresses beside those that are always in it.
    pub names: BTreeSet<String>,
}

/// The flags of the API.
#[derive(Debug, Args)]
#[command(next_help_heading = "Management API")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub struct ApiFlags {
    /// Port that serves galaxy's API (/v1), floe's (/v2), its documentation and
    /// /metrics
    // No variable, for the same reason as for --port.
    #[arg(long, value_name = "PORT", default_value_t = 9041)]
    api_port: u16,

    /// How callers are known
    #[arg(
        long,
        env = "FLOE_API_AUTH",
        value_name = "HOW",
        default_value = "kubernetes"
    )]
    api_auth: Auth,

    /// Certificate (PEM, with its chain) to serve the API, instead of one that
    /// floe makes; the same for all replicas. Changed files are taken up within a
    /// minute
    #[arg(
        long,
        env = "FLOE_API_TLS_CERT_FILE",
        value_name = "FILE",
        requires = "api_tls_key_file"
    )]
    api_tls_cert_file: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(
        long,
        env = "FLOE_API_TLS_KEY_FILE",
        value_name = "FILE",
        requires = "api_tls_cert_file"
    )]
    api_tls_key_file: Option<PathBuf>,

    /// Name or address that the certificate made by floe shall have too; can be
    /// given several times, or with commas
    #[arg(
        long,
        env = "FLOE_API_TLS_SAN",
        value_name = "NAME",
        value_delimiter = ',',
        action = ArgAction::Append,
        value_parser = certificate_name,
        conflicts_with = "api_tls_cert_file"
    )]
    api_tls_san: Vec<String>,

    /// Secret in which floe keeps the certificates that it makes, as NAME or as
    /// NAMESPACE/NAME [default namespace: that of the lease]
    #[arg(
        long, env = "FLOE_API_SECRET", value_name = "NAME",
        default_value = "floe-api-tls", value_parser = object_name,
    )]
    api_secret: String,
}

impl ApiFlags {
    /// The settings, with what other flags say: the address to listen on, and
    /// the namespace of the lease.
    pub fn check(self, bind: std::net::IpAddr, namespace: &str) -> ApiSettings {
        let files = self.api_tls_cert_file.zip(self.api_tls_key_file);
        let (namespace, secret) = match self.api_secret.split_once('/') {
            Some((namespace, secret)) => (namespace, secret),
            None => (namespace, self.api_secret.as_str()),
        };
        let tls = match (files, self.api_auth) {
            (Some((cert, key)), _) => Some(ApiTls::Files(TlsFiles {
                cert,
                key,
                client_ca: None,
            })),
            (None, Auth::Kubernetes) => Some(ApiTls::Issued(Issued {
                namespace: namespace.to_owned(),
                secret: secret.to_owned(),
                names: self.api_tls_san.into_iter().collect(),
            })),
            (None, Auth::None) => None,
        };
        ApiSettings {
            addr: (bind, self.api_port).into(),
            auth: self.api_auth,
            tls,
        }
    }
}

/// A host's name, perhaps with a `*` in place of its first part, or an address in its
/// usual form.
fn certificate_name(value: &str) -> Result<String, String> {
    let hint = "expected a host name or an IP address";
    let name = value.strip_prefix("*.").unwrap_or(value);
    let ServerName::IpAddress(ip) = ServerName::try_from(name).map_err(|_| hint)? else {
        // Names are the same in any case.
        return Ok(value.to_ascii_lowercase());
    };
    if name != value {
        return Err(hint.into());
    }
    Ok(std::net::IpAddr::from(ip).to_string())
}

pub(super) fn object_name(value: &str) -> Result<String, String> {
    let good = |part: &str| {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.".contains(&c);
        !part.is_empty() && part.len() <= 253 && part.bytes().all(plain)
    };
    let parts: Vec<_> = value.split('/').collect();
    if parts.len() <= 2 && parts.into_iter().all(good) {
        return Ok(value.to_owned());
    }
    Err("expected the name of a Secret, or its namespace and name with / between them".into())
}
