use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn found(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Vec<String> {
    let host = Host {
        labels: &map(labels),
        annotations: &map(annotations),
        addresses: &["192.168.1.10".parse().unwrap()],
        pod_nets: &[
            "10.244.3.0/24".parse().unwrap(),
            "fd00:244:3::/64".parse().unwrap(),
        ],
    };
    let found = host.control_plane_addresses();
    found.iter().map(ToString::to_string).collect()
}

const ROLE: (&str, &str) = ("node-role.kubernetes.io/control-plane", "");

#[test]
fn only_control_plane_nodes_count() {
    assert_eq!(found(&[], &[]), [""; 0]);
    assert_eq!(
        found(&[("node-role.kubernetes.io/worker", "")], &[]),
        [""; 0]
    );
    for role in ROLES {
        assert_eq!(found(&[(role, "true")], &[]), ["192.168.1.10"], "{role}");
    }
}

#[test]
fn addresses_of_tunnels_and_bridges_count_where_a_pod_network_names_them() {
    let calico = [
        ("projectcalico.org/IPv4Address", "192.168.1.10/24"),
        ("projectcalico.org/IPv4VXLANTunnelAddr", "10.244.93.192"),
        ("projectcalico.org/IPv4IPIPTunnelAddr", "no address"),
    ];
    assert_eq!(found(&[ROLE], &calico), ["10.244.93.192", "192.168.1.10"]);
    let cilium = [("network.cilium.io/ipv4-cilium-host", "10.0.1.77")];
    assert_eq!(found(&[ROLE], &cilium), ["10.0.1.77", "192.168.1.10"]);
    // Without flannel the first addresses of the pod network may be those of pods.
    assert_eq!(found(&[ROLE], &[]), ["192.168.1.10"]);
    assert_eq!(
        found(&[ROLE], &[(FLANNEL, "vxlan")]),
        [
            "10.244.3.0",
            "10.244.3.1",
            "192.168.1.10",
            "fd00:244:3::",
            "fd00:244:3::1"
        ]
    );
}

#[test]
fn sources_are_read_and_compared() {
    let allows = |source: &str, from: &str| {
        let source: Source = source.parse().unwrap();
        source.allows(from.parse().unwrap(), |ip| ip.is_loopback())
    };
    assert!(allows("any", "203.0.113.9"));
    assert!(allows("control-plane", "127.0.0.1"));
    assert!(!allows("control-plane", "10.0.0.1"));
    assert!(allows("10.0.0.1", "10.0.0.1"));
    assert!(!allows("10.0.0.1", "10.0.0.2"));
    assert!(allows("10.0.0.9/24", "10.0.0.255"));
    assert!(!allows("10.0.0.0/24", "10.0.1.0"));
    assert!(allows("::ffff:10.0.0.1", "10.0.0.1"));
    assert!(allows("fd00::/64", "fd00::5"));
    for wrong in ["", "control", "10.0.0.0/33", "10.0.0.1-10.0.0.2", "Any"] {
        assert_eq!(wrong.parse::<Source>(), Err(InvalidSource), "{wrong:?}");
    }
}
