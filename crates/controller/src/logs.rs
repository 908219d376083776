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

/// Checks and completes a filter such as `info` or `info,floe_controller=debug`.
pub fn filter(directives: &str) -> Result<EnvFilter, ParseError> {
    // The client reports each failed request as an error before its caller
    // has decided whether that matters. floe's own lines say it better; who
    // names this target in the filter still gets them.
    EnvFilter::try_new(format!("kube_client::client::builder=off,{directives}"))
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

/// An error and its direct cause, for one log field. Not the whole chain: the
/// Kubernetes client's errors already tell their own causes.
pub fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
