//! The installer, on a host where the folders of plugins are not root's.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use floe_testbed::host::sibling_program;
use tempfile::TempDir;

use super::granted::with_only;

/// Somebody else.
const OWNER: u32 = 1000;

/// Puts plugins and network there.
pub fn install(capabilities: &[&str]) -> Result<(), String> {
    let host = Host::new();
    host.run("install", capabilities)?;
    assert_ne!(host.files(), 0);
    Ok(())
}

/// Takes them away again.
pub fn uninstall(capabilities: &[&str]) -> Result<(), String> {
    let host = Host::new();
    host.run("install", &["DAC_OVERRIDE"])?;
    host.run("uninstall", capabilities)?;
    assert_eq!(host.files(), 0);
    Ok(())
}

struct Host {
    folders: [PathBuf; 2],
    _root: TempDir,
}

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let folders = ["bin", "net.d"].map(|name| root.path().join(name));
        for folder in &folders {
            fs::create_dir(folder).unwrap();
            chown(folder, Some(OWNER), Some(OWNER)).unwrap();
        }
        Self {
            folders,
            _root: root,
        }
    }

    fn run(&self, work: &str, capabilities: &[&str]) -> Result<(), String> {
        let [plugins, networks] = &self.folders;
        let output = with_only(capabilities)
            .arg(sibling_program("floe-agent").unwrap())
            .arg(work)
            .arg("--bin-dir")
            .arg(plugins)
            .arg("--conf-dir")
            .arg(networks)
            .output()
            .unwrap();
        if output.status.success() {
            return Ok(());
        }
        let told = [output.stdout, output.stderr].concat();
        Err(String::from_utf8_lossy(&told).into_owned())
    }

    fn files(&self) -> usize {
        let folders = self.folders.iter();
        folders.map(|it| fs::read_dir(it).unwrap().count()).sum()
    }
}
