//! The program `nft` as it is called, with others in its place. In a process of their own:
//! each program that is started holds the locks of other tests for a moment.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of these tests for ordinary code"
)]

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use floe_net::nft::Nft;

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
    let start = Instant::now();
    let error = nft.apply("").unwrap_err();
    assert_eq!(error.reason(), "NftSlow");
    assert!(start.elapsed() < Duration::from_secs(40));
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
