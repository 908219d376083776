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
    let layer = Blob::new(Vec::new());
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
    let named =
        |name: &str| fs::read_to_string(registry.path().join("repositories").join(name)).unwrap();
    assert_eq!(named("nginx"), named("team%site"));
    // Layer, configuration and manifest.
    assert_eq!(
        fs::read_dir(registry.path().join("blobs")).unwrap().count(),
        3
    );
}
