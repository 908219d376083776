//! The crates that are linked into a program, with their licences and checksums.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use floe_testbed::image::sbom::Crate;

use crate::tools::cargo;
use crate::workspace;

/// The checksums that `Cargo.lock` has, by name and version.
pub type Checksums = BTreeMap<(String, String), String>;

/// The crates that are linked into the programs of these packages: neither what only
/// builds, nor macros, nor what other platforms would need.
pub fn linked(packages: &[&str], checksums: &Checksums) -> Result<Vec<Crate>> {
    let mut all = BTreeSet::new();
    for package in packages {
        let mut tree = cargo();
        tree.current_dir(workspace())
            .args(["tree", "--quiet", "--locked", "--package", package])
            .args(["--edges", "normal,no-proc-macro", "--prefix", "none"])
            .args(["--format", "{p}\t{l}"]);
        let output = tree.output().context("cannot run cargo tree")?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            bail!("cargo tree failed: {}", told.trim_end());
        }
        all.extend(parse(&String::from_utf8_lossy(&output.stdout), checksums)?);
    }
    Ok(all.into_iter().collect())
}

/// Crates in what `cargo tree` prints, each once.
fn parse(text: &str, checksums: &Checksums) -> Result<BTreeSet<Crate>> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (package, licence) = line.split_once('\t').unwrap_or((line, ""));
        let mut words = package.split_whitespace();
        let version = |word: &str| word.strip_prefix('v').map(str::to_owned);
        let (Some(name), Some(version)) = (words.next(), words.next().and_then(version)) else {
            bail!("cargo tree says {line:?}, which is no package");
        };
        // Where a crate was listed before, a mark stands behind.
        let licence = licence.trim().trim_end_matches("(*)").trim();
        let checksum = checksums.get(&(name.to_owned(), version.clone()));
        found.insert(Crate {
            name: name.to_owned(),
            version,
            licence: Some(licence.to_owned()).filter(|it| !it.is_empty()),
            checksum: checksum.cloned(),
        });
    }
    Ok(found)
}

/// Reads `Cargo.lock`. What is not downloaded has no checksum.
pub fn checksums(lock: &str) -> Checksums {
    let value = |line: &str, key: &str| {
        let rest = line.strip_prefix(key)?.strip_prefix(" = ")?;
        Some(rest.trim_matches('"').to_owned())
    };
    let mut found = Checksums::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |key| package.lines().find_map(|line| value(line, key));
        if let (Some(name), Some(version), Some(checksum)) =
            (field("name"), field("version"), field("checksum"))
        {
            found.insert((name, version), checksum);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"anyhow\"\nversion = \"1.0.104\"\n\
        source = \"registry\"\nchecksum = \"ab12\"\n\n[[package]]\nname = \"floe-core\"\n\
        version = \"0.1.0\"\ndependencies = [\n \"anyhow\",\n]\n";

    #[test]
    fn checksums_are_those_of_downloaded_crates() {
        let found = checksums(LOCK);
        let key = ("anyhow".to_owned(), "1.0.104".to_owned());
        assert_eq!(found, BTreeMap::from([(key, "ab12".to_owned())]));
    }

    #[test]
    fn each_crate_is_listed_once_with_licence_and_checksum() {
        let text = "floe-core v0.1.0 (/somewhere/crates/core)\tApache-2.0\n\
                    anyhow v1.0.104\tMIT OR Apache-2.0\nanyhow v1.0.104\tMIT OR Apache-2.0 (*)\n\
                    odd v0.1.0\t\n";
        let crates = parse(text, &checksums(LOCK)).unwrap();
        let shown: Vec<_> = crates
            .iter()
            .map(|it| {
                let sum = it.checksum.as_deref().unwrap_or("-");
                format!(
                    "{} {} {} {sum}",
                    it.name,
                    it.version,
                    it.licence.as_deref().unwrap_or("-")
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "anyhow 1.0.104 MIT OR Apache-2.0 ab12",
                "floe-core 0.1.0 Apache-2.0 -",
                "odd 0.1.0 - -",
            ]
        );
    }

    #[test]
    fn what_is_no_package_is_shown() {
        let error = parse("what is this\n", &Checksums::new()).unwrap_err();
        assert!(error.to_string().contains("what is this"), "{error}");
    }
}
