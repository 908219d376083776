use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Map, json};
use tempfile::TempDir;

use super::*;
use floe_core::node::state::Attached;

fn attached(kind: &str) -> Attached {
    let mut conf = Map::new();
    conf.insert("type".into(), json!(kind));
    Attached {
        kind: kind.into(),
        args: [("ipinfos".to_owned(), "[]".to_owned())].into(),
        conf,
        ifname: "eth0".into(),
        netns: None,
        pod: None,
        taken_off: std::collections::BTreeSet::new(),
    }
}

fn states() -> (TempDir, States) {
    let folder = TempDir::new().unwrap();
    let states = States::new(folder.path().join("galaxy"));
    (folder, states)
}

#[tokio::test]
async fn what_is_noted_is_read_until_nothing_is_left() {
    let (_folder, states) = states();
    assert_eq!(states.read("c1").await.unwrap(), None);
    let state = State {
        attached: vec![attached("a"), attached("b")],
    };
    states.write("c1", &state).await.unwrap();
    assert_eq!(states.read("c1").await.unwrap(), Some(state));
    let mode = fs::metadata(states.folder().join("c1"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);

    states.keep("c1", &State::default()).await.unwrap();
    assert_eq!(states.read("c1").await.unwrap(), None);
    states.remove("c1").await.unwrap();
}

#[tokio::test]
async fn a_list_has_every_container_and_nothing_else() {
    let (_folder, states) = states();
    assert!(states.list().await.unwrap().is_empty());
    let state = State {
        attached: vec![attached("a")],
    };
    states.write("c2", &state).await.unwrap();
    states.write("c1", &state).await.unwrap();
    fs::create_dir(states.folder().join("port")).unwrap();
    fs::write(states.folder().join(".c3.new"), "half").unwrap();
    fs::write(states.folder().join("c4"), "{ not json").unwrap();
    let list = states.list().await.unwrap();
    let names: Vec<_> = list.iter().map(|kept| &*kept.container).collect();
    assert_eq!(names, ["c1", "c2", "c4"]);
    assert_eq!(list[0].state.as_ref().unwrap(), &state);
    assert_eq!(
        list[2].state.as_ref().unwrap_err().reason(),
        "StateMalformed"
    );
}
