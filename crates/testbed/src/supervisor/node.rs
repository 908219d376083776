//! The programs of a node and their settings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::addresses::{API_SERVER, REGISTRY, Seat};
use super::control_plane::{command, proxy_settings};
use super::pki::Pki;
use crate::cgroup::Cgroup;
use crate::kubernetes::{Program, Programs};

/// Where Debian puts the reference plugins.
const CNI_PLUGINS: &str = "/usr/lib/cni";
/// The image that holds a pod's namespaces.
const PAUSE_IMAGE: &str = "testbed/pause:1";

/// The commands of one node.
pub struct Node {
    /// The container runtime.
    pub containerd: Vec<String>,
    /// The kubelet.
    pub kubelet: Vec<String>,
    /// Services.
    pub proxy: Vec<String>,
}

impl Node {
    /// Writes all settings of a node and fills its disk with what it is born with.
    pub fn configure(
        seat: Seat,
        programs: &Programs,
        pki: &Pki,
        config: &Path,
        disk: &Path,
        cgroup: &Cgroup,
    ) -> Result<Self> {
        let name = seat.name();
        let config = config.join(&name);
        fs::create_dir_all(&config)?;
        let server = format!("https://{API_SERVER}");
        let kubeconfig = |file: &str, user: &str, group| -> Result<PathBuf> {
            let path = config.join(format!("{name}-{file}.kubeconfig"));
            pki.kubeconfig(&path, &server, user, group)?;
            Ok(path)
        };
        let containerd = config.join("containerd.toml");
        let mirrors = config.join("mirrors");
        fs::write(&containerd, containerd_settings(&mirrors))?;
        fs::create_dir_all(mirrors.join("_default"))?;
        fs::write(
            mirrors.join("_default/hosts.toml"),
            format!(
                "server = \"http://{REGISTRY}\"\n[host.\"http://{REGISTRY}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
            ),
        )?;
        let kubelet = config.join("kubelet.yaml");
        fs::write(&kubelet, kubelet_settings(pki, cgroup))?;
        let kubelet_access = kubeconfig(
            "kubelet",
            &format!("system:node:{name}"),
            Some("system:nodes"),
        )?;
        let proxy = config.join("proxy.yaml");
        fs::write(
            &proxy,
            proxy_settings(&kubeconfig("proxy", "system:kube-proxy", None)?, &name),
        )?;
        equip(seat, disk)?;
        Ok(Self {
            containerd: command(
                Path::new("containerd"),
                &[format!("--config={}", containerd.display())],
            ),
            kubelet: command(
                programs.path(Program::Kubelet),
                &[
                    format!("--config={}", kubelet.display()),
                    format!("--kubeconfig={}", kubelet_access.display()),
                    format!("--hostname-override={name}"),
                    format!("--node-ip={}", seat.ipv4()),
                    "--cert-dir=/var/lib/kubelet/pki".to_owned(),
                ],
            ),
            proxy: command(
                programs.path(Program::Proxy),
                &[format!("--config={}", proxy.display())],
            ),
        })
    }
}

/// CNI plugins and the network of ordinary pods, as an installer would put them.
fn equip(seat: Seat, disk: &Path) -> Result<()> {
    let plugins = disk.join("cni-bin");
    fs::create_dir_all(&plugins)?;
    for entry in
        fs::read_dir(CNI_PLUGINS).with_context(|| format!("no CNI plugins in {CNI_PLUGINS}"))?
    {
        let entry = entry?;
        let plugin = plugins.join(entry.file_name());
        // No symbolic links: pods see this folder without the machine's others. Hard
        // ones cost nothing, if the disk is the same.
        if !plugin.exists() && fs::hard_link(entry.path(), &plugin).is_err() {
            fs::copy(entry.path(), plugin)?;
        }
    }
    let networks = disk.join("etc/cni/net.d");
    fs::create_dir_all(&networks)?;
    // Point to point, so that traffic between pods of one node is routed and
    // Service addresses work there too, whatever the bridge settings are.
    let network = json!({
        "cniVersion": "1.0.0", "name": "pods",
        "plugins": [{
            "type": "ptp", "ipMasq": false, "mtu": 1500,
            "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": seat.pods().context("only nodes have pods")? }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    });
    fs::write(networks.join("10-pods.conflist"), network.to_string())?;
    Ok(())
}

fn containerd_settings(mirrors: &Path) -> String {
    format!(
        r#"version = 2
oom_score = 0
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# The machine may forbid to lower a score; without this no sandbox starts there.
restrict_oom_score_adj = true
# Network namespaces have to live and die with the node.
netns_mounts_under_state_dir = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{}"
"#,
        mirrors.display()
    )
}

fn kubelet_settings(pki: &Pki, cgroup: &Cgroup) -> String {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": pki.authority() },
        },
        "authorization": { "mode": "Webhook" },
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs", "cgroupRoot": cgroup.path(), "failCgroupV1": false,
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": false,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "makeIPTablesUtilChains": false,
        "serializeImagePulls": false,
        // A lost node is noticed within seconds.
        "nodeStatusUpdateFrequency": "2s", "nodeLeaseDurationSeconds": 4,
        // Its lease says that it lives; a status that says nothing new would go to all who watch.
        "nodeStatusReportFrequency": "5m",
        // The machine's disk is not the node's to judge.
        "evictionHard": { "memory.available": "50Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%" },
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
    })
    .to_string()
}
