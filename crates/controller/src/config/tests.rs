use floe_core::schedule::caller::Source;

use super::*;

fn parse(args: &[&str]) -> Result<Config, clap::Error> {
    Config::parse(["floe-controller"].iter().chain(args))
}

fn issued(namespace: &str, secret: &str, names: &[&str]) -> ApiTls {
    ApiTls::Issued(Issued {
        namespace: namespace.into(),
        secret: secret.into(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    })
}

fn webhook(addr: &str, namespace: &str, secret: &str) -> WebhookSettings {
    WebhookSettings {
        addr: addr.parse().unwrap(),
        namespace: namespace.into(),
        secret: secret.into(),
    }
}

fn defaults() -> Config {
    Config {
        kubeconfig: None,
        file: FilePath {
            path: "/etc/galaxy/galaxy-ipam.json".into(),
            explicit: false,
        },
        api: ApiSettings {
            addr: "[::]:9041".parse().unwrap(),
            auth: Auth::Kubernetes,
            tls: Some(issued("kube-system", "floe-api-tls", &[])),
        },
        webhook: Some(webhook("[::]:9443", "kube-system", "floe-webhook-tls")),
        extender: ExtenderSettings {
            addr: "[::]:9040".parse().unwrap(),
            advertise: None,
            tls: None,
            allow_from: vec![Source::ControlPlane],
            token_file: None,
        },
        scheduling: SchedulingSettings {
            mode: Scheduling::Extender,
            capacity: None,
            patience: Duration::from_mins(2),
        },
        health_addr: HealthAddress::At("[::]:8080".parse().unwrap()),
        log_format: logs::Format::Json,
        log_level: "info".into(),
        election: Some(Election {
            namespace: "kube-system".into(),
            name: "galaxy-ipam".into(),
        }),
        float_ips: true,
        node_pools: true,
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
        (&["--kubeconfig="], defaults()),
        (
            // Naming the default is naming it.
            &["--config=/etc/galaxy/galaxy-ipam.json"],
            Config {
                file: FilePath {
                    explicit: true,
                    ..defaults().file
                },
                ..defaults()
            },
        ),
        (
            &["--health-addr=[::1]:9"],
            Config {
                health_addr: HealthAddress::At("[::1]:9".parse().unwrap()),
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
                api: ApiSettings {
                    tls: Some(issued("floe", "floe-api-tls", &[])),
                    ..defaults().api
                },
                webhook: Some(webhook("[::]:9443", "floe", "floe-webhook-tls")),
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
fn the_flags_of_the_extender_change_its_settings() {
    let cases: Vec<(&[&str], Config)> = vec![
        (
            &["--bind=10.0.0.1", "--api-port=1"],
            Config {
                api: ApiSettings {
                    addr: "10.0.0.1:1".parse().unwrap(),
                    ..defaults().api
                },
                webhook: Some(webhook("10.0.0.1:9443", "kube-system", "floe-webhook-tls")),
                extender: ExtenderSettings {
                    addr: "10.0.0.1:9040".parse().unwrap(),
                    ..defaults().extender
                },
                ..defaults()
            },
        ),
        (
            &["--port=9", "--advertise-address=fd00::1"],
            Config {
                extender: ExtenderSettings {
                    addr: "[::]:9".parse().unwrap(),
                    advertise: Some("fd00::1".parse().unwrap()),
                    ..defaults().extender
                },
                ..defaults()
            },
        ),
        (
            &[
                "--extender-tls-cert-file=/c",
                "--extender-tls-key-file=/k",
                "--extender-client-ca-file=/a",
            ],
            Config {
                extender: ExtenderSettings {
                    tls: Some(TlsFiles {
                        cert: "/c".into(),
                        key: "/k".into(),
                        client_ca: Some("/a".into()),
                    }),
                    // A certificate proves more than an address.
                    allow_from: vec![Source::Any],
                    ..defaults().extender
                },
                ..defaults()
            },
        ),
        (
            &["--extender-token-file=/t"],
            Config {
                extender: ExtenderSettings {
                    allow_from: vec![Source::Any],
                    token_file: Some("/t".into()),
                    ..defaults().extender
                },
                ..defaults()
            },
        ),
        (
            &[
                "--extender-token-file=/t",
                "--extender-allow-from=control-plane,10.0.0.0/24",
                "--extender-allow-from=fd00::1",
            ],
            Config {
                extender: ExtenderSettings {
                    allow_from: vec![
                        Source::ControlPlane,
                        Source::Net("10.0.0.0/24".parse().unwrap()),
                        Source::Net("fd00::1/128".parse().unwrap()),
                    ],
                    token_file: Some("/t".into()),
                    ..defaults().extender
                },
                ..defaults()
            },
        ),
    ];
    for (args, want) in cases {
        assert_eq!(parse(args).unwrap(), want, "{args:?}");
    }
}

#[test]
fn the_flags_of_the_webhook_change_its_settings() {
    let of = |args: &[&str]| parse(args).unwrap().webhook;
    assert_eq!(of(&["--webhook=false"]), None);
    assert_eq!(
        of(&["--webhook", "--webhook-port=1", "--webhook-secret=ns/tls"]),
        Some(webhook("[::]:1", "ns", "tls"))
    );
    assert!(parse(&["--webhook-secret=a/b/c"]).is_err());
}

#[test]
fn the_flags_of_the_api_change_its_settings() {
    let api = |args: &[&str]| parse(args).unwrap().api;
    let with = |tls| ApiSettings {
        tls,
        ..defaults().api
    };
    let names = ["*.floe.example", "10.0.0.1", "fd00::1", "floe.example"];
    assert_eq!(
        api(&[
            "--api-tls-san=Floe.example,*.floe.example",
            "--api-tls-san",
            "fd00:0::1",
            "--api-tls-san=10.0.0.1",
        ]),
        with(Some(issued("kube-system", "floe-api-tls", &names)))
    );
    assert_eq!(
        api(&["--api-secret=mine"]),
        with(Some(issued("kube-system", "mine", &[])))
    );
    assert_eq!(
        api(&["--api-secret=ns/mine", "--leader-elect=false"]),
        with(Some(issued("ns", "mine", &[])))
    );
    let files = ApiTls::Files(TlsFiles {
        cert: "/c".into(),
        key: "/k".into(),
        client_ca: None,
    });
    let flags = ["--api-tls-cert-file=/c", "--api-tls-key-file=/k"];
    assert_eq!(api(&flags), with(Some(files.clone())));
    let open = |tls| ApiSettings {
        auth: Auth::None,
        ..with(tls)
    };
    assert_eq!(api(&["--api-auth=none"]), open(None));
    assert_eq!(
        api(&[flags[0], flags[1], "--api-auth=none"]),
        open(Some(files))
    );
}

#[test]
fn the_flags_of_galaxy_ipam_are_accepted() {
    let args = [
        "--master=",
        "--profiling",
        "--swagger",
        "--leader-elect-resource-lock=endpointsleases",
        "--logtostderr=true",
        "--alsologtostderr",
        "--stderrthreshold=0",
        "--stderrthreshold",
        "INFO",
        "--vmodule=a=1",
        "--log_dir=/tmp",
        "--skip-headers",
        "--v=3",
    ];
    assert_eq!(parse(&args).unwrap(), defaults());
}

#[test]
fn dashes_and_underscores_in_names_are_alike_and_values_are_kept() {
    let config = parse(&[
        "--leader_elect-resource_name=a_b",
        "--log_level",
        "a_b=info",
    ])
    .unwrap();
    assert_eq!(config.election.unwrap().name, "a_b");
    assert_eq!(config.log_level, "a_b=info");
}

#[test]
fn high_verbosity_means_debug_lines_unless_a_level_is_given() {
    let level = |args: &[&str]| parse(args).unwrap().log_level;
    assert_eq!(level(&["--v=3"]), "info");
    for args in [
        ["--v=4"].as_slice(),
        &["--v", "5"],
        &["-v=4"],
        &["-v", "10"],
    ] {
        let debug = "info,floe_controller=debug,floe_shell=debug";
        assert_eq!(level(args), debug, "{args:?}");
    }
    assert_eq!(level(&["--v=9", "--log-level=warn"]), "warn");
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
        (&["--leader-elect-resource-lock=file"], "endpointsleases"),
        (&["--master=https://10.0.0.1"], "use --kubeconfig"),
        (&["--bind=10.0.0.1:1"], "--bind"),
        (&["--api-port=70000"], "--api-port"),
        (&["--api-auth=basic"], "[possible values: kubernetes, none]"),
        (&["--api-tls-cert-file=/c"], "--api-tls-key-file <FILE>"),
        (&["--api-tls-key-file=/k"], "--api-tls-cert-file <FILE>"),
        (&["--api-tls-san=a b"], "a host name or an IP address"),
        (
            &["--api-tls-san=*.10.0.0.1"],
            "a host name or an IP address",
        ),
        (
            &[
                "--api-tls-san=a",
                "--api-tls-cert-file=/c",
                "--api-tls-key-file=/k",
            ],
            "cannot be used with",
        ),
        (&["--api-secret=a/b/c"], "the name of a Secret"),
        (&["--api-secret=A"], "the name of a Secret"),
        (&["--config="], "--config"),
        (&["--advertise-address=me"], "--advertise-address"),
        (
            &["--extender-allow-from=control"],
            "expected control-plane, any, an IP address",
        ),
        (
            &["--extender-tls-cert-file=/c"],
            "--extender-tls-key-file <FILE>",
        ),
        (
            &["--extender-tls-key-file=/k"],
            "--extender-tls-cert-file <FILE>",
        ),
        (
            &["--extender-client-ca-file=/a"],
            "--extender-tls-cert-file <FILE>",
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
        // The kubelet sets variables that end in PORT, and klog has no variables.
        let port = long == "port" || long.ends_with("-port");
        if ["help", "version", "v"].contains(&long) || port || arg.is_hide_set() {
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

#[test]
fn pods_are_scheduled_on_one_of_two_ways() {
    assert_eq!(parse(&["--scheduling=extender"]).unwrap(), defaults());
    let gates = parse(&[
        "--scheduling=gates",
        "--eni-ip-capacity=30",
        "--gates-unschedulable-timeout=90s",
    ]);
    let scheduling = SchedulingSettings {
        mode: Scheduling::Gates,
        capacity: Some(30),
        patience: Duration::from_secs(90),
    };
    let expected = Config {
        scheduling,
        ..defaults()
    };
    assert_eq!(gates.unwrap(), expected);
    for bad in [
        "--scheduling=both",
        "--eni-ip-capacity=-1",
        "--gates-unschedulable-timeout=soon",
    ] {
        assert!(parse(&[bad]).is_err(), "{bad}");
    }
}
