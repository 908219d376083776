//! Where other replicas reach this one.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use axum::http::Uri;
use tokio::{
    net::{UdpSocket, lookup_host},
    time::timeout,
};
use tracing::{info, warn};

use crate::config::ExtenderSettings;

/// How long it may take to find the API server's address.
const LOOKUP: Duration = Duration::from_secs(2);

/// The address for the lease, as `http://10.0.0.1:9040`: what was set, else what
/// is listened on, else the address from which the API server is reached. A
/// loopback address that nobody has set would lead every replica to itself.
pub async fn own(settings: &ExtenderSettings, port: u16, apiserver: &Uri) -> Option<String> {
    let bound = settings.addr.ip();
    let ip = match settings.advertise {
        Some(ip) => Some(ip),
        None if bound.is_unspecified() => toward(apiserver).await,
        None => Some(bound),
    };
    let ip = ip.filter(|ip| settings.advertise.is_some() || !ip.is_loopback());
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let address = ip.map(|ip| format!("{scheme}://{}", SocketAddr::new(ip, port)));
    if let Some(address) = &address {
        info!(
            address,
            "other replicas forward calls here while this leads"
        );
    } else {
        warn!(
            reason = "OwnAddressUnknown",
            "other replicas cannot forward calls to this one; set --advertise-address",
        );
    }
    address
}

/// The local address of packets to this host. None is sent.
async fn toward(host: &Uri) -> Option<IpAddr> {
    let name = host.host()?.trim_start_matches('[').trim_end_matches(']');
    let port = host.port_u16().unwrap_or(443);
    let found = timeout(LOOKUP, lookup_host((name, port))).await.ok()?;
    for there in found.ok()? {
        let any = match there {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        if let Ok(socket) = UdpSocket::bind((any, 0)).await
            && socket.connect(there).await.is_ok()
            && let Ok(here) = socket.local_addr()
        {
            return Some(here.ip());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(addr: &str, advertise: Option<&str>) -> ExtenderSettings {
        ExtenderSettings {
            addr: addr.parse().unwrap(),
            advertise: advertise.map(|ip| ip.parse().unwrap()),
            tls: None,
        }
    }

    async fn found(settings: &ExtenderSettings, apiserver: &'static str) -> Option<String> {
        own(settings, 9040, &Uri::from_static(apiserver)).await
    }

    #[tokio::test]
    async fn what_is_set_comes_first_and_then_what_is_bound() {
        let set = settings("10.0.0.1:1", Some("127.0.0.1"));
        let nowhere = "https://[::1]:6443";
        assert_eq!(
            found(&set, nowhere).await.as_deref(),
            Some("http://127.0.0.1:9040")
        );
        let bound = settings("[fd00::1]:1", None);
        assert_eq!(
            found(&bound, nowhere).await.as_deref(),
            Some("http://[fd00::1]:9040")
        );
        let tls = ExtenderSettings {
            tls: Some(crate::config::TlsFiles {
                cert: "/c".into(),
                key: "/k".into(),
                client_ca: None,
            }),
            ..set
        };
        assert_eq!(
            found(&tls, nowhere).await.as_deref(),
            Some("https://127.0.0.1:9040")
        );
    }

    #[tokio::test]
    async fn a_loopback_address_that_nobody_has_set_is_none() {
        let bound = settings("127.0.0.1:1", None);
        assert_eq!(found(&bound, "https://10.0.0.1").await, None);
        let any = settings("0.0.0.0:1", None);
        assert_eq!(found(&any, "https://127.0.0.1:6443").await, None);
    }

    #[tokio::test]
    async fn the_way_to_the_api_server_begins_at_an_own_address() {
        let ip = toward(&Uri::from_static("https://127.0.0.1:6443")).await;
        assert_eq!(ip, Some(IpAddr::from(Ipv4Addr::LOCALHOST)));
        assert_eq!(toward(&Uri::from_static("/")).await, None);
    }
}
