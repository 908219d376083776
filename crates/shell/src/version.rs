//! What was built.

use std::sync::LazyLock;

/// The version of floe. All its crates have the same one.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit it was built from, when the build was told. An environment
/// variable instead of a build script: building needs neither git nor a
/// checkout.
pub const COMMIT: Option<&str> = option_env!("FLOE_GIT_COMMIT");

/// One line for `--version`.
pub static LINE: LazyLock<String> = LazyLock::new(|| match COMMIT {
    Some(commit) => format!("{VERSION} (commit {commit})"),
    None => VERSION.to_owned(),
});
