//! What starts the launcher.

#[test]
fn the_alias_starts_the_launcher() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cargo/config.toml");
    let config = std::fs::read_to_string(config).unwrap();
    let alias = "xtask = \"run --package xtask-launcher --\"";
    assert!(config.lines().any(|line| line == alias), "{config}");
}
