use std::sync::Mutex;

use floe_core::node::state::{Attached, State};
use floe_shell::{mock::Server, stop::Stopper};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{cri::tests::FakeRuntime, events::Inbox};

const FIPS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";

/// A node with its state files and an API server; what it takes off is noted.
struct Node {
    server: Server,
    states: States,
    turns: Turns,
    inbox: Inbox,
    taken_off: Arc<Mutex<Vec<Target>>>,
    /// How many take-offs fail before they work.
    failures: Arc<Mutex<usize>>,
    runtime: FakeRuntime,
    stopper: Stopper,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _folder: TempDir,
}

impl Node {
    async fn start(server: Server, states: &[(&str, State)], trust_annotations: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = States::new(folder.path().join("galaxy"));
        for (container, state) in states {
            files.write(container, state).await.unwrap();
        }
        let runtime = FakeRuntime::start();
        let (events, inbox) = events::channel();
        let (stopper, stop) = floe_shell::stop::channel();
        let taken_off = Arc::new(Mutex::new(Vec::new()));
        let failures = Arc::new(Mutex::new(0_usize));
        let (noted, failing) = (Arc::clone(&taken_off), Arc::clone(&failures));
        let note: TakeOff = Arc::new(move |target: &Target| {
            let mut failures = failing.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return (Removed::default(), vec!["as the test wants it".into()]);
            }
            let mut noted = noted.lock().unwrap();
            // What is off is off.
            if noted.contains(target) {
                return (Removed::default(), Vec::new());
            }
            noted.push(target.clone());
            (Removed(vec![format!("address {}", target.ip)]), Vec::new())
        });
        let version = json!({ "major": "1", "minor": "34", "gitVersion": "v1.34.0" });
        server.state().raw.insert("/version".into(), version);
        let records = Records::new(server.client());
        let turns = Turns::default();
        let takeover = Takeover {
            records: records.clone(),
            client: server.client(),
            cri: Cri::new(&runtime.endpoint()).unwrap(),
            states: files.clone(),
            turns: turns.clone(),
            events,
            node: "n1".into(),
            trust_annotations,
            take_off: note,
        };
        let tasks = vec![
            tokio::spawn(records.run("n1".into(), stop.clone())),
            tokio::spawn(takeover.run(stop)),
        ];
        Self {
            server,
            states: files,
            turns,
            inbox,
            taken_off,
            failures,
            runtime,
            stopper,
            tasks,
            _folder: folder,
        }
    }

    async fn until_taken_off(&self, ips: &[&str]) {
        self.server.until(|_| self.taken_off() == ips).await;
    }

    fn taken_off(&self) -> Vec<String> {
        let taken_off = self.taken_off.lock().unwrap();
        let mut ips: Vec<_> = taken_off.iter().map(|it| it.ip.to_string()).collect();
        ips.sort();
        ips
    }

    fn reads(&self, ip: &str) -> usize {
        self.server
            .count(&axum::http::Method::GET, &format!("floatingips/{ip}"))
    }

    async fn stop(self) {
        self.stopper.stop();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

fn pod(name: &str) -> PodId {
    PodId {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

fn state(pod: Option<PodId>, ips: &[&str]) -> State {
    let infos: Vec<Value> = ips
        .iter()
        .map(|ip| json!({ "ip": format!("{ip}/24"), "vlan": 0, "gateway": "10.0.0.1" }))
        .collect();
    let netns = pod.is_some().then(|| "/run/netns/a".to_owned());
    let attached = Attached {
        kind: "galaxy-k8s-vlan".into(),
        args: [("ipinfos".to_owned(), json!(infos).to_string())].into(),
        conf: json!({ "type": "galaxy-k8s-vlan" })
            .as_object()
            .unwrap()
            .clone(),
        ifname: "eth0".into(),
        netns,
        pod,
    };
    State {
        attached: vec![attached],
    }
}

fn record(ip: &str, pod: &str, uid: &str, node: &str) -> Value {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
        "metadata": { "name": ip },
        "spec": {
            "key": format!("sts_default_web_{pod}"),
            "attribute": json!({ "NodeName": node, "Uid": uid }).to_string(),
            "policy": 1,
        },
    })
}

#[tokio::test]
async fn a_node_that_comes_back_takes_off_what_others_have_and_keeps_the_rest() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web-0", "uid-new", "n2"));
    server.put(FIPS, record("10.0.0.6", "web-1", "uid-web-1", "n1"));
    let states = [
        ("c0", state(Some(pod("web-0")), &["10.0.0.5"])),
        ("c1", state(Some(pod("web-1")), &["10.0.0.6"])),
    ];
    let mut node = Node::start(server, &states, false).await;
    node.until_taken_off(&["10.0.0.5"]).await;
    assert_eq!(
        node.taken_off.lock().unwrap()[0],
        Target {
            ip: "10.0.0.5".parse().unwrap(),
            container: "c0".into(),
            netns: Some("/run/netns/a".into()),
        }
    );
    let news = node.inbox.so_far();
    assert_eq!(news.len(), 1, "{news:?}");
    assert_eq!(
        (news[0].reason, news[0].warning),
        ("AddressMovedAway", true)
    );
    assert_eq!(news[0].about.uid.as_deref(), Some("uid-web-0"));
    assert_eq!(
        news[0].note,
        "10.0.0.5 belongs to sts_default_web_web-0 on node n2 by now"
    );
    // What the watch shows as ours needs no read.
    assert_eq!(node.reads("10.0.0.6"), 0);
    node.stop().await;
}

#[tokio::test]
async fn an_address_that_moves_while_the_node_is_there_is_taken_off_by_the_watch() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web-0", "uid-web-0", "n1"));
    let states = [("c0", state(Some(pod("web-0")), &["10.0.0.5"]))];
    let node = Node::start(server, &states, false).await;
    node.server
        .until(|it| it.state().calls.iter().any(|it| it.contains("watch=true")))
        .await;
    assert_eq!(node.taken_off(), Vec::<String>::new());
    node.server
        .put(FIPS, record("10.0.0.5", "web-0", "uid-new", "n2"));
    node.until_taken_off(&["10.0.0.5"]).await;
    node.stop().await;
}

#[tokio::test]
async fn a_missing_record_takes_nothing_off() {
    let server = Server::default();
    let states = [("c0", state(Some(pod("web-0")), &["10.0.0.5"]))];
    let node = Node::start(server, &states, false).await;
    node.server.until(|_| node.reads("10.0.0.5") > 0).await;
    // A change makes it look again: by then the first look is over.
    let reads = node.reads("10.0.0.5");
    node.server
        .put(FIPS, record("10.0.0.9", "web-9", "uid-web-9", "n1"));
    node.server.until(|_| node.reads("10.0.0.5") > reads).await;
    assert_eq!(node.taken_off(), Vec::<String>::new());
    node.stop().await;
}

#[tokio::test]
async fn what_galaxy_attached_is_compared_with_what_the_runtime_tells() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "pod-c0", "uid-new", "n1"));
    let node = Node::start(server, &[], false).await;
    node.runtime
        .runs(&[("c0", crate::cri::wire::PodSandboxState::SandboxReady)]);
    let file = state(None, &["10.0.0.5"]);
    node.states.write("c0", &file).await.unwrap();
    node.server
        .put(FIPS, record("10.0.0.9", "web-9", "uid-web-9", "n1"));
    node.until_taken_off(&["10.0.0.5"]).await;
    let target = node.taken_off.lock().unwrap()[0].clone();
    assert_eq!(target.netns, Some("/run/netns/c0".into()));
    node.stop().await;
}

#[tokio::test]
async fn nothing_happens_while_somebody_works_on_the_container() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web-0", "uid-new", "n2"));
    let node = Node::start(server, &[], false).await;
    let turn = node.turns.wait("c0").await;
    let file = state(Some(pod("web-0")), &["10.0.0.5"]);
    node.states.write("c0", &file).await.unwrap();
    let change = record("10.0.0.9", "web-9", "uid-web-9", "n1");
    node.server.put(FIPS, change.clone());
    node.server
        .until(|_| node.turns.taken().contains("c0"))
        .await;
    assert_eq!(node.reads("10.0.0.5"), 0);
    assert_eq!(node.taken_off(), Vec::<String>::new());
    drop(turn);
    node.until_taken_off(&["10.0.0.5"]).await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web-0", "uid-new", "n2"));
    let states = [("c0", state(Some(pod("web-0")), &["10.0.0.5"]))];
    let node = Node::start(server, &states, false).await;
    // No task has run yet: this one has not waited since they were started.
    *node.failures.lock().unwrap() = 2;
    node.until_taken_off(&["10.0.0.5"]).await;
    assert_eq!(*node.failures.lock().unwrap(), 0);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_the_api_server_was_away_the_watch_is_not_believed() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web-0", "uid-web-0", "n1"));
    let states = [("c0", state(Some(pod("web-0")), &["10.0.0.5"]))];
    let node = Node::start(server, &states, false).await;
    let probes = |it: &Server| it.count(&axum::http::Method::GET, "/version");
    node.server.until(|it| probes(it) >= 2).await;
    assert_eq!(node.reads("10.0.0.5"), 0, "the watch shows it");
    let before = probes(&node.server);
    node.server.state().refuse_reads = Some(503);
    node.server.until(|it| probes(it) >= before + 2).await;
    assert_eq!(node.reads("10.0.0.5"), 0);
    node.server.state().refuse_reads = None;
    node.server.until(|_| node.reads("10.0.0.5") > 0).await;
    assert_eq!(node.taken_off(), Vec::<String>::new());
    node.stop().await;
}

#[tokio::test]
async fn who_trusts_annotations_asks_nobody() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web-0", "uid-new", "n2"));
    let states = [("c0", state(Some(pod("web-0")), &["10.0.0.5"]))];
    let node = Node::start(server, &states, true).await;
    node.server
        .until(|it| it.state().calls.iter().any(|it| it.contains("watch=true")))
        .await;
    assert_eq!(node.reads("10.0.0.5"), 0);
    node.stop().await;
}

#[test]
fn an_address_of_several_networks_is_compared_once() {
    let mut file = state(Some(pod("web-0")), &["10.0.0.5", "::ffff:10.0.0.6"]);
    let again = file.attached[0].clone();
    file.attached.push(again);
    let kept = Kept {
        container: "c0".into(),
        written: std::time::SystemTime::UNIX_EPOCH,
        state: Ok(file),
    };
    let found = addresses_of(&kept, &BTreeMap::new());
    let ips: Vec<String> = found
        .iter()
        .map(|it| it.attachment.ip.to_string())
        .collect();
    assert_eq!(ips[0], "10.0.0.5");
    assert_eq!(
        ips.len(),
        ips.iter().collect::<std::collections::BTreeSet<_>>().len()
    );
}
