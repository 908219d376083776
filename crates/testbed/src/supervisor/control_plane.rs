//! The programs of the control plane and their settings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::addresses::{
    API_SERVER, API_SERVER_BEHIND_GATE, EXTENDER_PORT, EXTENDER_SERVICE, PODS, SERVICES,
};
use super::pki::Pki;
use crate::cluster::spec::ClusterSpec;
use crate::kubernetes::{self, Program, Programs};

/// The accounts by which floe's programs ask the API server, also where FLIPOP's users
/// install it.
pub const ACCOUNTS: [&str; 3] = [
    "system:serviceaccount:kube-system:floe-controller",
    "system:serviceaccount:kube-system:floe-agent",
    "system:serviceaccount:flipop:flipop",
];

/// The file with the settings of the scheduler.
pub const SCHEDULER: &str = "scheduler.yaml";

/// The commands of the control plane, by name.
pub struct ControlPlane {
    /// The store.
    pub etcd: Vec<String>,
    /// The API server.
    pub api_server: Vec<String>,
    /// The controllers.
    pub controller_manager: Vec<String>,
    /// The scheduler.
    pub scheduler: Vec<String>,
    /// Services, so that the API server and the scheduler reach them.
    pub proxy: Vec<String>,
}

impl ControlPlane {
    /// Writes all settings below `config` and returns the commands.
    pub fn configure(
        spec: &ClusterSpec,
        programs: &Programs,
        pki: &Pki,
        config: &Path,
        audit: &Path,
        etcd_disk: &Path,
    ) -> Result<Self> {
        pki.serve_api()?;
        pki.client("kubelet-client", "kube-apiserver", Some("system:masters"))?;
        let kubeconfig = |name: &str| -> Result<PathBuf> {
            let path = config.join(format!("{name}.kubeconfig"));
            pki.kubeconfig(
                &path,
                &format!("https://{API_SERVER}"),
                &format!("system:{name}"),
                None,
            )?;
            Ok(path)
        };
        let controller_manager = kubeconfig("kube-controller-manager")?;
        kubeconfig("kube-scheduler")?;
        let scheduler = config.join(SCHEDULER);
        fs::write(&scheduler, scheduler_settings(spec, config))?;
        let policy = config.join("audit.yaml");
        fs::write(&policy, audit_policy())?;
        let proxy = config.join("proxy.yaml");
        // The proxy wants to be somebody's: any node will do, since it only
        // decides for which address node ports are opened.
        fs::write(&proxy, proxy_settings(&kubeconfig("kube-proxy")?, "node-1"))?;
        Ok(Self {
            etcd: etcd(etcd_disk)?,
            api_server: api_server(programs, pki, &policy, audit),
            controller_manager: command(
                programs.path(Program::ControllerManager),
                &[
                    format!("--kubeconfig={}", controller_manager.display()),
                    format!("--root-ca-file={}", pki.authority().display()),
                    format!(
                        "--service-account-private-key-file={}",
                        pki.file("tokens.key").display()
                    ),
                    "--use-service-account-credentials".to_owned(),
                    "--leader-elect=false".to_owned(),
                    // Quick enough that a test of a lost node takes seconds.
                    "--node-monitor-period=1s".to_owned(),
                    "--node-monitor-grace-period=8s".to_owned(),
                    "--kube-api-qps=500".to_owned(),
                    "--kube-api-burst=1000".to_owned(),
                ],
            ),
            scheduler: command(
                programs.path(Program::Scheduler),
                &[format!("--config={}", scheduler.display())],
            ),
            proxy: command(
                programs.path(Program::Proxy),
                &[format!("--config={}", proxy.display())],
            ),
        })
    }
}

/// A command as one list of words.
pub fn command(program: &Path, arguments: &[String]) -> Vec<String> {
    let mut words = vec![program.display().to_string()];
    words.extend_from_slice(arguments);
    words
}

/// Settings of a `kube-proxy` that leaves the machine's conntrack limits alone.
pub fn proxy_settings(kubeconfig: &Path, node: &str) -> String {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig },
        "hostnameOverride": node,
        "mode": "nftables",
        "clusterCIDR": PODS,
        "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
        "nftables": { "minSyncPeriod": "100ms" },
    })
    .to_string()
}

fn etcd(disk: &Path) -> Result<Vec<String>> {
    let etcd = kubernetes::etcd().context("there is no etcd")?;
    Ok(command(
        &etcd,
        &[
            format!("--data-dir={}", disk.display()),
            "--listen-client-urls=http://127.0.0.1:2379".to_owned(),
            "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
            "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
            // The disk is in memory and gone with the cluster.
            "--unsafe-no-fsync".to_owned(),
            "--quota-backend-bytes=4294967296".to_owned(),
        ],
    ))
}

/// What floe's accounts ask for, of all others nothing.
fn audit_policy() -> String {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata", "users": ACCOUNTS }, { "level": "None" }],
    })
    .to_string()
}

fn api_server(programs: &Programs, pki: &Pki, policy: &Path, audit: &Path) -> Vec<String> {
    let file = |name: &str| pki.file(name).display().to_string();
    command(
        programs.path(Program::ApiServer),
        &[
            "--etcd-servers=http://127.0.0.1:2379".to_owned(),
            format!("--bind-address={}", API_SERVER_BEHIND_GATE.ip()),
            format!("--secure-port={}", API_SERVER_BEHIND_GATE.port()),
            format!("--advertise-address={}", API_SERVER.ip()),
            // It would publish the port behind the gate.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--service-cluster-ip-range={SERVICES}"),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", audit.display()),
            format!("--client-ca-file={}", pki.authority().display()),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!(
                "--kubelet-client-certificate={}",
                file("kubelet-client.crt")
            ),
            format!("--kubelet-client-key={}", file("kubelet-client.key")),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("tokens.pub")),
            format!("--service-account-signing-key-file={}", file("tokens.key")),
        ],
    )
}

/// The settings of the scheduler, for a file beside its own way to the API server.
pub fn scheduler_settings(spec: &ClusterSpec, config: &Path) -> String {
    let kubeconfig = config.join("kube-scheduler.kubeconfig");
    let mut settings = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig, "qps": 1000, "burst": 2000 },
        "leaderElection": { "leaderElect": false },
        "percentageOfNodesToScore": 100,
        "extenders": [{
            "urlPrefix": format!("http://{EXTENDER_SERVICE}:{EXTENDER_PORT}/v1"),
            "filterVerb": "filter", "prioritizeVerb": "priority",
            "bindVerb": "bind", "preemptVerb": "preempt",
            "weight": 1, "enableHTTPS": false, "httpTimeout": "10s",
            "nodeCacheCapable": spec.extender_gets_names_only,
            "ignorable": false,
            "managedResources": [{ "name": "tke.cloud.tencent.com/eni-ip", "ignoredByScheduler": true }],
        }],
    });
    if !spec.has_extender {
        settings["extenders"] = json!([]);
    }
    settings.to_string()
}
