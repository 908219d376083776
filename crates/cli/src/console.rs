//! The terminal, or what stands in for it.

use std::{
    env,
    io::{self, BufRead, IsTerminal as _, Write},
};

use anstyle::{AnsiColor, Style};

use crate::{failure::Failure, render::harmless};

/// Where results, remarks and questions go.
///
/// Everything may have colours; the streams take them out where nobody can see them.
pub struct Console {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    input: Box<dyn BufRead>,
    can_ask: bool,
    is_utf8: bool,
}

impl Console {
    /// The standard streams of the process.
    pub fn standard() -> Self {
        Self {
            out: Box::new(anstream::stdout()),
            err: Box::new(anstream::stderr()),
            input: Box::new(io::stdin().lock()),
            can_ask: io::stdin().is_terminal() && io::stderr().is_terminal(),
            is_utf8: is_utf8(|name| env::var(name).ok()),
        }
    }

    /// Whether more than ASCII can be shown.
    pub fn is_utf8(&self) -> bool {
        self.is_utf8
    }

    /// Writes a result; a line break follows unless it ends with one.
    pub fn print(&mut self, text: &str) -> Result<(), Failure> {
        let end = if text.ends_with('\n') || text.is_empty() {
            ""
        } else {
            "\n"
        };
        let written = write!(self.out, "{text}{end}").and_then(|()| self.out.flush());
        written.map_err(|source| Failure::Io {
            what: "cannot write to standard output".into(),
            source,
        })
    }

    /// Writes what was done. Who does not read it does not keep the rest from being done.
    pub fn done(&mut self, text: &str) -> Result<(), Failure> {
        match self.print(text) {
            Err(Failure::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed,
        }
    }

    /// Writes a result as it is.
    pub fn print_raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.out.write_all(bytes).and_then(|()| self.out.flush());
        written.map_err(|source| Failure::Io {
            what: "cannot write to standard output".into(),
            source,
        })
    }

    /// Writes a remark that is no result. If nobody can read it, nothing is lost.
    pub fn remark(&mut self, text: &str) {
        let _ = writeln!(self.err, "{}", tame(text));
    }

    /// Writes a remark that somebody should mind.
    pub fn warn(&mut self, text: &str) {
        self.told("warning", AnsiColor::Yellow, text);
    }

    /// Writes why something failed.
    pub fn error(&mut self, text: &str) {
        self.told("error", AnsiColor::Red, text);
    }

    /// Writes what can be done.
    pub fn hint(&mut self, text: &str) {
        self.told("hint", AnsiColor::Cyan, text);
    }

    /// Asks whether to go on, unless `yes` says so already.
    pub fn confirm(&mut self, question: &str, yes: bool) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.can_ask {
            return Err(Failure::Unconfirmed);
        }
        let _ = write!(self.err, "{} [y/N] ", tame(question));
        let _ = self.err.flush();
        let mut answer = String::new();
        let read = self.input.read_line(&mut answer);
        read.map_err(|source| Failure::Io {
            what: "cannot read the answer".into(),
            source,
        })?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::Declined),
        }
    }

    fn told(&mut self, word: &str, color: AnsiColor, text: &str) {
        let style = Style::new().bold().fg_color(Some(color.into()));
        let _ = writeln!(self.err, "{style}{word}:{style:#} {}", tame(text));
    }
}

/// Lines without anything that a terminal would obey: records and servers can say
/// whatever they like.
fn tame(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(harmless).collect();
    lines.join("\n")
}

/// Whether the locale says UTF-8: the first of these that says anything counts.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let mut said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable);
    let locale = said.find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
pub mod script {
    //! A console for tests: answers are known, and what is written is kept.

    use std::{
        io::{self, Cursor, Write},
        sync::{Arc, Mutex},
    };

    use super::Console;

    /// What was written.
    #[derive(Clone, Default)]
    pub struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        /// All of it, without colours.
        pub fn text(&self) -> String {
            let bytes = self.0.lock().unwrap();
            anstream::adapter::strip_bytes(&bytes)
                .into_vec()
                .try_into()
                .unwrap()
        }
    }

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A console whose reader has gone after the first line.
    pub fn deserted() -> Console {
        struct Gone(bool);
        impl Write for Gone {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if self.0 {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                self.0 = bytes.ends_with(b"\n");
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (console, ..) = console(None);
        Console {
            out: Box::new(Gone(false)),
            ..console
        }
    }

    /// A console on which these answers are typed, or that nobody sits at.
    pub fn console(answers: Option<&'static str>) -> (Console, Written, Written) {
        let (out, err) = (Written::default(), Written::default());
        let console = Console {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            input: Box::new(Cursor::new(answers.unwrap_or_default())),
            can_ask: answers.is_some(),
            is_utf8: true,
        };
        (console, out, err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_counts() {
        for (answer, reason) in [
            (Some("y\n"), None),
            (Some("YES\n"), None),
            (Some("\n"), Some("Declined")),
            (Some("n\n"), Some("Declined")),
            (Some(""), Some("Declined")),
            (Some("yup\n"), Some("Declined")),
            (None, Some("ConfirmationNeeded")),
        ] {
            let (mut console, ..) = script::console(answer);
            let got = console.confirm("Sure?", false).err();
            assert_eq!(got.as_ref().map(Failure::reason), reason, "{answer:?}");
            let (mut console, _, asked) = script::console(answer);
            assert!(console.confirm("Sure?", true).is_ok());
            assert_eq!(asked.text(), "", "who said yes is not asked");
        }
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_told() {
        let (mut console, _, told) = script::console(Some("n\n"));
        console.error("a\u{1b}[2Jb\nc\rd");
        console.remark("e\u{7}");
        let _ = console.confirm("f\u{9b}g", false);
        assert_eq!(told.text(), "error: a?[2Jb\nc?d\ne?\nf?g [y/N] ");
    }

    #[test]
    fn the_first_variable_that_says_anything_counts() {
        let with = |pairs: &'static [(&str, &str)]| {
            is_utf8(|name| {
                let found = pairs.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(with(&[("LANG", "en_US.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!with(&[]));
    }
}
