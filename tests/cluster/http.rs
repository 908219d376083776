//! A request from anywhere in the testbed, over a plain socket.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;

const PATIENCE: Duration = Duration::from_secs(5);

/// What `to` answers to a GET that is sent from inside `from`'s network.
pub fn get(from: &HostRef, to: SocketAddr) -> Result<String> {
    get_path(from, to, "/")
}

/// As [`get`], for a path.
pub fn get_path(from: &HostRef, to: SocketAddr, path: &str) -> Result<String> {
    from.network()?
        .run(|| {
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })
        .with_context(|| format!("{to} from {}", from.name))
}

/// The address of a running pod.
pub fn pod_ip(pod: &Pod) -> Result<IpAddr> {
    let ip = pod
        .status
        .as_ref()
        .and_then(|status| status.pod_ip.as_deref())
        .context("the pod has no address")?;
    Ok(ip.parse()?)
}
