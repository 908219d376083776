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

/// How long it may take to find the API server's address.
const LOOKUP: Duration = Duration::from_secs(2);

/// The address under which other replicas reach this one: what was set, else what
/// is listened on, else the one from which the API server is reached. A loopback
/// address that nobody has set would lead every replica to itself.
pub async fn own(bound: IpAddr, advertise: Option<IpAddr>, apiserver: &Uri) -> Option<IpAddr> {
    let ip = match advertise {
        Some(ip) => Some(ip),
        None if bound.is_unspecified() => toward(apiserver).await,
        None => Some(bound),
    };
    let ip = ip.filter(|ip| advertise.is_some() || !ip.is_loopback());
    if let Some(address) = ip {
        info!(
            %address,
            "other replicas forward calls here while this leads"
        );
    } else {
        warn!(
            reason = "OwnAddressUnknown",
            "other replicas cannot forward calls to this one; set --advertise-address",
        );
    }
    ip
}

/// An address for the lease, as `http://10.0.0.1:9040`.
pub fn url(ip: IpAddr, port: u16, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}", SocketAddr::new(ip, port))
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

    async fn found(bound: &str, advertise: Option<&str>, apiserver: &'static str) -> String {
        let advertise = advertise.map(|ip| ip.parse().unwrap());
        let apiserver = Uri::from_static(apiserver);
        let ip = own(bound.parse().unwrap(), advertise, &apiserver).await;
        ip.map_or_else(String::new, |ip| url(ip, 9040, false))
    }

    #[tokio::test]
    async fn what_is_set_comes_first_and_then_what_is_bound() {
        let nowhere = "https://[::1]:6443";
        let set = found("10.0.0.1", Some("127.0.0.1"), nowhere).await;
        assert_eq!(set, "http://127.0.0.1:9040");
        let bound = found("fd00::1", None, nowhere).await;
        assert_eq!(bound, "http://[fd00::1]:9040");
    }

    #[test]
    fn the_scheme_tells_whether_there_is_tls() {
        let ip = IpAddr::from(Ipv6Addr::LOCALHOST);
        assert_eq!(url(ip, 1, true), "https://[::1]:1");
        assert_eq!(url(ip, 1, false), "http://[::1]:1");
    }

    #[tokio::test]
    async fn a_loopback_address_that_nobody_has_set_is_none() {
        assert_eq!(found("127.0.0.1", None, "https://10.0.0.1").await, "");
        assert_eq!(found("0.0.0.0", None, "https://127.0.0.1:6443").await, "");
    }

    #[tokio::test]
    async fn the_way_to_the_api_server_begins_at_an_own_address() {
        let ip = toward(&Uri::from_static("https://127.0.0.1:6443")).await;
        assert_eq!(ip, Some(IpAddr::from(Ipv4Addr::LOCALHOST)));
        assert_eq!(toward(&Uri::from_static("/")).await, None);
    }
}
