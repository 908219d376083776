//! The bootable image in the cache: kernel, initramfs and modules.
//!
//! The distribution's kernel package is unpacked, not installed. The image is
//! made in a folder next to its place and renamed, so it is complete or absent.
//! It stays until its folder is deleted, and needs no network once it is there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Error, bzimage, initramfs, io_error, xz};
use crate::cache::{Lock, cache_dir, unfinished_in};
use crate::command;
use crate::packages::{self, Apt, Need};
use crate::progress::Step;

/// Programs to make an image, to start it and to run a job in it.
pub(super) const NEEDS: [Need; 6] = [
    need("depmod", "kmod"),
    need("modprobe", "kmod"),
    need("xz", "xz-utils"),
    need("dpkg-deb", "dpkg"),
    need("ip", "iproute2"),
    need("setpriv", "util-linux"),
];

/// Raise this when images made by older code must not be used any more.
const FORMAT: u32 = 1;
/// The metapackage of the stock kernel; the cloud kernel lacks 9p and igb.
const KERNEL: &str = "linux-image-amd64";
const BUSYBOX: &str = "busybox-static";

/// A complete image.
pub(super) struct Image {
    dir: PathBuf,
    version: String,
}

impl Image {
    /// The image in the cache, made now if there is none.
    pub(super) fn ensure() -> Result<Self, Error> {
        let dir = cache_dir().join("guest");
        if let Some(image) = Self::newest_in(&dir) {
            return Ok(image);
        }
        let _lock = Lock::take("guest").map_err(io_error("cannot lock the cache folder"))?;
        match Self::newest_in(&dir) {
            Some(image) => Ok(image),
            None => Self::make_in(&dir),
        }
    }

    pub(super) fn at(dir: PathBuf, version: String) -> Self {
        Self { dir, version }
    }

    pub(super) fn kernel(&self) -> PathBuf {
        self.dir.join("kernel")
    }

    pub(super) fn initramfs(&self) -> PathBuf {
        self.dir.join("initramfs")
    }

    /// The folder of the modules of exactly this kernel.
    pub(super) fn modules(&self) -> PathBuf {
        self.dir.join("lib/modules").join(&self.version)
    }

    fn newest_in(dir: &Path) -> Option<Self> {
        let version = fs::read_dir(dir)
            .ok()?
            .filter_map(|entry| version_of(&entry.ok()?.file_name().to_string_lossy()))
            .max()?;
        Some(Self::at(dir.join(folder_of(&version)), version))
    }

    fn make_in(dir: &Path) -> Result<Self, Error> {
        let new = unfinished_in(dir).map_err(io_error("cannot make a folder in the cache"))?;
        let busybox = fetch(BUSYBOX, &new.path().join("tools"))?;
        let kernel = fetch(KERNEL, &new.path().join("package"))?;
        Step::run("making the guest kernel's image", || {
            let version = assemble(&kernel, &busybox, new.path())?;
            let place = dir.join(folder_of(&version));
            for folder in [&kernel.root, &busybox.root] {
                fs::remove_dir_all(folder).map_err(io_error("cannot tidy up the image"))?;
            }
            fs::rename(new.path(), &place).map_err(io_error("cannot put the image in place"))?;
            Ok(Self::at(place, version))
        })
    }
}

/// A package unpacked below `root`.
struct Unpacked {
    package: String,
    root: PathBuf,
}

const fn need(program: &'static str, package: &'static str) -> Need {
    Need { program, package }
}

fn folder_of(version: &str) -> String {
    format!("{version}.v{FORMAT}")
}

fn version_of(folder: &str) -> Option<String> {
    let version = folder.strip_suffix(&format!(".v{FORMAT}"))?;
    Some(version.to_owned())
}

/// Downloads a package, or the kernel that the metapackage stands for, and unpacks it.
fn fetch(package: &'static str, root: &Path) -> Result<Unpacked, Error> {
    let files = root.with_extension("deb");
    for folder in [root, &files] {
        fs::create_dir_all(folder).map_err(io_error("cannot make a folder in the cache"))?;
    }
    let apt = Apt::open_to_download()?;
    if nix::unistd::geteuid().is_root() {
        apt.update()?;
    }
    let package = match package {
        KERNEL => kernel_package(&Apt::cache(&["depends", KERNEL])?)
            .ok_or(Error::NoKernel { package: KERNEL })?,
        package => package.to_owned(),
    };
    apt.download(&[&package], &files)?;
    let deb = only_entry(&files, &package, "package file")?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-x").arg(deb).arg(root);
    command::read(&mut unpack)?;
    fs::remove_dir_all(&files).map_err(io_error("cannot remove a package file"))?;
    Ok(Unpacked {
        package,
        root: root.to_owned(),
    })
}

/// The real kernel package behind the metapackage, from `apt-cache depends`.
fn kernel_package(depends: &str) -> Option<String> {
    depends
        .lines()
        .filter_map(|line| {
            line.trim()
                .trim_start_matches('|')
                .strip_prefix("Depends: ")
        })
        .find(|name| name.starts_with("linux-image-") && !name.contains("-cloud-"))
        .map(str::to_owned)
}

/// Puts kernel, modules and initramfs into `image`; returns the kernel's version.
fn assemble(kernel: &Unpacked, busybox: &Unpacked, image: &Path) -> Result<String, Error> {
    let content = |unpacked: &Unpacked, what, path: Option<PathBuf>| {
        path.ok_or_else(|| Error::Content {
            package: unpacked.package.clone(),
            what,
        })
    };
    // Newer releases have everything below /usr.
    let modules = first_of(&kernel.root, &["lib/modules", "usr/lib/modules"]);
    let modules = content(kernel, "modules", modules)?;
    let version = only_entry(&modules, &kernel.package, "modules")?
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    fs::create_dir(image.join("lib"))
        .and_then(|()| fs::rename(&modules, image.join("lib/modules")))
        .map_err(io_error("cannot move the kernel modules"))?;
    let depmod = packages::find("depmod").unwrap_or_else(|| "depmod".into());
    command::read(Command::new(depmod).arg("-b").arg(image).arg(&version))?;

    let packed = kernel.root.join(format!("boot/vmlinuz-{version}"));
    let packed = fs::read(packed).map_err(io_error("cannot read the kernel"))?;
    let unpacked =
        bzimage::unpack(&packed, xz::unpack).map_err(io_error("cannot unpack the kernel"))?;
    let write = |name: &str, bytes: &[u8]| {
        fs::write(image.join(name), bytes).map_err(io_error("cannot write the image"))
    };
    write("kernel", &unpacked.unwrap_or(packed))?;

    let program = first_of(&busybox.root, &["bin/busybox", "usr/bin/busybox"]);
    let program = content(busybox, "busybox", program)?;
    write("initramfs", &initramfs::build(image, &version, &program)?)?;
    Ok(version)
}

fn first_of(root: &Path, names: &[&str]) -> Option<PathBuf> {
    names
        .iter()
        .map(|name| root.join(name))
        .find(|path| path.exists())
}

fn only_entry(dir: &Path, package: &str, what: &'static str) -> Result<PathBuf, Error> {
    let entries: io::Result<Vec<_>> = fs::read_dir(dir).and_then(Iterator::collect);
    let entries = entries.map_err(io_error("cannot list an unpacked package"))?;
    match entries.as_slice() {
        [entry] => Ok(entry.path()),
        _ => Err(Error::Content {
            package: package.to_owned(),
            what,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_package_is_read_from_apt() {
        let depends = "linux-image-amd64\n  Depends: linux-image-6.1.0-50-amd64\n";
        assert_eq!(
            kernel_package(depends).as_deref(),
            Some("linux-image-6.1.0-50-amd64")
        );
        let other =
            "linux-image-amd64\n  Depends: libc6\n  Depends: linux-image-6.1.0-50-cloud-amd64\n";
        assert_eq!(kernel_package(other), None);
    }

    #[test]
    fn only_a_complete_image_of_this_format_is_used() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Image::newest_in(&dir.path().join("absent")).is_none());
        for folder in ["new-abc", "6.1.0-9-amd64.v0"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        assert!(Image::newest_in(dir.path()).is_none());
        let place = dir.path().join(folder_of("6.1.0-9-amd64"));
        fs::create_dir(&place).unwrap();
        let image = Image::newest_in(dir.path()).unwrap();
        assert_eq!(image.kernel(), place.join("kernel"));
        assert_eq!(image.modules(), place.join("lib/modules/6.1.0-9-amd64"));
    }

    #[test]
    fn a_package_with_two_kernels_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("one"), "").unwrap();
        assert!(only_entry(dir.path(), "p", "modules").is_ok());
        fs::write(dir.path().join("two"), "").unwrap();
        let refused = only_entry(dir.path(), "p", "modules").unwrap_err();
        assert!(matches!(
            refused,
            Error::Content {
                what: "modules",
                ..
            }
        ));
    }
}
