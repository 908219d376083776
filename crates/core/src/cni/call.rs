//! What a runtime asks: the environment of a plugin, checked.

use std::{fmt, str::FromStr};

use super::{
    args::CniArgs,
    error::{CniError, Code},
    version::Version,
};
use crate::ipam::args::shortened;

/// A command of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Attach a container.
    Add,
    /// Detach it.
    Del,
    /// Is it as it should be?
    Check,
    /// Remove what no longer belongs to anything.
    Gc,
    /// Could a container be attached?
    Status,
    /// Which versions are spoken?
    Version,
}

/// The environment of a call, as far as the command needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The command.
    pub command: Command,
    /// The container; empty for commands that are about none.
    pub container: String,
    /// The path of its network namespace; empty when it is gone (DEL) or not told.
    pub netns: String,
    /// The name of the interface in the container.
    pub ifname: String,
    /// `CNI_ARGS`.
    pub args: CniArgs,
    /// Where plugins lie, in this order.
    pub path: Vec<String>,
}

impl Call {
    /// Reads the environment through `variable`; `None` is a variable that is not set.
    ///
    /// As in every plugin, a variable that is empty counts as not set. `CNI_PATH` is
    /// asked for only where the specification does, so that a plugin that calls no
    /// other one can be run without it.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, CniError> {
        let read = |name: &str| variable(name).unwrap_or_default();
        let command: Command = match read("CNI_COMMAND") {
            text if text.is_empty() => return Err(missing(&["CNI_COMMAND"])),
            text => text.parse()?,
        };
        let lacking: Vec<&str> = command
            .required()
            .iter()
            .copied()
            .filter(|name| read(name).is_empty())
            .collect();
        if !lacking.is_empty() {
            return Err(missing(&lacking));
        }
        let mut call = Self {
            command,
            container: String::new(),
            netns: String::new(),
            ifname: String::new(),
            args: CniArgs::default(),
            path: Vec::new(),
        };
        if command == Command::Version {
            return Ok(call);
        }
        call.path = read("CNI_PATH")
            .split(':')
            .filter(|folder| !folder.is_empty())
            .map(ToOwned::to_owned)
            .collect();
        if command.is_about_a_container() {
            call.container = checked("CNI_CONTAINERID", read("CNI_CONTAINERID"), is_identifier)?;
            call.ifname = checked("CNI_IFNAME", read("CNI_IFNAME"), is_ifname)?;
            call.netns = read("CNI_NETNS");
            call.args = CniArgs::parse(&read("CNI_ARGS"))?;
        }
        Ok(call)
    }
}

impl Command {
    /// Its name, as `CNI_COMMAND` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    /// The version that brought it.
    pub const fn since(self) -> Version {
        match self {
            // VERSION came with 0.2.0, but a caller that does not know yet what to
            // speak cannot be asked to speak it.
            Self::Add | Self::Del | Self::Version => Version::V0_1_0,
            Self::Check => Version::V0_4_0,
            Self::Gc | Self::Status => Version::V1_1_0,
        }
    }

    /// Whether a configuration of this version may be used with the command.
    pub fn allowed_in(self, version: Version) -> Result<(), CniError> {
        if version >= self.since() {
            return Ok(());
        }
        Err(CniError::new(
            Code::IncompatibleVersion,
            "UnsupportedCommand",
            format!(
                "{self} needs a configuration of version {} or newer, this one is {version}",
                self.since()
            ),
        ))
    }

    /// Whether it is about one container.
    pub const fn is_about_a_container(self) -> bool {
        match self {
            Self::Add | Self::Del | Self::Check => true,
            Self::Gc | Self::Status | Self::Version => false,
        }
    }

    const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Add | Self::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
            Self::Del => &["CNI_CONTAINERID", "CNI_IFNAME"],
            Self::Gc | Self::Status => &["CNI_PATH"],
            Self::Version => &[],
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl FromStr for Command {
    type Err = CniError;

    fn from_str(text: &str) -> Result<Self, CniError> {
        [
            Self::Add,
            Self::Del,
            Self::Check,
            Self::Gc,
            Self::Status,
            Self::Version,
        ]
        .into_iter()
        .find(|command| command.as_str() == text)
        .ok_or_else(|| {
            environment(format!(
                "CNI_COMMAND {:?} is none of the specification",
                shortened(text)
            ))
        })
    }
}

/// Whether a text can be the id of a container or the name of a network. It can then
/// also be the name of a file, and has no `:`.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-'))
}

/// Whether a text can be the name of an interface.
pub fn is_ifname(text: &str) -> bool {
    matches!(text.len(), 1..=15)
        && text != "."
        && text != ".."
        && !text.contains(|letter: char| {
            matches!(letter, '/' | ':') || letter.is_whitespace() || letter.is_control()
        })
}

fn checked(name: &str, value: String, is_valid: fn(&str) -> bool) -> Result<String, CniError> {
    if is_valid(&value) {
        return Ok(value);
    }
    Err(environment(format!(
        "{name} {:?} is not valid",
        shortened(&value)
    )))
}

fn missing(names: &[&str]) -> CniError {
    environment(format!(
        "required environment variables are missing: {}",
        names.join(", ")
    ))
}

fn environment(message: String) -> CniError {
    CniError::of(Code::InvalidEnvironment, message)
}

#[cfg(test)]
mod tests;
