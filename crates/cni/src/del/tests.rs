use super::*;

const CONTAINER: &str = "0123456789abcdef0123456789abcdef";

fn link(name: &str, alias: Option<&str>, kind: LinkKind) -> Link {
    Link {
        index: 7,
        name: name.into(),
        alias: alias.map(Into::into),
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

#[test]
fn only_links_of_this_very_attachment_are_its_own() {
    let own = Alias::new("net", "c1", "eth0");
    let cases = [
        (Some("floe:net:c1:eth0"), true),
        (Some("floe:net:c1:eth1"), false),
        (Some("floe:net:c2:eth0"), false),
        (Some("floe:other:c1:eth0"), false),
        (Some("floe:bridge"), false),
        (Some("uplink to rack 7"), false),
        (None, false),
    ];
    for (alias, expected) in cases {
        assert_eq!(is_own(&link("x", alias, LinkKind::Veth), &own), expected);
    }
}

#[test]
fn a_veth_of_galaxy_is_known_by_its_name() {
    let other = LinkKind::Other("dummy".into());
    let cases = [
        ("v-h012345678-l0", None, LinkKind::Veth, true),
        ("v-h01234567-u12", None, LinkKind::Veth, true),
        // That of galaxy-veth, which is not ours.
        ("v-h012345678", None, LinkKind::Veth, false),
        ("v-h999999999-l0", None, LinkKind::Veth, false),
        ("v-h012345678-l0", None, other, false),
        // It has an owner.
        (
            "v-h012345678-l1",
            Some("floe:n:c:eth1"),
            LinkKind::Veth,
            false,
        ),
    ];
    for (name, alias, kind, expected) in cases {
        let link = link(name, alias, kind);
        assert_eq!(is_galaxys_on_host(&link, CONTAINER), expected, "{name}");
    }
}

#[test]
fn in_a_pod_of_galaxy_only_the_named_interface_goes() {
    let cases = [
        ("eth0", None, LinkKind::Veth, true),
        ("eth0", None, LinkKind::Macvlan, true),
        ("eth0", None, LinkKind::Ipvlan, true),
        ("eth1", None, LinkKind::Veth, false),
        ("eth0", Some("floe:n:c:eth9"), LinkKind::Veth, false),
        ("eth0", None, LinkKind::Other(String::new()), false),
    ];
    for (name, alias, kind, expected) in cases {
        let link = link(name, alias, kind);
        assert_eq!(is_galaxys_in_pod(&link, "eth0"), expected, "{name}");
    }
}
