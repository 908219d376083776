//! The capabilities that the chart grants: each is needed, and all of them are enough.
//!
//! The list is read from the chart. A container of it has a [`Deed`] here, done by the real
//! program as root with exactly what the chart grants, and then again with one capability
//! missing, each in turn. So a capability that is added without a deed that needs it fails
//! here, and so does one that is not needed any more.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of these tests for ordinary code"
)]

use std::collections::BTreeSet;

use granted::Container;

mod agent;
mod granted;
mod installer;

/// What a container is for.
struct Deed {
    /// The container, as the chart names it.
    container: &'static str,
    /// Does it with some capabilities, and undoes it; or why it cannot be done.
    act: fn(&[&str]) -> Result<(), String>,
    /// What is said without one of them.
    without: &'static [(&'static str, &'static [&'static str])],
}

const INSTALL: Deed = Deed {
    container: "install",
    act: installer::install,
    without: &[("DAC_OVERRIDE", &["cannot write", "Permission denied"])],
};
const UNINSTALL: Deed = Deed {
    container: "uninstall",
    act: installer::uninstall,
    without: &[("DAC_OVERRIDE", &["cannot remove", "Permission denied"])],
};
const NET_ADMIN: (&str, &[&str]) = ("NET_ADMIN", &["cannot make link", "not permitted"]);
const NET_RAW: (&str, &[&str]) = (
    "NET_RAW",
    &["cannot ask whether an address is in use: Operation not permitted"],
);
const SYS_ADMIN: (&str, &[&str]) = (
    "SYS_ADMIN",
    &[
        // It cannot mount them again, writable.
        "SettingsReadOnly",
        "cannot enter the network namespace: Operation not permitted",
    ],
);
const ATTACH: Deed = Deed {
    container: "agent",
    act: agent::attach,
    without: &[NET_ADMIN, NET_RAW, SYS_ADMIN],
};
/// With `agent.hostPID`, where namespaces are those of processes.
const ATTACH_A_PROCESS: Deed = Deed {
    container: "agent",
    act: agent::attach_a_process,
    without: &[
        NET_ADMIN,
        NET_RAW,
        SYS_ADMIN,
        (
            "SYS_PTRACE",
            &["cannot open the network namespace", "Permission denied"],
        ),
    ],
};
const DEEDS: [Deed; 4] = [INSTALL, UNINSTALL, ATTACH, ATTACH_A_PROCESS];

/// Values of the chart that make other containers.
const VARIANTS: [&[&str]; 3] = [&[], &["agent.hostPID=true"], &["agent.remove=true"]];

#[test]
#[ignore = "needs root and helm: cargo xtask test --only netns"]
fn every_capability_of_the_chart_has_a_deed_that_needs_it() {
    let mut met = BTreeSet::new();
    for values in VARIANTS {
        for container in granted::containers(values) {
            let Container {
                name,
                added,
                dropped,
            } = &container;
            assert_eq!(dropped, &["ALL"], "{values:?}: of {name}");
            if added.is_empty() {
                continue;
            }
            let deed = DEEDS.iter().position(|it| it.is_of(&container));
            let deed = deed.unwrap_or_else(|| {
                panic!("{values:?}: no deed proves that {name} needs {added:?}, and nothing else")
            });
            met.insert(deed);
        }
    }
    assert_eq!(met.len(), DEEDS.len(), "of the deeds only {met:?} are met");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn plugins_are_put_on_a_host_and_taken_away_where_folders_belong_to_somebody_else() {
    INSTALL.prove();
    UNINSTALL.prove();
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_agent_attaches_a_pod_with_what_it_is_granted_and_not_with_less() {
    ATTACH.prove();
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_agent_enters_the_namespace_of_a_process_with_what_it_is_granted_and_not_with_less() {
    ATTACH_A_PROCESS.prove();
}

impl Deed {
    /// Whether a container is granted exactly what this needs.
    fn is_of(&self, container: &Container) -> bool {
        let needed: BTreeSet<&str> = self.without.iter().map(|(name, _)| *name).collect();
        let granted: BTreeSet<&str> = container.added.iter().map(String::as_str).collect();
        self.container == container.name && needed == granted
    }

    /// It is done with all capabilities, and fails without any one of them.
    fn prove(&self) {
        let all: Vec<&str> = self.without.iter().map(|(name, _)| *name).collect();
        (self.act)(&all).unwrap_or_else(|why| panic!("with {all:?}: {why}"));
        for (missing, told) in self.without {
            let rest: Vec<&str> = all.iter().copied().filter(|it| it != missing).collect();
            let Err(why) = (self.act)(&rest) else {
                panic!("{} is done without {missing}", self.container);
            };
            for text in *told {
                assert!(why.contains(text), "without {missing}, {text}: {why}");
            }
        }
    }
}
