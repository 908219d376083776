//! The address configuration: where it comes from, putting it in force, and
//! telling people how that went.
//!
//! It is galaxy's: inline in the JSON file of `--config`, else in a `ConfigMap` that
//! is watched. Readiness does not depend on it: a controller without addresses
//! is of use too, since it says what is missing.
//!
//! - [`file`](mod@file): reads the file at the start.
//! - [`intake`]: takes texts and decides what comes of each.
//! - [`report`]: the same story for logs, Events and metrics.
//! - [`source`]: the watch of the `ConfigMap`.

pub use self::{
    file::{InitError, Settings, load},
    intake::{Intake, Outcome},
    report::{Reporter, State},
    source::{ConfigMapRef, watch},
};

mod file;
mod intake;
mod report;
mod source;
