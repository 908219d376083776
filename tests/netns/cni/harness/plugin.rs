//! A plugin, called as a runtime calls it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Map, Value, json};

use super::lab::{Namespace, PATIENCE};
use super::mode::{Given, Mode};
use super::site::Node;

/// The name of the network, unless a test needs several.
pub const NETWORK: &str = "floating";

/// A pod's attachment to a network, or what a runtime believes to be one.
#[derive(Clone)]
pub struct Attachment<'a> {
    node: &'a Node,
    /// The name under which the program is called.
    pub plugin: String,
    /// The configuration.
    pub config: Map<String, Value>,
    /// The container.
    pub container: String,
    /// `CNI_*` variables besides the command.
    pub variables: BTreeMap<&'static str, String>,
}

/// What a call came to.
#[derive(Debug)]
pub struct Reply {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// An error as a runtime reads it.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub code: u64,
    /// The message.
    pub message: String,
}

impl<'a> Attachment<'a> {
    /// An attachment of a pod in the newest version, with these addresses.
    pub fn new(node: &'a Node, mode: &Mode, pod: &Namespace, addresses: &[Given]) -> Self {
        let container = container(pod.path());
        let list: Vec<Value> = addresses.iter().map(Given::json).collect();
        let variables = [
            ("CNI_CONTAINERID", container.clone()),
            ("CNI_NETNS", pod.path().display().to_string()),
            ("CNI_IFNAME", "eth0".to_owned()),
            ("CNI_PATH", node.bin.display().to_string()),
            (
                "CNI_ARGS",
                format!("IgnoreUnknown=1;K8S_POD_NAME=web;ipinfos={}", json!(list)),
            ),
        ];
        Self {
            node,
            plugin: mode.plugin.to_owned(),
            config: mode.config(NETWORK, "1.1.0"),
            container,
            variables: variables.into_iter().collect(),
        }
    }

    /// The same with another member in its configuration.
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.config.insert(member.to_owned(), value.into());
        self
    }

    /// The same with another variable.
    pub fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.insert(name, value.to_owned());
        self
    }

    /// The name of a host device of this pod.
    pub fn host_link(&self, suffix: &str) -> String {
        format!("v-h{}{suffix}", &self.container[..9])
    }

    /// The alias of links of this attachment.
    pub fn alias(&self) -> String {
        let ifname = &self.variables["CNI_IFNAME"];
        let network = self.config["name"].as_str().unwrap();
        format!("floe:{network}:{}:{ifname}", self.container)
    }

    /// ADD, which must succeed.
    pub fn add(&self) -> Value {
        self.call("ADD").result()
    }

    /// ADD, which must fail.
    pub fn refused(&self) -> Failure {
        self.call("ADD").failure()
    }

    /// DEL, which must succeed and say nothing.
    pub fn del(&self) {
        self.call("DEL").nothing();
    }

    /// CHECK of what ADD has said.
    pub fn check(&self, previous: &Value) -> Reply {
        self.clone()
            .with("prevResult", previous.clone())
            .call("CHECK")
    }

    /// Any command with the configuration.
    pub fn call(&self, command: &str) -> Reply {
        self.send(command, json!(self.config).to_string().as_bytes())
    }

    /// Any command with any bytes.
    pub fn send(&self, command: &str, stdin: &[u8]) -> Reply {
        let child = self.start(command, stdin);
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        let Ok(output) = receiver.recv_timeout(PATIENCE) else {
            // It is still ours: nobody has waited for it.
            let _ = kill(pid, Signal::SIGKILL);
            panic!("{command} of {} takes too long", self.plugin);
        };
        let output = output.unwrap();
        Reply {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts a command, and gives it its standard input.
    pub fn start(&self, command: &str, stdin: &[u8]) -> Child {
        let mut program = Command::new(self.node.bin.join(&self.plugin));
        program
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("FLOE_RUN", &self.node.run)
            .env("FLOE_STATE", &self.node.state)
            .envs(&self.variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !command.is_empty() {
            program.env("CNI_COMMAND", command);
        }
        let mut child = self.node.net.within(|| program.spawn().unwrap());
        let mut input = child.stdin.take().unwrap();
        // One that refuses earlier does not read it.
        let _ = input.write_all(stdin);
        child
    }
}

impl Reply {
    /// The result of an ADD that succeeded.
    pub fn result(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Whether it succeeded.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// It succeeded and said nothing.
    pub fn nothing(&self) {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.stdout.trim(), "", "{self:?}");
    }

    /// The error, in the form of the specification.
    pub fn failure(&self) -> Failure {
        assert_eq!(self.code, Some(1), "{self:?}");
        let error: Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert!(error["cniVersion"].is_string(), "{error}");
        Failure {
            code: error["code"].as_u64().unwrap_or_else(|| panic!("{error}")),
            message: error["msg"]
                .as_str()
                .unwrap_or_else(|| panic!("{error}"))
                .to_owned(),
        }
    }
}

/// A container id that is as long as a real one and tells its namespace's path.
fn container(path: &Path) -> String {
    // FNV-1a: pods of one site differ in their first nine characters.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in PathBuf::from(path).display().to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}").repeat(4)
}
