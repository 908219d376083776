use super::*;

fn parse(args: &[&str]) -> Result<Config, clap::Error> {
    Config::parse(["floe-controller"].iter().chain(args))
}

fn defaults() -> Config {
    Config {
        kubeconfig: None,
        health_addr: "[::]:8080".parse().unwrap(),
        log_format: logs::Format::Json,
        log_level: "info".into(),
        election: Some(Election {
            namespace: "kube-system".into(),
            name: "galaxy-ipam".into(),
        }),
        timing: Timing::default(),
    }
}

#[test]
fn no_flags_give_the_defaults() {
    assert_eq!(parse(&[]).unwrap(), defaults());
}

#[test]
fn every_flag_changes_its_setting() {
    let seconds = Duration::from_secs;
    let election = |namespace: &str, name: &str| {
        Some(Election {
            namespace: namespace.into(),
            name: name.into(),
        })
    };
    let cases: Vec<(&[&str], Config)> = vec![
        (
            &["--kubeconfig", "/k"],
            Config {
                kubeconfig: Some("/k".into()),
                ..defaults()
            },
        ),
        (
            &["--health-addr=[::1]:9"],
            Config {
                health_addr: "[::1]:9".parse().unwrap(),
                ..defaults()
            },
        ),
        (
            &["--log-format", "text"],
            Config {
                log_format: logs::Format::Text,
                ..defaults()
            },
        ),
        (
            &["--log-level=warn,floe_controller=debug"],
            Config {
                log_level: "warn,floe_controller=debug".into(),
                ..defaults()
            },
        ),
        (&["--leader-elect"], defaults()),
        (&["--leader-elect=true"], defaults()),
        (
            &["--leader-elect=false"],
            Config {
                election: None,
                ..defaults()
            },
        ),
        (
            &["--leader-elect-lease-duration=1m30s"],
            Config {
                timing: Timing::new(seconds(90), seconds(10), seconds(2)).unwrap(),
                ..defaults()
            },
        ),
        (
            &[
                "--leader-elect-renew-deadline=14s",
                "--leader-elect-retry-period=500ms",
            ],
            Config {
                timing: Timing::new(seconds(15), seconds(14), Duration::from_millis(500)).unwrap(),
                ..defaults()
            },
        ),
        (
            &["--leader-elect-resource-namespace=floe"],
            Config {
                election: election("floe", "galaxy-ipam"),
                ..defaults()
            },
        ),
        (
            &["--leader-elect-resource-name=floe"],
            Config {
                election: election("kube-system", "floe"),
                ..defaults()
            },
        ),
    ];
    for (args, want) in cases {
        assert_eq!(parse(args).unwrap(), want, "{args:?}");
    }
}

#[test]
fn wrong_flags_are_explained_and_end_with_code_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--nonsense"], "unexpected argument '--nonsense'"),
        (&["leader"], "unexpected argument 'leader'"),
        (&["--health-addr=8080"], "--health-addr"),
        (&["--log-format=xml"], "[possible values: json, text]"),
        (&["--log-level=floe=loud"], "--log-level"),
        (&["--leader-elect=perhaps"], "--leader-elect"),
        (&["--leader-elect-retry-period=2"], "a duration such as 15s"),
        (
            &["--leader-elect-retry-period=-2s"],
            "a duration such as 15s",
        ),
        (
            &["--leader-elect-retry-period=0s"],
            "must be greater than zero",
        ),
        (
            &["--leader-elect-lease-duration=10s"],
            "greater than the renew deadline (10s)",
        ),
        (
            &["--leader-elect-lease-duration=15500ms"],
            "whole number of seconds",
        ),
        (
            &["--leader-elect-renew-deadline=2400ms"],
            "greater than 1.2 times the retry period",
        ),
        (
            &["--leader-elect-resource-name="],
            "--leader-elect-resource-name",
        ),
    ];
    for (args, want) in cases {
        let error = parse(args).unwrap_err();
        assert!(error.to_string().contains(want), "{args:?}: {error}");
        assert_eq!(error.exit_code(), 2, "{args:?}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for flag in ["--help", "-h", "--version", "-V"] {
        let answer = parse(&[flag]).unwrap_err();
        assert_eq!(answer.exit_code(), 0, "{flag}");
    }
    let version = parse(&["--version"]).unwrap_err().to_string();
    assert!(version.starts_with(concat!("floe-controller ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn every_flag_has_help_and_a_variable_of_the_same_name() {
    for arg in Flags::command().get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        if ["help", "version"].contains(&long) {
            continue;
        }
        let variable = format!("FLOE_{}", long.to_uppercase().replace('-', "_"));
        assert_eq!(
            arg.get_env().and_then(|name| name.to_str()),
            Some(variable.as_str())
        );
        assert!(arg.get_help().is_some(), "{long}");
    }
}
