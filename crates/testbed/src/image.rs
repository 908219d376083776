//! Container images made on the spot, without a daemon: for the registry of a cluster, or as
//! an OCI layout for others.
//!
//! An image is a function of its inputs: entries are sorted, and nothing has a time, an
//! owner or a mode of the machine that made it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub mod debian;
pub mod layout;
pub mod product;
pub mod sbom;

/// The files of an image and how it starts.
#[derive(Default)]
pub struct Image {
    files: BTreeMap<String, Content>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    stop_signal: Option<&'static str>,
    user: Option<&'static str>,
    labels: BTreeMap<String, String>,
}

enum Content {
    Copy { from: PathBuf },
    Text(String),
    Link(String),
    Directory { mode: u32 },
}

impl Image {
    /// An image with nothing in it but a `/tmp`.
    pub fn empty() -> Self {
        let mut image = Self::default();
        image
            .files
            .insert("tmp".to_owned(), Content::Directory { mode: 0o1777 });
        image
    }

    /// An image with a shell and the tools of busybox, and the usual few files.
    pub fn with_shell(busybox: &Path) -> Result<Self> {
        let mut image = Self::empty();
        image.copy(busybox, "bin/busybox");
        let applets = Command::new(busybox)
            .arg("--list")
            .output()
            .context("cannot run busybox")?;
        for applet in String::from_utf8_lossy(&applets.stdout).lines() {
            if applet != "busybox" {
                image
                    .files
                    .insert(format!("bin/{applet}"), Content::Link("busybox".to_owned()));
            }
        }
        image.text(
            "etc/passwd",
            "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
        );
        image.text("etc/group", "root:x:0:\nnobody:x:65534:\n");
        image.text(
            "etc/os-release",
            "ID=floe-testbed\nPRETTY_NAME=\"stand-in image of the floe testbed\"\n",
        );
        image.command = vec!["/bin/sh".to_owned()];
        Ok(image)
    }

    /// Puts a file of the machine into the image, executable.
    pub fn copy(&mut self, from: &Path, to: &str) -> &mut Self {
        self.files.insert(
            to.to_owned(),
            Content::Copy {
                from: from.to_owned(),
            },
        );
        self
    }

    /// Puts a text file into the image.
    pub fn text(&mut self, to: &str, text: &str) -> &mut Self {
        self.files
            .insert(to.to_owned(), Content::Text(text.to_owned()));
        self
    }

    /// Puts a program into the image with the shared libraries it needs, and
    /// starts it by default.
    pub fn program(&mut self, from: &Path, to: &str) -> Result<&mut Self> {
        self.copy(from, to);
        for library in shared_libraries(from)? {
            let place = library.to_string_lossy().trim_start_matches('/').to_owned();
            self.copy(&library, &place);
        }
        self.entrypoint = vec![format!("/{to}")];
        self.command = Vec::new();
        Ok(self)
    }

    /// Arguments for the entrypoint.
    pub fn arguments(&mut self, arguments: &[&str]) -> &mut Self {
        self.command = arguments.iter().map(ToString::to_string).collect();
        self
    }

    /// Containers are killed when they shall stop. For programs that ignore
    /// SIGTERM as first process: each would take its whole grace to end.
    pub fn stop_at_once(&mut self) -> &mut Self {
        self.stop_signal = Some("SIGKILL");
        self
    }

    /// What is started when nobody says otherwise.
    pub fn start(&mut self, program: &str) -> &mut Self {
        self.entrypoint = vec![program.to_owned()];
        self
    }

    /// Who runs it when nobody says otherwise: `uid:gid`.
    pub fn user(&mut self, user: &'static str) -> &mut Self {
        self.user = Some(user);
        self
    }

    /// What tools show of the image.
    pub fn label(&mut self, name: &str, value: &str) -> &mut Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The image as bytes.
    pub fn build(&self) -> Result<Built> {
        let layer = Blob::new(self.layer()?);
        let config = Blob::new(serde_json::to_vec(&self.config(&layer))?);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
        });
        Ok(Built {
            manifest: Blob::new(serde_json::to_vec(&manifest)?),
            config,
            layer,
        })
    }

    /// Puts the files of the image into a folder, as a container sees them.
    pub fn unpack(&self, folder: &Path) -> Result<()> {
        let layer = self.layer()?;
        let mut archive = tar::Archive::new(layer.as_slice());
        archive.set_preserve_permissions(true);
        Ok(archive.unpack(folder)?)
    }

    /// Writes the image into a registry directory under one or more names, and
    /// returns its digest.
    pub fn store(&self, registry: &Path, names: &[&str]) -> Result<String> {
        let blobs = registry.join("blobs");
        fs::create_dir_all(&blobs)?;
        let built = self.build()?;
        for blob in built.blobs() {
            let path = blobs.join(blob.hex());
            if !path.exists() {
                write_atomically(&path, &blob.bytes)?;
            }
        }
        let manifest = built.manifest;
        for name in names {
            let reference = registry.join("repositories").join(name.replace('/', "%"));
            fs::create_dir_all(
                reference
                    .parent()
                    .context("a repository lies in a directory")?,
            )?;
            write_atomically(&reference, manifest.digest.as_bytes())?;
        }
        Ok(manifest.digest)
    }

    fn config(&self, layer: &Blob) -> Value {
        let mut config = json!({
            "Entrypoint": self.entrypoint, "Cmd": self.command,
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        });
        if let Some(signal) = self.stop_signal {
            config["StopSignal"] = signal.into();
        }
        if let Some(user) = self.user {
            config["User"] = user.into();
        }
        if !self.labels.is_empty() {
            config["Labels"] = json!(self.labels);
        }
        json!({
            "architecture": architecture(), "os": "linux",
            "config": config,
            "rootfs": { "type": "layers", "diff_ids": [layer.digest] },
        })
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        archive.mode(tar::HeaderMode::Deterministic);
        for (path, content) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_mtime(0);
            header.set_mode(0o755);
            match content {
                Content::Copy { from } => {
                    let bytes = fs::read(from)
                        .with_context(|| format!("cannot read {}", from.display()))?;
                    header.set_size(bytes.len() as u64);
                    archive.append_data(&mut header, path, bytes.as_slice())?;
                }
                Content::Text(text) => {
                    header.set_mode(0o644);
                    header.set_size(text.len() as u64);
                    archive.append_data(&mut header, path, text.as_bytes())?;
                }
                Content::Link(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_size(0);
                    archive.append_link(&mut header, path, target)?;
                }
                Content::Directory { mode } => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_size(0);
                    archive.append_data(&mut header, path, std::io::empty())?;
                }
            }
        }
        Ok(archive.into_inner()?)
    }
}

/// The media type under which manifests are served.
pub const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// An image as bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Built {
    manifest: Blob,
    config: Blob,
    layer: Blob,
}

impl Built {
    /// The digest by which the image is known.
    pub fn digest(&self) -> &str {
        &self.manifest.digest
    }

    /// How large it is, as it lies on disk.
    pub fn size(&self) -> usize {
        self.blobs().iter().map(|blob| blob.bytes.len()).sum()
    }

    fn blobs(&self) -> [&Blob; 3] {
        [&self.layer, &self.config, &self.manifest]
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let hex = Sha256::digest(&bytes)
            .iter()
            .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        Self {
            digest: format!("sha256:{hex}"),
            bytes,
        }
    }

    fn hex(&self) -> &str {
        self.digest.trim_start_matches("sha256:")
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": self.digest, "size": self.bytes.len() })
    }
}

/// The registry may read at any moment: a file is there whole or not at all.
fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().context("a file lies in a directory")?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.persist(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// The shared libraries of a program, as the dynamic linker resolves them.
fn shared_libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .context("cannot run ldd")?;
    // `ldd` fails for a static program, which needs nothing.
    parse_ldd(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("cannot put {} into an image", program.display()))
}

fn parse_ldd(text: &str) -> Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for line in text.lines() {
        if let Some(library) = line.trim().strip_suffix(" => not found") {
            bail!("its library {library} is not on this machine");
        }
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        libraries.extend(path.map(PathBuf::from));
    }
    Ok(libraries)
}

/// The machine's processor as images and Debian name it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests;
