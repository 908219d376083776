use std::fs;

use super::*;

fn executable(path: &Path, mode: u32) {
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_first_executable_in_the_path_is_found() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folders = [a.path().to_owned(), b.path().to_owned()];
    executable(&a.path().join("tool"), 0o644);
    executable(&b.path().join("tool"), 0o755);
    fs::create_dir(a.path().join("folder")).unwrap();
    assert_eq!(find_in(&folders, "tool"), Some(b.path().join("tool")));
    assert_eq!(find_in(&folders, "folder"), None);
    assert_eq!(find_in(&folders, "other"), None);
}

#[test]
fn an_absolute_path_needs_no_search_and_may_be_any_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("data");
    executable(&file, 0o644);
    assert_eq!(find_in(&[], file.to_str().unwrap()), Some(file));
    assert_eq!(find_in(&[], "/no/such/file"), None);
}

#[test]
fn only_absent_programs_are_missing_and_their_packages_named_once() {
    let needs = [
        Need {
            program: "sh",
            package: "dash",
        },
        Need {
            program: "no-such-program-b",
            package: "tools",
        },
        Need {
            program: "/no/such/file",
            package: "tools",
        },
    ];
    let absent = missing(&needs);
    assert_eq!(absent, [&needs[1], &needs[2]]);
    assert_eq!(programs_of(&absent), "no-such-program-b, /no/such/file");
    assert_eq!(Vec::from_iter(packages_of(&absent)), ["tools"]);
}

#[test]
fn nothing_is_asked_of_apt_when_all_is_there() {
    ensure(&[Need {
        program: "sh",
        package: "no-such-package",
    }])
    .unwrap();
}
