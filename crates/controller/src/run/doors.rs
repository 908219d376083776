//! Where this process is reached: its listeners, and TLS from files.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::{TcpListener, lookup_host};

use super::Error;
use crate::{
    config::{ApiTls, Auth, Config, HealthAddress, Issued, WebhookSettings},
    extender::callers::TokenFile,
    transport::tls::Reloader,
};

/// All listeners.
pub struct Doors {
    /// Of health, readiness, version and metrics, unless they are disabled.
    pub health: Option<TcpListener>,
    /// What only those need who look after addresses of pods; with `--float-ips=false` none of
    /// these ports is open.
    pub float_ips: Option<FloatIpDoors>,
}

/// The listeners of what looks after addresses of pods.
pub struct FloatIpDoors {
    /// Of the management API.
    pub api: ApiDoor,
    /// Of the scheduler extender.
    pub extender: TcpListener,
    /// TLS for the extender.
    pub tls: Option<Reloader>,
    /// The token of the extender's callers, where they need one.
    pub token: Option<TokenFile>,
    /// Of the admission webhook.
    pub webhook: Option<WebhookDoor>,
}

/// Where the API server is answered that asks about objects.
pub struct WebhookDoor {
    /// Where its questions come in.
    pub listener: TcpListener,
    /// How it is answered.
    pub settings: WebhookSettings,
}

/// Where people and tools are answered.
pub struct ApiDoor {
    /// Where calls come in.
    pub listener: TcpListener,
    /// How callers are known.
    pub auth: Auth,
    /// The certificate; `None`: plain HTTP.
    pub tls: Option<ApiCertificate>,
}

/// The certificate of the API.
pub enum ApiCertificate {
    /// From files.
    Files(Reloader),
    /// Made by floe.
    Issued(Issued),
}

impl Doors {
    /// Listens everywhere, and reads the files for TLS.
    pub async fn open(config: &Config) -> Result<Self, Error> {
        let float_ips = if config.float_ips {
            Some(FloatIpDoors::open(config).await?)
        } else {
            None
        };
        Ok(Self {
            health: listen_for_health(&config.health_addr).await?,
            float_ips,
        })
    }
}

impl FloatIpDoors {
    async fn open(config: &Config) -> Result<Self, Error> {
        let tls = match config.extender.tls.clone() {
            Some(files) => {
                let read = Reloader::new(files, "extender").await;
                Some(read.map_err(Error::ExtenderTls)?)
            }
            None => None,
        };
        let token = match config.extender.token_file.clone() {
            Some(path) => Some(TokenFile::new(path).await.map_err(Error::ExtenderToken)?),
            None => None,
        };
        let issued = match config.api.tls.clone() {
            Some(ApiTls::Files(files)) => {
                let read = Reloader::new(files, "api").await;
                Some(ApiCertificate::Files(read.map_err(Error::ApiTls)?))
            }
            Some(ApiTls::Issued(issued)) => Some(ApiCertificate::Issued(issued)),
            None => None,
        };
        Ok(Self {
            api: ApiDoor {
                listener: listen(config.api.addr, "--bind, --api-port").await?,
                auth: config.api.auth,
                tls: issued,
            },
            extender: listen(config.extender.addr, "--bind, --port").await?,
            tls,
            token,
            webhook: Self::webhook(config).await?,
        })
    }

    async fn webhook(config: &Config) -> Result<Option<WebhookDoor>, Error> {
        let Some(settings) = config.webhook.clone() else {
            return Ok(None);
        };
        Ok(Some(WebhookDoor {
            listener: listen(settings.addr, "--bind, --webhook-port").await?,
            settings,
        }))
    }
}

async fn listen_for_health(addr: &HealthAddress) -> Result<Option<TcpListener>, Error> {
    const FLAG: &str = "--health-addr, --metrics-bind-addr";
    let addr = match addr {
        HealthAddress::Disabled => return Ok(None),
        HealthAddress::At(addr) => *addr,
        HealthAddress::Named { host, port } => {
            let unknown = |source| Error::Resolve {
                host: host.clone(),
                flag: FLAG,
                source,
            };
            let found = lookup_host((host.as_str(), *port)).await.map_err(unknown)?;
            let mut found: Vec<SocketAddr> = found.collect();
            // Compat: of several addresses of a host, Go listens on one of IPv4 first.
            found.sort_by_key(SocketAddr::is_ipv6);
            let first = found.first().copied();
            first.ok_or_else(|| unknown(io::ErrorKind::NotFound.into()))?
        }
    };
    listen(addr, FLAG).await.map(Some)
}

/// Listens on an address. The wildcard of IPv6 serves IPv4 as well; where the
/// kernel has no IPv6, the wildcard of IPv4 takes its place.
async fn listen(addr: SocketAddr, flag: &'static str) -> Result<TcpListener, Error> {
    let bound = match TcpListener::bind(addr).await {
        Err(error)
            if addr.ip() == Ipv6Addr::UNSPECIFIED && error.raw_os_error() == Some(EAFNOSUPPORT) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, addr.port())).await
        }
        other => other,
    };
    bound.map_err(|source| Error::Listen { addr, flag, source })
}

/// "Address family not supported by protocol", the same on all of Linux.
const EAFNOSUPPORT: i32 = 97;
