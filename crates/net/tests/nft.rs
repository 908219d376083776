//! The program `nft` as it is called, with others in its place. In a process of their own:
//! each program that is started holds the locks of other tests for a moment.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of these tests for ordinary code"
)]

use std::{cell::RefCell, fs, path::Path, process::Command, time::Duration};

use floe_net::{boottime, nft::Nft};

/// What is taken off the time that is granted, at least.
const TAKEN_OFF: Duration = Duration::from_millis(500);

/// A program that stands for `nft`.
fn stand_in(folder: &Path, script: &str) -> Nft {
    let path = folder.join("nft");
    // By another process: what this one has open for writing, a program that another
    // test starts meanwhile may have too, and then the kernel does not run it.
    let written = Command::new("sh")
        .args([
            "-euc",
            "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\"; chmod 755 \"$0\"",
        ])
        .arg(&path)
        .arg(script)
        .status();
    assert!(written.unwrap().success());
    Nft::new(path)
}

#[test]
fn the_program_reads_the_whole_script() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let nft = stand_in(folder.path(), &format!("cat > {}", copy.display()));
    let script = "add table inet x\n".repeat(20_000);
    nft.apply(&script).unwrap();
    assert_eq!(fs::read_to_string(copy).unwrap(), script);
}

#[test]
fn what_the_program_complains_about_is_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let nft = stand_in(folder.path(), "echo 'line 1: no such rule' >&2; exit 1");
    let error = nft.apply("").unwrap_err();
    assert_eq!(error.to_string(), "nft refused: line 1: no such rule");
    assert_eq!(error.reason(), "NftRefused");
}

#[test]
fn a_program_that_does_not_end_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let nft = stand_in(folder.path(), "exec sleep 3600");
    let until = boottime::now() + Duration::from_mins(1);
    // Also the second call, which takes back what the first one granted, does not end.
    let start = boottime::now();
    let error = nft.keep_alive(until, |_| String::new()).unwrap_err();
    assert_eq!(error.reason(), "NftSlow");
    assert!(boottime::now() < start + Duration::from_secs(40));
}

#[test]
fn a_program_that_is_missing_is_said_to_be() {
    let error = Nft::new("/no/such/nft").apply("").unwrap_err();
    assert_eq!(error.reason(), "NftMissing");
}

#[test]
fn a_table_that_is_not_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let missing = "echo 'Error: No such file or directory' >&2; exit 1";
    assert_eq!(
        stand_in(folder.path(), missing).list("inet x").unwrap(),
        None
    );
    let nft = stand_in(folder.path(), "echo $*");
    assert_eq!(
        nft.list("inet x").unwrap().unwrap().trim_end(),
        "list table inet x"
    );
    let broken = "echo 'Error: Operation not permitted' >&2; exit 1";
    assert!(stand_in(folder.path(), broken).list("inet x").is_err());
}

#[test]
fn what_is_granted_ends_before_the_deadline_however_slow_the_program_is() {
    let folder = tempfile::tempdir().unwrap();
    let nft = stand_in(folder.path(), "cat > /dev/null");
    let granted = RefCell::new(Vec::new());
    let note = |left: Duration| {
        granted.borrow_mut().push(left);
        String::new()
    };
    let until = boottime::now() + Duration::from_mins(1);
    nft.keep_alive(until, note).unwrap();
    let [left] = granted.take()[..] else {
        panic!("granted once")
    };
    assert!(left + TAKEN_OFF <= Duration::from_mins(1), "{left:?}");
    assert!(left > Duration::from_secs(50), "{left:?}");
}

#[test]
fn what_could_not_be_kept_is_not_granted() {
    let folder = tempfile::tempdir().unwrap();
    let nft = stand_in(folder.path(), "echo must not run >&2; exit 1");
    for left in [Duration::ZERO, TAKEN_OFF] {
        let error = nft
            .keep_alive(boottime::now() + left, |_| panic!("nothing to grant"))
            .unwrap_err();
        assert_eq!(error.reason(), "NftTooLate");
    }
}

#[test]
fn what_was_granted_too_late_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // The first call does not end in time, as if another transaction came first.
    let once = folder.path().join("once");
    let nft = stand_in(
        folder.path(),
        &format!(
            "cat >> {}; test -e {once} || {{ touch {once}; exec sleep 3600; }}",
            log.display(),
            once = once.display()
        ),
    );
    let until = boottime::now() + Duration::from_mins(1);
    let error = nft
        .keep_alive(until, |left| format!("{}\n", left.is_zero()))
        .unwrap_err();
    assert_eq!(error.reason(), "NftSlow");
    assert_eq!(fs::read_to_string(log).unwrap(), "false\ntrue\n");
}
