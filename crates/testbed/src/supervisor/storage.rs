//! What etcd has on its disk: put aside, brought back, or lost.
//!
//! After it went back nobody can go on from what was read before, so everything that
//! belongs to Kubernetes is started again, as its manual says. Containers run on, and
//! what runs in them is not told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;

use super::addresses::CONTROL_PLANE;
use super::{Supervisor, bootstrap, fake_nodes};
use crate::cluster::control::{ProgramName, Storage};
use crate::command;

/// Programs that do not end when the storage changes below everybody.
const STAY: [&str; 3] = ["etcd", "kube-apiserver", "containerd"];

impl Supervisor {
    /// Where etcd keeps everything.
    pub fn etcd_disk(&self) -> PathBuf {
        self.paths.disks().join("etcd")
    }

    /// Changes what etcd has on its disk, while it does not run.
    pub async fn change_storage(&mut self, change: &Storage) -> Result<()> {
        let host = self.host(CONTROL_PLANE)?;
        let etcd = ProgramName::new(CONTROL_PLANE, "etcd");
        let server = ProgramName::new(CONTROL_PLANE, "kube-apiserver");
        let goes_back = !matches!(change, Storage::Save(_));
        if goes_back {
            self.program(&server)?.stop(true).await?;
        }
        self.program(&etcd)?.stop(false).await?;
        let disk = self.etcd_disk();
        match change {
            Storage::Save(name) => {
                let kept = self.snapshot(name);
                ensure!(!kept.exists(), "there is a snapshot {name} already");
                copy(&disk, &kept)?;
            }
            Storage::Restore(name) => {
                let kept = self.snapshot(name);
                ensure!(kept.is_dir(), "there is no snapshot {name}");
                fs::remove_dir_all(&disk)?;
                copy(&kept, &disk)?;
            }
            Storage::Lose => fs::remove_dir_all(&disk)?,
        }
        self.program(&etcd)?.restart(&host)?;
        if goes_back {
            self.program(&server)?.restart(&host)?;
        }
        Ok(())
    }

    /// Has everybody but the pods read anew, once the API server answers.
    pub async fn read_anew(&mut self) -> Result<()> {
        let names: Vec<ProgramName> = self.programs.keys().cloned().collect();
        for name in names {
            if STAY.contains(&name.program.as_str()) {
                continue;
            }
            let host = self.host(&name.host)?;
            let program = self.program(&name)?;
            program.stop(true).await?;
            program.restart(&host)?;
        }
        let client = self.client().await?;
        bootstrap::publish_api_server(&client).await?;
        if self.spec.fake_nodes > 0 {
            let nodes: Api<Node> = Api::all(client.clone());
            // Those that are there have what tests have written on them.
            if nodes.get_opt(&fake_nodes::name(1)).await?.is_none() {
                fake_nodes::create(&client, self.spec.fake_nodes).await?;
            }
            self.keep_fake_nodes_alive(client);
        }
        Ok(())
    }

    fn snapshot(&self, name: &str) -> PathBuf {
        self.paths.disks().join(format!("etcd-{name}"))
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    command::read(Command::new("cp").arg("--archive").args([from, to]))
        .with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}
