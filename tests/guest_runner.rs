//! The guest runner itself, seen from the host: what a program in the guest gets,
//! and that a guest ends when it shall.

use std::fs;
use std::path::Path;
use std::time::Duration;

use floe_testbed::guest::{Error, Job, prepare, run, run_with};

#[test]
#[ignore = "needs QEMU: cargo xtask test --only guest"]
fn a_program_in_the_guest_has_the_hosts_files_and_returns_its_exit_code() {
    let cwd = tempfile::tempdir().unwrap();
    let marker = cwd.path().join("of the host");
    fs::write(&marker, "hello").unwrap();
    let script = "echo \"$FLOE_GUEST $WORDS\"; cat 'of the host'; echo; echo error >&2; \
        pwd >'of the guest'; echo new >/etc/floe-guest-test; cat /etc/floe-guest-test; exit 7";
    let mut lines = Vec::new();
    let code = run_with(&shell(script, cwd.path(), Duration::from_mins(5)), |line| {
        lines.push(line.to_owned());
    });
    assert_eq!(lines, ["1 two words", "hello", "error", "new"]);
    assert_eq!(code.unwrap(), 7);
    let written = fs::read_to_string(cwd.path().join("of the guest")).unwrap();
    assert_eq!(Path::new(written.trim()), cwd.path());
    assert!(!Path::new("/etc/floe-guest-test").exists());
}

#[test]
#[ignore = "needs QEMU: cargo xtask test --only guest"]
fn a_guest_whose_time_is_over_is_killed_and_leaves_nothing() {
    prepare().unwrap();
    let cwd = tempfile::tempdir().unwrap();
    let job = shell("sleep 600", cwd.path(), Duration::from_secs(2));
    let error = run(&job).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("the guest was stopped after 2 s")
    );
    // The folder is shared with the guest, so its name is in QEMU's command line.
    let name = cwd.path().to_str().unwrap();
    for entry in fs::read_dir("/proc").unwrap() {
        let command_line = fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        let command_line = String::from_utf8_lossy(&command_line).into_owned();
        assert!(!command_line.contains(name), "{command_line}");
    }
}

fn shell(script: &str, cwd: &Path, timeout: Duration) -> Job {
    Job {
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: vec![("WORDS".to_owned(), "two words".to_owned())],
        cwd: cwd.to_owned(),
        igb_ports: 0,
        timeout,
    }
}
