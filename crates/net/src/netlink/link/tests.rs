use super::{super::wire::HEADER, *};

#[test]
fn a_link_is_read_with_what_floe_knows_and_without_what_it_does_not() {
    let flags = libc::IFF_UP | libc::IFF_LOWER_UP | libc::IFF_RUNNING;
    let bytes = message(libc::ARPHRD_ETHER, flags, |request| {
        request
            .put_name(libc::IFLA_IFNAME, "eth0.7")
            .put(libc::IFLA_IFALIAS, b"floe:vlan")
            .put(libc::IFLA_ADDRESS, &[2, 0x42, 10, 0, 0, 1])
            .put_u32(libc::IFLA_MTU, 1400)
            .put_u32(libc::IFLA_MASTER, 9)
            .put_u32(libc::IFLA_LINK, 2)
            .put(999, &[1, 2, 3])
            .nest(libc::IFLA_LINKINFO, &[], |info| {
                info.put_name(libc::IFLA_INFO_KIND, "vlan").nest(
                    libc::IFLA_INFO_DATA,
                    &[],
                    |data| data.put(VLAN_ID, &7_u16.to_ne_bytes()).put(2, &[0; 8]),
                )
            })
    });
    let expected = Link {
        index: 5,
        name: "eth0.7".to_owned(),
        alias: Some("floe:vlan".to_owned()),
        mac: Some(Mac([2, 0x42, 10, 0, 0, 1])),
        mtu: 1400,
        is_up: true,
        has_carrier: true,
        master: Some(9),
        is_blocked: false,
        parent: Some(2),
        is_elsewhere: false,
        kind: LinkKind::Vlan { id: 7 },
    };
    assert_eq!(read(&bytes).unwrap(), expected);
}

#[test]
fn a_link_without_ethernet_has_no_mac_and_a_card_no_kind() {
    let bytes = message(libc::ARPHRD_LOOPBACK, 0, |request| {
        request.put(libc::IFLA_ADDRESS, &[0; 6])
    });
    let link = read(&bytes).unwrap();
    assert_eq!(link.mac, None);
    assert_eq!(link.kind, LinkKind::Other(String::new()));
    assert!(!link.is_up && !link.has_carrier);
}

#[test]
fn a_signal_that_the_kernel_has_not_noted_yet_is_no_carrier() {
    let bytes = message(libc::ARPHRD_ETHER, libc::IFF_UP | libc::IFF_LOWER_UP, |r| r);
    let link = read(&bytes).unwrap();
    assert!(link.is_up && !link.has_carrier);
}

#[test]
fn a_port_that_its_bridge_keeps_closed_is_known() {
    for (master, state, expected) in [
        ("bridge", 0, true),
        ("bridge", 1, true),
        ("bridge", 3, false),
        ("bond", 1, false),
    ] {
        let bytes = message(libc::ARPHRD_ETHER, 0, |request| {
            request.nest(libc::IFLA_LINKINFO, &[], |info| {
                info.put_name(libc::IFLA_INFO_SLAVE_KIND, master).nest(
                    libc::IFLA_INFO_SLAVE_DATA,
                    &[],
                    |data| data.put(PORT_STATE, &[state]),
                )
            })
        });
        let link = read(&bytes).unwrap();
        assert_eq!(link.is_blocked, expected, "{master} {state}");
    }
}

#[test]
fn the_vlans_of_virtual_functions_are_read() {
    let bytes = message(libc::ARPHRD_ETHER, 0, |request| {
        request.nest(libc::IFLA_VFINFO_LIST, &[], |list| {
            [(0, 0), (3, 7)].into_iter().fold(list, |list, (vf, vlan)| {
                let value = [vf, vlan, 0].map(u32::to_ne_bytes).concat();
                list.nest(1, &[], |info| info.put(1, &[0; 36]).put(VF_VLAN, &value))
            })
        })
    });
    let expected = [(0, 0), (3, 7)].into();
    assert_eq!(read_functions(&bytes).unwrap(), expected);
    let none = message(libc::ARPHRD_ETHER, 0, |request| request);
    assert!(read_functions(&none).unwrap().is_empty());
}

#[test]
fn names_that_no_link_can_have_are_known() {
    assert!(is_name("v-h123456789-l0"));
    for name in ["", "v-h1234567890-l0", "eth0\0x"] {
        assert!(!is_name(name), "{name:?}");
    }
}

#[test]
fn a_message_that_is_cut_off_is_an_error() {
    let bytes = message(libc::ARPHRD_ETHER, 0, |request| {
        request.put_u32(libc::IFLA_MTU, 1500)
    });
    for length in (0..16).chain(17..bytes.len()) {
        assert!(read(&bytes[..length]).is_err(), "{length} bytes");
    }
}

fn message(hardware: u16, flags: i32, fill: impl FnOnce(Request) -> Request) -> Vec<u8> {
    let mut header = header(5, flags.cast_unsigned(), 0);
    header[2..4].copy_from_slice(&hardware.to_ne_bytes());
    let mut request = fill(Request::new(libc::RTM_NEWLINK, 0, &header));
    request.finish(1)[HEADER..].to_vec()
}
