use std::{fs, path::Path};

use axum::{
    body::Bytes,
    http::{Method, Request as HttpRequest},
};
use floe_shell::{mock, stop};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::oneshot,
};
use tower::ServiceExt as _;

use super::*;
use crate::{
    delegate::{Runner, tests::Plugins},
    events,
    health::Conflicts,
    networks::Networks,
    pods::Pods,
    request::tests::{body, config},
    state::States,
};

struct Scene {
    server: Server,
    plugins: Plugins,
    folder: TempDir,
    // Whoever drops it cannot tell any more.
    _inbox: events::Inbox,
}

impl Scene {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("galaxy.json");
        let settings = json!({ "NetworkConf": [{ "type": "one" }], "DefaultNetworks": ["one"] });
        fs::write(&file, settings.to_string()).unwrap();
        let api = mock::Server::default();
        let pod = json!({ "metadata": { "name": "web-0", "uid": "u1" } });
        api.put("/api/v1/namespaces/ns/pods", pod);
        let plugins = Plugins::new();
        let (events, inbox) = events::channel();
        let attacher = Attacher {
            pods: Pods::new(api.client()),
            records: None,
            networks: Networks::load(&file, folder.path()).unwrap(),
            states: States::new(folder.path().join("state")),
            runner: Runner::new(vec![plugins.path()]),
            events,
            conflicts: Conflicts::default(),
        };
        let scene = Self {
            server: Server::new(attacher, Turns::default(), Metrics::default()),
            plugins,
            folder,
            _inbox: inbox,
        };
        scene.plugins.good("one", &result());
        scene
    }

    async fn ask(&self, method: Method, path: &str, body: String) -> (u16, String) {
        self.ask_as("*/*", method, path, body).await
    }

    /// Asks as the shim does, for an error object.
    async fn shim(&self, command: &str, container: &str) -> (u16, Value) {
        let body = body(command, container, &config("1.0.0")).to_string();
        let accept = "application/json";
        let (status, text) = self.ask_as(accept, Method::POST, "/cni", body).await;
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn ask_as(
        &self,
        accept: &str,
        method: Method,
        path: &str,
        body: String,
    ) -> (u16, String) {
        let request = HttpRequest::builder().method(method).uri(path);
        let request = request.header(ACCEPT, accept);
        let request = request.body(Body::from(body)).unwrap();
        let answer = self.server.clone().router().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body: Bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn cni(&self, command: &str, container: &str) -> (u16, String) {
        let body = body(command, container, &config("1.0.0")).to_string();
        self.ask(Method::POST, "/cni", body).await
    }

    /// A plugin that waits in ADD until it is let go, after it has said so.
    fn slow(&self) {
        let result = result();
        self.plugins.write(
            "one",
            &format!(
                "[ $CNI_COMMAND = ADD ] && {{ touch $here/begun.now; \
                 for i in $(seq 2000); do [ -e $here/go.now ] && break; sleep 0.01; done; echo '{result}'; }}\n\
                 echo \"$CNI_COMMAND over\" >> $here/over.now; exit 0"
            ),
        );
    }

    async fn begun(&self) {
        until(&format!("{}/begun.now", self.plugins.path())).await;
    }

    fn let_go(&self) {
        fs::write(format!("{}/go.now", self.plugins.path()), "").unwrap();
    }
}

async fn until(file: &str) {
    for _ in 0..4000 {
        if Path::new(file).exists() {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("{file} should have come");
}

fn result() -> Value {
    json!({ "cniVersion": "1.0.0", "ips": [{ "address": "10.0.0.5/24" }], "dns": {} })
}

#[tokio::test]
async fn an_add_is_answered_with_its_result_and_a_del_with_nothing() {
    let scene = Scene::new();
    let (status, text) = scene.cni("ADD", "c1").await;
    assert_eq!(status, 200, "{text}");
    let added: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(added["ips"][0]["address"], "10.0.0.5/24");
    assert_eq!(scene.cni("CHECK", "c1").await, (200, String::new()));
    assert_eq!(scene.cni("DEL", "c1").await, (200, String::new()));
    assert_eq!(scene.cni("DEL", "unknown").await, (200, String::new()));
    let counted = &scene.server.metrics;
    assert!(counted.has(r#"floe_agent_call_seconds_count{command="ADD"} 1"#));
    assert!(counted.has(r#"floe_agent_call_seconds_count{command="DEL"} 2"#));
    assert!(!counted.text().contains("floe_agent_call_failures"));
    // Compat: galaxy takes GET as well.
    let body = body("DEL", "c1", &config("1.0.0")).to_string();
    assert_eq!(
        scene.ask(Method::GET, "/cni", body).await,
        (200, String::new())
    );
}

#[tokio::test]
async fn what_makes_no_sense_is_answered_with_400_and_a_reason() {
    let scene = Scene::new();
    let post = |body: String| scene.ask(Method::POST, "/cni", body);
    let (status, text) = post("{".into()).await;
    assert_eq!(status, 400);
    assert!(text.starts_with("MalformedRequest: "), "{text}");
    let (status, text) = post("x".repeat(LONGEST_BODY + 1)).await;
    assert_eq!(status, 400);
    assert!(text.starts_with("MalformedRequest: "), "{text}");
    let mut request = body("ADD", "c1", &config("1.0.0"));
    request["env"]["CNI_ARGS"] = json!("K8S_POD_NAME=web-0");
    let (status, text) = post(request.to_string()).await;
    assert_eq!(
        (status, &*text),
        (400, "InvalidEnvironment: missing K8S_POD_NAMESPACE")
    );
    assert!(scene.plugins.calls().is_empty());
}

#[tokio::test]
async fn a_failure_is_answered_with_500_and_a_reason() {
    let scene = Scene::new();
    let error = json!({ "code": 101, "msg": "AddressConflict: 10.0.0.5 is already in use by x" });
    scene.plugins.write(
        "one",
        &format!("[ $CNI_COMMAND = DEL ] || {{ echo '{error}'; exit 1; }}"),
    );
    let (status, text) = scene.cni("ADD", "c1").await;
    assert_eq!(status, 500);
    assert_eq!(
        text,
        "AddressConflict: fail to establish network one: 10.0.0.5 is already in use by x"
    );
    let (status, text) = scene.cni("CHECK", "c1").await;
    assert_eq!(
        (status, &*text),
        (500, "NotAttached: nothing is attached for container c1")
    );
    for (command, reason) in [("ADD", "AddressConflict"), ("CHECK", "NotAttached")] {
        let counted =
            format!(r#"floe_agent_call_failures_total{{command="{command}",reason="{reason}"}} 1"#);
        assert!(scene.server.metrics.has(&counted), "{counted}");
    }
}

#[tokio::test]
async fn a_shim_that_accepts_json_gets_the_code_and_the_details_of_the_plugin() {
    let scene = Scene::new();
    let error = json!({
        "code": 101,
        "msg": "AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05",
        "details": "seen on uplink",
    });
    scene.plugins.write(
        "one",
        &format!("[ $CNI_COMMAND = DEL ] || {{ echo '{error}'; exit 1; }}"),
    );
    let (status, answer) = scene.shim("ADD", "c1").await;
    assert_eq!(status, 500);
    assert_eq!(
        answer,
        json!({
            "cniVersion": "1.0.0",
            "code": 101,
            "msg": "AddressConflict: fail to establish network one: \
                    10.0.0.5 is already in use by 02:42:0a:00:00:05",
            "details": "seen on uplink",
        })
    );
    let (status, answer) = scene.shim("CHECK", "c1").await;
    assert_eq!((status, &answer["code"]), (500, &json!(104)));
    let (status, answer) = scene.shim("ADD", "").await;
    assert_eq!((status, &answer["code"]), (400, &json!(4)));
}

#[tokio::test]
async fn the_other_commands_have_their_answers_too() {
    let scene = Scene::new();
    assert_eq!(scene.cni("STATUS", "").await, (200, String::new()));
    let (status, text) = scene.cni("VERSION", "").await;
    assert_eq!(status, 200);
    assert!(text.contains("supportedVersions"), "{text}");
    let mut valid = config("1.1.0");
    valid["cni.dev/valid-attachments"] = json!([]);
    let gc = body("GC", "", &valid).to_string();
    assert_eq!(
        scene.ask(Method::POST, "/cni", gc).await,
        (200, String::new())
    );
    let (status, text) = scene.ask(Method::GET, "/health", String::new()).await;
    assert_eq!(status, 200);
    let health: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&health["alive"], &health["podsKnown"]),
        (&json!(true), &json!(false))
    );
}

#[tokio::test]
async fn a_del_waits_for_the_add_of_its_container_and_for_no_other() {
    let scene = Scene::new();
    scene.slow();
    let add = scene.cni("ADD", "c1");
    let rest = async {
        scene.begun().await;
        let mut del = Box::pin(scene.cni("DEL", "c1"));
        assert!(futures::poll!(del.as_mut()).is_pending());
        assert_eq!(scene.cni("DEL", "c2").await.0, 200);
        assert!(futures::poll!(del.as_mut()).is_pending());
        scene.let_go();
        assert_eq!(del.await.0, 200);
    };
    let (added, ()) = tokio::join!(add, rest);
    assert_eq!(added.0, 200);
    assert_eq!(scene.plugins.lines("over.now"), ["ADD over", "DEL over"]);
    assert!(!scene.folder.path().join("state/c1").exists());
}

#[tokio::test]
async fn gc_gives_up_while_pods_are_attached() {
    let scene = Scene::new();
    let turn = scene.server.turns.wait("c1").await;
    tokio::time::pause();
    let mut valid = config("1.1.0");
    valid["cni.dev/valid-attachments"] = json!([]);
    let gc = body("GC", "", &valid).to_string();
    let (status, text) = scene.ask(Method::POST, "/cni", gc).await;
    assert_eq!(status, 500);
    assert!(text.starts_with("TryAgainLater: "), "{text}");
    drop(turn);
}

/// Sends a request by hand, over the real socket.
async fn send(socket: &Path, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let head = format!(
        "POST /cni HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn an_add_goes_on_when_its_client_is_gone_and_is_finished_at_the_stop() {
    let scene = Scene::new();
    scene.slow();
    let socket = scene.folder.path().join("run/galaxy.sock");
    let listener = door::open(&socket).await.unwrap();
    let (stopper, stop) = stop::channel();
    let (ended, mut over) = oneshot::channel();
    let server = scene.server.clone();
    let task = tokio::spawn(async move {
        server.serve(listener, stop).await.unwrap();
        ended.send(()).unwrap();
    });
    let add = body("ADD", "c1", &config("1.0.0")).to_string();
    let client = send(&socket, &add).await;
    scene.begun().await;
    drop(client);
    stopper.stop();
    // Nobody new is let in, but what was begun is not given up.
    for _ in 0..1000 {
        if UnixStream::connect(&socket).await.is_err() {
            break;
        }
        sleep(Duration::from_millis(5)).await;
    }
    assert!(UnixStream::connect(&socket).await.is_err());
    assert!(over.try_recv().is_err());
    scene.let_go();
    task.await.unwrap();
    assert_eq!(scene.plugins.lines("over.now"), ["ADD over"]);
    assert!(scene.folder.path().join("state/c1").exists());
}

#[tokio::test]
async fn the_real_socket_speaks_plain_http() {
    let scene = Scene::new();
    let socket = scene.folder.path().join("galaxy.sock");
    let listener = door::open(&socket).await.unwrap();
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(scene.server.clone().serve(listener, stop));
    let add = body("ADD", "c1", &config("0.2.0")).to_string();
    let mut client = send(&socket, &add).await;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains(r#""ip4":{"ip":"10.0.0.5/24""#), "{answer}");
    stopper.stop();
    task.await.unwrap().unwrap();
}
