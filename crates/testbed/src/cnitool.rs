//! The CNI project's own tool, built once and cached, and the plugins that go with it.
//!
//! It calls plugins through the library that container runtimes use, and it sends
//! CHECK, STATUS and GC too, which Debian's containerd never does. The small module in
//! `cnitool/` beside this crate pins its version, as the one in `kubernetes/` does for
//! Kubernetes.

use std::path::PathBuf;

use anyhow::Result;

use crate::go_program::GoProgram;
use crate::packages::{self, Need};

/// The release that `cnitool/go.mod` pins.
pub const VERSION: &str = "v1.3.0";

/// Where Debian puts the reference plugins.
pub const REFERENCE_PLUGINS: &str = "/usr/lib/cni";

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cnitool");

const CNITOOL: GoProgram = GoProgram {
    name: "cnitool",
    version: VERSION,
    module: MODULE,
    package: "github.com/containernetworking/cni/cnitool",
    flags: "",
};

/// A reference plugin that changes what another one made.
const TUNING: Need = Need {
    program: "/usr/lib/cni/tuning",
    package: "containernetworking-plugins",
};

/// Gets the tool and the reference plugins that tests chain with floe's.
pub fn prepare() -> Result<()> {
    packages::ensure(&[TUNING])?;
    ensure().map(drop)
}

/// The path of the tool, which is built if the cache has none of this version.
pub fn ensure() -> Result<PathBuf> {
    CNITOOL.ensure()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::go_program::pinned;

    #[test]
    fn the_pinned_version_is_the_one_of_the_go_module() {
        let pinned = pinned(MODULE, "github.com/containernetworking/cni");
        assert_eq!(pinned.as_deref(), Some(VERSION));
    }

    #[test]
    fn the_reference_plugins_are_where_tests_look_for_them() {
        assert_eq!(
            Path::new(TUNING.program).parent(),
            Some(Path::new(REFERENCE_PLUGINS))
        );
    }
}
