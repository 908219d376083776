//! The fuzz targets on a stable toolchain: the same functions over the same corpus, and
//! over mutations of it that are the same in every run.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the corpus is files, and this is a test as a whole"
)]

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use fuzz::TARGETS;

/// Targets of other crates, which run them themselves, with their functions.
const OTHERS: [(&str, &str); 1] = [("netlink", "floe_net::netlink::fuzz")];

#[test]
fn every_file_of_the_corpus_is_taken_or_refused_as_its_name_says() {
    for (target, run) in TARGETS {
        replay::verdicts(target, run);
    }
}

#[test]
fn mutations_of_the_corpus_break_nothing() {
    for (number, (target, run)) in (1..).zip(TARGETS) {
        replay::mutations(target, run, number);
    }
}

#[test]
fn every_target_is_in_the_manifest_and_has_its_program() {
    let folder = Path::new(replay::CORPUS).parent().unwrap();
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let own = TARGETS.map(|(target, _)| (target, format!("floe_fuzz::{target}")));
    let others = OTHERS.map(|(target, function)| (target, function.to_owned()));
    let count = own.len() + others.len();
    assert_eq!(manifest.matches("[[bin]]").count(), count);
    for (target, function) in own.into_iter().chain(others) {
        assert!(manifest.contains(&format!("name = \"{target}\"\n")));
        let program = fs::read_to_string(folder.join(format!("targets/{target}.rs"))).unwrap();
        assert!(program.contains(&format!("{function}(data)")));
    }
}
