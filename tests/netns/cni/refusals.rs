//! What is wrong is refused with the code of the specification and a clear message,
//! and leaves nothing behind.

use std::fs;

use serde_json::{Value, json};

use super::harness::journey::settled;
use super::harness::lab::Namespace;
use super::harness::mode::{Family, Given, MACVLAN, Mode, PURE, UNDERLAY, UNTAGGED};
use super::harness::plugin::{Attachment, Failure};
use super::harness::site::{Site, UPLINK};
use super::harness::view::{Snapshot, View};

const VERSION: u64 = 1;
const ENVIRONMENT: u64 = 4;
const CONTENT: u64 = 6;
const CONFIGURATION: u64 = 7;
const NOT_AVAILABLE: u64 = 50;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn bytes_that_are_no_configuration_are_refused() {
    let site = Site::new(1);
    let scene = Scene::new(&site);
    let noise: Vec<u8> = (0..=255).collect();
    let deep = "[".repeat(5000);
    let cases: [&[u8]; 8] = [
        b"",
        b"\0",
        b"\xff\xfe\xfd",
        &noise,
        deep.as_bytes(),
        b"[]",
        b"null",
        b"{\"cniVersion\":\"1.1.0\",\"name\":\"x\",",
    ];
    for mode in UNTAGGED {
        for command in ["ADD", "DEL", "CHECK", "STATUS", "GC"] {
            for stdin in cases {
                let failure = scene.attachment(&mode).send(command, stdin).failure();
                let shown = String::from_utf8_lossy(stdin);
                assert_eq!(failure.code, CONTENT, "{command} {shown:.40} {failure:?}");
            }
        }
    }
    scene.is_untouched("bytes");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn configurations_that_cannot_be_used_are_refused() {
    let nothing = Value::Null;
    let rows: Vec<(Mode, &str, Value, u64, &str)> = vec![
        (PURE, "cniVersion", json!("9.9.9"), VERSION, "9.9.9"),
        (PURE, "cniVersion", json!("1.2.0"), VERSION, "1.2.0"),
        (PURE, "cniVersion", json!(1), CONTENT, "cniVersion"),
        (PURE, "name", nothing.clone(), CONFIGURATION, "name"),
        (PURE, "name", json!("../etc"), CONFIGURATION, "../etc"),
        (PURE, "name", json!(7), CONFIGURATION, "name"),
        (PURE, "type", nothing.clone(), CONFIGURATION, "type"),
        (PURE, "switch", json!("hub"), CONFIGURATION, "hub"),
        (PURE, "switch", json!(["pure"]), CONFIGURATION, "switch"),
        (
            PURE,
            "device",
            nothing.clone(),
            CONFIGURATION,
            "a device is needed to use vlan plugin",
        ),
        (PURE, "device", json!({}), CONFIGURATION, "device"),
        (UNDERLAY, "device", nothing, CONFIGURATION, "device"),
        (PURE, "device", json!("eth9"), NOT_AVAILABLE, "eth9"),
        (MACVLAN, "device", json!("eth9"), NOT_AVAILABLE, "eth9"),
        (UNDERLAY, "device", json!("eth9"), NOT_AVAILABLE, "eth9"),
        (
            PURE,
            "duplicate_address_window_ms",
            json!(2001),
            CONFIGURATION,
            "2000",
        ),
        (
            PURE,
            "duplicate_address_window_ms",
            json!("soon"),
            CONFIGURATION,
            "window",
        ),
        (
            PURE,
            "duplicate_address_detection",
            json!("perhaps"),
            CONFIGURATION,
            "duplicate",
        ),
        (PURE, "mtu", json!(-1), CONFIGURATION, "mtu"),
        (PURE, "prevResult", json!([]), CONTENT, "prevResult"),
    ];
    let site = Site::new(1);
    let scene = Scene::new(&site);
    for (mode, member, value, code, part) in rows {
        let mut attachment = scene.attachment(&mode);
        attachment.config.remove(member);
        if !value.is_null() {
            attachment = attachment.with(member, value.clone());
        }
        let failure = attachment.refused();
        says(
            &failure,
            code,
            part,
            &format!("{} {member} {value}", mode.title),
        );
    }
    let ipvlan = Mode {
        switch: "ipvlan",
        ipvlan: "l9",
        ..PURE
    };
    let failure = scene.attachment(&ipvlan).refused();
    says(&failure, CONFIGURATION, "l9", "ipvlan mode");
    scene.is_untouched("configurations");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn environments_that_cannot_be_used_are_refused() {
    let site = Site::new(1);
    let scene = Scene::new(&site);
    for mode in UNTAGGED {
        for (name, value) in [
            ("CNI_CONTAINERID", ""),
            ("CNI_CONTAINERID", "../x"),
            ("CNI_CONTAINERID", "-x"),
            ("CNI_IFNAME", ""),
            ("CNI_IFNAME", "an-interface-name"),
            ("CNI_IFNAME", "eth0/1"),
            ("CNI_IFNAME", ".."),
            ("CNI_NETNS", ""),
            ("CNI_ARGS", "nothing"),
        ] {
            let failure = scene.attachment(&mode).variable(name, value).refused();
            says(&failure, ENVIRONMENT, "", &format!("{name}={value}"));
            let mut attachment = scene.attachment(&mode);
            if value.is_empty() {
                attachment.variables.remove(name);
                says(&attachment.refused(), ENVIRONMENT, name, name);
            }
        }
        for command in ["", "FROB", "add"] {
            let failure = scene.attachment(&mode).call(command).failure();
            says(&failure, ENVIRONMENT, "CNI_COMMAND", command);
        }
    }
    scene.is_untouched("environments");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn addresses_that_cannot_be_used_are_refused() {
    let site = Site::new(1);
    let scene = Scene::new(&site);
    let entry = |ip: &str, vlan: Value, gateway: &str| {
        json!([{"ip": ip, "vlan": vlan, "gateway": gateway}]).to_string()
    };
    let good = Given::v4(0, 50).json();
    let rows = [
        ("[]".to_owned(), "empty ipInfos"),
        ("{}".to_owned(), "ipinfos"),
        ("[".to_owned(), "ipinfos"),
        ("[1]".to_owned(), "ipinfos"),
        ("[{}]".to_owned(), "ipinfos"),
        (entry("192.168.0.50", json!(0), "192.168.0.1"), "ipinfos"),
        (entry("192.168.0.50/33", json!(0), "192.168.0.1"), "ipinfos"),
        (
            entry("192.168.0.500/24", json!(0), "192.168.0.1"),
            "ipinfos",
        ),
        (
            entry("192.168.0.50/24", json!(0), "fd00:c0::1"),
            "fd00:c0::1",
        ),
        (entry("192.168.0.50/24", json!(4095), "192.168.0.1"), "4095"),
        (
            entry("192.168.0.50/24", json!(-1), "192.168.0.1"),
            "ipinfos",
        ),
        (
            entry("192.168.0.50/24", json!("two"), "192.168.0.1"),
            "ipinfos",
        ),
        (entry("127.0.0.1/8", json!(0), "127.0.0.2"), "127.0.0.1"),
        (entry("0.0.0.0/0", json!(0), "0.0.0.0"), "0.0.0.0"),
        (entry("224.0.0.5/24", json!(0), "224.0.0.1"), "224.0.0.5"),
        (json!([good, good]).to_string(), "192.168.0.50"),
    ];
    for mode in UNTAGGED {
        for (text, part) in &rows {
            let args = format!("ipinfos={text}");
            let failure = scene
                .attachment(&mode)
                .variable("CNI_ARGS", &args)
                .refused();
            says(
                &failure,
                ENVIRONMENT,
                part,
                &format!("{} {text}", mode.title),
            );
        }
        let failure = scene.attachment(&mode).variable("CNI_ARGS", "").refused();
        let words = "NoAddress: neither ipInfo from cni args nor ipam type from netconf";
        says(&failure, CONFIGURATION, words, mode.title);
    }
    scene.is_untouched("addresses");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_namespace_that_is_not_one_is_refused() {
    let site = Site::new(1);
    let scene = Scene::new(&site);
    let file = site.folder().join("no namespace");
    fs::write(&file, "").unwrap();
    let own = site.node().net.path().to_owned();
    for mode in UNTAGGED {
        for path in [site.folder().join("nothing"), file.clone(), own.clone()] {
            let path = path.display().to_string();
            let attachment = scene.attachment(&mode).variable("CNI_NETNS", &path);
            let failure = attachment.refused();
            assert!(
                [3, 4].contains(&failure.code),
                "{} {path} {failure:?}",
                mode.title
            );
            assert!(failure.message.contains(&path), "{failure:?}");
            // DEL of what was never there is no error, also in the host's own.
            attachment.del();
        }
    }
    scene.is_untouched("namespaces");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_parent_that_is_down_is_refused() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        site.node().net.ip(&format!("link set {UPLINK} down"));
        let scene = Scene::new(&site);
        let failure = scene.attachment(&mode).refused();
        says(&failure, NOT_AVAILABLE, UPLINK, mode.title);
        scene.is_untouched(mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_parent_without_carrier_is_refused_as_status_says() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        settled(&site, &mode);
        site.pull_cable();
        let scene = Scene::new(&site);
        let attachment = scene.attachment(&mode);
        for failure in [attachment.refused(), attachment.call("STATUS").failure()] {
            says(&failure, NOT_AVAILABLE, "ParentLinkDown: ", mode.title);
            says(&failure, NOT_AVAILABLE, UPLINK, mode.title);
        }
        scene.is_untouched(mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn commands_that_a_version_does_not_have_are_refused() {
    let site = Site::new(1);
    let scene = Scene::new(&site);
    for (command, version) in [("CHECK", "0.3.1"), ("STATUS", "1.0.0"), ("GC", "1.0.0")] {
        let attachment = scene.attachment(&PURE).with("cniVersion", version);
        says(
            &attachment.call(command).failure(),
            VERSION,
            command,
            command,
        );
    }
    scene.is_untouched("commands");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_change_that_the_kernel_refuses_in_the_middle_leaves_nothing() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod("full");
        // A broadcast address is no gateway, which the kernel says when all links
        // are there.
        let bad = Given::of("192.168.0.52/24", 0, "192.168.0.255");
        let empty = View::of(&pod).lines();
        let all = [bad, Given::v4(0, 51)];
        let attachment = Attachment::new(site.node(), &mode, &pod, &all);
        let failure = attachment.refused();
        assert!(
            [4, 100].contains(&failure.code),
            "{} {failure:?}",
            mode.title
        );
        assert_eq!(View::of(&pod).lines(), empty, "{}", mode.title);
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_with_ipv6_switched_off_gets_its_address_all_the_same() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod("old");
        for scope in ["all", "default"] {
            pod.set(&format!("ipv6/conf/{scope}/disable_ipv6"), "1");
        }
        let all = mode.addresses(Family::Dual, 54);
        let attachment = Attachment::new(site.node(), &mode, &pod, &all);
        attachment.add();
        let expected: Vec<String> = all.iter().map(Given::net).collect();
        assert_eq!(
            View::of(&pod).global_addresses("eth0"),
            expected,
            "{}",
            mode.title
        );
        attachment.del();
        before.must_return(site.node(), mode.title);
    }
}

/// A node and a pod that must stay as they are.
struct Scene<'a> {
    site: &'a Site,
    pod: Namespace,
    before: Snapshot,
}

impl<'a> Scene<'a> {
    fn new(site: &'a Site) -> Self {
        Self {
            site,
            pod: site.pod("untouched"),
            before: Snapshot::of(site.node()),
        }
    }

    fn attachment(&self, mode: &Mode) -> Attachment<'a> {
        let all = mode.addresses(Family::V4, 52);
        Attachment::new(self.site.node(), mode, &self.pod, &all)
    }

    fn is_untouched(&self, what: &str) {
        assert_eq!(View::of(&self.pod).names(), [""; 0], "{what}");
        self.before.must_return(self.site.node(), what);
    }
}

fn says(failure: &Failure, code: u64, part: &str, what: &str) {
    assert_eq!(failure.code, code, "{what}: {failure:?}");
    assert!(failure.message.contains(part), "{what}: {failure:?}");
    let (reason, _) = failure.message.split_once(": ").unwrap_or_default();
    let camel = reason.starts_with(char::is_uppercase) && reason.chars().all(char::is_alphanumeric);
    assert!(camel, "{what}: no reason in {failure:?}");
}
