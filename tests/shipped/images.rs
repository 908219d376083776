//! The images: the same twice, complete, and with nothing that does not run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use floe_testbed::host::sibling_program;
use floe_testbed::image::debian::Debian;
use floe_testbed::image::product::{self, Product};

fn controller() -> Result<Product> {
    product::controller(&Debian::ensure()?, &sibling_program("floe-controller")?)
}

fn agent() -> Result<Product> {
    let (agent, plugins) = (sibling_program("floe-agent")?, sibling_program("floe-cni")?);
    product::agent(&Debian::ensure()?, &agent, &plugins)
}

/// What a program says that sees nothing but the files of its image.
fn says(root: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("chroot").arg(root).args(words).output();
    let output = output.context("cannot run chroot")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{words:?} failed: {told}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[ignore = "needs root and Debian's packages: cargo xtask test --only shipped"]
fn the_same_programs_and_packages_are_the_same_image() -> Result<()> {
    for make in [controller, agent] {
        let (one, other) = (make()?.image.build()?, make()?.image.build()?);
        assert_eq!(one.digest(), other.digest());
    }
    Ok(())
}

#[test]
#[ignore = "needs root and Debian's packages: cargo xtask test --only shipped"]
fn programs_run_with_nothing_but_their_image() -> Result<()> {
    let root = tempfile::tempdir()?;
    controller()?.image.unpack(root.path())?;
    says(root.path(), &["/floe-controller", "--version"])?;
    let certificates = root.path().join("etc/ssl/certs/ca-certificates.crt");
    let certificates = std::fs::read_to_string(certificates)?;
    let trusted = certificates.matches("BEGIN CERTIFICATE").count();
    ensure!(trusted > 100, "only {trusted} authorities are trusted");

    let root = tempfile::tempdir()?;
    agent()?.image.unpack(root.path())?;
    says(root.path(), &["/floe-agent", "--version"])?;
    let nft = says(root.path(), &["/usr/sbin/nft", "--version"])?;
    ensure!(nft.starts_with("nftables "), "{nft}");
    // A plugin without a call says what it is on standard error, and that is all.
    let plugin = Command::new("chroot")
        .arg(root.path())
        .arg("/floe-cni")
        .output()?;
    ensure!(
        plugin.status.code().is_some_and(|code| code < 126),
        "{plugin:?}"
    );
    Ok(())
}

#[test]
#[ignore = "needs root and Debian's packages: cargo xtask test --only shipped"]
fn there_is_no_shell_and_every_package_is_named_with_its_source() -> Result<()> {
    let controller = controller()?;
    let names = |product: &Product| -> Vec<String> {
        product.packages.iter().map(|it| it.name.clone()).collect()
    };
    assert_eq!(
        names(&controller),
        ["ca-certificates", "libc6", "libgcc-s1"]
    );
    let agent = agent()?;
    let found = names(&agent);
    for wanted in ["libc6", "libnftables1", "nftables"] {
        ensure!(
            found.iter().any(|name| name == wanted),
            "{wanted} is not in {found:?}"
        );
    }
    let source = |name: &str| {
        let found = agent.packages.iter().find(|it| it.name == name);
        found.map(|it| it.source.clone())
    };
    assert_eq!(source("libnftables1").as_deref(), Some("nftables"));
    for product in [controller, agent] {
        let root = tempfile::tempdir()?;
        product.image.unpack(root.path())?;
        for folder in ["bin", "usr/bin", "sbin"] {
            ensure!(!root.path().join(folder).exists(), "there is /{folder}");
        }
        for package in &product.packages {
            let copyright = format!("usr/share/doc/{}/copyright", package.name);
            ensure!(
                root.path().join(&copyright).is_file(),
                "there is no /{copyright}"
            );
        }
    }
    Ok(())
}
