//! The plugins, called by the CNI project's own tool through the library of container
//! runtimes: what that library hands on, keeps and refuses is not of our making.
//!
//! The tool has no word for VERSION, and sends GC without a list of valid attachments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use floe_testbed::cnitool;
use serde_json::{Value, json};

use super::harness::journey::settled;
use super::harness::lab::{Namespace, deliver};
use super::harness::mode::{BRIDGE, Given, Mode, UNTAGGED};
use super::harness::plugin::NETWORK;
use super::harness::site::{Site, UPLINK};
use super::harness::view::View;

/// Where the tool finds everything that the site has: pods, and its own cache.
const VIEW: &str = "/var/lib";

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn cnitool_attaches_checks_and_detaches_a_pod_in_every_mode() {
    for mode in UNTAGGED {
        let what = mode.title;
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let tool = Tool::new(&site);
        tool.network("1.1.0", &[plugin(&mode)]);
        let (pod, given) = (site.pod("web"), Given::v4(0, 51));
        let empty = View::of(&pod).lines();

        let result = tool.add(&pod, given);
        assert_eq!(result["cniVersion"], "1.1.0", "{what}: {result}");
        assert_eq!(result["ips"][0]["address"], given.net(), "{what}: {result}");
        reached(&site, &pod, given);
        tool.succeeds("check", &pod, given);
        tool.succeeds("status", &pod, given);

        pod.ip(&format!("address delete {} dev eth0", given.net()));
        let told = tool.fails("check", &pod, given);
        assert!(told.contains("CheckFailed"), "{what}: {told}");
        assert!(told.contains(&given.ip.to_string()), "{what}: {told}");

        tool.succeeds("del", &pod, given);
        assert_eq!(View::of(&pod).lines(), empty, "{what}: in the pod");
        before.must_return(site.node(), what);
        // What is gone already is no error.
        tool.succeeds("del", &pod, given);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn cnitool_is_told_that_the_parent_is_down() {
    let site = Site::new(1);
    let tool = Tool::new(&site);
    tool.network("1.1.0", &[plugin(&BRIDGE)]);
    let (pod, given) = (site.pod("web"), Given::v4(0, 52));
    tool.succeeds("status", &pod, given);
    site.node().net.ip(&format!("link set {UPLINK} down"));
    let told = tool.fails("status", &pod, given);
    assert!(told.contains(UPLINK), "{told}");
    site.node().net.ip(&format!("link set {UPLINK} up"));
    tool.succeeds("status", &pod, given);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn cnitool_collects_what_is_not_in_the_list() {
    let site = Site::new(1);
    let tool = Tool::new(&site);
    tool.network("1.1.0", &[plugin(&BRIDGE)]);
    let (kept, lost) = (site.pod("kept"), site.pod("lost"));
    let (at_kept, at_lost) = (Given::v4(0, 53), Given::v4(0, 54));
    tool.add(&kept, at_kept);
    let valid = json!({"containerID": tool.only_container(), "ifname": "eth0"});
    // What the library knows it detaches itself, so it has to forget both.
    tool.forget();
    tool.add(&lost, at_lost);
    tool.forget();

    let mut collecting = plugin(&BRIDGE);
    collecting["cni.dev/valid-attachments"] = json!([valid]);
    tool.network("1.1.0", &[collecting]);
    tool.succeeds("gc", &kept, at_kept);
    reached(&site, &kept, at_kept);
    assert_eq!(
        View::of(&lost).names(),
        Vec::<&str>::new(),
        "the lost pod has lost its interface"
    );
    tool.succeeds("del", &kept, at_kept);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn cnitool_without_a_list_detaches_only_what_it_remembers() {
    let site = Site::new(1);
    let tool = Tool::new(&site);
    tool.network("1.1.0", &[plugin(&BRIDGE)]);
    let (forgotten, known) = (site.pod("forgotten"), site.pod("known"));
    let (at_forgotten, at_known) = (Given::v4(0, 55), Given::v4(0, 56));
    tool.add(&forgotten, at_forgotten);
    tool.forget();
    tool.add(&known, at_known);

    // The library detaches what it remembers, and then sends a GC that does not say
    // what is valid. Everything would go if that were taken for an empty list.
    let told = tool.fails("gc", &known, at_known);
    assert!(told.contains("cni.dev/valid-attachments"), "{told}");
    assert_eq!(View::of(&known).names(), Vec::<&str>::new());
    reached(&site, &forgotten, at_forgotten);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn cnitool_hands_a_result_on_to_the_next_plugin_and_checks_both() {
    const SETTING: &str = "ipv4/conf/eth0/log_martians";
    let site = Site::new(1);
    let before = settled(&site, &BRIDGE);
    let tool = Tool::new(&site);
    let tuned = |setting: &str| json!({"type": "tuning", "sysctl": {setting: "1"}});
    // Debian's plugins speak 1.0.0 and older.
    tool.network(
        "1.0.0",
        &[plugin(&BRIDGE), tuned("net.ipv4.conf.eth0.log_martians")],
    );
    let (pod, given) = (site.pod("web"), Given::v4(0, 57));

    let result = tool.add(&pod, given);
    // It comes from the second plugin, which has it from the first.
    assert_eq!(result["cniVersion"], "1.0.0", "{result}");
    assert_eq!(result["ips"][0]["address"], given.net(), "{result}");
    let interface = &result["ips"][0]["interface"].as_u64().unwrap();
    let interface = &result["interfaces"][usize::try_from(*interface).unwrap()];
    assert_eq!(interface["name"], "eth0", "{result}");
    assert_eq!(interface["mac"], given.mac(), "{result}");
    assert_eq!(pod.get(SETTING), "1");
    reached(&site, &pod, given);

    tool.succeeds("check", &pod, given);
    pod.set(SETTING, "0");
    tool.fails("check", &pod, given);
    pod.set(SETTING, "1");
    tool.succeeds("check", &pod, given);
    pod.ip("link set eth0 down");
    let told = tool.fails("check", &pod, given);
    assert!(told.contains("CheckFailed"), "{told}");

    tool.succeeds("del", &pod, given);
    before.must_return(site.node(), "after DEL of the chain");

    // The second one fails; the runtime then detaches all.
    tool.network(
        "1.0.0",
        &[plugin(&BRIDGE), tuned("net.ipv4.conf.eth0.no_such_setting")],
    );
    tool.fails("add", &pod, given);
    tool.succeeds("del", &pod, given);
    before.must_return(site.node(), "after DEL of half a chain");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn cnitool_reads_the_result_of_every_version() {
    let site = Site::new(1);
    let before = settled(&site, &BRIDGE);
    let tool = Tool::new(&site);
    let (pod, given) = (site.pod("web"), Given::v4(0, 58));
    for version in ["0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        tool.network(version, &[plugin(&BRIDGE)]);
        let result = tool.add(&pod, given);
        assert_eq!(result["cniVersion"], version, "{result}");
        let address = match version {
            "0.2.0" => &result["ip4"]["ip"],
            _ => &result["ips"][0]["address"],
        };
        assert_eq!(*address, given.net(), "{version}: {result}");
        if !matches!(version, "0.2.0" | "0.3.0" | "0.3.1") {
            tool.succeeds("check", &pod, given);
        }
        tool.succeeds("del", &pod, given);
        before.must_return(site.node(), version);
    }
}

/// The tool on the node of a site.
struct Tool<'a> {
    site: &'a Site,
    program: PathBuf,
    /// `NETCONFPATH`.
    networks: PathBuf,
}

impl<'a> Tool<'a> {
    fn new(site: &'a Site) -> Self {
        let networks = site.folder().join("net.d");
        fs::create_dir(&networks).unwrap();
        Self {
            site,
            program: cnitool::ensure().unwrap(),
            networks,
        }
    }

    /// Writes the list of plugins of the network.
    fn network(&self, version: &str, plugins: &[Value]) {
        let list = json!({"cniVersion": version, "name": NETWORK, "plugins": plugins});
        let file = self.networks.join("10-floating.conflist");
        fs::write(file, list.to_string()).unwrap();
    }

    fn add(&self, pod: &Namespace, given: Given) -> Value {
        let stdout = self.succeeds("add", pod, given);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
    }

    fn succeeds(&self, command: &str, pod: &Namespace, given: Given) -> String {
        let output = self.run(command, pod, given);
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it says against it.
    fn fails(&self, command: &str, pod: &Namespace, given: Given) -> String {
        let output = self.run(command, pod, given);
        assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!told.trim().is_empty(), "{command} fails without a word");
        told
    }

    /// Runs the tool on the node. Its cache has a fixed place, and its containers are
    /// called by a hash of their namespaces' paths, so it sees the site at a fixed place.
    fn run(&self, command: &str, pod: &Namespace, given: Given) -> Output {
        const LOOK: &str = "mount --rbind \"$0\" \"$1\" && shift && exec \"$@\"";
        let node = self.site.node();
        let pod = pod.path().strip_prefix(self.site.folder()).unwrap();
        let plugins = [&node.bin, Path::new(cnitool::REFERENCE_PLUGINS)];
        let mut tool = Command::new("timeout");
        tool.args(["60", "unshare", "--mount", "--propagation", "private"])
            .args(["sh", "-c", LOOK])
            .args([self.site.folder(), Path::new(VIEW), &self.program])
            .args([command, NETWORK])
            .arg(Path::new(VIEW).join(pod))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("FLOE_RUN", &node.run)
            .env("FLOE_STATE", &node.state)
            .env("NETCONFPATH", &self.networks)
            .env("CNI_PATH", std::env::join_paths(plugins).unwrap())
            // As runtimes do: other plugins refuse names that they do not know.
            .env(
                "CNI_ARGS",
                format!("IgnoreUnknown=1;ipinfos={}", json!([given.json()])),
            );
        node.net.within(|| tool.output().unwrap())
    }

    /// The container of the only attachment that the library remembers.
    fn only_container(&self) -> String {
        let [file] = &self.remembered()[..] else {
            panic!("{:?}", self.remembered());
        };
        let known: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        known["containerId"].as_str().unwrap().to_owned()
    }

    /// Takes the memory of the library away, as a reboot does with that of a runtime.
    fn forget(&self) {
        let files = self.remembered();
        assert!(!files.is_empty(), "the library remembers what it attaches");
        for file in files {
            fs::remove_file(file).unwrap();
        }
    }

    fn remembered(&self) -> Vec<PathBuf> {
        let folder = self.site.folder().join("cni/results");
        let files = fs::read_dir(folder).unwrap();
        files.map(|entry| entry.unwrap().path()).collect()
    }
}

/// The entry of a plugin in a list: the list has the name and the version.
fn plugin(mode: &Mode) -> Value {
    let mut config = mode.config(NETWORK, "");
    config.remove("name");
    config.into()
}

fn reached(site: &Site, pod: &Namespace, given: Given) {
    let outside = site.outside.udp(given.gateway);
    deliver(&outside, &pod.udp(given.ip), "from outside");
}
