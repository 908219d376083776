use floe_core::node::names;

use super::*;

fn link(index: u32, name: &str, kind: LinkKind) -> Link {
    Link {
        index,
        name: name.into(),
        alias: None,
        mac: None,
        mtu: 1500,
        is_up: true,
        has_carrier: true,
        master: None,
        parent: None,
        is_blocked: false,
        is_elsewhere: false,
        kind,
    }
}

fn card(index: u32, name: &str) -> Link {
    link(index, name, LinkKind::Other(String::new()))
}

fn bridge(index: u32, name: &str) -> Link {
    Link {
        alias: Some(BRIDGE_ALIAS.into()),
        ..link(index, name, LinkKind::Bridge)
    }
}

fn vlan(index: u32, name: &str, parent: u32, master: Option<u32>) -> Link {
    Link {
        alias: Some(VLAN_ALIAS.into()),
        parent: Some(parent),
        master,
        ..link(index, name, LinkKind::Vlan { id: 2 })
    }
}

/// The veth of a pod in a bridge. Its other end is in the pod.
fn veth(index: u32, master: u32) -> Link {
    Link {
        alias: Some(names::alias("net", "c0", "eth0")),
        parent: Some(2),
        is_elsewhere: true,
        master: Some(master),
        ..link(index, "v-hc0-l0", LinkKind::Veth)
    }
}

fn journal(device: &str, bridge: &str) -> Move {
    Move {
        device: device.into(),
        bridge: bridge.into(),
        addresses: Vec::new(),
        routes: Vec::new(),
        complete: true,
    }
}

fn told(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().map(ToString::to_string);
    let kept = plan
        .kept
        .iter()
        .map(|it| format!("{}: {}", it.what, it.why));
    steps.chain(kept).collect()
}

#[test]
fn a_move_is_undone_before_bridges_go_and_bridges_go_before_vlan_devices() {
    let device = Link {
        master: Some(10),
        ..card(2, "eth0")
    };
    let links = [
        device,
        vlan(3, "vlan2", 2, Some(11)),
        bridge(10, "docker"),
        bridge(11, "docker2"),
    ];
    let plan = plan(&[journal("eth0", "docker")], &links, Some(0));
    assert_eq!(
        told(&plan),
        [
            "move addresses and routes back from docker to eth0 (at first: )",
            "remove link docker",
            "remove link docker2",
            "remove link vlan2",
        ]
    );
}

#[test]
fn what_pods_use_stays_with_everything_below_it() {
    let device = Link {
        master: Some(10),
        ..card(2, "eth0")
    };
    let mut links = vec![device, bridge(10, "docker"), veth(20, 10)];
    let journals = [journal("eth0", "docker")];
    let kept = ["the move from eth0 to docker: in use by v-hc0-l0"];
    assert_eq!(told(&plan(&journals, &links, Some(0))), kept);

    links = vec![
        card(2, "eth0"),
        vlan(3, "vlan2", 2, Some(11)),
        bridge(11, "docker2"),
        veth(20, 11),
    ];
    assert_eq!(
        told(&plan(&[], &links, Some(0))),
        ["docker2: in use by v-hc0-l0", "vlan2: in use by v-hc0-l0",]
    );
}

#[test]
fn a_vlan_device_stays_while_pods_could_have_a_macvlan_on_it() {
    let links = [card(2, "eth0"), vlan(3, "vlan2", 2, None)];
    assert_eq!(
        told(&plan(&[], &links, Some(4))),
        ["vlan2: 4 containers are attached, and may use it"]
    );
    assert_eq!(told(&plan(&[], &links, Some(0))), ["remove link vlan2"]);
}

#[test]
fn what_others_put_on_a_bridge_or_device_of_floe_is_respected() {
    let tap = Link {
        master: Some(10),
        ..link(30, "tap0", LinkKind::Other("tun".into()))
    };
    let above = Link {
        parent: Some(3),
        ..link(31, "macvtap0", LinkKind::Other("macvtap".into()))
    };
    let links = [
        card(2, "eth0"),
        vlan(3, "vlan2", 2, None),
        bridge(10, "docker"),
        tap,
        above,
    ];
    assert_eq!(
        told(&plan(&[], &links, Some(0))),
        ["docker: in use by tap0", "vlan2: in use by macvtap0"]
    );
}

#[test]
fn links_that_floe_did_not_make_stay_and_are_not_mentioned() {
    let links = [
        card(1, "lo"),
        link(2, "docker0", LinkKind::Bridge),
        link(3, "eth0.5", LinkKind::Vlan { id: 5 }),
        Link {
            alias: Some("uplink".into()),
            ..card(4, "eth0")
        },
    ];
    assert_eq!(plan(&[], &links, Some(0)), Plan::default());
}

#[test]
fn a_move_of_a_device_that_is_gone_is_forgotten_only_if_its_bridge_is_gone_too() {
    let journals = [journal("eth9", "docker")];
    assert_eq!(
        told(&plan(&journals, &[card(1, "lo")], Some(0))),
        ["forget the move from eth9 to docker, which is not there any more"]
    );
    assert_eq!(
        told(&plan(&journals, &[bridge(10, "docker")], Some(0))),
        ["the move from eth9 to docker: eth9 is not there any more"]
    );
}

#[test]
fn without_a_folder_of_state_files_vlan_devices_stay() {
    let links = [
        card(2, "eth0"),
        vlan(3, "vlan2", 2, None),
        bridge(11, "docker2"),
    ];
    let unknown = plan(&[], &links, None);
    let told = told(&unknown);
    assert_eq!(told[0], "remove link docker2");
    assert!(
        told[1].starts_with("vlan2: there is no folder of state files"),
        "{told:?}"
    );
    assert!(!unknown.steps.iter().any(Step::can_hurt_unseen_pods));
    let known = plan(&[], &links, Some(0));
    assert!(known.steps.iter().any(Step::can_hurt_unseen_pods));
}
