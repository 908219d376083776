use super::*;

fn package(name: &str, source: (&str, &str)) -> Package {
    Package {
        name: name.to_owned(),
        version: "1.0-2".to_owned(),
        architecture: "amd64".to_owned(),
        source: source.0.to_owned(),
        source_version: source.1.to_owned(),
    }
}

#[test]
fn a_package_knows_its_source_in_all_three_forms() {
    let rest = "Version: 1.0-2\nArchitecture: amd64\n";
    let parse = |first: &str, last: &str| parse_fields(&format!("{first}{rest}{last}")).unwrap();
    assert_eq!(
        parse("Package: nftables\n", ""),
        package("nftables", ("nftables", "1.0-2"))
    );
    assert_eq!(
        parse("Package: libc6\n", "Source: glibc\n"),
        package("libc6", ("glibc", "1.0-2"))
    );
    assert_eq!(
        parse("Package: libc6\n", "Source: glibc (2.36-9)\n"),
        package("libc6", ("glibc", "2.36-9"))
    );
}

#[test]
fn what_is_no_package_says_what_it_lacks() {
    let error = parse_fields("Package: x\n").unwrap_err();
    assert_eq!(error.to_string(), "it has no field Version");
    let error = parse_fields("Package: ../x\nVersion: 1\n").unwrap_err();
    assert!(error.to_string().contains("../x"), "{error}");
}

#[test]
fn only_real_packages_are_in_a_closure_and_each_once() {
    let text = "nftables\n  Depends: libc6\n |Depends: a\n  Depends: <virtual>\n    b\nlibc6\n\
                <virtual>\nlibc6\n";
    assert_eq!(Vec::from_iter(closure(text)), ["libc6", "nftables"]);
}

#[test]
fn the_loader_is_listed_by_the_path_that_programs_name() {
    let text = "\tlinux-vdso.so.1 (0x00007ffa)\n\
                \tlibc.so.6 => /c/libc6/lib/x86_64-linux-gnu/libc.so.6 (0x00007ffa)\n\
                \t/lib64/ld-linux-x86-64.so.2 => /c/libc6/lib/ld.so (0x00007ffa)\n";
    let expected = [
        (
            "libc.so.6",
            PathBuf::from("/c/libc6/lib/x86_64-linux-gnu/libc.so.6"),
        ),
        (
            "/lib64/ld-linux-x86-64.so.2",
            PathBuf::from("/c/libc6/lib/ld.so"),
        ),
    ];
    assert_eq!(parse_list(text), expected);
}

/// A folder as `fetch` leaves it.
fn unpacked(files: &[(&str, &str)], names: &[&str]) -> (tempfile::TempDir, Debian) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let list: Vec<_> = names.iter().map(|it| package(it, (it, "1"))).collect();
    fs::write(folder.path().join(LIST), serde_json::to_vec(&list).unwrap()).unwrap();
    let debian = Debian::open(folder.path()).unwrap();
    (folder, debian)
}

#[test]
fn certificates_are_one_file_in_the_order_of_their_names() {
    let place = "ca-certificates/usr/share/ca-certificates/mozilla";
    let first = format!("{place}/A.crt");
    let second = format!("{place}/B.crt");
    let files = [
        (second.as_str(), "-----BEGIN CERTIFICATE-----\nb"),
        (first.as_str(), "-----BEGIN CERTIFICATE-----\na\n\n"),
    ];
    let (_folder, debian) = unpacked(&files, &[CERTIFICATES]);
    assert_eq!(
        debian.certificates().unwrap(),
        "-----BEGIN CERTIFICATE-----\na\n-----BEGIN CERTIFICATE-----\nb\n"
    );
}

#[test]
fn the_copyright_of_a_package_may_be_that_of_another_one() {
    let files = [("gcc-base/usr/share/doc/gcc-base/copyright", "GPL")];
    let (folder, debian) = unpacked(&files, &["gcc-base", "libgcc"]);
    let doc = folder.path().join("libgcc/usr/share/doc");
    fs::create_dir_all(&doc).unwrap();
    std::os::unix::fs::symlink("gcc-base", doc.join("libgcc")).unwrap();
    assert_eq!(debian.copyright("libgcc").unwrap(), "GPL");
    assert_eq!(debian.copyright("gcc-base").unwrap(), "GPL");
    debian.copyright("other").unwrap_err();
}

#[test]
fn a_file_that_is_in_no_package_has_no_owner() {
    let (folder, debian) = unpacked(&[("libc6/lib/libc.so.6", "")], &["libc6"]);
    let root = fs::canonicalize(folder.path()).unwrap();
    let file = debian.owner(&root.join("libc6/lib/libc.so.6")).unwrap();
    assert_eq!(
        (file.package.as_str(), file.to.as_str()),
        ("libc6", "lib/libc.so.6")
    );
    debian.owner(Path::new("/usr/lib/libc.so.6")).unwrap_err();
}
