//! Programs, libraries and certificates of images, from Debian's packages.
//!
//! Packages are downloaded and unpacked, not installed: what is in an image does not depend on
//! what is on the machine, needs no root, and is known by package and version. They are
//! kept in the cache under their versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cache::{Lock, cache_dir, unfinished_in};
use crate::command;
use crate::packages::Apt;

/// What images are made from; what these depend on comes along.
const ROOTS: [&str; 3] = ["nftables", "libc6", "libgcc-s1"];
/// Taken alone: only its files are wanted, not its scripts.
const CERTIFICATES: &str = "ca-certificates";

const LIST: &str = "packages.json";
const CURRENT: &str = "current";

/// A binary package, and what it was built from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// For which processors.
    pub architecture: String,
    /// The source package.
    pub source: String,
    /// The version of the source package.
    pub source_version: String,
}

/// Packages, each unpacked in a folder of its name.
#[derive(Debug)]
pub struct Debian {
    root: PathBuf,
    packages: BTreeMap<String, Package>,
}

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    /// Where it is now.
    pub from: PathBuf,
    /// Where it belongs, without a slash in front.
    pub to: String,
    /// The package that has it.
    pub package: String,
}

impl Debian {
    /// The packages in the cache, whatever their versions; got now if there are none.
    pub fn ensure() -> Result<Self> {
        let folder = cache_dir().join("debian");
        match Self::open(&folder.join(CURRENT)) {
            Ok(debian) => Ok(debian),
            Err(_) => Self::refresh(),
        }
    }

    /// The packages in the versions that the machine's sources have today.
    pub fn refresh() -> Result<Self> {
        let folder = cache_dir().join("debian");
        let _lock = Lock::take("debian").context("cannot lock the cache folder")?;
        let new = unfinished_in(&folder)
            .with_context(|| format!("cannot make a folder in {}", folder.display()))?;
        fetch(new.path())?;
        let place = folder.join(key(&fs::read(new.path().join(LIST))?));
        if !place.exists() {
            fs::rename(new.path(), &place)
                .with_context(|| format!("cannot keep packages in {}", place.display()))?;
        }
        let link = folder.join("current.new");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&place, &link)?;
        fs::rename(&link, folder.join(CURRENT))?;
        Self::open(&place)
    }

    fn open(folder: &Path) -> Result<Self> {
        let root = fs::canonicalize(folder)?;
        let packages: Vec<Package> = serde_json::from_slice(&fs::read(root.join(LIST))?)?;
        Ok(Self {
            root,
            packages: packages
                .into_iter()
                .map(|it| (it.name.clone(), it))
                .collect(),
        })
    }

    /// A package by its name.
    pub fn package(&self, name: &str) -> Result<&Package> {
        let package = self.packages.get(name);
        package.with_context(|| format!("package {name} was not fetched"))
    }

    /// A file of a package by its path.
    pub fn file(&self, package: &str, path: &str) -> Result<File> {
        let from = self.root.join(package).join(path);
        ensure!(from.is_file(), "package {package} has no /{path}");
        Ok(File {
            from,
            to: path.to_owned(),
            package: package.to_owned(),
        })
    }

    /// The shared libraries of a program, with the loader that starts it. All of them are
    /// from packages; one that is in none is an error.
    pub fn libraries(&self, program: &Path) -> Result<BTreeSet<File>> {
        let folders = self.library_folders()?;
        let loader = folders
            .iter()
            .filter(|folder| folder.starts_with(self.root.join("libc6")))
            .flat_map(|folder| LOADERS.map(|file| folder.join(file)))
            .find(|loader| loader.is_file())
            .context("libc6 has no loader that is known")?;
        let path: Vec<_> = folders.iter().map(|it| it.to_string_lossy()).collect();
        let mut list = Command::new(&loader);
        list.args(["--inhibit-cache", "--library-path", &path.join(":")]);
        let listed = command::read(list.arg("--list").arg(program))
            .with_context(|| format!("cannot tell the libraries of {}", program.display()))?;
        let mut files = BTreeSet::new();
        for (name, found) in parse_list(&listed) {
            let mut file = self.owner(&found).with_context(|| {
                format!("{} needs {name}, which no package has", program.display())
            })?;
            // Programs name their loader by its whole path.
            if name.starts_with('/') {
                name.trim_start_matches('/').clone_into(&mut file.to);
            }
            files.insert(file);
        }
        Ok(files)
    }

    /// The certificates of all authorities that Debian trusts, as one file.
    pub fn certificates(&self) -> Result<String> {
        let folder = self
            .root
            .join(CERTIFICATES)
            .join("usr/share/ca-certificates/mozilla");
        let mut files: Vec<PathBuf> = fs::read_dir(&folder)
            .with_context(|| format!("{CERTIFICATES} has no certificates"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        files.sort();
        let mut all = String::new();
        for file in files {
            all += fs::read_to_string(&file)?.trim_end();
            all.push('\n');
        }
        ensure!(all.contains("BEGIN CERTIFICATE"), "{CERTIFICATES} is empty");
        Ok(all)
    }

    /// Who has the rights in a package, and under which licence others may use it.
    pub fn copyright(&self, package: &str) -> Result<String> {
        let doc = |owner: &str| self.root.join(owner).join("usr/share/doc").join(package);
        // Packages of one source may share a folder, by a link to that of another one.
        let file = match fs::read_link(doc(package)) {
            Ok(target) => {
                let other = target.to_string_lossy().into_owned();
                self.root.join(&other).join("usr/share/doc").join(&other)
            }
            Err(_) => doc(package),
        };
        fs::read_to_string(file.join("copyright"))
            .with_context(|| format!("package {package} does not say its copyright"))
    }

    fn owner(&self, path: &Path) -> Result<File> {
        let inside = path.strip_prefix(&self.root).ok();
        let inside = inside.context("it is not from a package")?;
        let mut parts = inside.components();
        let package = parts.next().context("it is no file")?;
        let package = package.as_os_str().to_string_lossy().into_owned();
        Ok(File {
            from: path.to_owned(),
            to: parts.as_path().to_string_lossy().into_owned(),
            package,
        })
    }

    /// All folders in which packages have libraries.
    fn library_folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for name in self.packages.keys() {
            for place in ["lib", "usr/lib"] {
                let place = self.root.join(name).join(place);
                let Ok(entries) = fs::read_dir(&place) else {
                    continue;
                };
                for entry in entries {
                    let path = entry?.path();
                    let triplet = path
                        .file_name()
                        .is_some_and(|name| name.to_string_lossy().ends_with("-linux-gnu"));
                    if triplet {
                        folders.push(path);
                    }
                }
            }
        }
        folders.sort();
        Ok(folders)
    }
}

/// Loaders of the processors that floe runs on.
const LOADERS: [&str; 2] = ["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];

/// Downloads and unpacks everything below `into`, and writes the list of it.
fn fetch(into: &Path) -> Result<()> {
    let apt = Apt::open_to_download()?;
    if nix::unistd::geteuid().is_root() {
        apt.update()?;
    }
    let mut depends = vec!["depends", "--recurse"];
    depends.extend(ONLY_DEPENDS);
    depends.extend(ROOTS);
    let mut names = closure(&Apt::cache(&depends)?);
    names.insert(CERTIFICATES.to_owned());
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let debs = tempfile::tempdir_in(into)?;
    apt.download(&wanted, debs.path())?;
    let mut packages = Vec::new();
    for entry in fs::read_dir(debs.path())? {
        let deb = entry?.path();
        let mut fields = Command::new("dpkg-deb");
        fields.arg("--field").arg(&deb).args(FIELDS);
        let package = parse_fields(&command::read(&mut fields)?)
            .with_context(|| format!("{} is no package", deb.display()))?;
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(&deb);
        command::read(unpack.arg(into.join(&package.name)))?;
        packages.push(package);
    }
    packages.sort();
    let found: BTreeSet<_> = packages.iter().map(|it| it.name.clone()).collect();
    ensure!(
        found == names,
        "apt-get downloaded {found:?} instead of {names:?}"
    );
    fs::write(into.join(LIST), serde_json::to_vec_pretty(&packages)?)?;
    Ok(())
}

const FIELDS: [&str; 4] = ["Package", "Version", "Architecture", "Source"];

const ONLY_DEPENDS: [&str; 6] = [
    "--no-recommends",
    "--no-suggests",
    "--no-conflicts",
    "--no-breaks",
    "--no-replaces",
    "--no-enhances",
];

/// All packages in what `apt-cache depends --recurse` prints. Those in brackets are not
/// real, and a real one that provides them is listed too.
fn closure(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| !line.starts_with([' ', '|', '<']) && !line.is_empty())
        .map(|line| line.trim().to_owned())
        .collect()
}

/// A package from the fields that `dpkg-deb` prints. Without a source it is built from one
/// of the same name; `gcc-12 (12.2.0-14)` is a source of another version.
fn parse_fields(text: &str) -> Result<Package> {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim())
    };
    let needed = |name| field(name).with_context(|| format!("it has no field {name}"));
    let (name, version) = (needed("Package")?, needed("Version")?);
    let source = field("Source").unwrap_or(name);
    let (source, source_version) = match source.split_once(" (") {
        Some((source, version)) => (source, version.trim_end_matches(')')),
        None => (source, version),
    };
    if name.contains('/') || name.starts_with('.') {
        bail!("it has the name {name:?}");
    }
    Ok(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        architecture: needed("Architecture")?.to_owned(),
        source: source.to_owned(),
        source_version: source_version.to_owned(),
    })
}

/// Names and files of libraries, as the loader lists them. What the kernel brings itself
/// has no file.
fn parse_list(text: &str) -> Vec<(&str, PathBuf)> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim().split_once(" => "));
    lines
        .map(|(name, found)| {
            let file = found.split(" (").next().unwrap_or(found);
            (name, PathBuf::from(file))
        })
        .collect()
}

/// A name for a set of packages, which changes with every version.
fn key(list: &[u8]) -> String {
    let digest = Sha256::digest(list);
    digest
        .iter()
        .take(6)
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests;
