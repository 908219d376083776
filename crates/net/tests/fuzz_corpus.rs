//! The fuzz target of netlink on a stable toolchain.

#![allow(
    clippy::unwrap_used,
    reason = "the corpus is files, and this is a test as a whole"
)]

use floe_net::netlink::fuzz;

#[path = "../../../fuzz/src/replay.rs"]
#[allow(
    dead_code,
    reason = "a test of another crate looks into the folder of the corpus too"
)]
mod replay;

#[test]
fn what_the_kernel_says_is_taken_or_refused_as_the_corpus_tells() {
    replay::verdicts("netlink", fuzz);
}

#[test]
fn mutations_of_what_the_kernel_says_break_nothing() {
    replay::mutations("netlink", fuzz, 1);
}
