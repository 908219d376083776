//! The controller as a process of its own, which is killed and started again.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use floe_testbed::host::sibling_program;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::super::ground::TOKEN;
use super::tell;
use super::toll::{Moment, Toll};

/// Where the controller finds the others.
#[derive(Clone, Copy)]
pub struct Neighbours {
    pub api_server: SocketAddr,
    pub cloud: SocketAddr,
}

/// A controller that is killed at calls, one after the other, and started again each time.
/// It ends when this is dropped.
pub struct Controller {
    folder: Arc<TempDir>,
    running: Arc<Mutex<Option<Child>>>,
    minder: JoinHandle<()>,
}

impl Controller {
    /// Starts it.
    pub fn start(toll: Toll, neighbours: Neighbours, kills: Vec<(usize, Moment)>) -> Result<Self> {
        let folder = Arc::new(tempfile::tempdir()?);
        let running = Arc::new(Mutex::new(None));
        let program = sibling_program("floe-controller")?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
            "clusters": [{
                "name": "it", "cluster": { "server": format!("http://{}", neighbours.api_server) },
            }],
            "users": [{ "name": "it", "user": {} }],
        });
        fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string())?;
        let (place, child) = (Arc::clone(&folder), Arc::clone(&running));
        let minder = tokio::spawn(async move {
            let mut kills = kills.into_iter();
            for number in 0.. {
                let kill = kills.next();
                toll.begin(kill);
                match run(&program, &place, neighbours, number) {
                    Ok(process) => {
                        *child.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
                    }
                    Err(error) => {
                        tell(&format!("  the controller does not start: {error:#}"));
                        return;
                    }
                }
                let held = toll.reached().await;
                end(&child);
                tell(&format!("  killed {held}"));
            }
        });
        Ok(Self {
            folder,
            running,
            minder,
        })
    }

    /// What its processes have logged, one file for each.
    pub fn logs(&self) -> Vec<String> {
        let files = (0..).map(|number| log(&self.folder, number));
        files
            .map_while(|file| fs::read_to_string(file).ok())
            .collect()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.minder.abort();
        end(&self.running);
    }
}

fn log(folder: &TempDir, number: usize) -> PathBuf {
    folder.path().join(format!("log-{number}"))
}

fn run(
    program: &PathBuf,
    folder: &TempDir,
    neighbours: Neighbours,
    number: usize,
) -> Result<Child> {
    let log = File::create(log(folder, number))?;
    // Without an election: a lease that its holder cannot give back lasts for seconds, and
    // nothing of what is shown here rests on it.
    let child = Command::new(program)
        .args(["--float-ips=false", "--leader-elect=false", "--debug"])
        .args([
            "--bind=127.0.0.1",
            "--port=0",
            "--api-port=0",
            "--health-addr=127.0.0.1:0",
        ])
        .arg("--kubeconfig")
        .arg(folder.path().join("kubeconfig"))
        .env("DIGITALOCEAN_ACCESS_TOKEN", TOKEN)
        .env(
            "DIGITALOCEAN_API_URL",
            format!("http://{}", neighbours.cloud),
        )
        .env("DIGITALOCEAN_PROJECT_PER_ADDRESS", "true")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(child)
}

/// Kills it, without warning.
fn end(running: &Mutex<Option<Child>>) {
    let child = running
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(mut child) = child {
        // It fails only when it has ended by itself, and then it is told by what it lacks.
        let _ = child.kill();
        let _ = child.wait();
    }
}
