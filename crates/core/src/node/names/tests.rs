use proptest::prelude::*;

use super::*;

const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn the_hardware_address_comes_from_the_address() {
    let cases = [
        ("192.168.0.68", "02:42:c0:a8:00:44"),
        ("::ffff:192.168.0.68", "02:42:c0:a8:00:44"),
        ("fd00:1::12:3456:789a", "06:a2:d0:f9:be:4b"),
    ];
    for (ip, mac) in cases {
        assert_eq!(mac_of(ip.parse().unwrap()).to_string(), mac, "{ip}");
    }
}

#[test]
fn a_veth_on_the_host_has_the_name_that_galaxy_gives() {
    assert_eq!(host_veth(CONTAINER, &vlan_suffix(0)), "v-h012345678-l0");
    assert_eq!(host_veth(CONTAINER, &underlay_suffix(1)), "v-h012345678-u1");
    assert_eq!(host_veth(CONTAINER, ""), "v-h012345678");
    assert_eq!(host_veth("abc", "-l0"), "v-habc-l0");
}

#[test]
fn a_name_never_gets_too_long_for_the_kernel() {
    assert_eq!(host_veth(CONTAINER, &vlan_suffix(12)), "v-h01234567-l12");
    assert_eq!(host_veth(CONTAINER, &vlan_suffix(123)), "v-h0123456-l123");
    // Nine bytes would cut a character into halves.
    assert_eq!(host_veth("01234567ü9", "-l0"), "v-h01234567-l0");
}

#[test]
fn names_of_veths_are_taken_apart() {
    let cases = [
        ("v-h012345678-l0", Some(("012345678", "-l0", Some(0)))),
        ("v-h012345678-u1", Some(("012345678", "-u1", Some(1)))),
        ("v-h01234567-l12", Some(("01234567", "-l12", Some(12)))),
        ("v-h012345678", Some(("012345678", "", None))),
        // cnitool names its containers so.
        ("v-hcnitool-a-l0", Some(("cnitool-a", "-l0", Some(0)))),
        ("v-hcnitool-l", Some(("cnitool-l", "", None))),
        ("v-h012345678-x0", Some(("012345678-x0", "", None))),
        ("v-h012345678-l", Some(("012345678-l", "", None))),
        ("v-h012345678-l+1", Some(("012345678-l+1", "", None))),
        ("v-h", None),
        ("v-h-l0", None),
        ("v-s012345678-l0", None),
        ("veth0", None),
        ("", None),
    ];
    for (name, expected) in cases {
        let found = HostVeth::parse(name);
        let parts = found.map(|veth| (veth.id, veth.suffix, veth.number()));
        assert_eq!(parts, expected, "{name}");
    }
}

#[test]
fn a_veth_belongs_to_the_container_that_its_name_begins() {
    let cases = [
        ("v-h012345678-l0", CONTAINER, true),
        ("v-h01234567-l12", CONTAINER, true),
        ("v-h012345678", CONTAINER, true),
        // Too few characters: it is of a container with a short name.
        ("v-h01234567-l0", CONTAINER, false),
        ("v-h01234567-l0", "01234567", true),
        ("v-h912345678-l0", CONTAINER, false),
        ("v-h012345678-l0", "", false),
    ];
    for (name, container, expected) in cases {
        let veth = HostVeth::parse(name).unwrap();
        assert_eq!(veth.is_of(container), expected, "{name} of {container:?}");
    }
}

#[test]
fn an_alias_says_whose_a_link_is() {
    let text = alias("galaxy-k8s-vlan", CONTAINER, "eth0");
    assert_eq!(text, format!("floe:galaxy-k8s-vlan:{CONTAINER}:eth0"));
    let read = Alias::parse(&text).unwrap();
    assert_eq!(read, Alias::new("galaxy-k8s-vlan", CONTAINER, "eth0"));
    assert!(read.is_of_network("galaxy-k8s-vlan"));
    assert!(!read.is_of_network("galaxy-k8s"));
    assert!(read.is_of_container(CONTAINER));
    assert!(!read.is_of_container("0123"));
}

#[test]
fn what_is_no_alias_of_an_attachment_is_nobody_s() {
    for text in [
        "",
        "floe",
        "floe:",
        BRIDGE_ALIAS,
        VLAN_ALIAS,
        "floe:net:container",
        "floe::container:eth0",
        "floe:net::eth0",
        "floe:net:container:",
        "flow:net:container:eth0",
        "my floe:net:container:eth0",
    ] {
        assert_eq!(Alias::parse(text), None, "{text}");
    }
}

#[test]
fn a_network_may_be_called_like_a_shared_device() {
    let text = alias("bridge", "c1", "eth0");
    assert_eq!(
        Alias::parse(&text),
        Some(Alias::new("bridge", "c1", "eth0"))
    );
    assert_ne!(text, BRIDGE_ALIAS);
}

#[test]
fn a_colon_in_the_name_of_a_network_is_read_rightly() {
    let text = alias("a:b::c", "c1", "eth0");
    assert_eq!(
        Alias::parse(&text),
        Some(Alias::new("a:b::c", "c1", "eth0"))
    );
}

#[test]
fn long_names_are_shortened_and_stay_different() {
    let long = "n".repeat(253);
    let other = format!("{}m", "n".repeat(252));
    let container = "c".repeat(300);
    let text = alias(&long, &container, "eth0123456789ab");
    assert!(text.len() <= 255, "{} bytes", text.len());
    let read = Alias::parse(&text).unwrap();
    assert_eq!(read, Alias::new(&long, &container, "eth0123456789ab"));
    assert!(read.is_of_network(&long));
    assert!(!read.is_of_network(&other));
    assert!(read.is_of_container(&container));
    // Links outlive the program that made them: this must never change.
    let expected = format!("{}-07840cb46fbde6c1", "n".repeat(111));
    assert_eq!(read.network, expected);
    // As long as there is room, nothing is shortened.
    let fits = "n".repeat(128);
    assert_eq!(Alias::new(&fits, "c1", "eth0").network, fits);
}

proptest! {
    #[test]
    fn every_alias_is_read_back(
        network in "[a-zA-Z0-9_.:ü-]{1,300}",
        container in "[a-zA-Z0-9_.-]{1,150}",
        ifname in "[a-z0-9]{1,15}",
    ) {
        let text = alias(&network, &container, &ifname);
        prop_assert!(text.len() <= 255);
        prop_assert_eq!(Alias::parse(&text), Some(Alias::new(&network, &container, &ifname)));
    }

    #[test]
    fn every_veth_is_known_again(container in "[0-9a-f]{1,64}", number in 0..1000_usize) {
        for suffix in [vlan_suffix(number), underlay_suffix(number)] {
            let name = host_veth(&container, &suffix);
            prop_assert!(name.len() <= NAME_MAX);
            let veth = HostVeth::parse(&name).unwrap();
            prop_assert_eq!(veth.suffix, &suffix);
            prop_assert_eq!(veth.number(), Some(number));
            prop_assert!(veth.is_of(&container));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = Alias::parse(&text);
        let _ = Alias::parse(&format!("floe:{text}"));
        let _ = HostVeth::parse(&format!("v-h{text}")).map(|veth| veth.is_of(&text));
    }
}
