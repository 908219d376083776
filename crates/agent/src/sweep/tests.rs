use std::{collections::BTreeSet, sync::Mutex};

use floe_core::node::{
    notes::file_name,
    stale::{GRACE, HostLink, HostRoute, LinkKind},
};
use floe_shell::{mock::Server, stop::Stopper};
use tempfile::TempDir;

use super::{host::Network, *};
use crate::{
    cri::{tests::FakeRuntime, wire::PodSandboxState::SandboxReady},
    events::Inbox,
};

/// The network of a host that is only a list.
#[derive(Default)]
struct FakeHost {
    network: Mutex<Network>,
    is_broken: Mutex<bool>,
}

impl Host for FakeHost {
    fn observe(&self) -> Result<Network, String> {
        if *self.is_broken.lock().unwrap() {
            return Err("as the test wants it".into());
        }
        Ok(self.network.lock().unwrap().clone())
    }

    fn remove_link(&self, link: &HostLink) -> Result<(), String> {
        let mut network = self.network.lock().unwrap();
        network.links.retain(|it| it != link);
        Ok(())
    }

    fn remove_route(&self, route: &HostRoute) -> Result<(), String> {
        let mut network = self.network.lock().unwrap();
        network.routes.retain(|it| it != route);
        Ok(())
    }
}

struct Node {
    sweeper: Sweeper,
    host: Arc<FakeHost>,
    runtime: FakeRuntime,
    turns: Turns,
    states: States,
    inbox: Inbox,
    detached: Arc<Mutex<BTreeSet<Forgotten>>>,
    suspects: Suspects,
    now: Duration,
    stopper: Stopper,
    stop: Stop,
    folder: TempDir,
}

impl Node {
    /// A node that runs one sandbox, `alive`, and has links of it and of `gone`.
    fn new() -> Self {
        let host = Arc::new(FakeHost::default());
        {
            let mut network = host.network.lock().unwrap();
            network.links = vec![link(3, "alive"), link(4, "gone")];
            network.routes = vec![HostRoute {
                dst: "10.0.0.5/32".parse().unwrap(),
                device: "v-hgone-l0".into(),
                container: "gone".into(),
            }];
        }
        let runtime = FakeRuntime::start();
        runtime.runs(&[("alive", SandboxReady)]);
        let folder = tempfile::tempdir().unwrap();
        let states = States::new(folder.path().join("galaxy"));
        let turns = Turns::default();
        let (events, inbox) = events::channel();
        let (stopper, stop) = floe_shell::stop::channel();
        let detached = Arc::new(Mutex::new(BTreeSet::new()));
        let plugins = folder.path().join("floe");
        let (done, files, state) = (Arc::clone(&detached), states.clone(), plugins.clone());
        let detach: Detach = Arc::new(move |forgotten: Forgotten| {
            let (done, files, state) = (Arc::clone(&done), files.clone(), state.clone());
            async move {
                match &forgotten {
                    Forgotten::Container(container) => files.remove(container).await.unwrap(),
                    // As a plugin that does not know its own notes.
                    Forgotten::Note(note) if note.kind == "forgetful" => {}
                    Forgotten::Note(note) => {
                        let folder = state.join(note.topic.folder());
                        std::fs::remove_file(folder.join(file_name(&note.attachment))).unwrap();
                    }
                }
                done.lock().unwrap().insert(forgotten.clone());
                if forgotten.container() == "odd" {
                    return Ok(Detached::PutAside);
                }
                Ok(Detached::Wholly)
            }
            .boxed()
        });
        let sweeper = Sweeper {
            cri: Cri::new(&runtime.endpoint()).unwrap(),
            states: states.clone(),
            turns: turns.clone(),
            pods: Pods::new(Server::default().client()),
            events,
            node: "n1".into(),
            plugins,
            detach,
            host: Arc::clone(&host) as Arc<dyn Host>,
            metrics: Metrics::default(),
        };
        Self {
            sweeper,
            host,
            runtime,
            turns,
            states,
            inbox,
            detached,
            suspects: Suspects::new(),
            now: Duration::ZERO,
            stopper,
            stop,
            folder,
        }
    }

    /// Looks, so long after the last look.
    async fn look(&mut self, later: Duration) -> Option<Unjudged> {
        self.now += later;
        let now = Moment(self.now);
        let mut stop = self.stop.clone();
        self.sweeper.round(now, &mut self.suspects, &mut stop).await
    }

    fn links(&self) -> Vec<String> {
        let network = self.host.network.lock().unwrap();
        network.links.iter().map(|it| it.name.clone()).collect()
    }

    /// A note of a virtual function that a container has.
    fn note(&self, container: &str, kind: &str) -> PathBuf {
        let path = self.folder.path().join("floe/functions");
        std::fs::create_dir_all(&path).unwrap();
        let path = path.join(format!("{container}:eth1.json"));
        std::fs::write(&path, format!(r#"{{"network":"fast","kind":"{kind}"}}"#)).unwrap();
        path
    }

    /// A state file that is old enough not to be spared.
    fn old_state(&self, container: &str) {
        let path = self.folder.path().join("galaxy").join(container);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "[]").unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - 2 * GRACE).unwrap();
    }
}

fn link(index: u32, container: &str) -> HostLink {
    HostLink {
        index,
        name: format!("v-h{container}-l0"),
        alias: Some(format!("floe:net:{container}:eth0")),
        kind: LinkKind::Veth,
    }
}

#[tokio::test]
async fn leftovers_go_after_two_looks_and_are_told() {
    let mut node = Node::new();
    node.old_state("gone");
    assert_eq!(node.look(Duration::ZERO).await, None);
    assert_eq!(node.links(), ["v-halive-l0", "v-hgone-l0"]);
    assert_eq!(node.inbox.so_far(), []);

    node.look(GRACE).await;
    assert_eq!(node.links(), ["v-halive-l0"]);
    assert!(node.host.network.lock().unwrap().routes.is_empty());
    assert_eq!(
        *node.detached.lock().unwrap(),
        BTreeSet::from([Forgotten::Container("gone".into())])
    );
    assert!(node.states.read("gone").await.unwrap().is_none());
    let counted = r#"floe_agent_leftovers_total{reason="StaleState",fate="removed"} 1"#;
    assert!(node.sweeper.metrics.has(counted));
    let news = node.inbox.so_far();
    let told: Vec<_> = news
        .iter()
        .map(|it| (it.reason, it.note.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (
                "StaleState",
                "left over of a container that is gone: detach container gone"
            ),
            (
                "StaleRoute",
                "left over of a container that is gone: \
                 remove route 10.0.0.5/32 dev v-hgone-l0 of container gone"
            ),
            (
                "StaleLink",
                "left over of a container that is gone: remove link v-hgone-l0"
            ),
        ]
    );
    assert!(news.iter().all(|it| it.about == events::node("n1")));
}

#[tokio::test]
async fn what_a_plugin_noted_goes_by_its_del_after_two_looks() {
    let mut node = Node::new();
    let stays = node.note("alive", "galaxy-k8s-sriov");
    let goes = node.note("gone", "galaxy-k8s-sriov");
    node.look(Duration::ZERO).await;
    assert!(goes.exists() && node.detached.lock().unwrap().is_empty());
    node.look(GRACE).await;
    assert!(stays.exists() && !goes.exists());
    let detached = node.detached.lock().unwrap().clone();
    assert_eq!(detached.len(), 1);
    let Some(Forgotten::Note(found)) = detached.first() else {
        panic!("{detached:?}");
    };
    assert_eq!(
        (&*found.attachment.container, &*found.attachment.ifname),
        ("gone", "eth1")
    );
    assert_eq!(
        (&*found.network, &*found.kind),
        ("fast", "galaxy-k8s-sriov")
    );
    assert_eq!(node.inbox.so_far()[0].reason, "StaleNote");
}

#[tokio::test]
async fn a_note_that_its_plugin_leaves_is_not_told_as_removed() {
    let mut node = Node::new();
    let stays = node.note("gone", "forgetful");
    node.look(Duration::ZERO).await;
    node.look(GRACE).await;
    assert_eq!(node.detached.lock().unwrap().len(), 1);
    assert!(stays.exists());
    let news = node.inbox.so_far();
    assert!(news.iter().all(|it| it.reason != "StaleNote"), "{news:?}");
}

#[tokio::test]
async fn a_runtime_that_does_not_answer_frees_nothing_and_ends_all_suspicion() {
    let mut node = Node::new();
    node.look(Duration::ZERO).await;
    node.runtime.world.lock().unwrap().refuses = true;
    assert_eq!(node.look(GRACE).await, Some(Unjudged::NoAnswer));
    assert_eq!(node.links().len(), 2);
    node.runtime.world.lock().unwrap().refuses = false;
    node.look(GRACE).await;
    assert_eq!(node.links().len(), 2, "the first look of two");
    node.look(GRACE).await;
    assert_eq!(node.links(), ["v-halive-l0"]);
}

#[tokio::test]
async fn a_host_that_cannot_be_looked_at_ends_all_suspicion() {
    let mut node = Node::new();
    node.look(Duration::ZERO).await;
    *node.host.is_broken.lock().unwrap() = true;
    node.look(GRACE).await;
    *node.host.is_broken.lock().unwrap() = false;
    node.look(GRACE).await;
    assert_eq!(node.links().len(), 2);
    node.look(GRACE).await;
    assert_eq!(node.links(), ["v-halive-l0"]);
}

#[tokio::test]
async fn what_somebody_works_on_stays() {
    let mut node = Node::new();
    let turn = node.turns.wait("gone").await;
    node.look(Duration::ZERO).await;
    node.look(GRACE).await;
    assert_eq!(node.links().len(), 2);
    drop(turn);
    node.look(GRACE).await;
    node.look(GRACE).await;
    assert_eq!(node.links(), ["v-halive-l0"]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_waits_for_the_turn_of_its_container_but_not_for_ever() {
    let node = Node::new();
    let _turn = node.turns.wait("gone").await;
    let operation = Operation::RemoveLink(link(4, "gone"));
    let refused = node.sweeper.apply(&operation).await;
    assert_eq!(refused, Err("somebody works on the container".into()));
    let _other = node.turns.wait("123456789abcdef").await;
    let galaxys = HostLink {
        alias: None,
        ..link(5, "123456789")
    };
    let refused = node.sweeper.apply(&Operation::RemoveLink(galaxys)).await;
    assert_eq!(refused, Err("somebody works on the container".into()));
    assert_eq!(node.links().len(), 2);
}

#[tokio::test]
async fn the_task_looks_at_once_and_ends_when_it_shall() {
    let node = Node::new();
    let (stopper, stop) = floe_shell::stop::channel();
    let world = Arc::clone(&node.runtime.world);
    let task = tokio::spawn(node.sweeper.run(stop));
    let asked = async {
        while world.lock().unwrap().calls.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), asked).await.unwrap();
    stopper.stop();
    timeout(Duration::from_secs(10), task)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn what_is_only_put_aside_is_not_told_as_removed() {
    let mut node = Node::new();
    node.old_state("odd");
    node.host.network.lock().unwrap().links.truncate(1);
    node.host.network.lock().unwrap().routes.clear();
    node.look(Duration::ZERO).await;
    node.look(GRACE).await;
    let news = node.inbox.so_far();
    assert_eq!(news.len(), 1, "{news:?}");
    assert_eq!((news[0].reason, news[0].warning), ("StateMalformed", true));
}

#[tokio::test]
async fn a_stop_begins_nothing_more() {
    let mut node = Node::new();
    node.look(Duration::ZERO).await;
    node.stopper.stop();
    node.look(GRACE).await;
    assert_eq!(node.links(), ["v-halive-l0", "v-hgone-l0"]);
}
