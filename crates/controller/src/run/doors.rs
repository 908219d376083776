//! Where this process is reached: its listeners, and TLS for the extender's.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

use super::Error;
use crate::{config::Config, extender::Reloader};

/// All listeners.
pub struct Doors {
    /// Of health, readiness, version and metrics.
    pub health: TcpListener,
    /// Of metrics, where galaxy-ipam has them.
    pub api: TcpListener,
    /// Of the scheduler extender.
    pub extender: TcpListener,
    /// TLS for the extender.
    pub tls: Option<Reloader>,
}

impl Doors {
    /// Listens everywhere, and reads the files for TLS.
    pub async fn open(config: &Config) -> Result<Self, Error> {
        let tls = match config.extender.tls.clone() {
            Some(files) => Some(Reloader::new(files).await?),
            None => None,
        };
        Ok(Self {
            health: listen(config.health_addr, "--health-addr").await?,
            api: listen(config.api_addr, "--bind, --api-port").await?,
            extender: listen(config.extender.addr, "--bind, --port").await?,
            tls,
        })
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
