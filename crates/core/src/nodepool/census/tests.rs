use super::*;
use crate::nodepool::{matching::Selector, pool::Unfit};

fn node(name: &str, server: &str, ready: bool) -> NodeFacts {
    NodeFacts {
        name: name.into(),
        provider_id: server.into(),
        ready,
        ..NodeFacts::default()
    }
}

fn pod(node: &str, ready: bool) -> PodFacts {
    PodFacts {
        namespace: "ns".into(),
        node: node.into(),
        phase_running: true,
        ready,
        ..PodFacts::default()
    }
}

fn key(name: &str) -> Key {
    (String::new(), name.to_owned())
}

fn servers(names: &[&str]) -> News {
    News::Of(names.iter().map(|it| (*it).to_owned()).collect())
}

/// Nodes `a` and `b`, and one without a server.
fn nodes() -> Census<NodeFacts> {
    let mut nodes = Census::default();
    nodes.put(key("a"), node("a", "c://a", true));
    nodes.put(key("b"), node("b", "c://b", true));
    nodes.put(key("new"), node("new", "", true));
    nodes
}

fn field<'a>(nodes: &'a Census<NodeFacts>, dead: &'a BTreeSet<String>) -> Field<'a, NodeFacts> {
    Field {
        nodes,
        pods: None,
        dead,
    }
}

#[test]
fn who_looks_again_is_told_only_what_is_new() {
    let (mut nodes, nobody) = (nodes(), BTreeSet::new());
    let mut glance = Glance::default();
    assert_eq!(glance.look(&field(&nodes, &nobody)), News::All);
    assert_eq!(glance.look(&field(&nodes, &nobody)), servers(&[]));
    assert!(!nodes.put(key("a"), node("a", "c://a", true)));
    assert_eq!(glance.look(&field(&nodes, &nobody)), servers(&[]));
    nodes.put(key("a"), node("a", "c://a", false));
    assert_eq!(glance.look(&field(&nodes, &nobody)), servers(&["c://a"]));
    nodes.remove(&key("b"));
    assert_eq!(glance.look(&field(&nodes, &nobody)), servers(&["c://b"]));
    glance.reset();
    assert_eq!(glance.look(&field(&nodes, &nobody)), News::All);
}

#[test]
fn a_node_that_gets_another_server_is_news_about_both() {
    let (mut nodes, nobody) = (nodes(), BTreeSet::new());
    let mut glance = Glance::default();
    glance.look(&field(&nodes, &nobody));
    nodes.put(key("new"), node("new", "c://new", true));
    assert_eq!(glance.look(&field(&nodes, &nobody)), servers(&["c://new"]));
    nodes.put(key("a"), node("a", "c://z", true));
    let look = glance.look(&field(&nodes, &nobody));
    assert_eq!(look, servers(&["c://a", "c://z"]));
    let rule = Rule::default();
    assert!(field(&nodes, &nobody).judge(&rule, "c://a").is_none());
    assert!(field(&nodes, &nobody).judge(&rule, "c://z").is_some());
}

#[test]
fn who_has_missed_too_much_looks_at_everything() {
    let (mut nodes, nobody) = (nodes(), BTreeSet::new());
    let mut glance = Glance::default();
    glance.look(&field(&nodes, &nobody));
    let mut ready = true;
    for _ in 0..REMEMBERED {
        ready = !ready;
        nodes.put(key("a"), node("a", "c://a", ready));
    }
    let mut late = glance.clone();
    assert_eq!(glance.look(&field(&nodes, &nobody)), servers(&["c://a"]));
    nodes.put(key("a"), node("a", "c://a", !ready));
    assert_eq!(late.look(&field(&nodes, &nobody)), News::All);
}

#[test]
fn pods_and_witnesses_are_news_about_their_nodes() {
    let (nodes, mut pods) = (nodes(), Census::default());
    let mut dead = BTreeSet::new();
    let rule = Rule {
        pod_namespace: Some("ns".into()),
        node_selector: Selector::default(),
        ..Rule::default()
    };
    let mut glance = Glance::default();
    let mut look = |pods: &Census<PodFacts>, dead: &BTreeSet<String>| {
        let field = Field {
            nodes: &nodes,
            pods: Some(pods),
            dead,
        };
        let news = glance.look(&field);
        let seen = field.judge(&rule, "c://a").map(|(_, seen)| seen.unfit);
        (news, seen.unwrap())
    };
    assert_eq!(look(&pods, &dead), (News::All, Some(Unfit::NoPod)));
    let web = ("ns".to_owned(), "web".to_owned());
    pods.put(web.clone(), pod("a", false));
    let told = look(&pods, &dead);
    assert_eq!(told, (servers(&["c://a"]), Some(Unfit::PodNotReady)));
    pods.put(web.clone(), pod("a", true));
    assert_eq!(look(&pods, &dead), (servers(&["c://a"]), None));
    dead.insert("a".into());
    let told = look(&pods, &dead);
    assert_eq!(told, (servers(&["c://a"]), Some(Unfit::NodeNotReady)));
    dead.clear();
    assert_eq!(look(&pods, &dead), (servers(&["c://a"]), None));
    pods.put(web.clone(), pod("b", true));
    let told = look(&pods, &dead);
    assert_eq!(told, (servers(&["c://a", "c://b"]), Some(Unfit::NoPod)));
    // Nobody knows such a node.
    pods.put(web, pod("z", true));
    assert_eq!(look(&pods, &dead).0, servers(&["c://b"]));
}

#[test]
fn of_two_nodes_of_one_server_the_one_that_fits_counts() {
    let nobody = BTreeSet::new();
    let rule = Rule::default();
    for (old, new, counts) in [
        (true, true, "old"),
        (true, false, "old"),
        (false, true, "reborn"),
        (false, false, "reborn"),
    ] {
        let mut nodes = Census::default();
        nodes.put(key("old"), node("old", "c://1", old));
        nodes.put(key("reborn"), node("reborn", "c://1", new));
        let field = field(&nodes, &nobody);
        let (_, seen) = field.judge(&rule, "c://1").unwrap();
        assert_eq!(seen.name, counts, "{old} {new}");
        assert_eq!(field.servers().count(), 1);
    }
}
