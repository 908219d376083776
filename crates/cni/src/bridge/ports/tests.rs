use super::*;

fn link(index: u32, name: &str, kind: LinkKind, master: Option<u32>) -> Link {
    Link {
        index,
        name: name.into(),
        alias: None,
        mac: None,
        mtu: 1500,
        is_up: true,
        has_carrier: true,
        master,
        is_blocked: false,
        parent: None,
        is_elsewhere: false,
        kind,
    }
}

fn journal(device: &str, bridge: &str) -> Move {
    let text = format!(
        r#"{{"device":"{device}","bridge":"{bridge}","addresses":[],"routes":[],"complete":true}}"#
    );
    Move::parse(&text).unwrap()
}

#[test]
fn a_bridge_belongs_to_the_device_that_leads_out_of_it() {
    let other = |kind: &str| LinkKind::Other(kind.into());
    let bridge = link(1, "docker", LinkKind::Bridge, None);
    let device = link(2, "eth0", other(""), None);
    let moved = [journal("eth1", "docker"), journal("v-x", "elsewhere")];
    let cases = [
        ("eth1", other(""), Some(1), true),
        ("eth1", other(""), Some(9), false),
        ("eth1", other(""), None, false),
        ("bond0", other("bond"), Some(1), true),
        ("vlan2", LinkKind::Vlan { id: 2 }, Some(1), true),
        ("v-h1-l0", LinkKind::Veth, Some(1), false),
        ("v-x", LinkKind::Veth, Some(1), false),
        // The host came from there, so it is no pod's.
        ("eth1", LinkKind::Veth, Some(1), true),
        ("tap0", other("tun"), Some(1), false),
        ("keep", other("dummy"), Some(1), false),
    ];
    for (name, kind, master, is_taken) in cases {
        let own = Link {
            master: Some(1),
            ..device.clone()
        };
        let port = link(3, name, kind, master);
        let links = [bridge.clone(), own, port.clone()];
        let found = other_way_out(&links, &moved, &bridge, &device);
        let expected = is_taken.then_some(&port);
        assert_eq!(found, expected, "{name} in {master:?}");
    }
}
