//! The release of a test: floe by chart, with values for the testbed.

use std::env;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use floe_testbed::chart;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::build::{Build, Published};
use floe_testbed::floe::{self, agent};
use floe_testbed::helm;
use serde_json::json;

use super::{REPOSITORY, readme};
use crate::LIMIT;

/// Where the values are.
const VALUES: &str = "floe-values.yaml";

/// Kinds of which the chart has objects.
pub const KINDS: &str = "deployments,daemonsets,services,serviceaccounts,secrets,configmaps,roles,\
    rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,\
    validatingadmissionpolicies,validatingadmissionpolicybindings,\
    validatingwebhookconfigurations,mutatingwebhookconfigurations";

/// A pod that wants nothing of floe.
pub const PLAIN: &str = "{apiVersion: v1, kind: Pod, metadata: {name: plain, labels: {app: plain}}, \
    spec: {containers: [{name: main, image: nginx}]}}";

/// What is installed, until [`Release::remove`]; if a test does not come that far, as much of
/// it as Helm knows.
pub struct Release<'a> {
    cluster: &'a Cluster,
    folder: tempfile::TempDir,
    is_there: bool,
}

impl<'a> Release<'a> {
    /// Two commands, on a cluster that has nothing of floe, and everything is there.
    pub fn install(cluster: &'a Cluster, settings: &[&str]) -> Result<Self> {
        let before = owned(cluster)?;
        ensure!(before.is_empty(), "there is something of floe: {before}");
        let folder = tempfile::tempdir()?;
        let published = Build::current().publish(cluster)?;
        serde_json::to_writer(
            File::create(folder.path().join(VALUES))?,
            &values(&published),
        )?;
        floe::apply_definitions(cluster)?;
        // Made first, so that a half-done installation is undone, too.
        let release = Self {
            cluster,
            folder,
            is_there: true,
        };
        done(&mut release.command("install", settings)?)?;
        Ok(release)
    }

    /// The commands of the README, with the sample that they begin with. Returns what the last
    /// one has printed, too.
    pub fn by_readme(cluster: &'a Cluster) -> Result<(Self, String)> {
        let before = owned(cluster)?;
        ensure!(before.is_empty(), "there is something of floe: {before}");
        let folder = tempfile::tempdir()?;
        let commands = readme::commands(&Build::current().publish(cluster)?)?;
        // As in a checkout, which the commands write into.
        symlink(
            Path::new(REPOSITORY).join("deploy"),
            folder.path().join("deploy"),
        )?;
        let release = Self {
            cluster,
            folder,
            is_there: true,
        };
        let kubectl = cluster.kubectl();
        let helm = helm::ensure()?;
        let programs = [Path::new(kubectl.get_program()), &helm].map(Path::parent);
        let mut path: Vec<PathBuf> = programs.into_iter().flatten().map(Into::into).collect();
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let mut bash = Command::new("timeout");
        bash.args(["240", "bash", "-euc", &commands])
            .current_dir(release.folder.path())
            .env("KUBECONFIG", cluster.paths().kubeconfig())
            .env("PATH", env::join_paths(path)?);
        let told = done(&mut bash)?;
        Ok((release, told))
    }

    /// Installs it anew over itself, and waits until Helm is content.
    pub fn upgrade(&self, settings: &[&str]) -> Result<()> {
        done(&mut self.command("upgrade", settings)?)?;
        Ok(())
    }

    /// Begins to do so.
    pub fn begin_upgrade(&self, settings: &[&str]) -> Result<Upgrade> {
        let told = self.folder.path().join("told");
        let mut helm = self.command("upgrade", settings)?;
        helm.stdout(Stdio::null()).stderr(File::create(&told)?);
        Ok(Upgrade {
            helm: helm.spawn().context("cannot start helm")?,
            told,
        })
    }

    /// Pods with addresses are gone already; then goes what is on nodes, then the rest.
    pub async fn remove(mut self) -> Result<()> {
        let cluster = self.cluster;
        self.upgrade(&["agent.remove=true", "agent.maxUnavailable=100%"])?;
        // Helm is content when as many are ready as may be away.
        agent::wait_until_ready(cluster)?;
        for node in ["node-1", "node-2", "node-3"] {
            let host = cluster.host(node).await?;
            let left = host.shell("ls /etc/cni/net.d /opt/cni/bin | grep galaxy || true")?;
            ensure!(left.trim().is_empty(), "{node} still has {left}");
        }
        // Nobody asks floe any more when it goes.
        let hooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
        let left = done(cluster.kubectl().args(["get", hooks, "--output=name"]))?;
        ensure!(left.trim().is_empty(), "there is still {left}");
        done(helm(cluster)?.args(["uninstall", chart::RELEASE, "--wait"]))?;
        self.is_there = false;
        wait::until("nothing of the chart is left", LIMIT, async || {
            let left = owned(cluster)?;
            ensure!(left.is_empty(), "there is {left}");
            Ok(Some(()))
        })
        .await?;
        // Ordinary pods start.
        let namespace = TestNamespace::create(cluster, "chart").await?;
        namespace.apply(PLAIN)?;
        namespace.ready_pods("app=plain", 1, LIMIT).await?;
        Ok(())
    }

    fn command(&self, verb: &str, settings: &[&str]) -> Result<Command> {
        let mut helm = helm(self.cluster)?;
        helm.args([verb, chart::RELEASE, text(&chart::folder())?])
            .args(["--wait", "--timeout=180s", "--values"])
            .arg(self.folder.path().join(VALUES));
        for setting in settings {
            helm.args(["--set", setting]);
        }
        Ok(helm)
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        if self.is_there
            && let Ok(mut helm) = helm(self.cluster)
        {
            // The test has its own story; who comes next finds out.
            let _ = helm
                .args(["uninstall", chart::RELEASE, "--wait", "--ignore-not-found"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// An upgrade that is under way.
pub struct Upgrade {
    helm: Child,
    told: std::path::PathBuf,
}

impl Upgrade {
    /// Whether it has come to its end; an error if that is a bad one.
    pub fn has_ended(&mut self) -> Result<bool> {
        let Some(status) = self.helm.try_wait()? else {
            return Ok(false);
        };
        let told = std::fs::read_to_string(&self.told)?;
        ensure!(status.success(), "the upgrade failed: {told}");
        Ok(true)
    }
}

impl Drop for Upgrade {
    fn drop(&mut self) {
        // It has ended, unless the test has failed; then nobody else could change the release.
        let _ = self.helm.kill();
        let _ = self.helm.wait();
    }
}

fn helm(cluster: &Cluster) -> Result<Command> {
    let mut helm = Command::new(helm::ensure()?);
    helm.env("KUBECONFIG", cluster.paths().kubeconfig())
        .args(["--namespace", chart::NAMESPACE]);
    Ok(helm)
}

/// The settings by which a release is upgraded to another build.
pub fn images(published: &Published) -> [String; 2] {
    let Published { controller, agent } = published;
    [
        format!("controller.image.tag={}", floe::tag_of(controller)),
        format!("agent.image.tag={}", floe::tag_of(agent)),
    ]
}

/// What is set for the testbed: its images, its addresses, and where its scheduler asks.
fn values(published: &Published) -> serde_json::Value {
    json!({
        "addresses": [{
            "nodeSubnets": ["10.200.0.0/24"], "ips": ["10.200.0.100~10.200.0.180"],
            "subnet": "10.200.0.0/24", "gateway": "10.200.0.1",
        }],
        "networks": {
            "NetworkConf": [{ "type": "galaxy-k8s-vlan", "device": "eth0" }],
            "DefaultNetworks": ["pods"], "ENIIPNetwork": "galaxy-k8s-vlan",
        },
        "controller": {
            "image": { "tag": floe::tag_of(&published.controller) },
            "service": { "clusterIP": "10.96.0.40" },
        },
        // All at once, which is quicker.
        "agent": {
            "image": { "tag": floe::tag_of(&published.agent) }, "maxUnavailable": "100%",
        },
    })
}

/// All objects that belong to floe.
fn owned(cluster: &Cluster) -> Result<String> {
    let mut kubectl = cluster.kubectl();
    kubectl.args([
        "get",
        KINDS,
        "--all-namespaces",
        "--output=name",
        "--ignore-not-found",
    ]);
    let ours = done(kubectl.arg("--selector=app.kubernetes.io/part-of=floe"))?;
    Ok(ours.trim().to_owned())
}

/// What a command says that must succeed.
pub fn done(command: &mut Command) -> Result<String> {
    let output = command.output().context("cannot be started")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {told}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A path as a word of a command.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is text")
}
