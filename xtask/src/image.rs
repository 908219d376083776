//! `cargo xtask image`: the images of controller and agent, without a container daemon.
//!
//! Programs are built in release mode, each alone as it ships, with paths of this machine
//! left out; the rest comes from Debian's packages. The same sources, the same compiler and
//! the same packages make the same image, byte for byte: `--check` makes it again elsewhere.

mod again;
mod crates;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use floe_testbed::image::debian::Debian;
use floe_testbed::image::product::{self, Product};
use floe_testbed::image::sbom::{self, Subject};
use floe_testbed::image::{Built, layout};
use floe_testbed::progress::Step;

use crate::child::mortal;
use crate::tools::cargo;
use crate::workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Build the images of controller and agent, with a list of what is in them
///
/// Needs no container daemon and no root; programs that are not floe's own are downloaded as Debian packages. For each
/// image there are, in the output folder: the image as an OCI layout (a folder) and as an archive that `docker load`,
/// `podman load`, `ctr image import` and `skopeo copy oci-archive:...` take, and an SBOM in SPDX 2.3.
#[derive(clap::Args)]
pub struct Args {
    /// Which images; without any, all of them
    #[arg(value_enum)]
    parts: Vec<Part>,

    /// What names of images begin with: a registry, or a folder of one
    #[arg(long, default_value = "floe", value_parser = prefix)]
    prefix: String,

    /// The tag of the images [default: the version of floe]
    #[arg(long, default_value = VERSION, hide_default_value = true, value_parser = tag)]
    tag: String,

    /// Where to put them [default: target/images]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Take programs from this folder instead of building them
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    programs: Option<PathBuf>,

    /// Build a second time, from sources in another folder, and fail if another image comes out
    #[arg(
        long, value_enum, value_name = "WHAT",
        num_args = 0..=1, require_equals = true, default_missing_value = "own",
    )]
    check: Option<Check>,
}

/// What is built a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Check {
    /// What is floe's; libraries of others are copied from the first build
    Own,
    /// Everything, from nothing
    All,
}

/// An image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The control plane
    Controller,
    /// The node side: agent, plugins, installer
    Agent,
}

impl Part {
    const ALL: [Self; 2] = [Self::Controller, Self::Agent];

    fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Agent => "agent",
        }
    }

    /// The packages whose programs are in it.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Controller => &["floe-controller"],
            Self::Agent => &["floe-agent", "floe-cni"],
        }
    }

    fn product(self, debian: &Debian, programs: &Path) -> Result<Product> {
        let program = |name| programs.join(name);
        match self {
            Self::Controller => product::controller(debian, &program("floe-controller")),
            Self::Agent => product::agent(debian, &program("floe-agent"), &program("floe-cni")),
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    let parts: &[Part] = if args.parts.is_empty() {
        &Part::ALL
    } else {
        &args.parts
    };
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| workspace().join("target/images"));
    let debian = Debian::refresh().context("cannot get Debian's packages")?;
    let order = Order {
        parts,
        args,
        debian: &debian,
        commit: commit(),
    };
    let images = match &args.programs {
        Some(folder) => order.assemble(folder)?,
        None => order.make(&Place::usual())?,
    };
    if let Some(what) = args.check {
        let again = again::prepared(what)?;
        compare(&images, &order.make(&again)?)?;
        again::removed()?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut table = String::new();
    for image in &images {
        image.write(&out)?;
        let size = image.built.size().div_ceil(1 << 20);
        writeln!(table, "{}", image.name)?;
        writeln!(table, "  {}  {size} MiB", image.built.digest())?;
        let file = out.join(format!("floe-{}", image.part.name()));
        let file = file.display();
        writeln!(table, "  {file}.tar, {file}/, {file}.spdx.json")?;
    }
    if args.check.is_some() {
        writeln!(table, "a second build, elsewhere, has made the same")?;
    }
    write!(std::io::stdout(), "{table}")?;
    Ok(())
}

/// An image that was made.
struct Made {
    part: Part,
    name: String,
    built: Built,
    sbom: Vec<u8>,
}

impl Made {
    fn write(&self, out: &Path) -> Result<()> {
        let file = format!("floe-{}", self.part.name());
        layout::write(&self.built, &self.name, &out.join(&file))?;
        let archive = out.join(format!("{file}.tar"));
        let open = File::create(&archive);
        let open = open.with_context(|| format!("cannot write {}", archive.display()))?;
        layout::archive(&self.built, &self.name, BufWriter::new(open))?;
        fs::write(out.join(format!("{file}.spdx.json")), &self.sbom)?;
        Ok(())
    }
}

/// Where sources are, and where programs are built.
struct Place {
    sources: PathBuf,
    target: PathBuf,
}

impl Place {
    fn usual() -> Self {
        Self {
            sources: workspace().to_owned(),
            target: workspace().join("target/image-build"),
        }
    }
}

/// What is wanted. It is the same for both builds, whatever happens in between.
struct Order<'a> {
    parts: &'a [Part],
    args: &'a Args,
    debian: &'a Debian,
    commit: Option<String>,
}

impl Order<'_> {
    /// Builds the programs, and makes images of them.
    fn make(&self, place: &Place) -> Result<Vec<Made>> {
        for part in self.parts {
            for package in part.programs() {
                let title = format!("building {package} in release mode (minutes, the first time)");
                Step::run(title, || build(package, place, self.commit.as_deref()))?;
            }
        }
        self.assemble(&place.target.join("release"))
    }

    /// Makes images of the programs in a folder.
    fn assemble(&self, programs: &Path) -> Result<Vec<Made>> {
        let checksums = crates::checksums(&fs::read_to_string(workspace().join("Cargo.lock"))?);
        let distribution = distribution(&fs::read_to_string("/etc/os-release").unwrap_or_default());
        let mut images = Vec::new();
        for part in self.parts.iter().copied() {
            let name = format!("{}/{}:{}", self.args.prefix, part.name(), self.args.tag);
            let Product {
                mut image,
                packages,
            } = part.product(self.debian, programs)?;
            image
                .label(
                    "org.opencontainers.image.title",
                    &format!("floe-{}", part.name()),
                )
                .label("org.opencontainers.image.version", VERSION)
                .label("org.opencontainers.image.licenses", "Apache-2.0");
            if let Some(commit) = &self.commit {
                image.label("org.opencontainers.image.revision", commit);
            }
            let built = image.build()?;
            let subject = Subject {
                name: &format!("floe-{}", part.name()),
                version: VERSION,
                digest: built.digest(),
                distribution: &distribution,
            };
            let linked = crates::linked(part.programs(), &checksums)?;
            let mut sbom = serde_json::to_vec_pretty(&sbom::spdx(subject, &packages, &linked))?;
            sbom.push(b'\n');
            images.push(Made {
                part,
                name,
                built,
                sbom,
            });
        }
        Ok(images)
    }
}

/// Whether both are the same, one by one.
fn compare(first: &[Made], again: &[Made]) -> Result<()> {
    for (first, second) in first.iter().zip(again) {
        let (one, other) = (first.built.digest(), second.built.digest());
        ensure!(
            one == other,
            "{} is not the same twice: {one}, then {other}; the programs are in {} and {}",
            first.name,
            Place::usual().target.display(),
            again::place().target.display(),
        );
        ensure!(
            first.sbom == second.sbom,
            "the SBOM of {} is not the same twice",
            first.name
        );
    }
    Ok(())
}

/// Builds one program alone: built with others, it would get the features of libraries
/// that only they want.
fn build(package: &str, place: &Place, commit: Option<&str>) -> Result<()> {
    let mut build = cargo();
    build
        .current_dir(&place.sources)
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            package,
        ])
        .arg("--target-dir")
        .arg(&place.target)
        .env("CARGO_ENCODED_RUSTFLAGS", remapped().join("\u{1f}"));
    match commit {
        Some(commit) => build.env("FLOE_GIT_COMMIT", commit),
        None => build.env_remove("FLOE_GIT_COMMIT"),
    };
    let status = mortal(&build)?.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("{package} does not build");
    }
    Ok(())
}

/// Messages name files of the sources; where those lie on this machine is left out. The flags
/// name all places, wherever is built: libraries that were built with others are built anew.
fn remapped() -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    // Of several that fit the last one counts.
    let mut names: Vec<(PathBuf, &str)> = home.into_iter().map(|it| (it, "/cargo")).collect();
    for place in [Place::usual(), again::place()] {
        names.push((place.sources, "/floe"));
        names.push((place.target, "/build"));
    }
    let flag =
        |(from, to): &(PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
    names.iter().map(flag).collect()
}

/// The commit, if what is built is exactly that.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(workspace())
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let changed = git(&["status", "--porcelain"])?;
    git(&["rev-parse", "HEAD"]).filter(|_| changed.is_empty())
}

/// `debian-12`, from the text of `/etc/os-release`.
fn distribution(text: &str) -> String {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| *key == name);
        found
            .map_or("unknown", |(_, value)| value.trim_matches('"'))
            .to_owned()
    };
    format!("{}-{}", field("ID"), field("VERSION_ID"))
}

fn prefix(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/:".contains(c);
    if trimmed.is_empty() || !trimmed.chars().all(allowed) || trimmed.starts_with(['/', '.', '-']) {
        return Err("expected a name such as registry.example.com/team".to_owned());
    }
    Ok(trimmed.to_owned())
}

fn tag(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let fits = (1..=128).contains(&text.len()) && !text.starts_with(['.', '-']);
    if !fits || !text.chars().all(allowed) {
        return Err("expected up to 128 letters, digits, dots, hyphens and underscores".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_the_one_of_the_machine() {
        let debian = "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(distribution(debian), "debian-12");
        assert_eq!(distribution(""), "unknown-unknown");
    }

    #[test]
    fn names_that_no_registry_takes_are_refused() {
        assert_eq!(
            prefix("registry.example.com:5000/team/").unwrap(),
            "registry.example.com:5000/team"
        );
        for bad in ["", "/", "Team", "a b", "-x"] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
        assert_eq!(tag("v1.0_x-2").unwrap(), "v1.0_x-2");
        for bad in ["", ".1", "a b", "a/b"] {
            assert!(tag(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_place_of_this_machine_is_in_a_program() {
        let flags = remapped();
        let at = |path: &Path, name: &str| {
            let flag = format!("--remap-path-prefix={}={name}", path.display());
            flags.iter().position(|it| *it == flag).unwrap()
        };
        let (usual, other) = (Place::usual(), again::place());
        let tree = at(&usual.sources, "/floe");
        // These are inside of it, and come after it, so that they count.
        for (path, name) in [
            (&usual.target, "/build"),
            (&other.sources, "/floe"),
            (&other.target, "/build"),
        ] {
            assert!(path.starts_with(&usual.sources));
            assert!(at(path, name) > tree, "{flags:?}");
        }
    }
}
