//! A stand-in for the API server: lists of pods and of their records, watches that
//! never tell anything, and writes that are taken as they come. Plain HTTP.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, BufReader, Read as _, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use floe_core::addr::name;
use serde_json::{Value, json};

const POD_LIST: &str = "/api/v1/pods";
const RECORDS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";
/// What an agent has done when it has nothing more to do.
const SETTLED: [&str; 3] = ["watch pods", "watch records", "tell its state"];

/// The server. Its threads end with their connections, or with the process.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    what: Mutex<BTreeSet<&'static str>>,
    changed: Condvar,
}

/// What there is, as texts of lists.
struct Lists {
    pods: String,
    records: String,
}

impl Server {
    /// Serves this socket, with so many pods of a node.
    pub fn start(listener: TcpListener, pods: u32, node: &str) -> Result<Self> {
        let server = Self {
            address: listener.local_addr()?,
            seen: Arc::default(),
        };
        let lists = Arc::new(Lists::of(pods, node));
        let seen = Arc::clone(&server.seen);
        thread::Builder::new().spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (lists, seen) = (Arc::clone(&lists), Arc::clone(&seen));
                // A client that goes away ends its connection; that is no failure.
                thread::spawn(move || serve(&stream, &lists, &seen));
            }
        })?;
        Ok(server)
    }

    /// Waits until the agent watches everything and has told its state.
    pub fn wait_until_quiet(&self, limit: Duration) -> Result<()> {
        let what = self
            .seen
            .what
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (what, _) = self
            .seen
            .changed
            .wait_timeout_while(what, limit, |what| what.len() < SETTLED.len())
            .unwrap_or_else(PoisonError::into_inner);
        if what.len() < SETTLED.len() {
            bail!("it did not {SETTLED:?} within {limit:?}, only {what:?}");
        }
        Ok(())
    }
}

impl Seen {
    fn note(&self, it: &'static str) {
        let mut what = self.what.lock().unwrap_or_else(PoisonError::into_inner);
        what.insert(it);
        self.changed.notify_all();
    }
}

/// Answers the questions of one connection until it ends.
fn serve(stream: &TcpStream, lists: &Lists, seen: &Seen) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let body = body(&mut reader)?;
        let mut words = first.split_whitespace();
        let (method, uri) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let watches = query
            .split('&')
            .any(|it| it == "watch=true" || it == "watch=1");
        match (method, path) {
            ("GET", POD_LIST | RECORDS) if watches => {
                seen.note(if path == POD_LIST {
                    SETTLED[0]
                } else {
                    SETTLED[1]
                });
                writer.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                      Transfer-Encoding: chunked\r\n\r\n",
                )?;
                // Nothing ever happens; it ends when the client does.
                reader.read_line(&mut String::new())?;
                return Ok(());
            }
            ("GET", POD_LIST) => answer(writer, "200 OK", &lists.pods)?,
            ("GET", RECORDS) => answer(writer, "200 OK", &lists.records)?,
            ("PATCH", _) => {
                answer(writer, "200 OK", &body)?;
                if path.ends_with("/status") {
                    seen.note(SETTLED[2]);
                }
            }
            ("POST", _) => answer(writer, "201 Created", &body)?,
            _ => {
                let status = json!({
                    "apiVersion": "v1", "kind": "Status", "status": "Failure",
                    "message": "not here", "reason": "NotFound", "code": 404,
                });
                answer(writer, "404 Not Found", &status.to_string())?;
            }
        }
    }
}

/// Reads headers, and what they announce.
fn body(reader: &mut impl BufRead) -> io::Result<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    Ok(body)
}

fn answer(mut writer: impl Write, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    writer.write_all(text.as_bytes())
}

impl Lists {
    fn of(pods: u32, node: &str) -> Self {
        let pod_objects: Vec<_> = (1..=pods).map(|it| pod(it, node)).collect();
        let record_objects: Vec<_> = (1..=pods).map(|it| record(it, node)).collect();
        Self {
            pods: list("v1", "PodList", &pod_objects),
            records: list("galaxy.k8s.io/v1alpha1", "FloatingIPList", &record_objects),
        }
    }
}

fn list(version: &str, kind: &str, items: &[Value]) -> String {
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": { "resourceVersion": "1000" },
        "items": items,
    })
    .to_string()
}

fn ip(number: u32) -> std::net::IpAddr {
    std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

fn uid(number: u32) -> String {
    format!("3f2a1b00-0000-4000-8000-{number:012x}")
}

/// About as large as a pod of a Deployment with one container.
fn pod(number: u32, node: &str) -> Value {
    let ip = ip(number);
    let infos = json!([{ "ip": format!("{ip}/24"), "vlan": 2, "gateway": "10.0.0.254" }]);
    let args = json!({ "common": { "ipinfos": infos } }).to_string();
    json!({
        "metadata": {
            "name": format!("web-6d4cf56db6-{number:05}"),
            "namespace": "default",
            "uid": uid(number),
            "resourceVersion": "900",
            "labels": { "app": "web", "pod-template-hash": "6d4cf56db6" },
            "annotations": {
                "k8s.v1.cni.cncf.io/networks": "galaxy-k8s-vlan",
                "k8s.v1.cni.galaxy.io/args": args,
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4cf56db6",
                "uid": uid(0), "controller": true,
            }],
        },
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "web",
                "image": "nginx",
                "resources": { "requests": { "cpu": "100m", "tke.cloud.tencent.com/eni-ip": "1" } },
                "env": (0..10).map(|it| json!({ "name": format!("VARIABLE_{it}"), "value": "some value" })).collect::<Vec<_>>(),
            }],
        },
        "status": {
            "phase": "Running",
            "podIP": ip.to_string(),
            "containerStatuses": [{
                "name": "web", "image": "nginx", "imageID": "sha256:0", "ready": true,
                "restartCount": 0, "state": { "running": { "startedAt": "2024-01-01T00:00:00Z" } },
            }],
        },
    })
}

fn record(number: u32, node: &str) -> Value {
    let attribute = json!({ "NodeName": node, "Uid": uid(number) }).to_string();
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1",
        "kind": "FloatingIP",
        "metadata": {
            "name": name::name(ip(number)),
            "uid": uid(1000 + number),
            "resourceVersion": "800",
            "labels": { "floe.dev/node": node },
        },
        "spec": {
            "key": format!("dp_default_web_web-6d4cf56db6-{number:05}"),
            "attribute": attribute,
            "policy": 0,
            "updateTime": "2024-01-01T00:00:00Z",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_body_is_heeded() {
        let mut bytes = io::Cursor::new(b"A: b\r\nContent-length: 3\r\n\r\nabcGET /");
        assert_eq!(body(&mut bytes).unwrap(), "abc");
        let mut rest = String::new();
        bytes.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "GET /");
    }

    #[test]
    fn records_can_be_read_by_floe() {
        let lists = Lists::of(3, "node-1");
        let list: Value = serde_json::from_str(&lists.records).unwrap();
        let records: Vec<floe_api::galaxy::FloatingIP> =
            serde_json::from_value(list["items"].clone()).unwrap();
        let names: Vec<_> = records
            .iter()
            .filter_map(|it| it.metadata.name.as_deref())
            .collect();
        assert_eq!(names, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        let list: Value = serde_json::from_str(&lists.pods).unwrap();
        let pods: Vec<k8s_openapi::api::core::v1::Pod> =
            serde_json::from_value(list["items"].clone()).unwrap();
        assert_eq!(pods.len(), 3);
    }
}
