//! What can go wrong with a cluster, on purpose.

use std::time::Duration;

use anyhow::Result;

use super::Cluster;
use super::control::{ProgramName, Request};
use crate::supervisor::addresses::CONTROL_PLANE;
use crate::supervisor::control_plane::{SCHEDULER, scheduler_settings};

impl Cluster {
    /// Pulls the plug of a node: every process, link and mount of it is gone at
    /// once. Its disk stays.
    pub async fn power_off(&self, node: &str) -> Result<()> {
        self.request(Request::PowerOff(node.to_owned())).await
    }

    /// Switches a node on again.
    pub async fn power_on(&self, node: &str) -> Result<()> {
        self.request(Request::PowerOn(node.to_owned())).await
    }

    /// Pulls the network cable of a node or of the outside host.
    pub async fn pull_cable(&self, host: &str) -> Result<()> {
        self.request(Request::Cable {
            host: host.to_owned(),
            plugged: false,
        })
        .await
    }

    /// Plugs the network cable in again.
    pub async fn plug_cable(&self, host: &str) -> Result<()> {
        self.request(Request::Cable {
            host: host.to_owned(),
            plugged: true,
        })
        .await
    }

    /// Freezes every process of a node, containers included.
    pub async fn pause(&self, node: &str) -> Result<()> {
        self.request(Request::Pause {
            node: node.to_owned(),
            paused: true,
        })
        .await
    }

    /// Lets a paused node go on.
    pub async fn resume(&self, node: &str) -> Result<()> {
        self.request(Request::Pause {
            node: node.to_owned(),
            paused: false,
        })
        .await
    }

    /// Kills a program, such as `node-1` and `kubelet`, without warning.
    pub async fn kill(&self, host: &str, program: &str) -> Result<()> {
        self.request(Request::Stop {
            program: ProgramName::new(host, program),
            kill: true,
        })
        .await
    }

    /// Asks a program to end and waits until it has; after five seconds it is
    /// killed.
    pub async fn stop(&self, host: &str, program: &str) -> Result<()> {
        self.request(Request::Stop {
            program: ProgramName::new(host, program),
            kill: false,
        })
        .await
    }

    /// Starts a program that was killed or stopped.
    pub async fn start(&self, host: &str, program: &str) -> Result<()> {
        self.request(Request::Start(ProgramName::new(host, program)))
            .await
    }

    /// Kills the API server.
    pub async fn kill_api_server(&self) -> Result<()> {
        self.kill(CONTROL_PLANE, "kube-apiserver").await
    }

    /// Stops the API server in good order.
    pub async fn stop_api_server(&self) -> Result<()> {
        self.stop(CONTROL_PLANE, "kube-apiserver").await
    }

    /// Starts the API server again.
    pub async fn start_api_server(&self) -> Result<()> {
        self.start(CONTROL_PLANE, "kube-apiserver").await
    }

    /// Drops every packet between the control plane, where the API server runs,
    /// and a host with its pods; with nobody named, all of them.
    pub async fn cut_off_from_api_server(&self, host: Option<&str>) -> Result<()> {
        let host = host.map(str::to_owned);
        self.request(Request::CutOff { host, cut: true }).await
    }

    /// Mends what [`Self::cut_off_from_api_server`] cut.
    pub async fn reunite_with_api_server(&self, host: Option<&str>) -> Result<()> {
        let host = host.map(str::to_owned);
        self.request(Request::CutOff { host, cut: false }).await
    }

    /// Has the scheduler send whole nodes to its extender, or their names only, and
    /// starts it again.
    pub async fn send_names_only(&self, names_only: bool) -> Result<()> {
        const SETTING: &str = "\"nodeCacheCapable\":";
        let file = self.paths().config().join(SCHEDULER);
        let settings = std::fs::read_to_string(&file)?;
        let (before, now) = (
            format!("{SETTING}{}", !names_only),
            format!("{SETTING}{names_only}"),
        );
        self.stop(CONTROL_PLANE, "kube-scheduler").await?;
        std::fs::write(&file, settings.replace(&before, &now))?;
        self.start(CONTROL_PLANE, "kube-scheduler").await
    }

    /// Has the scheduler ask its extender, or know of none, and starts it again if that is
    /// new to it.
    pub async fn schedule_with_extender(&self, has_extender: bool) -> Result<()> {
        let mut spec = self.status().await?.spec;
        spec.has_extender = has_extender;
        let config = self.paths().config();
        let (file, wanted) = (config.join(SCHEDULER), scheduler_settings(&spec, &config));
        if std::fs::read_to_string(&file)? == wanted {
            return Ok(());
        }
        self.stop(CONTROL_PLANE, "kube-scheduler").await?;
        std::fs::write(&file, wanted)?;
        self.start(CONTROL_PLANE, "kube-scheduler").await
    }

    /// Mends everything: nodes are switched on, cables plugged, programs started.
    /// It takes nodes some seconds to be Ready again.
    pub async fn heal(&self) -> Result<()> {
        self.request(Request::Heal).await
    }

    /// Delays each piece of data to and from the API server; zero ends it.
    pub async fn slow_api_server(&self, delay: Duration) -> Result<()> {
        let milliseconds = u64::try_from(delay.as_millis())?;
        self.request(Request::Slow { milliseconds }).await
    }
}
