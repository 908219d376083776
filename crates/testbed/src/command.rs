//! Short commands whose output is an answer.

use std::io;
use std::process::{Command, ExitStatus, Stdio};

/// A command that could not be started or did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The program could not be started.
    #[error("cannot run {command}")]
    Start {
        /// The command line.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// The program ran and reported failure.
    #[error("{command} failed ({status}): {stderr}")]
    Status {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines it wrote to standard error.
        stderr: String,
    },
}

/// The standard output of a command that must succeed.
///
/// Messages are asked for in plain English, so that they can be parsed.
pub(crate) fn read(command: &mut Command) -> Result<String, Failed> {
    let output = command
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Failed::Start {
            command: line(command),
            source,
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Failed::Status {
        command: line(command),
        status: output.status,
        stderr: tail(&String::from_utf8_lossy(&output.stderr), 5),
    })
}

/// A command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    words.join(" ")
}

/// The last `count` lines of a text, without a newline at the end.
pub(crate) fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_end_of_a_text() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a\n", 2), "a");
        assert_eq!(tail("", 2), "");
    }

    #[test]
    fn a_failure_names_the_command_and_its_last_words() {
        let failed = read(Command::new("sh").args(["-c", "echo why >&2; exit 4"])).unwrap_err();
        assert_eq!(
            failed.to_string(),
            "sh -c echo why >&2; exit 4 failed (exit status: 4): why"
        );
    }
}
