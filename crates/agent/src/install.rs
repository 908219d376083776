//! `floe-agent install`: puts the plugins where the container runtime looks for them,
//! and the agent's network first among its configurations. `floe-agent uninstall` takes
//! both away again.

use std::{
    fs,
    io::{self, Write},
    iter,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use nix::sys::signal::{SigSet, Signal};
use serde_json::json;

use crate::plugins::{OWN, SHIM};

/// The file that makes the runtime ask the agent. It sorts before all others.
const NETWORK: &str = "00-galaxy.conf";

/// Where things go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The program that all plugins are.
    pub program: PathBuf,
    /// The folder of plugins.
    pub bin_dir: PathBuf,
    /// The folder of network configurations.
    pub conf_dir: PathBuf,
    /// The agent's socket, and the folder of its state files. The shim has no
    /// environment but the runtime's, so it is told by its configuration.
    pub socket: PathBuf,
    /// See `socket`.
    pub state_dir: PathBuf,
}

/// Why it cannot be done.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}", path.display())]
pub struct InstallError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl Install {
    /// Installs everything, and tells each step. What is there already as it should be
    /// stays; a plugin that runs at this moment goes on with what it has.
    pub fn run(&self, told: &mut impl Write) -> Result<(), InstallError> {
        let program = read(&self.program)?;
        for folder in [&self.bin_dir, &self.conf_dir] {
            fs::create_dir_all(folder).map_err(failed("make", folder))?;
        }
        for name in names() {
            put(&self.bin_dir.join(name), &program, 0o755, told)?;
        }
        // The last step: from now on pods come to the agent.
        let network = json!({
            "cniVersion": "1.0.0", "name": SHIM, "type": SHIM,
            "capabilities": { "portMappings": true },
            "socket": self.socket, "stateDir": self.state_dir,
        });
        let network = format!("{network:#}\n");
        put(
            &self.conf_dir.join(NETWORK),
            network.as_bytes(),
            0o644,
            told,
        )
    }
}

/// What is to be taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uninstall {
    /// The folder of plugins.
    pub bin_dir: PathBuf,
    /// The folder of network configurations.
    pub conf_dir: PathBuf,
    /// Whether to wait for a signal afterwards, so that a daemon set shows where it is done.
    pub stay: bool,
}

impl Uninstall {
    /// Takes away what [`Install`] puts there, and tells each step. The network goes first:
    /// from then on new pods come to the next one. Where somebody else's network has its
    /// place, such as galaxy's, the plugins are his too, and all stays.
    pub fn run(&self, told: &mut impl Write) -> Result<(), InstallError> {
        let network = self.conf_dir.join(NETWORK);
        match fs::read(&network) {
            Ok(content) if !is_ours(&content) => {
                let _ = writeln!(told, "kept {}: it is not floe's", network.display());
                return Ok(());
            }
            Ok(_) => remove(&network, told)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("read", &network)(error)),
        }
        for name in names() {
            remove(&self.bin_dir.join(name), told)?;
        }
        Ok(())
    }
}

/// Whether a network was written by [`Install`]: galaxy's says nothing of a socket.
fn is_ours(network: &[u8]) -> bool {
    let network: serde_json::Value = serde_json::from_slice(network).unwrap_or_default();
    network["type"] == SHIM && network["socket"].is_string()
}

fn remove(path: &Path, told: &mut impl Write) -> Result<(), InstallError> {
    match fs::remove_file(path) {
        Ok(()) => {
            let _ = writeln!(told, "removed {}", path.display());
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("remove", path)(error)),
    }
}

/// Waits until somebody wants this process to end.
pub fn wait_for_end() -> nix::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    // Blocked, they are waited for; the first process of a container would ignore them.
    signals.thread_block()?;
    signals.wait().map(drop)
}

/// All plugins.
fn names() -> impl Iterator<Item = &'static str> {
    iter::once(SHIM).chain(OWN)
}

/// The program of the plugins, which lies beside this one.
pub fn program() -> PathBuf {
    let me = std::env::current_exe().unwrap_or_default();
    me.with_file_name("floe-cni")
}

/// Replaces a file as a whole, unless it has this content already.
fn put(path: &Path, content: &[u8], mode: u32, told: &mut impl Write) -> Result<(), InstallError> {
    // Nobody who does not listen keeps the file from being there.
    let mut tell = |what: &str| {
        let _ = writeln!(told, "{what} {}", path.display());
    };
    if fs::read(path).is_ok_and(|there| there == content) {
        tell("kept");
        return Ok(());
    }
    // The runtime takes no notice of files with such an ending.
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    fs::write(&draft, content).map_err(failed("write", &draft))?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode))
        .map_err(failed("write", &draft))?;
    fs::rename(&draft, path).map_err(failed("write", path))?;
    tell("installed");
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, InstallError> {
    fs::read(path).map_err(failed("read", path))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_owned();
    move |source| InstallError { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_and_network_are_there_afterwards_and_stay_when_nothing_changed() {
        let folder = tempfile::tempdir().unwrap();
        let install = Install {
            program: folder.path().join("floe-cni"),
            bin_dir: folder.path().join("opt/cni/bin"),
            conf_dir: folder.path().join("etc/cni/net.d"),
            socket: "/run/agent.sock".into(),
            state_dir: "/var/lib/attached".into(),
        };
        let error = install.run(&mut io::sink()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read"), "{error}");

        fs::write(&install.program, "first").unwrap();
        let run = || {
            let mut told = Vec::new();
            install.run(&mut told).unwrap();
            let told = String::from_utf8(told).unwrap();
            let words = told.lines().filter_map(|line| line.split(' ').next());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(run(), ["installed"; 5]);
        for name in names() {
            let path = install.bin_dir.join(name);
            assert_eq!(fs::read(&path).unwrap(), b"first");
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
        }
        let network = fs::read(install.conf_dir.join(NETWORK)).unwrap();
        let network: serde_json::Value = serde_json::from_slice(&network).unwrap();
        assert_eq!(network["type"], "galaxy-sdn");
        assert_eq!(network["socket"], "/run/agent.sock");
        assert_eq!(network["stateDir"], "/var/lib/attached");
        assert_eq!(run(), ["kept"; 5]);

        fs::write(&install.program, "second").unwrap();
        assert_eq!(
            run(),
            ["installed", "installed", "installed", "installed", "kept"]
        );
        let left = fs::read_dir(&install.bin_dir).unwrap().count();
        assert_eq!(left, names().count(), "no drafts");
    }

    #[test]
    fn what_was_installed_is_gone_afterwards_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let install = Install {
            program: folder.path().join("floe-cni"),
            bin_dir: folder.path().join("bin"),
            conf_dir: folder.path().join("conf"),
            socket: "/run/agent.sock".into(),
            state_dir: "/var/lib/attached".into(),
        };
        fs::write(&install.program, "plugin").unwrap();
        install.run(&mut io::sink()).unwrap();
        let others = [
            install.bin_dir.join("bridge"),
            install.conf_dir.join("10-pods.conf"),
        ];
        for file in &others {
            fs::write(file, "").unwrap();
        }
        let uninstall = Uninstall {
            bin_dir: install.bin_dir.clone(),
            conf_dir: install.conf_dir.clone(),
            stay: false,
        };
        let mut told = Vec::new();
        uninstall.run(&mut told).unwrap();
        let told = String::from_utf8(told).unwrap();
        let first = told.lines().next().unwrap();
        assert!(first.ends_with(NETWORK), "{told}");
        assert_eq!(told.lines().count(), 1 + names().count());
        for dir in [&install.bin_dir, &install.conf_dir] {
            assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
        }
        assert!(others.iter().all(|file| file.exists()));
        // Again, and where nothing ever was: nothing to do.
        let mut told = Vec::new();
        uninstall.run(&mut told).unwrap();
        assert!(told.is_empty());
    }

    #[test]
    fn what_galaxy_installed_stays() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_owned();
        let galaxy = r#"{"name":"galaxy-sdn","type":"galaxy-sdn","cniVersion":"0.2.0"}"#;
        fs::write(place.join(NETWORK), galaxy).unwrap();
        fs::write(place.join(SHIM), "galaxy's").unwrap();
        let uninstall = Uninstall {
            bin_dir: place.clone(),
            conf_dir: place.clone(),
            stay: false,
        };
        let mut told = Vec::new();
        uninstall.run(&mut told).unwrap();
        assert!(told.starts_with(b"kept "));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 2);
    }
}
