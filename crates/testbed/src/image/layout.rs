//! An image as files that other tools read: a folder in the OCI layout, and an archive of
//! it that `docker load`, `podman load` and `ctr image import` take, too.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::{Blob, Built};

/// Writes the layout into a folder, in place of whatever is there.
pub fn write(image: &Built, name: &str, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot replace {}", folder.display()))?;
    }
    for (path, bytes) in entries(image, name)? {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Writes the same as one archive, with what Docker's own format has in addition.
pub fn archive(image: &Built, name: &str, out: impl Write) -> Result<()> {
    let mut entries = entries(image, name)?;
    let place = |blob: &Blob| format!("blobs/sha256/{}", blob.hex());
    let docker = json!([{
        "Config": place(&image.config), "RepoTags": [name], "Layers": [place(&image.layer)],
    }]);
    entries.push(("manifest.json".to_owned(), serde_json::to_vec(&docker)?));
    entries.sort();
    let mut archive = tar::Builder::new(out);
    for (path, bytes) in &entries {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, path, bytes.as_slice())?;
    }
    archive.into_inner()?.flush()?;
    Ok(())
}

fn entries(image: &Built, name: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    let mut manifest = image.manifest.descriptor(super::MANIFEST_TYPE);
    manifest["platform"] = json!({ "architecture": super::architecture(), "os": "linux" });
    manifest["annotations"] = json!({
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": tag,
    });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    let mut entries = vec![
        (
            "oci-layout".to_owned(),
            serde_json::to_vec(&json!({ "imageLayoutVersion": "1.0.0" }))?,
        ),
        ("index.json".to_owned(), serde_json::to_vec(&index)?),
    ];
    for blob in image.blobs() {
        entries.push((format!("blobs/sha256/{}", blob.hex()), blob.bytes.clone()));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use serde_json::Value;

    use super::*;
    use crate::image::Image;

    fn image() -> Built {
        let mut image = Image::empty();
        image.text("etc/b", "b").text("etc/a", "a").user("1:1");
        image.label("version", "1").build().unwrap()
    }

    #[test]
    fn the_same_inputs_are_the_same_image_and_the_same_archive() {
        let other = {
            let mut image = Image::empty();
            image.label("version", "1").user("1:1");
            image.text("etc/a", "a").text("etc/b", "b").build().unwrap()
        };
        assert_eq!(image().digest(), other.digest());
        let bytes = |image: &Built| {
            let mut bytes = Vec::new();
            archive(image, "floe/x:1", &mut bytes).unwrap();
            bytes
        };
        assert_eq!(bytes(&image()), bytes(&other));
    }

    #[test]
    fn another_file_is_another_image() {
        let mut changed = Image::empty();
        changed.text("etc/b", "b").text("etc/a", "A").user("1:1");
        let changed = changed.label("version", "1").build().unwrap();
        assert_ne!(image().digest(), changed.digest());
    }

    #[test]
    fn every_blob_that_the_layout_names_is_there_and_is_what_its_name_says() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("layout");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("old"), "").unwrap();
        write(&image(), "floe/x:1", &place).unwrap();
        assert!(!place.join("old").exists());
        let read = |digest: &Value| {
            let hex = digest.as_str().unwrap().strip_prefix("sha256:").unwrap();
            let bytes = fs::read(place.join("blobs/sha256").join(hex)).unwrap();
            assert_eq!(Blob::new(bytes.clone()).hex(), hex);
            bytes
        };
        let index: Value =
            serde_json::from_slice(&fs::read(place.join("index.json")).unwrap()).unwrap();
        let annotations = &index["manifests"][0]["annotations"];
        assert_eq!(annotations["org.opencontainers.image.ref.name"], "1");
        let manifest: Value =
            serde_json::from_slice(&read(&index["manifests"][0]["digest"])).unwrap();
        let config: Value = serde_json::from_slice(&read(&manifest["config"]["digest"])).unwrap();
        assert_eq!(config["config"]["User"], "1:1");
        assert_eq!(config["config"]["Labels"]["version"], "1");
        let layer = read(&manifest["layers"][0]["digest"]);
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            manifest["layers"][0]["digest"]
        );
        let mut layer = tar::Archive::new(layer.as_slice());
        let paths: Vec<_> = layer
            .entries()
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .path()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        assert_eq!(paths, ["etc/a", "etc/b", "tmp"]);
    }

    #[test]
    fn the_archive_has_the_layout_and_docker_s_manifest() {
        let mut bytes = Vec::new();
        archive(&image(), "floe/x:1", &mut bytes).unwrap();
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, content);
        }
        assert!(files.contains_key("oci-layout") && files.contains_key("index.json"));
        let docker: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
        assert_eq!(docker[0]["RepoTags"][0], "floe/x:1");
        for named in [&docker[0]["Config"], &docker[0]["Layers"][0]] {
            assert!(files.contains_key(named.as_str().unwrap()), "{named}");
        }
    }
}
