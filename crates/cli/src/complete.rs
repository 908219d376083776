//! What `kubectl floe <TAB>` can become.
//!
//! kubectl asks a program `kubectl_complete-floe` with the words that were typed, the
//! last of which is being typed. It answers one word a line, with a tab before what it
//! means, and at the end a number that says what the shell shall not add.

use std::fmt::Write as _;

use clap::{Arg, Command, ValueHint};

/// The program that kubectl looks for, which asks this one.
pub const SCRIPT: &str = "#!/bin/sh
# kubectl_complete-floe: what kubectl asks for the completion of kubectl floe.
# Put it on the PATH under that name, and make it executable.
exec kubectl-floe __complete \"$@\"
";

/// The completion for bash, which asks this program as well.
///
/// clap makes one, too, but that completes nothing after the first word when there is a
/// hyphen in the name of the program.
pub const BASH: &str = r#"# Completion of kubectl-floe for bash: the program itself is asked.
_kubectl_floe() {
    local i line word last=-1 files= words=()
    # bash takes an = for the end of a word; the program wants --flag=value as one.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $last -ge 0 && ($word == = || ${words[last]} == --*=) ]]; then
            words[last]+=$word
        else
            words[++last]=$word
        fi
    done
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :0) files=1 ;;
            :*) ;;
            *)
                word=${line%%$'\t'*}
                # What stands before the = is not replaced.
                [[ ${words[last]} == --*=* ]] && word=${word#*=}
                COMPREPLY+=("$word")
                ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
    [[ $files ]] || compopt +o default 2>/dev/null
    return 0
}
complete -o default -F _kubectl_floe kubectl-floe
"#;

/// The number for "these words, and no names of files".
const NO_FILES: u8 = 4;

/// The number for "whatever the shell has".
const ANYTHING: u8 = 0;

/// The answer to kubectl.
pub fn answer(root: &Command, words: &[String]) -> String {
    let (last, before) = words
        .split_last()
        .map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let (found, number) = candidates(root, before, last);
    let mut text = String::new();
    for (word, meaning) in found {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{word}\t{meaning}");
    }
    let _ = writeln!(text, ":{number}");
    text
}

fn candidates(root: &Command, before: &[String], last: &str) -> (Vec<(String, String)>, u8) {
    let mut command = root;
    let mut flags: Vec<&Arg> = root.get_opts().collect();
    let mut plain = 0;
    let mut open: Option<&Arg> = None;
    for word in before {
        if open.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            open = flag(&flags, word).filter(|it| it.get_action().takes_values());
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
            flags.extend(next.get_opts());
            plain = 0;
        } else {
            plain += 1;
        }
    }
    if let Some(flag) = open {
        return values(flag, "", last);
    }
    if let Some((name, begun)) = last.split_once('=')
        && let Some(flag) = flag(&flags, name)
    {
        return values(flag, &format!("{name}="), begun);
    }
    if last.starts_with('-') {
        return (flags_of(root, command, last), NO_FILES);
    }
    let mut found: Vec<_> = command
        .get_subcommands()
        .filter(|it| !it.is_hide_set() && it.get_name().starts_with(last))
        .map(|it| (it.get_name().to_owned(), meaning(it.get_about())))
        .collect();
    let argument = command.get_positionals().nth(plain);
    if let Some(argument) = argument {
        found.extend(values(argument, "", last).0);
    }
    (found, NO_FILES)
}

fn flag<'a>(flags: &[&'a Arg], word: &str) -> Option<&'a Arg> {
    flags
        .iter()
        .copied()
        .find(|it| match word.strip_prefix("--") {
            Some(long) => it.get_long() == Some(long),
            None => word.strip_prefix('-').is_some_and(|letters| {
                let mut letters = letters.chars();
                letters
                    .next()
                    .is_some_and(|letter| it.get_short() == Some(letter))
                    && letters.next().is_none()
            }),
        })
}

/// What may stand after a flag, or as an argument.
fn values(argument: &Arg, prefix: &str, begun: &str) -> (Vec<(String, String)>, u8) {
    let values = argument.get_possible_values();
    if values.is_empty() {
        let is_file = argument.get_value_hint() == ValueHint::AnyPath;
        return (Vec::new(), if is_file { ANYTHING } else { NO_FILES });
    }
    let fitting = values
        .iter()
        .filter(|it| !it.is_hide_set() && it.get_name().starts_with(begun));
    let found = fitting.map(|it| (format!("{prefix}{}", it.get_name()), meaning(it.get_help())));
    (found.collect(), NO_FILES)
}

fn flags_of(root: &Command, command: &Command, begun: &str) -> Vec<(String, String)> {
    let own = command.get_arguments();
    let global = root.get_arguments().filter(|it| it.is_global_set());
    let mut found: Vec<_> = own
        .chain(global)
        .filter(|it| !it.is_hide_set())
        .filter_map(|it| Some((format!("--{}", it.get_long()?), meaning(it.get_help()))))
        .filter(|(name, _)| name.starts_with(begun))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn meaning(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    /// The words for a line in which the last word is being typed, and the number.
    fn tab(line: &str) -> (Vec<String>, String) {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let answer = answer(&Args::command(), &words);
        let mut lines: Vec<_> = answer.lines().collect();
        let number = lines.pop().unwrap().to_owned();
        let word = |line: &str| line.split('\t').next().unwrap().to_owned();
        (lines.into_iter().map(word).collect(), number)
    }

    #[test]
    fn commands_are_completed_and_hidden_ones_are_not() {
        let (words, number) = tab("");
        for word in ["ip", "pool", "subnet", "explain", "check", "completion"] {
            assert!(words.iter().any(|it| it == word), "{word} in {words:?}");
        }
        assert!(!words.iter().any(|it| it == "man" || it == "__complete"));
        assert_eq!(number, ":4");
        assert_eq!(tab("ip re").0, ["release", "reserve"]);
        assert_eq!(tab("-n web --context lab pool s").0, ["show", "set"]);
    }

    #[test]
    fn flags_and_their_values_are_completed() {
        assert_eq!(tab("ip list --sta").0, ["--state"]);
        assert_eq!(tab("ip list --conte").0, ["--context"], "those of the root");
        assert_eq!(tab("ip list -o ").0, ["wide", "json", "yaml", "name"]);
        assert_eq!(tab("ip list --output=j").0, ["--output=json"]);
        assert_eq!(tab("completion z").0, ["zsh"]);
    }

    #[test]
    fn names_of_files_come_where_a_file_can_stand_and_nowhere_else() {
        for line in [
            "import --file ./b",
            "import -f ",
            "ip list --kubeconfig ",
            "explain --api-ca-file ",
        ] {
            assert_eq!(tab(line), (vec![], ":0".into()), "{line}");
        }
        for line in [
            "explain ",
            "ip list -n ",
            "ip list --pool ",
            "--context ",
            "pool set ",
        ] {
            assert_eq!(tab(line), (vec![], ":4".into()), "{line}");
        }
    }
}
