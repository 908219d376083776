use std::{path::Path, sync::Mutex};

use axum::http::Method;
use floe_api::labels;
use floe_core::node::state::{Attached, PodId, State};
use floe_shell::{
    mock::{Fault, Server},
    stop::Stopper,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    cri::{tests::FakeRuntime, wire::PodSandboxState::SandboxReady},
    events::{self, Inbox},
};

const NODES: &str = "/api/v1/nodes";
const FIPS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";

/// A node with its state files and an API server; what it takes off is noted.
struct Node {
    server: Server,
    records: Records,
    states: States,
    turns: Turns,
    events: Events,
    inbox: Inbox,
    take_off: TakeOff,
    restore: Restore,
    look_in: LookIn,
    missing: Missing,
    /// What was configured again.
    restored: Arc<Mutex<Vec<(String, IpAddr)>>>,
    /// Why nothing can be configured again, if so.
    obstacle: Arc<Mutex<Option<&'static str>>>,
    /// Whether restoring goes on, and how often it has begun.
    gate: Arc<watch::Sender<bool>>,
    begun: Arc<Mutex<usize>>,
    /// What namespaces do not have.
    absent: Arc<Mutex<BTreeSet<IpAddr>>>,
    taken_off: Arc<Mutex<Vec<Target>>>,
    /// How often something was to be taken off, also in vain.
    attempts: Arc<Mutex<usize>>,
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
        let attempts = Arc::new(Mutex::new(0_usize));
        let counted = Arc::clone(&attempts);
        let (noted, failing) = (Arc::clone(&taken_off), Arc::clone(&failures));
        let fake: TakeOff = Arc::new(move |target: &Target| {
            *counted.lock().unwrap() += 1;
            let mut failures = failing.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                let wanted = TakeOffError::Namespace {
                    path: "/run/netns/a".into(),
                    error: std::io::Error::other("as the test wants it"),
                };
                return (Removed::default(), vec![wanted]);
            }
            if target.netns.is_none() {
                let nobody = TakeOffError::OutOfReach(target.container.clone());
                return (Removed::default(), vec![nobody]);
            }
            let mut noted = noted.lock().unwrap();
            // What is off is off.
            if noted.contains(target) {
                return (Removed::default(), Vec::new());
            }
            noted.push(target.clone());
            (Removed(vec![format!("address {}", target.ip)]), Vec::new())
        });
        let (restored, obstacle) = (Arc::default(), Arc::default());
        let gate = Arc::new(watch::Sender::new(true));
        let begun = Arc::default();
        let restore = fake_restore(&files, &restored, &obstacle, &taken_off);
        let restore = gated(restore, &gate, &begun);
        let absent = Arc::new(Mutex::new(BTreeSet::new()));
        let lacking = Arc::clone(&absent);
        let look_in: LookIn = Arc::new(move |_: &Path| {
            let all = (0..=255).map(|last| IpAddr::from([10, 0, 0, last]));
            let lacking = lacking.lock().unwrap();
            Some(all.filter(|ip| !lacking.contains(ip)).collect())
        });
        let version = json!({ "major": "1", "minor": "34", "gitVersion": "v1.34.0" });
        server.state().raw.insert("/version".into(), version);
        server.put(NODES, json!({ "metadata": { "name": "n1" } }));
        let mut node = Self {
            records: Records::new(server.client()),
            server,
            states: files,
            turns: Turns::default(),
            events,
            inbox,
            take_off: fake,
            restore,
            look_in,
            missing: Missing::default(),
            restored,
            obstacle,
            gate,
            begun,
            absent,
            taken_off,
            attempts,
            failures,
            runtime,
            stopper,
            tasks: Vec::new(),
            _folder: folder,
        };
        let takeover = Takeover {
            trust_annotations,
            ..node.takeover()
        };
        let records = node.records.clone();
        node.tasks = vec![
            tokio::spawn(records.run("n1".into(), stop.clone())),
            tokio::spawn(takeover.run(stop)),
        ];
        node
    }

    fn takeover(&self) -> Takeover {
        Takeover {
            records: self.records.clone(),
            client: self.server.client(),
            cri: Cri::new(&self.runtime.endpoint()).unwrap(),
            states: self.states.clone(),
            turns: self.turns.clone(),
            events: self.events.clone(),
            node: "n1".into(),
            trust_annotations: false,
            take_off: Arc::clone(&self.take_off),
            restore: Arc::clone(&self.restore),
            look_in: Arc::clone(&self.look_in),
            missing: self.missing.clone(),
            metrics: Metrics::default(),
            restoring: Restoring::default(),
        }
    }

    async fn until_taken_off(&self, ips: &[&str]) {
        self.server.until(|_| self.taken_off() == ips).await;
    }

    /// What is told. It comes after what it tells of.
    async fn until_told(&mut self) -> Vec<events::News> {
        let inbox = &mut self.inbox;
        let told = async {
            loop {
                let news = inbox.so_far();
                if !news.is_empty() {
                    return news;
                }
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(Duration::from_secs(20), told).await.unwrap()
    }

    fn taken_off(&self) -> Vec<String> {
        let taken_off = self.taken_off.lock().unwrap();
        let mut ips: Vec<_> = taken_off.iter().map(|it| it.ip.to_string()).collect();
        ips.sort();
        ips
    }

    fn reads(&self, ip: &str) -> usize {
        self.server
            .count(&Method::GET, &format!("floatingips/{ip}"))
    }

    async fn stop(self) {
        self.stopper.stop();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Notes what is restored, and that nothing of it is off any more, as the attacher does.
fn fake_restore(
    states: &States,
    restored: &Arc<Mutex<Vec<(String, IpAddr)>>>,
    obstacle: &Arc<Mutex<Option<&'static str>>>,
    taken_off: &Arc<Mutex<Vec<Target>>>,
) -> Restore {
    let (states, restored) = (states.clone(), Arc::clone(restored));
    let (obstacle, taken_off) = (Arc::clone(obstacle), Arc::clone(taken_off));
    Arc::new(move |container: String, ip: IpAddr| {
        let (states, restored) = (states.clone(), Arc::clone(&restored));
        let (obstacle, taken_off) = (Arc::clone(&obstacle), Arc::clone(&taken_off));
        Box::pin(async move {
            if let Some(reason) = *obstacle.lock().unwrap() {
                return Err((reason, "as the test wants it".to_owned()));
            }
            let mut state = states.read(&container).await.unwrap().unwrap();
            for attached in &mut state.attached {
                attached.taken_off.clear();
            }
            states.write(&container, &state).await.unwrap();
            taken_off.lock().unwrap().retain(|it| it.ip != ip);
            restored.lock().unwrap().push((container, ip));
            Ok(true)
        })
    })
}

/// Counts what begins, and lets it go on while the gate is open.
fn gated(restore: Restore, gate: &Arc<watch::Sender<bool>>, begun: &Arc<Mutex<usize>>) -> Restore {
    let (gate, begun) = (Arc::clone(gate), Arc::clone(begun));
    Arc::new(move |container: String, ip: IpAddr| {
        *begun.lock().unwrap() += 1;
        let (mut open, restore) = (gate.subscribe(), Arc::clone(&restore));
        Box::pin(async move {
            open.wait_for(|open| *open).await.unwrap();
            restore(container, ip).await
        })
    })
}

/// How many watches were asked for.
fn watches(server: &Server) -> usize {
    server.count(&Method::GET, "watch=true")
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
        taken_off: BTreeSet::new(),
    };
    State {
        attached: vec![attached],
    }
}

fn record(ip: &str, pod: &str, uid: &str, node: &str) -> Value {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
        "metadata": { "name": ip, "labels": { (labels::NODE): labels::node_value(node) } },
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
    let news = node.until_told().await;
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
    node.runtime.runs(&[("c0", SandboxReady)]);
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
    let probes = |it: &Server| it.count(&Method::GET, "/version");
    let lists = |it: &Server| it.count(&Method::GET, "labelSelector") - watches(it);
    node.server.until(|it| probes(it) >= 2).await;
    assert_eq!(node.reads("10.0.0.5"), 0, "the watch shows it");
    let before = (probes(&node.server), lists(&node.server));
    node.server.state().refuse_reads = Some(503);
    node.server.until(|it| probes(it) >= before.0 + 2).await;
    assert_eq!(lists(&node.server), before.1, "the watch goes on");
    node.server.state().refuse_reads = None;
    node.server.until(|it| lists(it) > before.1).await;
    assert_eq!(node.taken_off(), Vec::<String>::new());
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn silence_is_noticed_also_while_something_is_tried_again_and_again() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web-0", "uid-new", "n2"));
    let states = [("c0", state(Some(pod("web-0")), &["10.0.0.5"]))];
    let node = Node::start(server, &states, false).await;
    *node.failures.lock().unwrap() = usize::MAX;
    let probes = |it: &Server| it.count(&Method::GET, "/version");
    let lists = |it: &Server| it.count(&Method::GET, "labelSelector") - watches(it);
    node.server.until(|_| node.reads("10.0.0.5") > 1).await;
    // Nobody refuses: nobody answers at all.
    node.server.always(Method::GET, "/version", Fault::Hang);
    let (before, reads) = (probes(&node.server), node.reads("10.0.0.5"));
    node.server.until(|it| probes(it) >= before + 3).await;
    assert!(
        node.reads("10.0.0.5") > reads,
        "it is tried again meanwhile"
    );
    let listed = lists(&node.server);
    node.server.heal();
    node.server.until(|it| lists(it) > listed).await;
    node.stop().await;
}

#[tokio::test]
async fn a_runtime_that_does_not_answer_is_no_reason_to_cut_a_pod_off() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "pod-c0", "uid-new", "n2"));
    let states = [("c0", state(None, &["10.0.0.5"]))];
    let node = Node::start(server, &states, false).await;
    node.runtime.runs(&[("c0", SandboxReady)]);
    node.runtime.world.lock().unwrap().refuses = true;
    let asked = |node: &Node| {
        let world = node.runtime.world.lock().unwrap();
        world
            .calls
            .iter()
            .filter(|it| **it == "PodSandboxStatus")
            .count()
    };
    // There is reason to look at most three times at first; the next is another try.
    node.server.until(|_| asked(&node) > 3).await;
    assert_eq!(*node.attempts.lock().unwrap(), 0);
    node.runtime.world.lock().unwrap().refuses = false;
    node.until_taken_off(&["10.0.0.5"]).await;
    let target = node.taken_off.lock().unwrap()[0].clone();
    assert_eq!(target.netns, Some("/run/netns/c0".into()));
    node.stop().await;
}

#[tokio::test]
async fn a_pod_out_of_reach_is_told_and_one_that_is_gone_is_not() {
    for (listed, told) in [("hidden", true), ("c1", false)] {
        let server = Server::default();
        server.put(FIPS, record("10.0.0.5", "pod-hidden", "uid-new", "n2"));
        let node = Node::start(server, &[], false).await;
        node.runtime.runs(&[(listed, SandboxReady)]);
        let attachment = Attachment {
            container: "hidden".into(),
            pod: None,
            ip: "10.0.0.5".parse().unwrap(),
        };
        let configured = Configured {
            attachment,
            netns: None,
            is_off: false,
            is_expected: false,
        };
        let holder = Seen {
            key: "sts_default_web_pod-hidden".into(),
            uid: "uid-new".into(),
            node: "n2".into(),
        };
        let cause = Cause {
            what: "time",
            since: Instant::now(),
        };
        let outcome = node.takeover().remove(configured, &holder, cause).await;
        match outcome {
            Outcome::Odd(ip, oddity) if told => {
                assert_eq!(ip.to_string(), "10.0.0.5");
                assert_eq!(oddity.reason(), "PodOutOfReach");
            }
            Outcome::Settled if !told => {}
            Outcome::Settled
            | Outcome::Off(_)
            | Outcome::Restorable(_)
            | Outcome::Busy(_)
            | Outcome::Odd(..)
            | Outcome::Failed(_) => panic!("{listed}"),
        }
        node.stop().await;
    }
}

#[tokio::test]
async fn a_node_of_the_wrong_name_takes_nothing_off_because_records_name_another() {
    let server = Server::default();
    // As galaxy's records are: without a uid.
    server.put(FIPS, record("10.0.0.5", "web-0", "", "n2"));
    let states = [("c0", state(Some(pod("web-0")), &["10.0.0.5"]))];
    let node = Node::start(server, &states, false).await;
    // No task has run yet: this one has not waited since they were started.
    node.server.delete(NODES, "n1");
    node.server.until(|_| node.reads("10.0.0.5") > 0).await;
    let reads = node.reads("10.0.0.5");
    node.server
        .put(FIPS, record("10.0.0.9", "web-9", "uid-web-9", "n1"));
    node.server.until(|_| node.reads("10.0.0.5") > reads).await;
    assert_eq!(node.taken_off(), Vec::<String>::new());

    // Once it is sure that this is n1, the address is elsewhere.
    node.server
        .put(NODES, json!({ "metadata": { "name": "n1" } }));
    node.server
        .put(FIPS, record("10.0.0.8", "web-8", "uid-web-8", "n1"));
    node.until_taken_off(&["10.0.0.5"]).await;
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

#[tokio::test]
async fn an_address_whose_record_names_its_pod_again_is_configured_again() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web", "uid-web", "n1"));
    let states = [("c0", state(Some(pod("web")), &["10.0.0.5"]))];
    let mut node = Node::start(server.clone(), &states, false).await;
    // An administrator edits the record, and the address is not this pod's any more.
    server.put(FIPS, record("10.0.0.5", "other", "", ""));
    node.until_taken_off(&["10.0.0.5"]).await;
    node.until_told().await;
    let noted = node.states.read("c0").await.unwrap().unwrap();
    let ip: IpAddr = "10.0.0.5".parse().unwrap();
    assert!(noted.attached[0].taken_off.contains(&ip));

    // It is reverted. The controller has still to enter the uid.
    server.put(FIPS, record("10.0.0.5", "web", "", "n1"));
    let lacks = |node: &Node| {
        node.missing
            .current()
            .iter()
            .any(|it| it.pod == "default/web")
    };
    server.until(|_| lacks(&node)).await;
    assert!(node.restored.lock().unwrap().is_empty());
    // Then it cannot be configured at first: that is reported.
    *node.obstacle.lock().unwrap() = Some("AddressConflict");
    server.put(FIPS, record("10.0.0.5", "web", "uid-web", "n1"));
    let told = node.until_told().await;
    assert_eq!(
        (told[0].reason, told[0].warning),
        ("AddressNotRestored", true)
    );
    assert!(lacks(&node));

    *node.obstacle.lock().unwrap() = None;
    let mut touched = record("10.0.0.5", "web", "uid-web", "n1");
    touched["metadata"]["annotations"] = json!({ "touched": "yes" });
    server.put(FIPS, touched);
    server
        .until(|_| !node.restored.lock().unwrap().is_empty())
        .await;
    let told = node.until_told().await;
    assert_eq!(
        (told[0].reason, told[0].warning),
        ("AddressRestored", false)
    );
    server.until(|_| node.missing.current().is_empty()).await;
    assert_eq!(*node.restored.lock().unwrap(), [("c0".to_owned(), ip)]);
    node.stop().await;
}

#[tokio::test]
async fn an_agent_that_was_started_again_restores_what_another_one_took_off() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web", "uid-web", "n1"));
    let mut off = state(Some(pod("web")), &["10.0.0.5"]);
    off.attached[0].taken_off = ["10.0.0.5".parse().unwrap()].into();
    let node = Node::start(server.clone(), &[("c0", off)], false).await;
    server
        .until(|_| !node.restored.lock().unwrap().is_empty())
        .await;
    assert_eq!(node.taken_off(), [""; 0]);
    node.stop().await;
}

#[tokio::test]
async fn an_address_that_a_pod_has_lost_is_reported_and_not_touched() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web", "uid-web", "n1"));
    let mut lost = state(Some(pod("web")), &["10.0.0.5"]);
    let result = json!({ "cniVersion": "1.0.0", "ips": [{ "address": "10.0.0.5/24" }] });
    lost.attached[0].conf.insert("prevResult".into(), result);
    // A plugin that has not configured the address is not expected to have it.
    let silent = state(Some(pod("db")), &["10.0.0.6"]);
    server.put(FIPS, record("10.0.0.6", "db", "uid-db", "n1"));
    let node = Node::start(server.clone(), &[("c0", lost), ("c1", silent)], false).await;
    for last in [5, 6] {
        let absent = IpAddr::from([10, 0, 0, last]);
        node.absent.lock().unwrap().insert(absent);
    }
    server.put(FIPS, record("10.0.0.7", "x", "uid-x", "n1"));
    server.until(|_| !node.missing.current().is_empty()).await;
    let missing = node.missing.current();
    assert_eq!((missing.len(), missing[0].pod.as_str()), (1, "default/web"));
    assert!(node.restored.lock().unwrap().is_empty());
    node.stop().await;
}

/// A state file of a pod whose address was taken off.
fn off(name: &str, ips: &[&str]) -> State {
    let mut off = state(Some(pod(name)), ips);
    off.attached[0].taken_off = [ips[0].parse().unwrap()].into();
    off
}

#[tokio::test]
async fn no_removal_waits_for_a_slow_restore_of_another_pod() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "slow", "uid-slow", "n1"));
    server.put(FIPS, record("10.0.0.6", "web", "uid-web", "n1"));
    let states = [
        ("c0", off("slow", &["10.0.0.5"])),
        ("c1", state(Some(pod("web")), &["10.0.0.6"])),
    ];
    let node = Node::start(server.clone(), &states, false).await;
    // No task has run yet: this one has not waited since they were started.
    node.gate.send_replace(false);
    server.until(|_| *node.begun.lock().unwrap() == 1).await;
    server.put(FIPS, record("10.0.0.6", "other", "uid-other", "n2"));
    node.until_taken_off(&["10.0.0.6"]).await;
    // What is being restored is not there yet, and that is reported.
    server.until(|_| !node.missing.current().is_empty()).await;
    assert_eq!(node.missing.current()[0].pod, "default/slow");
    assert!(node.restored.lock().unwrap().is_empty());

    node.gate.send_replace(true);
    server.until(|_| node.missing.current().is_empty()).await;
    assert_eq!(node.restored.lock().unwrap().len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn what_moves_away_during_a_restore_of_its_pod_is_taken_off_after_it() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web", "uid-web", "n1"));
    server.put(FIPS, record("10.0.0.6", "web", "uid-web", "n1"));
    let states = [("c0", off("web", &["10.0.0.5", "10.0.0.6"]))];
    let node = Node::start(server.clone(), &states, false).await;
    node.gate.send_replace(false);
    server.until(|_| *node.begun.lock().unwrap() == 1).await;
    server.put(FIPS, record("10.0.0.6", "other", "uid-other", "n2"));
    // Nothing but the end of the restore leads to another look.
    server
        .until(|_| node.missing.current().len() == 1 && !node.turns.taken().is_empty())
        .await;
    assert_eq!(node.taken_off(), [""; 0]);
    node.gate.send_replace(true);
    node.until_taken_off(&["10.0.0.6"]).await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_fails_is_tried_again_soon_and_then_more_rarely() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web", "uid-web", "n1"));
    let node = Node::start(server.clone(), &[("c0", off("web", &["10.0.0.5"]))], false).await;
    *node.obstacle.lock().unwrap() = Some("AddressConflict");
    // The first try, and one each 2, 4 and 8 s later: all before the look of the minute.
    let begin = Instant::now();
    server.until(|_| *node.begun.lock().unwrap() == 4).await;
    assert!(begin.elapsed() < PERIOD, "{:?}", begin.elapsed());
    assert_eq!(node.missing.current().len(), 1);
    *node.obstacle.lock().unwrap() = None;
    server.until(|_| node.missing.current().is_empty()).await;
    assert_eq!(node.restored.lock().unwrap().len(), 1);
    node.stop().await;
}

/// Restores what is due by then, and returns the pause until the next try.
async fn pause_after_restoring(takeover: &Takeover, at: Instant) -> Duration {
    let restoring = &takeover.restoring;
    let (container, addresses) = restoring.begin(at).unwrap();
    let restored = takeover.restore_container(&container, &addresses).await;
    restoring.end(&container, restored, at);
    restoring.next_due().unwrap() - at
}

#[tokio::test]
async fn a_comparison_that_fails_does_not_shorten_the_pause_of_a_restore() {
    let server = Server::default();
    server.put(FIPS, record("10.0.0.5", "web", "uid-web", "n1"));
    let states = [("c0", off("web", &["10.0.0.5"]))];
    // Nothing is compared but by this test.
    let node = Node::start(server.clone(), &states, true).await;
    *node.obstacle.lock().unwrap() = Some("AddressConflict");
    let takeover = node.takeover();
    let (mut memory, cause) = (Memory::default(), cause());
    assert!(takeover.compare(cause, &mut memory).await);
    let later = Instant::now() + PERIOD;
    let pause = pause_after_restoring(&takeover, later).await;
    server.always(Method::GET, "floatingips/10.0.0.5", Fault::Refuse(503));
    assert!(!takeover.compare(cause, &mut memory).await);
    server.heal();
    assert!(takeover.compare(cause, &mut memory).await);
    assert_eq!(takeover.restoring.next_due(), Some(later + pause));
    let next = pause_after_restoring(&takeover, later + pause).await;
    assert_eq!(next, 2 * pause);
    node.stop().await;
}

#[tokio::test]
async fn addresses_that_work_are_interrupted_more_rarely_than_others_stay_down() {
    for (ips, longest) in [
        (&["10.0.0.5"][..], Duration::from_mins(1)),
        (&["10.0.0.5", "10.0.0.6"], Duration::from_mins(15)),
    ] {
        let server = Server::default();
        for ip in ips {
            server.put(FIPS, record(ip, "web", "uid-web", "n1"));
        }
        let node = Node::start(server, &[("c0", off("web", ips))], true).await;
        *node.obstacle.lock().unwrap() = Some("AddressConflict");
        let takeover = node.takeover();
        takeover.compare(cause(), &mut Memory::default()).await;
        let (mut at, mut pause) = (Instant::now(), Duration::ZERO);
        for _ in 0..12 {
            pause = pause_after_restoring(&takeover, at).await;
            at += pause;
        }
        assert_eq!(pause, longest, "{ips:?}");
        node.stop().await;
    }
}

fn cause() -> Cause {
    Cause {
        what: "time",
        since: Instant::now(),
    }
}
