//! Helm, built once and cached.

use std::path::PathBuf;

use anyhow::Result;

use crate::go_program::GoProgram;

/// The release that `helm/go.mod` pins.
pub const VERSION: &str = "v3.19.5";

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/helm");

const HELM: GoProgram = GoProgram {
    name: "helm",
    version: VERSION,
    module: MODULE,
    package: "helm.sh/helm/v3/cmd/helm",
    // Without the last two it takes every cluster that it cannot ask for a very old one.
    flags: "-X helm.sh/helm/v3/internal/version.version=v3.19.5 \
            -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 \
            -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34",
};

/// The path of helm, which is built if the cache has none of this version.
pub fn ensure() -> Result<PathBuf> {
    HELM.ensure()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_program::pinned;

    #[test]
    fn the_pinned_version_is_the_one_of_the_go_module_and_helm_is_told() {
        let pinned = pinned(MODULE, "helm.sh/helm/v3");
        assert_eq!(pinned.as_deref(), Some(VERSION));
        assert!(HELM.flags.contains(&format!("version={VERSION} ")));
    }
}
