//! Structured logs on standard error.

use std::error::Error;

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, filter::ParseError, fmt, prelude::*};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object per line, for machines.
    Json,
    /// Plain text, for people.
    Text,
}

/// Checks and completes a filter such as `info` or `info,floe_agent=debug`.
pub fn filter(directives: &str) -> Result<EnvFilter, ParseError> {
    // The client reports each failed request, and the watcher each refused watch,
    // before its caller has decided whether that matters. floe's own lines say
    // it better; who names these targets in the filter still gets them.
    let quiet = "kube_client::client::builder=off,kube_runtime::watcher=off";
    EnvFilter::try_new(format!("{quiet},{directives}"))
}

/// Directives that can be used, for a flag to be refused where it is read.
pub fn usable(directives: &str) -> Result<String, String> {
    filter(directives).map_err(|error| error.to_string())?;
    Ok(directives.to_owned())
}

/// Starts logging; to be called once.
pub fn start(format: Format, filter: EnvFilter) {
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        Format::Json => lines.json().flatten_event(true).boxed(),
        Format::Text => lines.with_ansi(false).boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
}

/// An error and its causes, for one log field. Some crates repeat the cause in
/// the text of the error, others do not; here it is said once.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("refused")]
        Refused,
        #[error("cannot connect: {0}")]
        Repeats(#[source] Box<Failure>),
        #[error("cannot read")]
        Silent(#[source] Box<Failure>),
    }

    #[test]
    fn every_cause_is_told_once() {
        let connect = || Failure::Repeats(Failure::Refused.into());
        assert_eq!(with_causes(&connect()), "cannot connect: refused");
        let read = Failure::Silent(connect().into());
        assert_eq!(with_causes(&read), "cannot read: cannot connect: refused");
        let silent = Failure::Silent(Failure::Refused.into());
        assert_eq!(with_causes(&silent), "cannot read: refused");
    }

    #[test]
    fn what_libraries_tell_about_failures_is_off_unless_it_is_asked_for() {
        for target in ["kube_client::client::builder", "kube_runtime::watcher"] {
            let off = format!("{target}=off");
            assert!(filter("info").unwrap().to_string().contains(&off));
            let asked = format!("info,{target}=debug");
            assert!(!filter(&asked).unwrap().to_string().contains(&off));
        }
    }

    #[test]
    fn filters_are_checked() {
        for good in ["info", "warn,floe_agent=debug", "kube_client=trace"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["floe=loud", "a=b=c"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
