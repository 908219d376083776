use super::*;
use crate::{cni::config::Attachment, node::notes::Topic};

/// Ids as a runtime gives them: long, and different early.
const OLD: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const NEW: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
const LONG_AGO: Option<Duration> = Some(Duration::from_hours(1));

fn at(second: u64) -> Moment {
    Moment(Duration::from_secs(second))
}

fn sandbox(id: &str, alive: bool, pod_uid: &str) -> Sandbox {
    Sandbox {
        id: id.into(),
        alive,
        pod_uid: pod_uid.into(),
    }
}

fn state(container: &str, pod_uid: Option<&str>) -> StateFile {
    StateFile {
        container: container.into(),
        age: LONG_AGO,
        pod_uid: pod_uid.map(Into::into),
    }
}

fn link(name: &str, alias: Option<&str>, kind: LinkKind) -> HostLink {
    HostLink {
        index: 7,
        name: name.into(),
        alias: alias.map(Into::into),
        kind,
    }
}

fn own_veth(container: &str) -> HostLink {
    let alias = format!("floe:galaxy-k8s-vlan:{container}:eth0");
    link(
        &format!("v-h{}-l0", &container[..9]),
        Some(&alias),
        LinkKind::Veth,
    )
}

fn galaxy_veth(container: &str) -> HostLink {
    let name = format!("v-h{}-u0", &container[..9]);
    link(&name, None, LinkKind::Veth)
}

/// A node where another pod runs, and nothing else.
fn node() -> Observation {
    Observation {
        at: at(0),
        sandboxes: Some(vec![sandbox(NEW, true, "u-new")]),
        pods: Some(pods(&["u-new"])),
        busy: BTreeSet::new(),
        states: Vec::new(),
        links: Vec::new(),
        notes: Vec::new(),
        routes: Vec::new(),
    }
}

/// What goes when everything stays as it was observed for `seconds`.
fn goes_after(seconds: u64, seen: &Observation) -> Vec<String> {
    let first = decide(seen, &Suspects::new());
    assert_eq!(first.operations, [], "nothing goes at first sight");
    let later = Observation {
        at: seen.at.after(Duration::from_secs(seconds)),
        ..seen.clone()
    };
    texts(&decide(&later, &first.suspects))
}

fn texts(plan: &Plan) -> Vec<String> {
    plan.operations.iter().map(ToString::to_string).collect()
}

#[test]
fn everything_of_a_container_that_is_gone_goes_its_state_first() {
    let seen = Observation {
        states: vec![state(OLD, None), state(NEW, None)],
        links: vec![own_veth(OLD), own_veth(NEW)],
        routes: vec![HostRoute {
            dst: "10.0.0.5/32".parse().unwrap(),
            device: "v-h012345678-u0".into(),
            container: OLD.into(),
        }],
        ..node()
    };
    assert_eq!(
        goes_after(60, &seen),
        [
            format!("detach container {OLD}"),
            format!("remove route 10.0.0.5/32 dev v-h012345678-u0 of container {OLD}"),
            "remove link v-h012345678-l0".into(),
        ]
    );
    let reasons: Vec<&str> = decide(
        &Observation {
            at: at(60),
            ..seen.clone()
        },
        &decide(&seen, &Suspects::new()).suspects,
    )
    .operations
    .iter()
    .map(Operation::reason)
    .collect();
    assert_eq!(reasons, ["StaleState", "StaleRoute", "StaleLink"]);
}

#[test]
fn a_note_without_a_state_file_goes_by_the_del_of_its_plugin_and_before_its_link() {
    let seen = Observation {
        notes: vec![note(OLD, Topic::Functions), note(NEW, Topic::Functions)],
        links: vec![own_veth(OLD)],
        ..node()
    };
    assert_eq!(goes_after(59, &seen), [""; 0]);
    assert_eq!(
        goes_after(60, &seen),
        [
            format!(
                "detach eth0 of container {OLD} from network lab, as its note in functions says"
            ),
            "remove link v-h012345678-l0".into(),
        ]
    );
    let first = decide(&seen, &Suspects::new());
    let later = Observation { at: at(60), ..seen };
    let plan = decide(&later, &first.suspects);
    assert_eq!(plan.operations[0].reason(), "StaleNote");
}

#[test]
fn a_note_beside_a_state_file_is_left_to_the_dels_of_the_file() {
    let seen = Observation {
        notes: vec![note(OLD, Topic::Proxies)],
        states: vec![state(OLD, None)],
        ..node()
    };
    let first = decide(&seen, &Suspects::new());
    let second = Observation { at: at(60), ..seen };
    let plan = decide(&second, &first.suspects);
    assert_eq!(texts(&plan), [format!("detach container {OLD}")]);
    // The file is gone, and its DELs have left the note.
    let third = Observation {
        at: at(90),
        states: Vec::new(),
        ..second
    };
    let plan = decide(&third, &plan.suspects);
    assert_eq!(plan.operations.len(), 1);
    assert_eq!(plan.operations[0].reason(), "StaleNote");
}

#[test]
fn a_note_of_a_container_that_somebody_works_on_stays() {
    let seen = Observation {
        notes: vec![note(OLD, Topic::Functions)],
        busy: BTreeSet::from([OLD.to_owned()]),
        ..node()
    };
    assert_eq!(goes_after(600, &seen), [""; 0]);
}

fn note(container: &str, topic: Topic) -> Note {
    Note {
        topic,
        attachment: Attachment {
            container: container.into(),
            ifname: "eth0".into(),
        },
        network: "lab".into(),
        kind: "galaxy-k8s-sriov".into(),
    }
}

#[test]
fn nothing_goes_before_the_grace_is_over() {
    let seen = Observation {
        states: vec![state(OLD, None)],
        links: vec![own_veth(OLD), galaxy_veth(OLD)],
        ..node()
    };
    assert_eq!(goes_after(59, &seen), [""; 0]);
    assert_eq!(goes_after(60, &seen).len(), 3);
}

#[test]
fn one_observation_is_not_enough_however_old_the_leftover() {
    let seen = Observation {
        at: at(100_000),
        states: vec![state(OLD, None)],
        ..node()
    };
    assert_eq!(decide(&seen, &Suspects::new()).operations, []);
    // Nor is a suspicion against somebody else.
    let other = Suspects::from([(Owner::Container("other".into()), at(0))]);
    assert_eq!(decide(&seen, &other).operations, []);
}

type Change = fn(&mut Observation);

#[test]
fn what_spares_a_container() {
    let gone = Observation {
        states: vec![state(OLD, Some("u-old"))],
        links: vec![own_veth(OLD), galaxy_veth(OLD)],
        ..node()
    };
    let table: [(&str, Change, bool); 13] = [
        ("it is gone", |_| {}, false),
        (
            "it lives",
            |seen| seen.sandboxes = Some(vec![sandbox(OLD, true, "u-old")]),
            true,
        ),
        (
            "it is listed and dead",
            |seen| seen.sandboxes = Some(vec![sandbox(OLD, false, "u-old")]),
            false,
        ),
        ("it is worked on", |seen| seen.busy = uids(&[OLD]), true),
        (
            "somebody else is worked on",
            |seen| seen.busy = uids(&[NEW]),
            false,
        ),
        (
            "its state was just written",
            |seen| seen.states[0].age = Some(Duration::from_secs(59)),
            true,
        ),
        (
            "nobody can tell how old its state is",
            |seen| seen.states[0].age = None,
            false,
        ),
        (
            "its pod is to run here and has no sandbox at all",
            |seen| seen.pods = Some(pods(&["u-new", "u-old"])),
            true,
        ),
        (
            "its pod is to run here and has another sandbox",
            |seen| {
                seen.pods = Some(pods(&["u-new", "u-old"]));
                list(seen, sandbox("beef", true, "u-old"));
            },
            false,
        ),
        (
            "its pod is to run here, and the runtime says that the container is dead",
            |seen| {
                seen.pods = Some(pods(&["u-new", "u-old"]));
                list(seen, sandbox(OLD, false, "u-old"));
            },
            false,
        ),
        (
            "its pod is static and has another sandbox, under the kubelet's uid",
            |seen| {
                seen.pods = Some(vec![uids(&["u-new"]), uids(&["u-old", "hash"])]);
                list(seen, sandbox("beef", true, "hash"));
            },
            false,
        ),
        (
            "its pod is static and has no sandbox at all",
            |seen| seen.pods = Some(vec![uids(&["u-new"]), uids(&["u-old", "hash"])]),
            true,
        ),
        (
            "nobody knows which pods are to run here",
            |seen| seen.pods = None,
            false,
        ),
    ];
    for (case, change, spared) in table {
        let mut seen = gone.clone();
        change(&mut seen);
        let steps = goes_after(60, &seen).len();
        assert_eq!(steps, if spared { 0 } else { 3 }, "{case}");
        let suspected = !decide(&seen, &Suspects::new()).suspects.is_empty();
        assert_eq!(suspected, !spared, "{case}");
    }
}

fn uids(uids: &[&str]) -> BTreeSet<String> {
    uids.iter().map(|uid| (*uid).to_owned()).collect()
}

/// Pods with one uid each.
fn pods(known: &[&str]) -> Vec<BTreeSet<String>> {
    known.iter().map(|uid| uids(&[uid])).collect()
}

fn list(seen: &mut Observation, sandbox: Sandbox) {
    seen.sandboxes.get_or_insert_default().push(sandbox);
}

#[test]
fn a_runtime_that_cannot_be_believed_frees_nothing_and_ends_suspicions() {
    let seen = Observation {
        states: vec![state(OLD, None)],
        ..node()
    };
    let table = [
        (None, Some(pods(&[])), Some("RuntimeUnavailable")),
        (
            Some(vec![]),
            Some(pods(&["u-new"])),
            Some("RuntimeListsNothing"),
        ),
        (Some(vec![]), None, Some("RuntimeListsNothing")),
        // A node without pods has no sandboxes.
        (Some(vec![]), Some(pods(&[])), None),
    ];
    for (sandboxes, pods, wanted) in table {
        let case = format!("{sandboxes:?} {pods:?}");
        let first = decide(&seen, &Suspects::new());
        let second = Observation {
            at: at(120),
            sandboxes,
            pods,
            ..seen.clone()
        };
        let plan = decide(&second, &first.suspects);
        assert_eq!(plan.unjudged.map(Unjudged::reason), wanted, "{case}");
        assert_eq!(plan.operations.is_empty(), wanted.is_some(), "{case}");
        assert_eq!(plan.suspects.is_empty(), wanted.is_some(), "{case}");
    }
}

#[test]
fn an_add_that_takes_longer_than_the_grace_is_safe() {
    // The state is written before the plugins run, so it is old when they end.
    let during = Observation {
        busy: BTreeSet::from([OLD.to_owned()]),
        states: vec![state(OLD, None)],
        links: vec![own_veth(OLD)],
        ..node()
    };
    let mut plan = decide(&during, &Suspects::new());
    for second in [30, 60, 90, 120] {
        plan = decide(
            &Observation {
                at: at(second),
                ..during.clone()
            },
            &plan.suspects,
        );
        assert_eq!(plan.operations, [], "{second}");
    }
    // It has ended, and the runtime does not list the sandbox yet.
    let ended = Observation {
        at: at(121),
        busy: BTreeSet::new(),
        ..during.clone()
    };
    plan = decide(&ended, &plan.suspects);
    assert_eq!(plan.operations, []);
    // Now it does, for a while, and then the DEL is lost.
    let listed = Observation {
        at: at(150),
        sandboxes: Some(vec![sandbox(OLD, true, "u-old")]),
        ..ended.clone()
    };
    plan = decide(&listed, &plan.suspects);
    assert_eq!(plan.suspects, Suspects::new());
    let lost = |second| Observation {
        at: at(second),
        ..ended.clone()
    };
    plan = decide(&lost(200), &plan.suspects);
    assert_eq!(
        plan.operations,
        [],
        "the suspicion of second 121 does not count"
    );
    plan = decide(&lost(259), &plan.suspects);
    assert_eq!(plan.operations, []);
    plan = decide(&lost(260), &plan.suspects);
    assert_eq!(plan.operations.len(), 2);
    // What fails is tried again.
    plan = decide(&lost(290), &plan.suspects);
    assert_eq!(plan.operations.len(), 2);
}

#[test]
fn whose_a_link_is() {
    use LinkKind::{Ipvlan, Macvlan, Other, Veth};
    let container = |id: &str| Some(Owner::Container(id.into()));
    let beginning = Some(Owner::Beginning("012345678".into()));
    let table = [
        ("x", Some("floe:net:c1:eth0"), Veth, container("c1")),
        (
            "mv-0123",
            Some("floe:net:c1:eth0"),
            Macvlan,
            container("c1"),
        ),
        ("mv-0123", Some("floe:net:c1:eth0"), Ipvlan, container("c1")),
        // Shared devices, whatever they are called.
        ("docker", Some("floe:bridge"), Other, None),
        ("vlan2", Some("floe:vlan"), Other, None),
        ("v-h012345678-l0", Some("floe:net:c1:eth0"), Other, None),
        ("v-h012345678-l0", Some("floe:bridge"), Veth, None),
        // galaxy's.
        ("v-h012345678-l0", None, Veth, beginning.clone()),
        (
            "v-h01234567-u12",
            None,
            Veth,
            Some(Owner::Beginning("01234567".into())),
        ),
        ("v-h012345678", None, Veth, beginning.clone()),
        ("v-h012345678-l0", Some(""), Veth, beginning.clone()),
        // Not galaxy's.
        ("v-h012345678-l0", None, Macvlan, None),
        ("v-h012345678-l0", Some("somebody's"), Veth, None),
        ("v-h012345678-l0", Some("floe:net::eth0"), Veth, None),
        ("v-h012345678-l0", Some("floe:net:c1"), Veth, None),
        ("v-h012345678-l", None, Veth, None),
        ("v-h012345678-x0", None, Veth, None),
        ("v-h01234567-l0", None, Veth, None),
        ("v-h0123456789", None, Veth, None),
        ("v-h", None, Veth, None),
        ("v-hé12345678-l0", None, Veth, None),
        ("veth0123", None, Veth, None),
        ("eth0", None, Other, None),
    ];
    for (name, alias, kind, wanted) in table {
        let case = format!("{name} {alias:?} {kind:?}");
        assert_eq!(owner(&link(name, alias, kind)), wanted, "{case}");
    }
}

#[test]
fn a_veth_of_galaxy_stays_while_any_container_may_be_its_own() {
    let seen = Observation {
        links: vec![galaxy_veth(OLD)],
        ..node()
    };
    assert_eq!(goes_after(60, &seen), ["remove link v-h012345678-u0"]);
    let alive = Observation {
        sandboxes: Some(vec![sandbox(OLD, true, "u-old")]),
        ..seen.clone()
    };
    assert_eq!(goes_after(60, &alive), [""; 0]);
    let busy = Observation {
        busy: BTreeSet::from([OLD.to_owned()]),
        ..seen
    };
    assert_eq!(goes_after(60, &busy), [""; 0]);
}

#[test]
fn files_that_are_no_state_files_stay() {
    for name in ["", ".0123.tmp", "../x", "a b", "port/x"] {
        let seen = Observation {
            states: vec![state(name, None)],
            ..node()
        };
        assert_eq!(goes_after(60, &seen), [""; 0], "{name:?}");
    }
}

#[test]
fn an_id_too_long_for_an_alias_is_known_again() {
    let long = "0123456789".repeat(12);
    let alias = super::super::names::alias("net", &long, "eth0");
    let veth = link("v-h012345678-l0", Some(&alias), LinkKind::Veth);
    assert_ne!(owner(&veth), Some(Owner::Container(long.clone())));
    let alive = Observation {
        links: vec![veth],
        sandboxes: Some(vec![sandbox(&long, true, "u")]),
        ..node()
    };
    assert_eq!(goes_after(60, &alive), [""; 0]);
    let dead = Observation {
        sandboxes: Some(vec![sandbox(&long, false, "u")]),
        ..alive
    };
    assert_eq!(goes_after(60, &dead), ["remove link v-h012345678-l0"]);
}

#[test]
fn after_a_reboot_the_new_sandboxes_stay_and_the_old_ones_go() {
    // The runtime remembers the old sandbox, and kubelet has made a new one.
    let seen = Observation {
        sandboxes: Some(vec![
            sandbox(OLD, false, "u-new"),
            sandbox(NEW, true, "u-new"),
        ]),
        states: vec![state(OLD, Some("u-new")), state(NEW, Some("u-new"))],
        links: vec![own_veth(NEW)],
        ..node()
    };
    assert_eq!(goes_after(60, &seen), [format!("detach container {OLD}")]);
}
