use std::path::Path;

use super::*;

/// A file of its own for each test, gone with the value.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("floe-controller-{}-{name}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn path(path: &Path, explicit: bool) -> FilePath {
    FilePath {
        path: path.to_owned(),
        explicit,
    }
}

#[test]
fn only_a_file_that_somebody_named_must_exist() {
    let nowhere = Path::new("/nowhere/galaxy-ipam.json");
    let settings = load(&path(nowhere, false)).unwrap();
    assert_eq!(settings.file, FileConfig::default());
    assert_eq!(settings.inline, None);

    let error = load(&path(nowhere, true)).unwrap_err();
    let text = floe_shell::logs::with_causes(&error);
    assert!(
        text.starts_with("init server: cannot read /nowhere/galaxy-ipam.json"),
        "{text}"
    );
}

#[test]
fn a_file_that_makes_no_sense_is_refused_even_at_the_default_place() {
    for (name, content, want) in [
        ("no-json", "{", "ends too early"),
        (
            "no-list",
            r#"{"schedule_plugin":{"floatingips":7}}"#,
            "field floatingips",
        ),
        (
            "no-gateway",
            r#"{"schedule_plugin":{"floatingips":[{"nodeSubnets":["10.0.0.0/16"],"subnet":"10.0.70.0/24"}]}}"#,
            "entry [0], field gateway: gateway is empty",
        ),
    ] {
        let file = Temporary::new(name, content);
        let error = load(&path(&file.0, false)).unwrap_err();
        let text = floe_shell::logs::with_causes(&error);
        assert!(text.starts_with("init server: "), "{text}");
        assert!(text.contains(want), "{text}");
    }
}

#[test]
fn inline_addresses_are_read_as_galaxy_would() {
    let file = Temporary::new(
        "inline",
        r#"{"schedule_plugin":{"storageDriver":"k8s-crd","configMapName":"other","floatingips":[
            {"nodeSubnets":["10.0.0.0/16"],"ips":["10.0.70.1~10.0.70.9"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}
        ]}}"#,
    );
    let settings = load(&path(&file.0, true)).unwrap();
    assert_eq!(settings.file.config_map_name, "other");
    let inline = settings.inline.unwrap();
    assert_eq!(inline.config.addresses().len(), 8, "without the gateway");
    assert_eq!(inline.problems.len(), 1);
}
