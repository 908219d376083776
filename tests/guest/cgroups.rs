//! The testbed's control groups on a kernel with version 2 of them.

use std::process::Command;
use std::time::Duration;

use floe_testbed::cgroup::Cgroup;

use crate::{in_guest, lab};

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_group_of_version_two_is_joined_frozen_weighed_and_removed() {
    in_guest();
    lab::run("mount", "-t cgroup2 none /sys/fs/cgroup");
    let cluster = Cgroup::new("floe-testbed-guest");
    let node = cluster.child("node-1");
    let system = node.child("system");
    system.create().unwrap();
    let script = format!("{} exec sleep 600", system.join_script());
    let mut sleeper = Command::new("sh").args(["-euc", &script]).spawn().unwrap();
    let pid = i32::try_from(sleeper.id()).unwrap();
    while cluster.processes() != [pid] {
        assert!(sleeper.try_wait().unwrap().is_none(), "it ended early");
        std::thread::yield_now();
    }
    assert!(cluster.memory().unwrap() > 0);

    node.freeze().unwrap();
    while !node.is_frozen().unwrap() {
        std::thread::yield_now();
    }
    // Removing thaws, or the frozen process would never die.
    cluster.remove(Duration::from_secs(20)).unwrap();
    sleeper.wait().unwrap();
    assert!(!cluster.exists());
}
