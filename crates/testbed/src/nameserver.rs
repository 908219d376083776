//! Name servers of Debian that take signed updates: BIND and Knot, each with one zone, on a
//! port of 127.0.0.1.
//!
//! Their own clients, `dig` and `nsupdate`, look at the zone and change it without floe.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::command;
use crate::daemon::{Daemon, free_port};
use crate::packages::{self, Need};

/// The zone that it has.
pub const ZONE: &str = "example.test";

/// The name of the key that may change it.
pub const KEY_NAME: &str = "floe";

/// The key, in base 64. It is good for a server that ends with its test.
pub const KEY_SECRET: &str = "a2V5IG9mIGEgbmFtZSBzZXJ2ZXIgZm9yIHRlc3RzIG8=";

/// The zone when a server starts.
const RECORDS: &str = "\
$ORIGIN example.test.
$TTL 300
@ IN SOA ns hostmaster 1 3600 600 86400 60
@ IN NS ns
ns IN A 127.0.0.1
";

/// Another program may take a port between the choice and the start.
const ATTEMPTS: usize = 3;

const DIG: Need = Need {
    program: "dig",
    package: "bind9-dnsutils",
};

/// Who has written the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Software {
    /// ISC's.
    Bind,
    /// CZ.NIC's.
    Knot,
}

/// A running name server.
pub struct NameServer {
    address: SocketAddr,
    daemon: Daemon,
    _folder: TempDir,
}

/// A record, as `dig` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// How long it may be remembered, in seconds.
    pub ttl: u32,
    /// Its type.
    pub kind: String,
    /// What it says, as in a file of a zone.
    pub data: String,
}

impl Software {
    fn needs(self) -> [Need; 2] {
        let server = match self {
            Self::Bind => Need {
                program: "named",
                package: "bind9",
            },
            Self::Knot => Need {
                program: "knotd",
                package: "knot",
            },
        };
        [server, DIG]
    }

    /// The configuration, for a server whose files are in `folder`.
    fn configuration(self, folder: &str, port: u16) -> String {
        match self {
            Self::Bind => format!(
                "options {{ directory \"{folder}\"; pid-file \"{folder}/pid\";\n\
                 session-keyfile \"{folder}/session.key\"; recursion no; notify no;\n\
                 dnssec-validation no; allow-transfer {{ none; }};\n\
                 listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; }};\n\
                 controls {{ }};\n\
                 key \"{KEY_NAME}\" {{ algorithm hmac-sha256; secret \"{KEY_SECRET}\"; }};\n\
                 zone \"{ZONE}\" {{ type primary; check-integrity no; file \"{folder}/zone\";\n\
                 allow-update {{ key \"{KEY_NAME}\"; }}; }};\n"
            ),
            Self::Knot => format!(
                "server:\n    rundir: \"{folder}\"\n    listen: 127.0.0.1@{port}\n\
                 log:\n  - target: stderr\n    any: info\n\
                 database:\n    storage: \"{folder}\"\n\
                 key:\n  - id: {KEY_NAME}\n    algorithm: hmac-sha256\n    secret: {KEY_SECRET}\n\
                 acl:\n  - id: update\n    key: {KEY_NAME}\n    action: update\n\
                 zone:\n  - domain: {ZONE}\n    storage: \"{folder}\"\n    file: zone\n    acl: update\n"
            ),
        }
    }

    fn command(self, configuration: &str) -> Result<Command> {
        let [server, _] = self.needs();
        let program = packages::find(server.program).context("it was just installed")?;
        let mut command = Command::new(program);
        match self {
            // In the foreground, and to standard error.
            Self::Bind => command.args(["-g", "-n", "1", "-c", configuration]),
            Self::Knot => command.args(["-c", configuration]),
        };
        Ok(command)
    }
}

impl NameServer {
    /// Starts a server, which is installed first if it is not there.
    pub fn start(software: Software) -> Result<Self> {
        packages::ensure(&software.needs())?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match Self::try_start(software) {
                Ok(server) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("it was tried at least once")?)
    }

    fn try_start(software: Software) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let path = folder.path().to_str().context("a folder with a name")?;
        fs::write(folder.path().join("zone"), RECORDS)?;
        let configuration = folder.path().join("conf");
        fs::write(&configuration, software.configuration(path, port))?;
        let command = software.command(&format!("{path}/conf"))?;
        let name = format!("{software:?}");
        let daemon = Daemon::start(&name, &command, &folder.path().join("log"))?;
        let server = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            daemon,
            _folder: folder,
        };
        let has_its_zone = || {
            let found = server.records(ZONE, "SOA").ok()?;
            (!found.is_empty()).then_some(())
        };
        server.daemon.wait_for(|_| has_its_zone())?;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The records of a name, of one type or of `ANY`, as `dig` finds them.
    pub fn records(&self, name: &str, kind: &str) -> Result<Vec<Shown>> {
        let mut dig = Command::new("dig");
        dig.arg("@127.0.0.1")
            .args(["-p", &self.address.port().to_string()])
            .args([
                "+tcp",
                "+norecurse",
                "+noall",
                "+answer",
                "+time=5",
                "+tries=1",
            ])
            .args(["-q", name, "-t", kind]);
        let text = command::read(&mut dig)?;
        text.lines()
            .filter(|line| !line.is_empty() && !line.starts_with(';'))
            .map(shown)
            .collect()
    }

    /// The serial number of the zone, which every change makes larger.
    pub fn serial(&self) -> Result<u32> {
        let records = self.records(ZONE, "SOA")?;
        let serial = records
            .first()
            .and_then(|record| record.data.split_whitespace().nth(2));
        serial
            .and_then(|serial| serial.parse().ok())
            .context("the zone has no serial number")
    }

    /// Changes the zone with `nsupdate`, whose language these lines are.
    pub fn update(&self, lines: &str) -> Result<()> {
        let mut nsupdate = Command::new("nsupdate");
        nsupdate
            .arg("-v")
            .args(["-y", &format!("hmac-sha256:{KEY_NAME}:{KEY_SECRET}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = nsupdate.spawn().context("cannot run nsupdate")?;
        let script = format!(
            "server 127.0.0.1 {}\nzone {ZONE}\n{lines}\nsend\n",
            self.address.port()
        );
        let mut stdin = child.stdin.take().context("it was asked for")?;
        stdin.write_all(script.as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("nsupdate: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

/// Reads a line such as `www.example.test. 60 IN A 192.0.2.1`, in which dig has tabs.
fn shown(line: &str) -> Result<Shown> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.trim_start().split_once(char::is_whitespace)?;
        rest = after;
        Some(word)
    };
    let fields = (word(), word(), word(), word());
    let (Some(_name), Some(ttl), Some(_class), Some(kind)) = fields else {
        bail!("{line:?} is no record");
    };
    Ok(Shown {
        ttl: ttl.parse().context("a time that is none")?,
        kind: kind.to_owned(),
        data: rest.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_dig_are_read() {
        let expected = Shown {
            ttl: 60,
            kind: "TXT".into(),
            data: "\"a b\" \"c\"".into(),
        };
        let line = "_floe.www.example.test.\t60\tIN\tTXT\t\"a b\" \"c\"";
        assert_eq!(shown(line).unwrap(), expected);
        shown("example.test.\t60").unwrap_err();
    }
}
