use std::{
    future::pending,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use prost::Message as _;
use tempfile::TempDir;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::oneshot,
    task::JoinHandle,
};
use tonic::{Response, transport::Server};

use super::*;
use wire::{
    Container, ListContainersResponse, ListPodSandboxResponse, PodSandbox, PodSandboxMetadata,
    PodSandboxStatusResponse, VersionResponse,
    runtime_service_server::{RuntimeService, RuntimeServiceServer},
};

/// A runtime on a socket in a folder of its own; it ends with this value.
pub(crate) struct FakeRuntime {
    pub world: Arc<Mutex<World>>,
    folder: TempDir,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    connections: Arc<Mutex<Vec<std::os::unix::net::UnixStream>>>,
}

/// What the runtime runs.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub sandboxes: Vec<PodSandbox>,
    pub containers: Vec<Container>,
    /// Refuse all lists.
    pub refuses: bool,
    /// Answer nothing at all.
    pub is_silent: bool,
    /// How often something was asked.
    pub calls: Vec<&'static str>,
}

#[derive(Clone)]
struct Service(Arc<Mutex<World>>);

impl FakeRuntime {
    pub fn start() -> Self {
        let mut runtime = Self {
            world: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
            running: None,
            connections: Arc::default(),
        };
        runtime.listen();
        runtime
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn runs(&self, sandboxes: &[(&str, PodSandboxState)]) {
        self.world.lock().unwrap().sandboxes = sandboxes
            .iter()
            .map(|(id, state)| sandbox(id, *state))
            .collect();
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("runtime.sock")
    }

    fn listen(&mut self) {
        let socket = self.socket();
        let _ = std::fs::remove_file(&socket);
        let (sender, receiver) = oneshot::channel::<()>();
        let service = Service(Arc::clone(&self.world));
        let listener = bind(&socket);
        let connections = Arc::clone(&self.connections);
        let task = tokio::spawn(async move {
            let incoming = futures::stream::unfold(listener, |listener| async {
                let (stream, _) = listener.accept().await.unwrap();
                let stream = stream.into_std().unwrap();
                connections
                    .lock()
                    .unwrap()
                    .push(stream.try_clone().unwrap());
                let stream = UnixStream::from_std(stream);
                Some((stream, listener))
            });
            let server = Server::builder()
                .add_service(RuntimeServiceServer::new(service))
                .serve_with_incoming(incoming);
            tokio::select! {
                done = server => done.unwrap(),
                _ = receiver => {}
            }
        });
        self.running = Some((sender, task));
    }

    /// Ends the runtime and every connection to it.
    async fn stop(&mut self) {
        let (sender, task) = self.running.take().unwrap();
        drop(sender);
        task.await.unwrap();
        for connection in self.connections.lock().unwrap().drain(..) {
            connection.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }
}

fn bind(socket: &Path) -> UnixListener {
    UnixListener::bind(socket).unwrap()
}

fn sandbox(id: &str, state: PodSandboxState) -> PodSandbox {
    PodSandbox {
        id: id.into(),
        metadata: Some(PodSandboxMetadata {
            name: format!("pod-{id}"),
            uid: format!("uid-{id}"),
            namespace: "default".into(),
            attempt: 0,
        }),
        state: state as i32,
        created_at: 0,
    }
}

fn container(sandbox: &str, state: ContainerState) -> Container {
    Container {
        id: format!("{sandbox}-{state:?}"),
        pod_sandbox_id: sandbox.into(),
        state: state as i32,
    }
}

impl Service {
    async fn begin(&self, call: &'static str) -> Result<World, Status> {
        let world = {
            let mut world = self.0.lock().unwrap();
            world.calls.push(call);
            world.clone()
        };
        if world.is_silent {
            pending::<()>().await;
        }
        if world.refuses {
            return Err(Status::unavailable("not today"));
        }
        Ok(world)
    }
}

#[tonic::async_trait]
impl RuntimeService for Service {
    async fn version(
        &self,
        _: Request<VersionRequest>,
    ) -> Result<Response<VersionResponse>, Status> {
        self.begin("Version").await?;
        Ok(Response::new(VersionResponse {
            version: "0.1.0".into(),
            runtime_name: "fake".into(),
            runtime_version: "7".into(),
            runtime_api_version: "v1".into(),
        }))
    }

    async fn list_pod_sandbox(
        &self,
        _: Request<ListPodSandboxRequest>,
    ) -> Result<Response<ListPodSandboxResponse>, Status> {
        let items = self.begin("ListPodSandbox").await?.sandboxes;
        Ok(Response::new(ListPodSandboxResponse { items }))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<PodSandboxStatusRequest>,
    ) -> Result<Response<PodSandboxStatusResponse>, Status> {
        let world = self.begin("PodSandboxStatus").await?;
        let id = request.into_inner().pod_sandbox_id;
        if !world.sandboxes.iter().any(|it| it.id == id) {
            return Err(Status::not_found("no such sandbox"));
        }
        let info = format!(
            r#"{{"pid":7,"runtimeSpec":{{"linux":{{"namespaces":[
                {{"type":"pid"}},{{"type":"network","path":"/run/netns/{id}"}}]}}}}}}"#
        );
        // Not every runtime tells.
        let info = Some(("info".to_owned(), info)).filter(|_| id != "hidden");
        Ok(Response::new(PodSandboxStatusResponse {
            status: None,
            info: info.into_iter().collect(),
        }))
    }

    async fn list_containers(
        &self,
        _: Request<ListContainersRequest>,
    ) -> Result<Response<ListContainersResponse>, Status> {
        let containers = self.begin("ListContainers").await?.containers;
        Ok(Response::new(ListContainersResponse { containers }))
    }
}

/// The ids of those that live.
fn alive(sandboxes: &[Sandbox]) -> Vec<&str> {
    let alive = sandboxes.iter().filter(|it| it.is_alive);
    alive.map(|it| it.id.as_str()).collect()
}

#[tokio::test]
async fn ready_sandboxes_live_and_containers_need_not_be_asked_about() {
    let runtime = FakeRuntime::start();
    runtime.runs(&[
        ("b", PodSandboxState::SandboxReady),
        ("a", PodSandboxState::SandboxReady),
    ]);
    let all = Cri::new(&runtime.endpoint())
        .unwrap()
        .sandboxes()
        .await
        .unwrap();
    assert_eq!(alive(&all), ["a", "b"]);
    assert_eq!(
        all[0].pod,
        PodId {
            namespace: "default".into(),
            name: "pod-a".into(),
            uid: "uid-a".into(),
        }
    );
    assert_eq!(runtime.world.lock().unwrap().calls, ["ListPodSandbox"]);
}

#[tokio::test]
async fn a_sandbox_that_is_not_ready_lives_as_long_as_one_of_its_containers_may() {
    let runtime = FakeRuntime::start();
    let not_ready = PodSandboxState::SandboxNotready;
    runtime.runs(&[
        ("created", not_ready),
        ("running", not_ready),
        ("unknown", not_ready),
        ("exited", not_ready),
        ("empty", not_ready),
        ("ready", PodSandboxState::SandboxReady),
    ]);
    runtime.world.lock().unwrap().containers = vec![
        container("created", ContainerState::ContainerCreated),
        container("running", ContainerState::ContainerExited),
        container("running", ContainerState::ContainerRunning),
        container("unknown", ContainerState::ContainerUnknown),
        container("exited", ContainerState::ContainerExited),
        container("ready", ContainerState::ContainerExited),
    ];
    let all = Cri::new(&runtime.endpoint())
        .unwrap()
        .sandboxes()
        .await
        .unwrap();
    assert_eq!(alive(&all), ["created", "ready", "running", "unknown"]);
    let all = Cri::new(&runtime.endpoint())
        .unwrap()
        .sandboxes()
        .await
        .unwrap();
    assert_eq!(all.len(), 6, "the dead are listed too: {all:?}");
}

#[tokio::test]
async fn a_runtime_that_refuses_is_an_error_and_never_an_empty_list() {
    let runtime = FakeRuntime::start();
    runtime.world.lock().unwrap().refuses = true;
    let cri = Cri::new(&runtime.endpoint()).unwrap();
    let error = cri.sandboxes().await.unwrap_err();
    assert_eq!(error.reason(), "RuntimeRefused");
    assert_eq!(error.to_string(), "ListPodSandbox: Unavailable: not today");
    assert_eq!(cri.netns("a").await.unwrap_err().reason(), "RuntimeRefused");
}

#[tokio::test]
async fn a_silent_runtime_is_waited_for_until_the_deadline_only() {
    let runtime = FakeRuntime::start();
    runtime.world.lock().unwrap().is_silent = true;
    let limit = Duration::from_millis(50);
    let cri = Cri::with_patience(&runtime.endpoint(), limit).unwrap();
    let silent = |call| CriError::Silent { call, after: limit };
    assert_eq!(cri.sandboxes().await, Err(silent("ListPodSandbox")));
    assert_eq!(cri.version().await, Err(silent("Version")));
    assert_eq!(silent("Version").reason(), "RuntimeSilent");
}

#[tokio::test]
async fn a_runtime_may_start_again() {
    let mut runtime = FakeRuntime::start();
    let cri = Cri::new(&runtime.endpoint()).unwrap();
    assert_eq!(cri.version().await.unwrap(), "fake 7");
    runtime.stop().await;
    assert!(cri.version().await.is_err());
    runtime.listen();
    // A call may still meet the connection that broke.
    let again = async {
        while cri.version().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), again).await.unwrap();
}

#[tokio::test]
async fn a_missing_socket_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nobody.sock");
    let cri = Cri::new(socket.to_str().unwrap()).unwrap();
    let error = cri.sandboxes().await.unwrap_err();
    assert_eq!(error.reason(), "RuntimeRefused");
    assert!(error.to_string().contains("No such file"), "{error}");
}

#[tokio::test]
async fn the_runtime_tells_where_the_namespace_of_a_sandbox_is() {
    let runtime = FakeRuntime::start();
    runtime.runs(&[("a", PodSandboxState::SandboxNotready)]);
    let cri = Cri::new(&runtime.endpoint()).unwrap();
    assert_eq!(cri.netns("a").await, Ok(Some("/run/netns/a".into())));
    assert_eq!(cri.netns("b").await, Ok(None));
}

#[test]
fn what_a_runtime_tells_in_another_form_is_no_path() {
    for info in [
        "",
        "no json",
        "[]",
        "{}",
        r#"{"runtimeSpec":{"linux":{"namespaces":[{"type":"pid","path":"/a"}]}}}"#,
        r#"{"runtimeSpec":{"linux":{"namespaces":[{"type":"network"}]}}}"#,
        r#"{"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":""}]}}}"#,
    ] {
        assert_eq!(netns_in(info), None, "{info}");
    }
}

#[tokio::test]
async fn only_a_path_is_an_endpoint() {
    for good in ["unix:///run/a.sock", "/run/a.sock"] {
        assert!(Cri::new(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "run/a.sock",
        "unix://a.sock",
        "tcp://127.0.0.1:1",
        "http://a",
    ] {
        let error = Cri::new(bad).unwrap_err();
        assert_eq!(error, CriError::Endpoint(bad.into()));
        assert_eq!(error.reason(), "RuntimeEndpointInvalid");
    }
}

#[test]
fn messages_have_the_bytes_of_the_interface() {
    let sandbox = sandbox("a", PodSandboxState::SandboxNotready);
    let mut bytes = vec![0x0a, 1, b'a', 0x12, 23];
    bytes.extend([0x0a, 5]);
    bytes.extend(b"pod-a");
    bytes.extend([0x12, 5]);
    bytes.extend(b"uid-a");
    bytes.extend([0x1a, 7]);
    bytes.extend(b"default");
    bytes.extend([0x18, 1]);
    assert_eq!(sandbox.encode_to_vec(), bytes);
    // Created at (4), labels (5) and a handler (7) are skipped or kept as they come.
    bytes.extend([
        0x20, 9, 0x2a, 6, 0x0a, 1, b'k', 0x12, 1, b'v', 0x3a, 1, b'h',
    ]);
    let read = PodSandbox::decode(&bytes[..]).unwrap();
    assert_eq!((read.created_at, read.id.as_str()), (9, "a"));

    let container = container("s", ContainerState::ContainerRunning);
    let mut bytes = vec![0x0a, 18];
    bytes.extend(b"s-ContainerRunning");
    bytes.extend([0x12, 1, b's', 0x30, 1]);
    assert_eq!(container.encode_to_vec(), bytes);
}
