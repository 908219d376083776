//! `galaxy-sdn`: hands a call to the agent of this node.
//!
//! An agent that is just being replaced is waited for. A pod can be deleted without
//! one: the state files tell what was attached.

use std::{
    collections::BTreeMap,
    env, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use floe_core::{
    cni::{
        call::{Call, Command},
        config::NetConf,
        error::{CniError, Code},
        result::Outcome,
    },
    json::{Names, decode},
};
use serde_json::{Value, json};

use crate::fail::fail;

mod alone;
mod base64;
mod http;

/// How long a call waits for an agent that is not there.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the agent may take: three plugins with 220 seconds each.
const LIMIT: Duration = Duration::from_mins(11);

/// Where the agent's socket is, and the folder of its state files. Compat: galaxy's.
const SOCKET: &str = "/var/run/galaxy/galaxy.sock";
const STATE: &str = "/var/lib/cni/galaxy";

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// The agent, as this call sees it.
pub struct Agent {
    /// Its socket, and the folder of its state files, if this process was told.
    socket: Option<PathBuf>,
    state: Option<PathBuf>,
    patience: Duration,
}

impl Agent {
    /// The agent of this node. Where it is say the variables `FLOE_SOCKET` and
    /// `FLOE_STATE_DIR`, as they do for the agent itself; else `socket` and `stateDir` of
    /// the configuration, which `floe-agent install` writes; else it is where galaxy is.
    pub fn usual() -> Self {
        let told = |name| {
            let other = env::var_os(name).filter(|it| !it.is_empty());
            other.map(PathBuf::from)
        };
        Self {
            socket: told("FLOE_SOCKET"),
            state: told("FLOE_STATE_DIR"),
            patience: PATIENCE,
        }
    }

    /// Hands on a call; what is to be printed. `environment` is the one of this
    /// process.
    pub fn call(
        &self,
        call: &Call,
        conf: &NetConf,
        stdin: &[u8],
        environment: &BTreeMap<String, String>,
    ) -> Result<Option<Value>, CniError> {
        let body = json!({ "env": environment, "config": base64::encode(stdin) }).to_string();
        let socket = place(self.socket.as_deref(), conf, "socket", SOCKET)?;
        let answer = match self.ask(&socket, call.command, &body) {
            Ok(answer) => answer,
            Err(_) if call.command == Command::Del => {
                let state = place(self.state.as_deref(), conf, "stateDir", STATE)?;
                return alone::detach(&state, call).map(|()| None);
            }
            Err(error) => return Err(unreachable(&socket, call.command, &error)),
        };
        if answer.status != 200 {
            return Err(refused(call.command, &answer));
        }
        if call.command == Command::Add {
            return result(&answer.body, conf).map(Some);
        }
        Ok(None)
    }

    fn ask(&self, socket: &Path, command: Command, body: &str) -> io::Result<http::Answer> {
        let start = Instant::now();
        loop {
            let error = match http::post(socket, "/cni", body, Instant::now() + LIMIT) {
                Ok(answer) => return Ok(answer),
                // The agent went away in the middle. Only an ADD is not the same
                // when it is done twice; the runtime undoes and repeats it.
                Err(http::Failure::Talk(error)) if command == Command::Add => return Err(error),
                Err(http::Failure::Connect(error) | http::Failure::Talk(error)) => error,
            };
            if start.elapsed() + PAUSE > self.patience {
                return Err(error);
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Where something of the agent is.
fn place(
    told: Option<&Path>,
    conf: &NetConf,
    member: &str,
    usual: &str,
) -> Result<PathBuf, CniError> {
    if let Some(told) = told {
        return Ok(told.to_owned());
    }
    let configured: String = conf.member(member)?;
    let place = Some(&*configured).filter(|it| !it.is_empty());
    Ok(PathBuf::from(place.unwrap_or(usual)))
}

fn unreachable(socket: &Path, command: Command, error: &io::Error) -> CniError {
    // A person reads this in an Event of the pod, and may never have heard of an agent.
    let message = format!(
        "cannot reach floe-agent of this node at {}: {error}; it is tried again until the agent \
         runs here: see the pods of DaemonSet floe-agent on this node",
        socket.display()
    );
    let code = if command == Command::Status {
        Code::NotAvailable
    } else {
        Code::TryAgainLater
    };
    fail(code, "AgentUnreachable", message)
}

/// The result of an ADD, in the version that was asked for.
fn result(body: &[u8], conf: &NetConf) -> Result<Value, CniError> {
    let json: Value = decode(body, Names::Go).map_err(|error| {
        let message = format!("cannot read the agent's answer: {error}");
        CniError::of(Code::Agent, message)
    })?;
    let version = json.get("cniVersion").and_then(Value::as_str);
    if version == Some(conf.version.as_str()) {
        return Ok(json);
    }
    Ok(Outcome::from_json(&json)?.to_json(conf.version))
}

fn refused(command: Command, answer: &http::Answer) -> CniError {
    let json = serde_json::from_slice(&answer.body).ok();
    if let Some(error) = json.as_ref().and_then(CniError::from_json) {
        // Compat: galaxy's words.
        let message = format!("galaxy returns: {}", error.message);
        return CniError { message, ..error };
    }
    let text = String::from_utf8_lossy(&answer.body);
    let code = if command == Command::Status {
        Code::NotAvailable
    } else {
        Code::Agent
    };
    // Compat: galaxy's words.
    let message = format!("galaxy returns: {}", text.trim());
    fail(code, "AgentFailed", message)
}

#[cfg(test)]
mod tests;
