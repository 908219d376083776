//! Flags as programs written in Go take them, so that galaxy's manifests work unchanged.

use std::ffi::OsString;

use clap::Args;

/// The flags of klog, galaxy's logging library.
#[derive(Debug, Args)]
pub struct Klog {
    /// Verbosity in the sense of klog; from 4 on, floe's own debug lines are
    /// written, unless --log-level says otherwise
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub verbosity: i32,

    /// klog's other flags, of which floe needs none.
    #[command(flatten)]
    rest: KlogIgnored,
}

#[derive(Debug, Args)]
struct KlogIgnored {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    alsologtostderr: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    add_dir_header: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    one_output: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_headers: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_log_headers: Option<String>,
    #[arg(long, hide = true, value_name = "LEVEL")]
    stderrthreshold: Option<String>,
    #[arg(long, hide = true, value_name = "PLACE")]
    log_backtrace_at: Option<String>,
    #[arg(long, hide = true, value_name = "DIR")]
    log_dir: Option<String>,
    #[arg(long, hide = true, value_name = "FILE")]
    log_file: Option<String>,
    #[arg(long, hide = true, value_name = "MEGABYTES")]
    log_file_max_size: Option<String>,
    #[arg(long, hide = true, value_name = "DURATION")]
    log_flush_frequency: Option<String>,
    #[arg(long, hide = true, value_name = "PATTERNS")]
    vmodule: Option<String>,
}

impl Klog {
    /// Which log lines of a program are written when --log-level is not given.
    /// `program` is the name of its crate, such as `floe_agent`.
    pub fn log_level(&self, program: &str) -> String {
        if self.verbosity < 4 {
            return "info".to_owned();
        }
        format!("info,{program}=debug,floe_shell=debug")
    }
}

/// Writes the name of a long flag with dashes. Compat: galaxy's flags take `_` and
/// `-` alike. Whatever comes after `=` stays as it is.
pub fn dashed(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else {
        return arg;
    };
    match text.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
        None => text.replace('_', "-").into(),
    }
}

/// Takes galaxy's flag `--master` only when it is empty.
pub fn no_master(value: &str) -> Result<String, String> {
    if value.is_empty() {
        return Ok(String::new());
    }
    Err("floe takes the address of the API server from a kubeconfig; use --kubeconfig".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(args_override_self = true)]
    struct Flags {
        #[command(flatten)]
        klog: Klog,
    }

    fn level(flags: &[&str]) -> String {
        let args = ["program"].iter().chain(flags).map(OsString::from);
        let flags = Flags::try_parse_from(args.map(dashed)).unwrap();
        flags.klog.log_level("floe_agent")
    }

    #[test]
    fn klogs_flags_are_accepted() {
        let flags = [
            "--logtostderr=true",
            "--alsologtostderr",
            "--stderrthreshold=0",
            "--stderrthreshold",
            "INFO",
            "--vmodule=a=1",
            "--log_dir=/tmp",
            "--skip-headers",
            "--one_output",
            "--v=3",
        ];
        assert_eq!(level(&flags), "info");
    }

    #[test]
    fn high_verbosity_means_debug_lines_of_floe() {
        let debug = "info,floe_agent=debug,floe_shell=debug";
        assert!(crate::logs::filter(debug).is_ok());
        for flags in [&["--v=4"][..], &["--v", "5"], &["-v=4"], &["-v", "10"]] {
            assert_eq!(level(flags), debug, "{flags:?}");
        }
    }

    #[test]
    fn names_are_written_with_dashes_and_values_are_kept() {
        for (arg, want) in [
            ("--log_dir=/a_b", "--log-dir=/a_b"),
            ("--log_dir", "--log-dir"),
            ("a_b", "a_b"),
            ("-a_b", "-a_b"),
        ] {
            assert_eq!(dashed(arg.into()), want);
        }
    }

    #[test]
    fn the_address_of_the_api_server_is_no_flag() {
        assert_eq!(no_master(""), Ok(String::new()));
        assert!(
            no_master("https://10.0.0.1")
                .unwrap_err()
                .contains("--kubeconfig")
        );
    }
}
