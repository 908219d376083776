//! How things are shown.

use clap::{Args as ClapArgs, ValueEnum};

/// How to show something.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub struct Output {
    /// More columns, the objects themselves, or only their names
    #[arg(short = 'o', long = "output", value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// How to show a table.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub struct Listing {
    /// How to show it.
    #[command(flatten)]
    pub output: Output,
    /// Leave out the line with the names of the columns
    #[arg(long)]
    pub no_headers: bool,
}

/// How things can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only names
    Name,
}
