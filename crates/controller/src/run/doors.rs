//! Where this process is reached: its listeners, and TLS from files.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

use super::Error;
use crate::{
    config::{ApiTls, Auth, Config, Issued, WebhookSettings},
    extender::callers::TokenFile,
    transport::tls::Reloader,
};

/// All listeners.
pub struct Doors {
    /// Of health, readiness, version and metrics.
    pub health: TcpListener,
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
            health: listen(config.health_addr, "--health-addr").await?,
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

    /// Nobody asks about objects where floe looks after node addresses alone.
    async fn webhook(config: &Config) -> Result<Option<WebhookDoor>, Error> {
        let settings = config.webhook.clone().filter(|_| config.float_ips);
        let Some(settings) = settings else {
            return Ok(None);
        };
        Ok(Some(WebhookDoor {
            listener: listen(settings.addr, "--bind, --webhook-port").await?,
            settings,
        }))
    }
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
