//! Namespaces and settings.

use std::{io, path::PathBuf};

use floe_net::{netns::Netns, sysctl};

use super::Space;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn work_runs_inside_and_the_caller_stays_outside() {
    let (one, two) = (Space::new(), Space::new());
    let outside = Netns::current().unwrap();
    let inside = one.netns.run(|| Netns::current().unwrap()).unwrap();
    assert!(inside.is_same(&one.netns).unwrap());
    assert!(!inside.is_same(&two.netns).unwrap());
    assert!(Netns::current().unwrap().is_same(&outside).unwrap());
    assert!(!outside.is_same(&inside).unwrap());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_namespace_is_opened_by_its_path_and_other_files_are_not_found() {
    let space = Space::new();
    // A thread that stays inside while somebody else opens its namespace.
    let opened = space.netns.run(|| {
        let thread = nix::unistd::gettid();
        let path = PathBuf::from(format!("/proc/self/task/{thread}/ns/net"));
        std::thread::spawn(move || Netns::open(&path))
            .join()
            .unwrap()
    });
    assert!(opened.unwrap().unwrap().is_same(&space.netns).unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Netns::open(file.path()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn what_panics_inside_panics_outside() {
    let space = Space::new();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        space.netns.run(|| panic!("inside"))
    }));
    let message = caught.map(|_| ()).unwrap_err();
    assert_eq!(message.downcast_ref(), Some(&"inside"));
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_setting_belongs_to_the_namespace_of_the_thread_and_is_written_only_if_it_differs() {
    let (one, two) = (Space::new(), Space::new());
    let forwarding = "net/ipv4/conf/lo/forwarding";
    let set = |space: &Space, value: &str| {
        let written = space.netns.run(|| sysctl::write(forwarding, value));
        written.unwrap().unwrap()
    };
    let get = |space: &Space| space.netns.run(|| sysctl::read(forwarding)).unwrap();
    set(&one, "0");
    set(&two, "0");
    assert!(set(&one, "1"));
    assert!(!set(&one, "1"));
    assert_eq!(get(&one).unwrap(), "1");
    assert_eq!(get(&two).unwrap(), "0");
    let error = one
        .netns
        .run(|| sysctl::write("net/ipv6/conf/eth9/accept_ra", "0"));
    let error = error.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}
