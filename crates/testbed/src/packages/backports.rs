//! The distribution's backports, taken from the mirror that is already set up.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Apt, Error, io_error};

const PARTS: &str = "/etc/apt/sources.list.d";

/// Makes the backports known to apt and returns the name of their release.
///
/// `package` and `version` are named in the error when there are none.
pub(crate) fn enable(
    apt: &Apt,
    package: &'static str,
    version: &'static str,
) -> Result<String, Error> {
    let codename = fs::read_to_string("/etc/os-release")
        .ok()
        .and_then(|text| codename(&text))
        .unwrap_or_else(|| "unknown".to_owned());
    let sources = configured().map_err(io_error("cannot read the apt sources"))?;
    let release = format!("{codename}-backports");
    match derive(&sources, &codename) {
        Backports::Configured => {}
        Backports::Unknown => {
            return Err(Error::NoBackports {
                codename,
                package,
                version,
            });
        }
        Backports::Derived(source) => {
            let path = Path::new(PARTS).join(format!("floe-backports.{}", source.format.suffix()));
            eprintln!("Adding the apt source {} for {release}.", path.display());
            fs::write(&path, &source.text).map_err(io_error("cannot write an apt source"))?;
            if let Err(error) = apt.update_again() {
                // A source that does not answer would break apt for everybody.
                let _ = fs::remove_file(&path);
                return Err(error);
            }
        }
    }
    Ok(release)
}

/// The two ways to write down apt sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Paragraphs of fields (`*.sources`).
    Deb822,
    /// One line per source (`*.list`).
    OneLine,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    format: Format,
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Backports {
    Configured,
    Derived(Source),
    Unknown,
}

impl Format {
    fn suffix(self) -> &'static str {
        match self {
            Self::Deb822 => "sources",
            Self::OneLine => "list",
        }
    }
}

fn codename(os_release: &str) -> Option<String> {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|value| value.trim_matches('"').to_owned())
        .filter(|value| !value.is_empty())
}

fn configured() -> io::Result<Vec<Source>> {
    let mut paths = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir(PARTS) {
        for entry in entries {
            paths.push(entry?.path());
        }
    }
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let format = match path.extension().and_then(OsStr::to_str) {
            Some("sources") => Format::Deb822,
            Some("list") => Format::OneLine,
            _ => continue,
        };
        if let Ok(text) = fs::read_to_string(&path) {
            sources.push(Source { format, text });
        }
    }
    Ok(sources)
}

/// Finds or makes the source of the backports: the source of the release itself
/// with another suite, so that mirror and keys are the configured ones.
fn derive(sources: &[Source], codename: &str) -> Backports {
    let release = format!("{codename}-backports");
    let candidates = |suite: &str| -> Vec<Source> {
        sources
            .iter()
            .flat_map(|source| match source.format {
                Format::Deb822 => from_paragraphs(&source.text, suite, &release),
                Format::OneLine => from_lines(&source.text, suite, &release),
            })
            .collect()
    };
    if !candidates(&release).is_empty() {
        return Backports::Configured;
    }
    match candidates(codename).into_iter().next() {
        Some(source) => Backports::Derived(source),
        None => Backports::Unknown,
    }
}

/// Every paragraph that offers binary packages of `suite`, rewritten for `release`.
fn from_paragraphs(text: &str, suite: &str, release: &str) -> Vec<Source> {
    let without_comments: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    without_comments
        .split(|line| line.trim().is_empty())
        .filter_map(|paragraph| {
            let field = |name: &str| field(paragraph, name);
            let offers = |name: &str, word: &str| {
                field(name).is_some_and(|value| value.split_whitespace().any(|w| w == word))
            };
            let disabled = field("Enabled").is_some_and(|value| value.eq_ignore_ascii_case("no"));
            if disabled || !offers("Types", "deb") || !offers("Suites", suite) {
                return None;
            }
            let mut text = String::new();
            for line in paragraph {
                let name = line.split(':').next().unwrap_or_default();
                let line = match name.to_ascii_lowercase().as_str() {
                    "types" => "Types: deb".to_owned(),
                    "suites" => format!("Suites: {release}"),
                    _ => (*line).to_owned(),
                };
                text.push_str(&line);
                text.push('\n');
            }
            Some(Source {
                format: Format::Deb822,
                text,
            })
        })
        .collect()
}

fn field<'a>(paragraph: &[&'a str], name: &str) -> Option<&'a str> {
    paragraph.iter().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// Every line that offers binary packages of `suite`, rewritten for `release`.
fn from_lines(text: &str, suite: &str, release: &str) -> Vec<Source> {
    text.lines()
        .filter_map(|line| {
            let rest = line.trim().strip_prefix("deb ")?.trim_start();
            let (options, rest) = match rest.strip_prefix('[') {
                Some(inner) => inner.split_once(']')?,
                None => ("", rest),
            };
            let mut words = rest.split_whitespace();
            let (uri, found) = (words.next()?, words.next()?);
            if found != suite {
                return None;
            }
            let options = match options.trim() {
                "" => String::new(),
                options => format!("[{options}] "),
            };
            let components: Vec<_> = words.collect();
            Some(Source {
                format: Format::OneLine,
                text: format!("deb {options}{uri} {release} {}\n", components.join(" ")),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
