use std::path::Path;

use super::*;

fn parse(flags: &[&str]) -> Result<Config, clap::Error> {
    Config::parse(["floe-agent"].iter().chain(flags))
}

fn settings(flags: &[&str]) -> Settings {
    match parse(flags).unwrap().work {
        Work::Serve(settings) => *settings,
        Work::Cleanup(_) | Work::Install(_) | Work::Uninstall(_) | Work::Ask { .. } => {
            panic!("it shall serve")
        }
    }
}

#[test]
fn the_defaults_are_galaxys() {
    let Settings {
        kubeconfig: _,
        networks_file,
        network_conf_dir,
        cni_paths,
        node,
        socket,
        state_dir,
        runtime,
        trust_annotations,
        sysctls,
        vip,
        vip_port,
        metrics_addr,
    } = settings(&["--hostname-override=N1", "--container-runtime-endpoint="]);
    assert_eq!(networks_file.to_str(), Some("/etc/galaxy/galaxy.json"));
    assert_eq!(network_conf_dir.to_str(), Some("/etc/cni/net.d/"));
    // And where the installer puts floe's own: clean-ups have no path of a runtime.
    assert_eq!(cni_paths, ["/opt/cni/galaxy/bin", "/opt/cni/bin"]);
    assert_eq!(node, "n1");
    assert_eq!(socket.to_str(), Some("/var/run/galaxy/galaxy.sock"));
    assert_eq!(state_dir.to_str(), Some("/var/lib/cni/galaxy"));
    assert_eq!(runtime, crate::cri::DEFAULT_ENDPOINT);
    assert!(!trust_annotations);
    assert!(sysctls.ip_forward && sysctls.bridge_nf_call_iptables);
    assert!(!settings(&[]).node.is_empty());
    assert!(vip);
    assert_eq!(vip_port, 9042);
    assert_eq!(metrics_addr, None);
    let other = settings(&["--vip=false", "--vip-port=19042"]);
    assert!(!other.vip);
    assert_eq!(other.vip_port, 19042);
}

#[test]
fn metrics_are_served_where_it_is_said() {
    let addr = |flag: &str| settings(&[flag]).metrics_addr.map(|it| it.to_string());
    assert_eq!(addr("--metrics-addr="), None);
    assert_eq!(addr("--metrics-addr=:9043").unwrap(), "[::]:9043");
    assert_eq!(addr("--metrics-addr=10.0.0.7:1").unwrap(), "10.0.0.7:1");
    for wrong in ["9043", ":", "host:9043", ":70000"] {
        let error = parse(&["--metrics-addr", wrong]).unwrap_err().to_string();
        assert!(error.contains("expected an address and a port"), "{error}");
    }
}

#[test]
fn galaxys_flags_are_taken_in_both_spellings() {
    let settings = settings(&[
        "--json_config_path=/a_b/galaxy.json",
        "--network-conf-dir",
        "/c",
        "--cni-paths=/d,/e",
        "--ip-forward=false",
        "--bridge_nf_call_iptables=false",
        "--kubeconfig=",
        "--master=",
        "--logtostderr",
        "-v=5",
        "--trust-annotations",
    ]);
    assert_eq!(settings.networks_file.to_str(), Some("/a_b/galaxy.json"));
    assert_eq!(settings.network_conf_dir.to_str(), Some("/c"));
    assert_eq!(settings.cni_paths, ["/d", "/e"]);
    assert!(!settings.sysctls.ip_forward && !settings.sysctls.bridge_nf_call_iptables);
    assert_eq!(settings.kubeconfig, None);
    assert!(settings.trust_annotations);
    assert_eq!(
        parse(&["-v=5"]).unwrap().log_level,
        "info,floe_agent=debug,floe_shell=debug"
    );
}

#[test]
fn flags_without_effect_are_named_when_they_are_given() {
    assert!(parse(&[]).unwrap().without_effect.is_empty());
    let given = parse(&[
        "--route-eni",
        "--network-policy=false",
        "--pprof=true",
        "--flannel-gc-interval=10s",
        "--gc-dirs=/var/lib/cni/flannel,/var/lib/cni/galaxy",
    ]);
    assert_eq!(
        given.unwrap().without_effect,
        [
            "--route-eni",
            "--pprof",
            "--flannel-gc-interval",
            "--gc-dirs"
        ]
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    for flags in [
        &["--master=http://10.0.0.1"][..],
        &["--log-level=floe=loud"],
        &["--ip-forward=perhaps"],
        &["--vip-port=0"],
        &["--unknown"],
        &["destroy"],
    ] {
        assert!(parse(flags).is_err(), "{flags:?}");
    }
}

#[test]
fn cleanup_is_a_work_of_its_own() {
    let work = |flags: &[&str]| parse(flags).unwrap().work;
    let wanted = |state_dir: &str, force, dry_run| {
        Work::Cleanup(Cleanup::new(state_dir.into(), force, dry_run))
    };
    assert_eq!(
        work(&["cleanup"]),
        wanted("/var/lib/cni/galaxy", false, false)
    );
    assert_eq!(
        work(&["cleanup", "--dry-run", "--state-dir=/s"]),
        wanted("/s", false, true)
    );
    assert_eq!(
        work(&["cleanup", "--force"]),
        wanted("/var/lib/cni/galaxy", true, false)
    );
    assert_eq!(
        parse(&["cleanup", "--log-format=text"]).unwrap().log_format,
        logs::Format::Text
    );
}

#[test]
fn what_was_installed_is_taken_away_from_the_same_folders() {
    let work = |flags: &[&str]| parse(flags).unwrap().work;
    let Work::Install(there) = work(&["install"]) else {
        panic!("it shall install");
    };
    let Work::Uninstall(gone) = work(&["uninstall"]) else {
        panic!("it shall uninstall");
    };
    assert_eq!(
        (gone.bin_dir, gone.conf_dir),
        (there.bin_dir, there.conf_dir)
    );
    assert!(!gone.stay);
    let Work::Uninstall(stays) = work(&["uninstall", "--stay", "--bin-dir=/b"]) else {
        panic!("it shall uninstall");
    };
    assert!(stays.stay);
    assert_eq!(stays.bin_dir, Path::new("/b"));
}
