//! Container images made on the spot, kept in a directory that the registry serves.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The files of an image and how it starts.
#[derive(Default)]
pub struct Image {
    files: BTreeMap<String, Content>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    stop_signal: Option<&'static str>,
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

    /// Writes the image into a registry directory under one or more names, and
    /// returns its digest.
    pub fn store(&self, registry: &Path, names: &[&str]) -> Result<String> {
        let blobs = registry.join("blobs");
        fs::create_dir_all(&blobs)?;
        let layer = store_blob(&blobs, &self.layer()?)?;
        let config = store_blob(&blobs, &serde_json::to_vec(&self.config(&layer))?)?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
        });
        let manifest = store_blob(&blobs, &serde_json::to_vec(&manifest)?)?;
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

struct Blob {
    digest: String,
    size: usize,
}

impl Blob {
    fn descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": self.digest, "size": self.size })
    }
}

fn store_blob(blobs: &Path, bytes: &[u8]) -> Result<Blob> {
    let hex = Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let path = blobs.join(&hex);
    if !path.exists() {
        write_atomically(&path, bytes)?;
    }
    Ok(Blob {
        digest: format!("sha256:{hex}"),
        size: bytes.len(),
    })
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

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_both_forms_of_ldd_lines() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let libraries = parse_ldd(text).unwrap();
        assert_eq!(
            libraries,
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        let none = parse_ldd("\tnot a dynamic executable\n").unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn a_library_that_is_missing_is_named() {
        let text = "\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\tlibodd.so.1 => not found\n";
        let error = parse_ldd(text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its library libodd.so.1 is not on this machine"
        );
    }

    #[test]
    fn only_an_image_that_says_so_is_killed_to_stop() {
        let layer = Blob {
            digest: "sha256:0".to_owned(),
            size: 0,
        };
        let mut image = Image::empty();
        assert_eq!(image.config(&layer)["config"].get("StopSignal"), None);
        image.stop_at_once();
        assert_eq!(image.config(&layer)["config"]["StopSignal"], "SIGKILL");
    }

    #[test]
    fn the_same_image_is_stored_once_under_all_its_names() {
        let registry = tempfile::tempdir().unwrap();
        let mut image = Image::empty();
        image.text("etc/motd", "hello\n");
        image
            .store(registry.path(), &["nginx", "team/site"])
            .unwrap();
        image.store(registry.path(), &["nginx"]).unwrap();
        let named = |name: &str| {
            fs::read_to_string(registry.path().join("repositories").join(name)).unwrap()
        };
        assert_eq!(named("nginx"), named("team%site"));
        // Layer, configuration and manifest.
        assert_eq!(
            fs::read_dir(registry.path().join("blobs")).unwrap().count(),
            3
        );
    }
}
