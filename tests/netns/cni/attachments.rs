//! A pod's attachment in every mode: ADD, traffic, CHECK, DEL, and nothing left.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::harness::journey::{journey, settled};
use super::harness::mode::{
    BRIDGE, FAMILIES, Family, Given, MACVLAN, Mode, PURE, UNDERLAY, UNTAGGED,
};
use super::harness::plugin::Attachment;
use super::harness::site::Site;
use super::harness::view::View;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_on_the_bridge_is_reached_and_leaves_no_trace() {
    every_family(&BRIDGE);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_in_pure_mode_is_reached_and_leaves_no_trace() {
    every_family(&PURE);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_with_macvlan_is_reached_and_leaves_no_trace() {
    every_family(&MACVLAN);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_on_the_underlay_is_reached_and_leaves_no_trace() {
    every_family(&UNDERLAY);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn results_have_the_form_of_the_version_that_was_asked_for() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let all = mode.addresses(Family::Dual, 90);
        for version in [
            "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
        ] {
            let pod = site.pod("versions");
            let attachment = Attachment::new(site.node(), &mode, &pod, &all)
                .with("duplicate_address_detection", false)
                .with("dns", json!({"nameservers": ["192.168.0.53"]}))
                .with("cniVersion", version);
            let result = attachment.add();
            has_form_of(&result, version, &all);
            attachment.del();
            before.must_return(site.node(), &format!("{} {version}", mode.title));
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_configuration_without_a_version_gets_the_oldest_form() {
    let site = Site::new(1);
    let pod = site.pod("old");
    let all = PURE.addresses(Family::V4, 91);
    let mut attachment = Attachment::new(site.node(), &PURE, &pod, &all);
    attachment.config.remove("cniVersion");
    let result = attachment.add();
    assert_eq!(result["ip4"]["ip"], all[0].net(), "{result}");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn called_by_its_own_name_the_program_goes_by_the_type() {
    let site = Site::new(1);
    for (mode, suffix) in [(PURE, "-l0"), (UNDERLAY, "-u0")] {
        let pod = site.pod(mode.title);
        let all = mode.addresses(Family::V4, 92);
        let mut attachment = Attachment::new(site.node(), &mode, &pod, &all);
        attachment.plugin = "floe-cni".to_owned();
        attachment.add();
        let name = attachment.host_link(suffix);
        assert!(View::of(&site.node().net).link(&name).is_some(), "{name}");
        attachment.del();
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn addresses_can_stand_in_the_configuration_as_multus_writes_them() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod("multus");
        let given = Given::v4(0, 93);
        let attachment = Attachment::new(site.node(), &mode, &pod, &[])
            .variable("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=web")
            .with("args", json!({"cni": {"ipinfos": [given.json()]}}));
        let result = attachment.add();
        assert_eq!(result["ips"][0]["address"], given.net(), "{result}");
        attachment.check(&result).nothing();
        attachment.del();
        before.must_return(site.node(), mode.title);

        let bad = json!({"cni": {"ipinfos": [{"ip": "127.0.0.1/8", "gateway": "127.0.0.2"}]}});
        let failure = attachment.with("args", bad).refused();
        assert_eq!(failure.code, 7, "{failure:?}");
        assert!(failure.message.contains("args.cni"), "{failure:?}");
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn without_ipinfos_an_ipam_plugin_is_asked_and_told_of_the_end() {
    let site = Site::new(1);
    let own = site.folder().join("ipam");
    fs::create_dir(&own).unwrap();
    let calls = own.join("calls");
    let result = json!({
        "cniVersion": "1.0.0",
        "ips": [{"address": "192.168.0.93/24", "gateway": "192.168.0.1"}],
        "routes": [{"dst": "0.0.0.0/0"}],
    });
    let script = format!(
        "#!/bin/sh\ncat >/dev/null\necho \"$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME\" >>{}\n\
         if [ $CNI_COMMAND = ADD ]; then echo '{result}'; fi\n",
        calls.display()
    );
    let program = own.join("fixed");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let before = settled(&site, &BRIDGE);

    let pod = site.pod("ipam");
    let path = format!("{}:{}", site.node().bin.display(), own.display());
    let attachment = Attachment::new(site.node(), &BRIDGE, &pod, &[])
        .with("ipam", json!({"type": "fixed"}))
        .with("cniVersion", "1.0.0")
        .variable("CNI_ARGS", "IgnoreUnknown=1")
        .variable("CNI_PATH", &path);
    let result = attachment.add();
    assert_eq!(result["ips"][0]["address"], "192.168.0.93/24", "{result}");
    let view = View::of(&pod);
    assert_eq!(view.global_addresses("eth0"), ["192.168.0.93/24"]);
    assert_eq!(view.defaults(), [("eth0", "192.168.0.1")]);
    attachment.del();
    before.must_return(site.node(), "after an IPAM plugin's address");

    let told = fs::read_to_string(&calls).unwrap();
    let id = &attachment.container;
    assert_eq!(told, format!("ADD {id} eth0\nDEL {id} eth0\n"));
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_attachment_that_failed_returns_the_address_to_its_ipam_plugin() {
    let site = Site::new(1);
    let own = site.folder().join("ipam");
    fs::create_dir(&own).unwrap();
    let calls = own.join("calls");
    let script = format!(
        "#!/bin/sh\ncat >/dev/null\necho $CNI_COMMAND >>{}\n[ $CNI_COMMAND != ADD ] || echo \
         '{{\"cniVersion\":\"1.0.0\",\"ips\":[{{\"address\":\"192.168.0.1/24\",\"gateway\":\"192.168.0.254\"}}]}}'\n",
        calls.display()
    );
    let program = own.join("fixed");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let pod = site.pod("ipam");
    let attachment = Attachment::new(site.node(), &PURE, &pod, &[])
        .with("ipam", json!({"type": "fixed"}))
        .with("cniVersion", "1.0.0")
        .variable("CNI_ARGS", "")
        .variable("CNI_PATH", &own.display().to_string());
    // The outside host has the address that the plugin gives.
    assert_eq!(attachment.refused().code, 101);
    assert_eq!(fs::read_to_string(&calls).unwrap(), "ADD\nDEL\n");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_interface_that_is_there_already_is_refused_and_kept() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod(mode.title);
        pod.batch("link add eth0 type bridge\naddress add 10.1.1.1/24 dev eth0\n");
        let attachment = Attachment::new(site.node(), &mode, &pod, &mode.addresses(Family::V4, 94));
        let failure = attachment.refused();
        assert!(failure.message.contains("eth0"), "{failure:?}");
        let view = View::of(&pod);
        assert_eq!(view.names(), ["eth0"], "{}", mode.title);
        assert_eq!(view.addresses("eth0"), ["10.1.1.1/24"], "{}", mode.title);
        before.must_return(site.node(), mode.title);
    }
}

fn every_family(mode: &Mode) {
    let site = Site::new(1);
    for family in FAMILIES {
        journey(&site, mode, family);
    }
}

fn has_form_of(result: &Value, version: &str, all: &[Given]) {
    assert_eq!(result["cniVersion"], version, "{result}");
    assert_eq!(result["dns"]["nameservers"][0], "192.168.0.53", "{result}");
    let [v4, v6] = all else {
        panic!("both families")
    };
    if version < "0.3.0" {
        for (member, given, dst) in [("ip4", v4, "0.0.0.0/0"), ("ip6", v6, "::/0")] {
            let part = &result[member];
            assert_eq!(part["ip"], given.net(), "{result}");
            assert_eq!(part["gateway"], given.gateway.to_string(), "{result}");
            assert_eq!(part["routes"][0]["dst"], dst, "{result}");
        }
        assert!(result.get("ips").is_none(), "{result}");
        assert!(result.get("interfaces").is_none(), "{result}");
        return;
    }
    for (at, (given, family)) in [(v4, "4"), (v6, "6")].into_iter().enumerate() {
        let ip = &result["ips"][at];
        assert_eq!(ip["address"], given.net(), "{result}");
        if version < "1.0.0" {
            assert_eq!(ip["version"], family, "{result}");
        } else {
            assert!(ip.get("version").is_none(), "{result}");
        }
        let at = usize::try_from(ip["interface"].as_u64().unwrap()).unwrap();
        assert_eq!(result["interfaces"][at]["name"], "eth0", "{result}");
    }
    assert!(result.get("ip4").is_none(), "{result}");
    let mtu = result["interfaces"][0].get("mtu").is_some();
    assert!(!mtu || version == "1.1.0", "{result}");
}
