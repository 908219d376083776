//! AWS as others emulate it: moto, and `MiniStack` for a second opinion. Both are on `PyPI`.
//!
//! AWS's own client for Python, boto3, is beside each: it makes what a test needs, and says
//! what is there without floe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::{Daemon, free_port};
use crate::python::Tool;

/// The region in which everything is.
pub const REGION: &str = "us-east-1";

const MOTO: Tool = Tool {
    name: "moto",
    version: "5.2.5",
    requirements: include_str!("../moto/requirements.txt"),
    builds: false,
};

const MINISTACK: Tool = Tool {
    name: "ministack",
    version: "1.5.33",
    requirements: include_str!("../moto/ministack.txt"),
    builds: false,
};

/// The interpreter of an environment.
const PYTHON: &str = "bin/python";

/// boto3, which does what it is told line by line.
const BOTO3: &str = r#"
import sys, json, boto3
url, region = sys.argv[1:]
clients = {}
for line in sys.stdin:
    q = json.loads(line)
    key = (q["service"], q["id"])
    try:
        if key not in clients:
            clients[key] = boto3.session.Session().client(
                q["service"], endpoint_url=url, region_name=region,
                aws_access_key_id=q["id"], aws_secret_access_key=q["secret"])
        answer = {"ok": getattr(clients[key], q["call"])(**q["arguments"])}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer, default=str), flush=True)
"#;

/// Who has written the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Software {
    /// The one that many projects test with. It can check signatures and rights.
    Moto,
    /// Another one, with other faults.
    MiniStack,
}

/// A running emulator.
pub struct Aws {
    address: SocketAddr,
    boto3: Mutex<Boto3>,
    keys: Mutex<Keys>,
    _daemon: Daemon,
    _folder: TempDir,
}

/// A key of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Its name.
    pub id: String,
    /// The key.
    pub secret: String,
}

struct Boto3 {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Aws {
    /// Starts an emulator, which is installed first if it is not there. It lets everybody in.
    pub fn start(software: Software) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("log");
        let (python, address, daemon) = match software {
            Software::Moto => {
                let python = MOTO.ensure()?.join(PYTHON);
                let mut command = Command::new(&python);
                command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]);
                command.current_dir(folder.path());
                let daemon = Daemon::start("moto", &command, &log)?;
                let address = daemon.wait_for(|daemon| running_on(&daemon.said()))?;
                (python, address, daemon)
            }
            Software::MiniStack => {
                let python = MINISTACK.ensure()?.join(PYTHON);
                let port = free_port()?;
                let mut command = Command::new(&python);
                command
                    .args(["-m", "ministack"])
                    .env("BIND_HOST", "127.0.0.1")
                    .env("GATEWAY_PORT", port.to_string())
                    .env("HOME", folder.path())
                    .current_dir(folder.path());
                let daemon = Daemon::start("ministack", &command, &log)?;
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                daemon.wait_for(|_| TcpStream::connect(address).ok())?;
                (python, address, daemon)
            }
        };
        let mut child = Command::new(python)
            .args(["-c", BOTO3, &format!("http://{address}"), REGION])
            // Nothing of what it asks may leave this machine, nor wait for what is elsewhere.
            .env("NO_PROXY", "*")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run boto3")?;
        let asks = child.stdin.take().context("it was asked for")?;
        let answers = BufReader::new(child.stdout.take().context("it was asked for")?);
        Ok(Self {
            address,
            boto3: Mutex::new(Boto3 {
                child,
                asks,
                answers,
            }),
            keys: Mutex::new(Keys {
                id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
                secret: "anything".to_owned(),
            }),
            _daemon: daemon,
            _folder: folder,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key of the account.
    pub fn keys(&self) -> Keys {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// Has boto3 call something, as `client("ec2").describe_addresses(**arguments)`.
    pub fn call(&self, service: &str, call: &str, arguments: &Value) -> Result<Value> {
        let keys = self.keys();
        let question = json!({
            "service": service, "call": call, "arguments": arguments,
            "id": keys.id, "secret": keys.secret,
        });
        let mut boto3 = self.boto3.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(boto3.asks, "{question}").context("boto3 has ended")?;
        let mut line = String::new();
        boto3.answers.read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line).context("boto3 has ended")?;
        if let Some(error) = answer.get("error") {
            bail!("{service}.{call}: {error}");
        }
        Ok(answer["ok"].take())
    }

    /// Makes a user who may do what these actions say, such as `ec2:*`.
    pub fn user(&self, name: &str, actions: &[&str]) -> Result<Keys> {
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}],
        });
        self.call("iam", "create_user", &json!({ "UserName": name }))?;
        let arguments = json!({
            "UserName": name, "PolicyName": "all", "PolicyDocument": policy.to_string(),
        });
        self.call("iam", "put_user_policy", &arguments)?;
        let made = self.call("iam", "create_access_key", &json!({ "UserName": name }))?;
        let text = |field: &str| {
            let text = made["AccessKey"][field].as_str().map(str::to_owned);
            text.with_context(|| format!("no {field}: {made}"))
        };
        Ok(Keys {
            id: text("AccessKeyId")?,
            secret: text("SecretAccessKey")?,
        })
    }

    /// From now on moto checks the signature and the rights of every call. boto3 goes on as a
    /// user who may do everything.
    pub fn check_everybody(&self) -> Result<()> {
        let administrator = self.user("administrator", &["*"])?;
        let mut stream = TcpStream::connect(self.address)?;
        write!(
            stream,
            "POST /moto-api/reset-auth HTTP/1.1\r\nhost: {}\r\ncontent-length: 1\r\n\
             connection: close\r\n\r\n0",
            self.address
        )?;
        let mut status = String::new();
        BufReader::new(stream).read_line(&mut status)?;
        if !status.contains(" 200 ") {
            bail!("moto does not check anybody: {status}");
        }
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = administrator;
        Ok(())
    }
}

impl Drop for Boto3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where moto says that it listens.
fn running_on(said: &str) -> Option<SocketAddr> {
    let (_, rest) = said.split_once("Running on http://")?;
    let (address, _) = rest.split_once('\n')?;
    address.trim().parse().ok()
}

/// Gets both, if they are not there.
pub fn prepare() -> Result<()> {
    MOTO.ensure()?;
    MINISTACK.ensure()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moto_says_where_it_listens() {
        let said = "WARNING\n * Running on http://127.0.0.1:35527\nPress CTRL+C to quit\n";
        let expected: SocketAddr = "127.0.0.1:35527".parse().unwrap();
        assert_eq!(running_on(said), Some(expected));
        assert_eq!(running_on(" * Running on http://127.0.0.1:35"), None);
    }

    #[test]
    fn versions_are_the_pinned_ones_and_everything_is_pinned_by_hashes() {
        for tool in [MOTO, MINISTACK] {
            tool.assert_pinned();
        }
    }
}
