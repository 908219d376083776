//! A request from anywhere in the testbed, over a plain socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;

const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// What `to` answers to a GET that is sent from inside `from`'s network.
pub fn get(from: &HostRef, to: SocketAddr) -> Result<String> {
    get_path(from, to, "/")
}

/// As [`get`], for a path.
pub fn get_path(from: &HostRef, to: SocketAddr, path: &str) -> Result<String> {
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    from.network()?
        .run(|| converse(to, &request))
        .with_context(|| format!("{to} from {}", from.name))
}

/// What `to` answers to a POST of a body of some kind, as [`get_path`].
pub fn post(from: &HostRef, to: SocketAddr, path: &str, kind: &str, body: &str) -> Result<String> {
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.0\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    from.network()?
        .run(|| converse(to, &request))
        .with_context(|| format!("{to} from {}", from.name))
}

fn converse(to: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A pod without a probe is ready when its program has been started, which may be a
/// moment before it listens: a host that refuses is asked again.
fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect_timeout(&to, PATIENCE) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < deadline =>
            {
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
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
