//! The completion for bash, run by bash and asking the real program.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot ask shall fail")]

use std::{path::Path, process::Command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-floe");

/// Does what bash does for a TAB after the words that it is given.
const TAB: &str = r#"source <("$0" completion bash)
COMP_WORDS=("$0" "$@"); COMP_CWORD=$#
how=$(complete -p kubectl-floe); how=${how##*-F }
"${how%% *}" kubectl-floe "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}""#;

/// What is offered for the last of these words.
fn tab(words: &[&str]) -> Vec<String> {
    let output = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", TAB, PROGRAM])
        .args(words)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.is_empty(), "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    assert!(Path::new(PROGRAM).exists());
    assert_eq!(tab(&["ip", "re"]), ["release", "reserve"]);
    assert_eq!(tab(&["ip", "list", "--sta"]), ["--state"]);
    assert_eq!(tab(&["pool", "set", "blue", "--pre"]), ["--preallocate"]);
    assert_eq!(tab(&["-n", "web", "ip", "unr"]), ["unreserve"]);
    let formats = ["wide", "json", "yaml", "name"];
    assert_eq!(tab(&["ip", "list", "-o", ""]), formats);
    assert_eq!(tab(&["ip", "list", "--output", "=", "j"]), ["json"]);
    assert_eq!(tab(&["ip", "list", "--output", "="]), formats);
    let shown = tab(&[""]);
    assert!(shown.iter().any(|it| it == "explain"), "{shown:?}");
    assert!(!shown.iter().any(|it| it == "__complete"), "{shown:?}");
    assert_eq!(tab(&["explain", ""]), [""; 0], "nobody knows all pods");
}
