use std::collections::BTreeMap;

use super::*;

const FULL: [(&str, &str); 6] = [
    ("CNI_CONTAINERID", "abc-1.2_3"),
    ("CNI_NETNS", "/var/run/netns/x"),
    ("CNI_IFNAME", "eth0"),
    ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=web-0"),
    ("CNI_PATH", "/opt/cni/bin::/opt/cni/galaxy/bin:"),
    ("PATH", "/bin"),
];

fn call(command: &str, changes: &[(&str, &str)]) -> Result<Call, CniError> {
    let mut variables = BTreeMap::from(FULL);
    variables.insert("CNI_COMMAND", command);
    variables.extend(changes.iter().copied());
    Call::of(|name| variables.get(name).map(ToString::to_string))
}

fn refuse(command: &str, changes: &[(&str, &str)]) -> String {
    let error = call(command, changes).unwrap_err();
    assert_eq!(error.code.number(), 4, "{error}");
    error.to_string()
}

#[test]
fn a_full_environment_is_read() {
    for (name, command) in [
        ("ADD", Command::Add),
        ("DEL", Command::Del),
        ("CHECK", Command::Check),
    ] {
        let call = call(name, &[]).unwrap();
        assert_eq!(call.command, command);
        assert_eq!(call.command.to_string(), name);
        assert_eq!(call.container, "abc-1.2_3");
        assert_eq!(call.netns, "/var/run/netns/x");
        assert_eq!(call.ifname, "eth0");
        assert_eq!(call.args.get("K8S_POD_NAME"), Some("web-0"));
        assert_eq!(call.path, ["/opt/cni/bin", "/opt/cni/galaxy/bin"]);
    }
}

#[test]
fn commands_about_no_container_look_at_the_path_only() {
    let bad = [
        ("CNI_CONTAINERID", "../x"),
        ("CNI_IFNAME", "a/b"),
        ("CNI_ARGS", "nothing"),
    ];
    for name in ["GC", "STATUS"] {
        let call = call(name, &bad).unwrap();
        assert_eq!(call.path.len(), 2);
        assert_eq!((call.container, call.ifname), Default::default());
        assert_eq!(call.args, CniArgs::default());
    }
}

#[test]
fn version_needs_nothing_else() {
    let call = Call::of(|name| (name == "CNI_COMMAND").then(|| "VERSION".to_owned())).unwrap();
    assert_eq!(call.command, Command::Version);
    assert!(call.path.is_empty());
}

#[test]
fn all_missing_variables_are_named_at_once() {
    let only = |command: &str| {
        let error = Call::of(|name| (name == "CNI_COMMAND").then(|| command.to_owned()));
        error.unwrap_err().to_string()
    };
    let missing = "InvalidEnvironment: required environment variables are missing: ";
    let table = [
        ("ADD", "CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME"),
        ("CHECK", "CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME"),
        ("DEL", "CNI_CONTAINERID, CNI_IFNAME"),
        ("GC", "CNI_PATH"),
        ("STATUS", "CNI_PATH"),
        ("", "CNI_COMMAND"),
    ];
    for (command, names) in table {
        assert_eq!(only(command), format!("{missing}{names}"), "{command}");
    }
    // Empty is missing.
    assert_eq!(
        refuse("ADD", &[("CNI_NETNS", "")]),
        format!("{missing}CNI_NETNS")
    );
    assert_eq!(Call::of(|_| None).unwrap_err().code.number(), 4);
}

#[test]
fn del_goes_without_a_namespace_and_add_without_a_path() {
    assert_eq!(call("DEL", &[("CNI_NETNS", "")]).unwrap().netns, "");
    let add = call("ADD", &[("CNI_PATH", ""), ("CNI_ARGS", "")]).unwrap();
    assert!(add.path.is_empty());
    assert_eq!(add.args, CniArgs::default());
}

#[test]
fn an_unknown_command_is_refused() {
    for command in ["add", "ADD ", "UPDATE"] {
        let text = refuse(command, &[]);
        assert!(text.contains(command), "{text}");
    }
}

#[test]
fn ids_and_names_have_the_syntax_of_the_specification() {
    for good in ["a", "0", "a.b", "A-b_c.9", &"f".repeat(64)] {
        assert!(is_identifier(good), "{good}");
    }
    for bad in [
        "", ".", "..", ".a", "-a", "_a", "a/b", "a b", "a:b", "ä", "a\n",
    ] {
        assert!(!is_identifier(bad), "{bad}");
    }
    for good in ["e", "eth0", "...", "eth0.2", "net-1", "exactly15chars_"] {
        assert!(is_ifname(good), "{good}");
    }
    for bad in [
        "",
        ".",
        "..",
        "a/b",
        "a:b",
        "a b",
        "a\tb",
        "a\n",
        "a\0",
        "sixteen_letters_",
        // Fourteen letters, but the kernel counts bytes.
        "ääääääääääääää",
    ] {
        assert!(!is_ifname(bad), "{bad:?}");
    }
    let text = refuse("ADD", &[("CNI_CONTAINERID", "../../etc/passwd")]);
    assert!(text.contains("CNI_CONTAINERID"), "{text}");
    let text = refuse("DEL", &[("CNI_IFNAME", "a b")]);
    assert!(text.contains("CNI_IFNAME"), "{text}");
}

#[test]
fn bad_args_are_an_error_of_the_environment() {
    let text = refuse("ADD", &[("CNI_ARGS", "K8S_POD_NAME")]);
    assert_eq!(
        text,
        "InvalidArgs: CNI_ARGS has a part without \"=\": \"K8S_POD_NAME\""
    );
}

#[test]
fn commands_need_the_version_that_brought_them() {
    use Version::{V0_1_0, V0_3_1, V0_4_0, V1_0_0, V1_1_0};
    let table = [
        (Command::Add, V0_1_0, true),
        (Command::Del, V0_1_0, true),
        (Command::Check, V0_3_1, false),
        (Command::Check, V0_4_0, true),
        (Command::Status, V1_0_0, false),
        (Command::Status, V1_1_0, true),
        (Command::Gc, V1_0_0, false),
        (Command::Gc, V1_1_0, true),
    ];
    for (command, version, allowed) in table {
        assert_eq!(
            command.allowed_in(version).is_ok(),
            allowed,
            "{command} {version}"
        );
    }
    let error = Command::Check.allowed_in(V0_3_1).unwrap_err();
    assert_eq!(error.code, Code::IncompatibleVersion);
    assert_eq!(
        error.to_string(),
        "UnsupportedCommand: CHECK needs a configuration of version 0.4.0 or newer, this one is 0.3.1"
    );
}
