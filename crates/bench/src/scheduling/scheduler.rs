//! The scheduler as a process of the benchmark.

use std::{
    fs::{self, File},
    path::Path,
    process::Stdio,
};

use anyhow::{Context as _, Result};
use floe_testbed::kubernetes::{Program, Programs};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A running scheduler. It ends with this value.
pub struct Scheduler {
    child: Child,
    /// With its settings.
    _directory: TempDir,
}

impl Scheduler {
    /// Starts it; with an extender that listens on a port of this machine, if there is one.
    pub fn start(
        programs: &Programs,
        kubeconfig: &Path,
        log: &Path,
        extender: Option<u16>,
    ) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("scheduler.json");
        fs::write(&file, settings(kubeconfig, extender).to_string())?;
        // It must not outlive this process, whatever ends it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(programs.path(Program::Scheduler))
            .arg(format!("--config={}", file.display()))
            // Nobody asks it anything, and its usual port may be taken.
            .arg("--secure-port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log)?)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the scheduler")?;
        Ok(Self {
            child,
            _directory: directory,
        })
    }

    /// Ends it, and waits for that.
    pub async fn stop(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// The usual settings, but for two: it may ask the API server as often as it wants, where
/// by default 50 requests each second would be all that is measured; and it is alone.
fn settings(kubeconfig: &Path, extender: Option<u16>) -> Value {
    let mut settings = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig, "qps": 10_000, "burst": 10_000 },
        "leaderElection": { "leaderElect": false },
    });
    if let Some(port) = extender {
        // As in `deploy/scheduler/kube-scheduler-v1.yaml`.
        settings["extenders"] = json!([{
            "urlPrefix": format!("http://127.0.0.1:{port}/v1"),
            "filterVerb": "filter", "prioritizeVerb": "priority",
            "bindVerb": "bind", "preemptVerb": "preempt",
            "weight": 1, "enableHTTPS": false, "httpTimeout": "10s",
            "nodeCacheCapable": true, "ignorable": false,
            "managedResources": [
                { "name": "tke.cloud.tencent.com/eni-ip", "ignoredByScheduler": true },
            ],
        }]);
    }
    settings
}
