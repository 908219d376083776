//! Unpacking with the program `xz`.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::thread;

/// Unpacks the first xz stream of `packed`; what follows it is ignored.
pub(super) fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut command = Command::new("xz");
    command.args(["--decompress", "--stdout", "--single-stream"]);
    filter(command, packed)
}

/// What a command makes of `input`, all of which it need not read.
fn filter(mut command: Command, input: &[u8]) -> io::Result<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    // Both at once: either pipe may be full while the other one waits.
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // Its exit status tells how it went, not a pipe that it closed early.
                let _ = stdin.write_all(input);
            }
        });
        child.wait_with_output()
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let program = command.get_program().to_string_lossy();
    Err(io::Error::other(format!(
        "{program} failed ({})",
        output.status
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than fits into the pipes.
    const LONG: &[u8] = &[7; 1 << 20];

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn long_input_and_output_do_not_block_each_other() {
        assert_eq!(filter(shell("cat"), LONG).unwrap(), LONG);
    }

    #[test]
    fn what_is_not_read_does_not_matter() {
        assert_eq!(filter(shell("head -c 4"), LONG).unwrap(), LONG[..4]);
    }

    #[test]
    fn a_failure_is_an_error_despite_some_output() {
        let error = filter(shell("head -c 4; exit 3"), LONG).unwrap_err();
        assert_eq!(error.to_string(), "sh failed (exit status: 3)");
    }
}
