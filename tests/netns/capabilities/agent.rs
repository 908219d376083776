//! The agent on a node, with an API server in memory, and the runtime that calls it.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use floe_shell::mock::Server;
use floe_testbed::host::sibling_program;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::granted::with_only;
use crate::cni::harness::lab::{Namespace, deliver, wait_for};
use crate::cni::harness::mode::{Given, PURE};
use crate::cni::harness::plugin::Attachment;
use crate::cni::harness::site::{Node, Site};
use crate::cni::harness::view::{Snapshot, View};

const NODE: &str = "node-1";
const POD: &str = "web-0";
const UID: &str = "3f2a1b00-0000-4000-8000-000000000001";
const SHIM: &str = "galaxy-sdn";

/// What container runtimes give to a process that asks for nothing.
const USUAL: [&str; 5] = ["CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"];

/// As in a container: settings of the kernel are read-only, until somebody with the right to
/// mount makes them writable.
const CONTAINER: &str = r#"
    for place in /proc/sys /sys; do
        mount --bind "$place" "$place"
        mount -o remount,ro,bind "$place"
    done
    exec "$@""#;

/// Attaches a pod in a namespace of the runtime, which is reached then, and detaches it.
pub fn attach(capabilities: &[&str]) -> Result<(), String> {
    let site = Site::new(1);
    let pod = site.pod(POD);
    let path = pod.path().display().to_string();
    attach_at(&site, &pod, &path, capabilities)
}

/// The same with a runtime that has nothing but the process of the pod.
pub fn attach_a_process(capabilities: &[&str]) -> Result<(), String> {
    let site = Site::new(1);
    let pod = site.pod(POD);
    let process = Process::start(&pod);
    let path = format!("/proc/{}/ns/net", process.0.id());
    attach_at(&site, &pod, &path, capabilities)
}

fn attach_at(
    site: &Site,
    pod: &Namespace,
    path: &str,
    capabilities: &[&str],
) -> Result<(), String> {
    let (node, given) = (site.node(), Given::v4(0, 68));
    // What the agent is to set, and keeps so.
    node.net.set("ipv4/ip_forward", "0");
    let agent = Agent::start(node, given, capabilities);
    let before = Snapshot::of(node);
    let call = |command: &str| {
        let mut attachment = Attachment::new(node, &PURE, pod, &[])
            .variable("CNI_NETNS", path)
            .variable(
                "CNI_ARGS",
                &format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={POD}"),
            )
            .with("name", SHIM)
            .with("type", SHIM)
            .with("socket", agent.socket().display().to_string())
            .with("stateDir", agent.states().display().to_string());
        SHIM.clone_into(&mut attachment.plugin);
        attachment.call(command)
    };
    let added = call("ADD");
    if !added.is_success() {
        let log = agent.log();
        return Err(format!("{}\n{log}", added.failure().message));
    }
    assert_eq!(View::of(pod).global_addresses("eth0"), [given.net()]);
    let outside = site.outside.udp(given.gateway);
    deliver(&outside, &pod.udp(given.ip), "to the pod");
    wait_for("the settings of the node", || {
        (node.net.get("ipv4/ip_forward") == "1").then_some(())
    });
    call("DEL").nothing();
    before.must_return(node, "after DEL");
    Ok(())
}

/// The first process of a pod, in its namespace.
struct Process(Child);

impl Process {
    fn start(pod: &Namespace) -> Self {
        let mut command = within(pod);
        let limited = with_only(&USUAL);
        let child = command
            .arg(limited.get_program())
            .args(limited.get_args())
            .args(["sleep", "infinity"])
            .spawn()
            .unwrap();
        let name = format!("/proc/{}/comm", child.id());
        wait_for("the process of the pod", || {
            let name = fs::read_to_string(&name).unwrap();
            (name.trim() == "sleep").then_some(())
        });
        Self(child)
    }

    /// How many capabilities it has.
    fn capabilities(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let mut lines = status.lines();
        let effective = lines.find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let bits = u64::from_str_radix(effective.trim(), 16).unwrap();
        usize::try_from(bits.count_ones()).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running agent, and its API server. Both end with this value.
struct Agent {
    process: Process,
    folder: PathBuf,
    _server: Runtime,
}

impl Agent {
    /// Starts it on a node where a pod waits for an address, and waits until it serves.
    fn start(node: &Node, given: Given, capabilities: &[&str]) -> Self {
        let folder = node.state.join("agent");
        fs::create_dir_all(folder.join("networks")).unwrap();
        let (server, runtime) = (Server::default(), Runtime::new().unwrap());
        fill(&server, given);
        let listener = node
            .net
            .within(|| TcpListener::bind("127.0.0.1:0").unwrap());
        let port = listener.local_addr().unwrap().port();
        serve(&runtime, server, listener);

        fs::write(folder.join("kubeconfig"), way_to(port)).unwrap();
        let networks = json!({
            "NetworkConf": [PURE.config("floating", "1.0.0")],
            "DefaultNetworks": ["floating"], "ENIIPNetwork": "floating",
        });
        fs::write(folder.join("galaxy.json"), networks.to_string()).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let limited = with_only(capabilities);
        let nobody = folder.join("no-runtime.sock");
        let child = within(&node.net)
            .args(["unshare", "--mount", "--", "sh", "-ec", CONTAINER, "sh"])
            .arg(limited.get_program())
            .args(limited.get_args())
            .arg(sibling_program("floe-agent").unwrap())
            .arg("--kubeconfig")
            .arg(folder.join("kubeconfig"))
            .arg("--json-config-path")
            .arg(folder.join("galaxy.json"))
            .arg("--network-conf-dir")
            .arg(folder.join("networks"))
            .arg("--socket")
            .arg(folder.join("galaxy.sock"))
            .arg("--state-dir")
            .arg(folder.join("states"))
            .arg("--container-runtime-endpoint")
            .arg(format!("unix://{}", nobody.display()))
            .arg(format!("--hostname-override={NODE}"))
            .env("FLOE_RUN", &node.run)
            .env("FLOE_STATE", &node.state)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut agent = Self {
            process: Process(child),
            folder,
            _server: runtime,
        };
        wait_for("the agent", || {
            let ended = agent.process.0.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", agent.log());
            agent.socket().exists().then_some(())
        });
        assert_eq!(agent.process.capabilities(), capabilities.len());
        agent
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("galaxy.sock")
    }

    fn states(&self) -> PathBuf {
        self.folder.join("states")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }
}

/// Runs a program, to be named with its arguments behind, in a namespace. It ends with the
/// thread that starts it.
fn within(namespace: &Namespace) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", "nsenter"])
        .arg(format!("--net={}", namespace.path().display()));
    command
}

/// A pod of this node, and the record of its address.
fn fill(server: &Server, given: Given) {
    let args = json!({ "common": { "ipinfos": [given.json()] } }).to_string();
    let resources = json!({ "requests": { "tke.cloud.tencent.com/eni-ip": "1" } });
    server.put(
        "/api/v1/namespaces/default/pods",
        json!({
            "metadata": {
                "name": POD, "namespace": "default", "uid": UID,
                "annotations": { "k8s.v1.cni.galaxy.io/args": args },
            },
            "spec": {
                "nodeName": NODE,
                "containers": [{ "name": "web", "image": "nginx", "resources": resources }],
            },
        }),
    );
    let attribute = json!({ "NodeName": NODE, "Uid": UID }).to_string();
    server.put(
        "/apis/galaxy.k8s.io/v1alpha1/floatingips",
        json!({
            "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
            "metadata": { "name": given.ip.to_string(), "labels": { "floe.dev/node": NODE } },
            "spec": {
                "key": format!("sts_default_web_{POD}"), "attribute": attribute, "policy": 0,
                "updateTime": "2024-01-01T00:00:00Z",
            },
        }),
    );
}

fn serve(runtime: &Runtime, server: Server, listener: TcpListener) {
    listener.set_nonblocking(true).unwrap();
    let app = Router::new().fallback(answer).with_state(server);
    runtime.spawn(async {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, app).await
    });
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let uri = parts.uri.to_string();
    match server.respond(&parts.method, &uri, &body).await {
        Ok(answer) => answer,
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

fn way_to(port: u16) -> String {
    let server: Value = format!("http://127.0.0.1:{port}").into();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
        "clusters": [{ "name": "it", "cluster": { "server": server } }],
        "users": [{ "name": "it", "user": {} }],
    })
    .to_string()
}
