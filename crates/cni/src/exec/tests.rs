use super::*;

/// Makes a program of a shell script. A file that this process has open for writing
/// cannot be executed, and another thread may be starting a program just now: so
/// somebody else writes it.
pub fn script(path: &Path, text: &str) {
    let mut child = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "#!/bin/sh\n{text}\n").unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

fn call(script: &str, limit: Duration) -> Result<String, CniError> {
    let folder = tempfile::tempdir().unwrap();
    self::script(&folder.path().join("it"), script);
    let path = ["/nowhere".into(), folder.path().display().to_string()];
    let plugin = Plugin {
        name: "it",
        path: &path,
        env: &[("CNI_COMMAND", "DEL")],
        stdin: b"{\"a\":1}",
        limit,
    };
    plugin.call().map(|it| String::from_utf8(it).unwrap())
}

const LONG: Duration = Duration::from_mins(1);

#[test]
fn a_plugin_gets_its_configuration_and_command() {
    let answer = call("cat; echo \" $CNI_COMMAND\"", LONG).unwrap();
    assert_eq!(answer, "{\"a\":1} DEL\n");
}

#[test]
fn a_plugin_that_does_not_read_is_no_problem() {
    assert_eq!(call("echo done", LONG).unwrap(), "done\n");
}

#[test]
fn the_error_of_a_plugin_is_handed_on() {
    let error = call(
        r#"echo '{"code":7,"msg":"no range","details":"look"}'; exit 1"#,
        LONG,
    );
    let error = error.unwrap_err();
    assert_eq!(
        (error.code, error.reason),
        (Code::InvalidConfiguration, "DelegateFailed")
    );
    assert_eq!(error.message, "it: no range");
    assert_eq!(error.details, "look");
}

#[test]
fn a_plugin_that_dies_silently_is_reported() {
    let error = call("exit 3", LONG).unwrap_err();
    assert_eq!(error.message, "it told nothing: exit status: 3");
}

#[test]
fn a_plugin_that_hangs_is_killed() {
    let error = call("exec sleep 600", Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.reason, "DelegateTimedOut");
}

#[test]
fn a_plugin_that_has_said_everything_and_does_not_end_is_killed() {
    let script = "exec >&-; exec sleep 600";
    let error = call(script, Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.reason, "DelegateTimedOut");
}

#[test]
fn a_plugin_is_found_by_a_plain_name_only() {
    let path = ["/bin".to_owned(), "/usr/bin".to_owned()];
    assert!(find("sh", &path).is_ok());
    for (name, reason) in [
        ("../bin/sh", "InvalidPlugin"),
        ("/bin/sh", "InvalidPlugin"),
        ("", "InvalidPlugin"),
        ("no-such-plugin", "PluginNotFound"),
    ] {
        assert_eq!(find(name, &path).unwrap_err().reason, reason, "{name}");
    }
}
