//! The initramfs: busybox, the modules that reach the host's files, and a first script.
//!
//! It only mounts the job's shared folder and goes on with the boot script in
//! there, so that it need not be made anew for a job.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use super::{Error, io_error, script, xz};
use crate::command;

/// Without these modules no file of the host can be seen.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// Makes the initramfs for a kernel whose modules are in `root/lib/modules/version`.
pub(super) fn build(root: &Path, version: &str, busybox: &Path) -> Result<Vec<u8>, Error> {
    let mut archive = Archive::default();
    for folder in [
        "bin", "modules", "proc", "dev", "job", "host", "memory", "new",
    ] {
        archive.folder(folder);
    }
    let busybox = fs::read(busybox).map_err(io_error("cannot read busybox"))?;
    archive.file("bin/busybox", &busybox);
    let mut names = Vec::new();
    for path in modules(root, version)? {
        let (name, content) =
            module(&path, xz::unpack).map_err(io_error("cannot read a kernel module"))?;
        archive.file(&format!("modules/{name}"), &content);
        names.push(name);
    }
    archive.file("init", init(&names).as_bytes());
    Ok(archive.finish())
}

/// The module files to load, every one after those it depends on.
fn modules(root: &Path, version: &str) -> Result<Vec<PathBuf>, Error> {
    let modprobe = crate::packages::find("modprobe").unwrap_or_else(|| "modprobe".into());
    let mut all = Vec::new();
    for module in MODULES {
        let mut command = Command::new(&modprobe);
        command.arg("-d").arg(root);
        command.args(["-S", version, "--show-depends", module]);
        for path in insmod_paths(&command::read(&mut command)?) {
            if !all.contains(&path) {
                all.push(path);
            }
        }
    }
    Ok(all)
}

/// Reads `modprobe --show-depends`: `insmod PATH [OPTION...]`, or `builtin NAME`.
fn insmod_paths(output: &str) -> Vec<PathBuf> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("insmod "))
        .filter_map(|rest| {
            let end = rest.find(".ko").map(|at| {
                let suffix = &rest[at..];
                at + suffix.find(' ').unwrap_or(suffix.len())
            })?;
            Some(PathBuf::from(&rest[..end]))
        })
        .collect()
}

/// The name and content of a module file, unpacked by `unxz` where need be.
fn module(
    path: &Path,
    unxz: impl Fn(&[u8]) -> io::Result<Vec<u8>>,
) -> io::Result<(String, Vec<u8>)> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let content = fs::read(path)?;
    match name.strip_suffix(".xz") {
        Some(name) => Ok((name.to_owned(), unxz(&content)?)),
        None => Ok((name, content)),
    }
}

fn init(modules: &[String]) -> String {
    let modules = modules.join(" ");
    format!(
        "\
#!/bin/busybox sh
for module in {modules}; do /bin/busybox insmod /modules/$module; done
/bin/busybox mount -t 9p -o {} {} /job
. /job/{}
",
        script::NINE_P,
        script::SHARE_TAG,
        script::BOOT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_paths_are_read_from_modprobe() {
        let output = "insmod /c/lib/modules/6.1/kernel/fs/netfs/netfs.ko \n\
            builtin virtio\n\
            insmod /a b/lib/modules/6.1/kernel/net/9p/9pnet.ko.xz debug=1\n\
            insmod /c/lib/modules/6.1/kernel/fs/9p/9p.ko\n";
        assert_eq!(
            insmod_paths(output),
            [
                "/c/lib/modules/6.1/kernel/fs/netfs/netfs.ko",
                "/a b/lib/modules/6.1/kernel/net/9p/9pnet.ko.xz",
                "/c/lib/modules/6.1/kernel/fs/9p/9p.ko",
            ]
            .map(PathBuf::from)
        );
    }

    #[test]
    fn init_loads_in_order_and_goes_on_in_the_shared_folder() {
        let text = init(&["a.ko".to_owned(), "b.ko".to_owned()]);
        let at = |needle: &str| {
            text.find(needle)
                .unwrap_or_else(|| panic!("{needle} in {text}"))
        };
        assert!(text.starts_with("#!/bin/busybox sh\n"));
        assert!(at("for module in a.ko b.ko; do") < at("mount -t 9p"));
        assert!(text.ends_with(". /job/boot.sh\n"));
    }

    #[test]
    fn only_a_packed_module_is_unpacked_and_named_so() {
        let dir = tempfile::tempdir().unwrap();
        let loaded = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, "as it is").unwrap();
            module(&path, |_| Ok(b"unpacked".to_vec())).unwrap()
        };
        assert_eq!(loaded("x.ko.xz"), ("x.ko".to_owned(), b"unpacked".to_vec()));
        assert_eq!(loaded("y.ko"), ("y.ko".to_owned(), b"as it is".to_vec()));
    }
}
