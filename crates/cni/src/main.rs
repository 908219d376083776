//! The CNI plugins of floe: one small blocking program under several names.
//!
//! **What it is for.** A container runtime, the agent or Multus calls it to give a
//! pod its interfaces, and to take them away. The name under which it is called says
//! which plugin it is; called as `floe-cni`, the configuration's `type` does.
//!
//! **What it never does.** It knows no Kubernetes, starts no programs but other
//! plugins, and waits for nothing without a limit.
//!
//! **Neighbours.** `floe-core` has the words of the protocol and plans interfaces,
//! `floe-net` speaks with the kernel.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    env,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use floe_core::cni::{
    call::{Call, Command},
    config::NetConf,
    error::{CniError, Code},
    version::Version,
};

use crate::{
    fail::{fail, system},
    plugin::Plugin,
    request::{Places, Request},
    shim::Agent,
    underlay::Underlay,
    vlan::Vlan,
};

mod add;
mod addresses;
mod ask;
mod bridge;
mod check;
mod del;
mod exec;
mod fail;
mod host_side;
mod notes;
mod plugin;
mod pod;
mod proxies;
mod reach;
mod request;
mod shim;
mod sriov;
mod underlay;
mod vlan;
mod vlan_device;

/// The longest configuration.
const LONGEST: usize = 1 << 20;

/// What this program can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Shim,
    Vlan,
    Underlay,
    Sriov,
}

fn main() -> ExitCode {
    let called = env::args_os().next().unwrap_or_default();
    let called = Path::new(&called).file_name().unwrap_or_default();
    let mut stdin = Vec::new();
    let (text, code) = match answer(&called.to_string_lossy(), &mut stdin) {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => {
            let version = NetConf::version_of(&stdin);
            (error.to_text(version), ExitCode::FAILURE)
        }
    };
    // A runtime that does not listen cannot be told that it does not.
    let _ = io::stdout().write_all(text.as_bytes());
    code
}

/// Does what the environment and `stdin`, which is filled here, ask for; what is to
/// be printed.
fn answer(called: &str, stdin: &mut Vec<u8>) -> Result<String, CniError> {
    let call = Call::of(|name| env::var(name).ok());
    if let Ok(call) = &call
        && call.command == Command::Version
    {
        return Ok(Version::answer().to_string());
    }
    read_stdin(stdin)?;
    // An error is told in the version of the configuration, so this comes after.
    let call = call?;
    let conf = NetConf::parse_for(stdin, call.command)?;
    call.command.allowed_in(conf.version)?;
    let kind = Kind::named(called).or_else(|| Kind::named(&conf.kind));
    let request = Request {
        call: &call,
        conf: &conf,
        stdin,
        places: &Places::usual(),
    };
    match kind {
        Some(Kind::Shim) => {
            let environment: BTreeMap<String, String> = env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect();
            let result = Agent::usual().call(&call, &conf, stdin, &environment)?;
            Ok(result.map_or_else(String::new, |it| it.to_string()))
        }
        Some(Kind::Vlan) => run(|| Ok(Box::new(Vlan::parse(&conf)?)), &request),
        Some(Kind::Underlay) => run(|| Ok(Box::new(Underlay::parse(&conf)?)), &request),
        Some(Kind::Sriov) => sriov::run(&request),
        None => {
            let message = format!(
                "{called} is no plugin of floe, and neither is {}",
                conf.kind
            );
            Err(fail(Code::InvalidConfiguration, "UnknownPlugin", message))
        }
    }
}

/// Runs a plugin. Clean-up needs nothing of its configuration, so that a bad one
/// keeps no pod from being deleted.
fn run(
    plugin: impl FnOnce() -> Result<Box<dyn Plugin>, CniError>,
    request: &Request<'_>,
) -> Result<String, CniError> {
    match request.call.command {
        Command::Add => {
            let outcome = add::add(&*plugin()?, request)?;
            return Ok(outcome.to_text(request.conf.version));
        }
        Command::Del => del::del(request)?,
        Command::Gc => del::gc(request)?,
        Command::Check => check::check(&*plugin()?, request)?,
        Command::Status => check::status(&*plugin()?, request)?,
        Command::Version => {}
    }
    Ok(String::new())
}

fn read_stdin(stdin: &mut Vec<u8>) -> Result<(), CniError> {
    let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX);
    io::stdin()
        .take(limit + 1)
        .read_to_end(stdin)
        .map_err(system("read the configuration"))?;
    if stdin.len() > LONGEST {
        stdin.clear();
        let message = format!("the configuration is longer than {LONGEST} bytes");
        return Err(CniError::of(Code::UndecodableContent, message));
    }
    Ok(())
}

impl Kind {
    /// What a name means, of the program or in a configuration.
    fn named(name: &str) -> Option<Self> {
        match name {
            "galaxy-sdn" => Some(Self::Shim),
            "galaxy-k8s-vlan" => Some(Self::Vlan),
            "galaxy-underlay-veth" => Some(Self::Underlay),
            "galaxy-k8s-sriov" => Some(Self::Sriov),
            _ => None,
        }
    }
}
