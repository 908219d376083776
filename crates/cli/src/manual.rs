//! What is made of the definition of the command line: completions and manual pages.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell as Script;
use clap_mangen::Man;

use crate::{
    args::{Args, Shell},
    complete,
    console::Console,
    failure::Failure,
};

/// The name of the program, under which shells and people look it up.
const PROGRAM: &str = "kubectl-floe";

/// Writes the completion for a shell, or what kubectl asks for it.
pub fn completion(console: &mut Console, shell: Shell) -> Result<(), Failure> {
    let shell = match shell {
        Shell::Kubectl => return console.print_raw(complete::SCRIPT.as_bytes()),
        Shell::Bash => return console.print_raw(complete::BASH.as_bytes()),
        Shell::Elvish => Script::Elvish,
        Shell::Fish => Script::Fish,
        Shell::PowerShell => Script::PowerShell,
        Shell::Zsh => Script::Zsh,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), PROGRAM, &mut script);
    console.print_raw(&script)
}

/// Tells kubectl what the words of a line can become.
pub fn complete(console: &mut Console, words: &[String]) -> Result<(), Failure> {
    console.print(&complete::answer(&command(), words))
}

/// Writes the manual page, or the pages of all commands into a directory.
pub fn pages(console: &mut Console, directory: Option<&Path>) -> Result<(), Failure> {
    if let Some(directory) = directory {
        let written = clap_mangen::generate_to(command(), directory);
        return written.map_err(|source| Failure::Io {
            what: format!("cannot write manual pages to {}", directory.display()),
            source,
        });
    }
    let mut page = Vec::new();
    let rendered = Man::new(command()).render(&mut page);
    rendered.map_err(|source| Failure::Io {
        what: "cannot make the manual page".into(),
        source,
    })?;
    console.print_raw(&page)
}

/// The command under the name of its program.
fn command() -> clap::Command {
    Args::command()
        .bin_name(PROGRAM)
        .version(crate::version::VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::script;

    /// The names of all commands that people see, with those below them.
    fn names(command: &clap::Command) -> Vec<String> {
        let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut names = Vec::new();
        for command in shown {
            names.push(command.get_name().to_owned());
            names.extend(self::names(command));
        }
        names
    }

    #[test]
    fn each_shell_has_a_completion_with_every_command() {
        let names = names(&Args::command());
        assert!(names.iter().any(|it| it == "unreserve"), "{names:?}");
        // That for bash asks the program: see tests/completion.rs.
        for shell in [Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let (mut console, out, _) = script::console(None);
            completion(&mut console, shell).unwrap();
            let text = out.text();
            for word in names
                .iter()
                .map(String::as_str)
                .chain(["request-timeout", PROGRAM])
            {
                assert!(text.contains(word), "{shell:?} {word}");
            }
        }
    }

    #[test]
    fn what_kubectl_asks_is_a_script_that_asks_this_program() {
        let (mut console, out, _) = script::console(None);
        completion(&mut console, Shell::Kubectl).unwrap();
        assert!(out.text().starts_with("#!/bin/sh\n"));
        assert!(out.text().contains("exec kubectl-floe __complete"));
    }

    #[test]
    fn the_manual_tells_commands_and_exit_codes() {
        let (mut console, out, _) = script::console(None);
        pages(&mut console, None).unwrap();
        let text = out.text();
        for word in [".TH kubectl-floe 1", "Exit codes"] {
            assert!(text.contains(word), "{word} is missing in {text}");
        }
        let shown = Args::command();
        for command in shown.get_subcommands().filter(|it| !it.is_hide_set()) {
            let name = command.get_name();
            assert!(
                text.contains(&format!("kubectl\\-floe\\-{name}(1)")),
                "{name} in {text}"
            );
        }
        let directory = tempfile::tempdir().unwrap();
        pages(&mut console, Some(directory.path())).unwrap();
        let page = directory.path().join("kubectl-floe-pool-set.1");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains("preallocate"));
    }
}
