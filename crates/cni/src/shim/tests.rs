use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixListener,
    path::Path,
    sync::mpsc,
};

use floe_core::cni::args::CniArgs;

use super::*;
use crate::exec::tests::script;

const LONG: Duration = Duration::from_mins(1);

fn call(command: Command, plugins: &Path) -> Call {
    Call {
        command,
        container: "c1".into(),
        netns: "/proc/1/ns/none".into(),
        ifname: "eth0".into(),
        args: CniArgs::parse("K8S_POD_NAME=p").unwrap(),
        path: vec![plugins.display().to_string()],
    }
}

fn agent(folder: &Path, patience: Duration) -> Agent {
    Agent {
        socket: Some(folder.join("galaxy.sock")),
        state: Some(folder.join("state")),
        patience,
    }
}

fn ask(agent: &Agent, command: Command, version: &str) -> Result<Option<Value>, CniError> {
    let stdin = format!(r#"{{"cniVersion":"{version}","name":"galaxy-sdn","type":"galaxy-sdn"}}"#);
    let conf = NetConf::parse(stdin.as_bytes()).unwrap();
    let plugins = agent.state.as_ref().unwrap().with_file_name("plugins");
    let environment = BTreeMap::from([("CNI_COMMAND".into(), command.as_str().into())]);
    agent.call(
        &call(command, &plugins),
        &conf,
        stdin.as_bytes(),
        &environment,
    )
}

/// Answers one question so, and hands on its body.
fn answer(listener: UnixListener, status: &str, body: &str) -> mpsc::Receiver<String> {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut length = 0;
        let mut wants_error_objects = false;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(text) = line.strip_prefix("Content-Length: ") {
                length = text.trim().parse().unwrap();
            }
            wants_error_objects |= line == "Accept: application/json\r\n";
            if line == "\r\n" {
                break;
            }
        }
        // Without it the agent answers with a text, and codes are lost.
        assert!(wants_error_objects);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        (&stream).write_all(answer.as_bytes()).unwrap();
        told.send(String::from_utf8(body).unwrap()).unwrap();
    });
    heard
}

fn listen(folder: &Path) -> UnixListener {
    UnixListener::bind(folder.join("galaxy.sock")).unwrap()
}

#[test]
fn an_add_is_handed_on_and_its_result_comes_back_in_the_version_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let old = r#"{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.5/24","gateway":"10.0.0.1"},"dns":{}}"#;
    let heard = answer(listen(folder.path()), "200 OK", old);
    let result = ask(&agent(folder.path(), LONG), Command::Add, "1.0.0").unwrap();
    let result = result.unwrap();
    // What galaxy loses on the way.
    assert_eq!(result["cniVersion"], "1.0.0");
    assert_eq!(result["ips"][0]["address"], "10.0.0.5/24");
    let body: Value = serde_json::from_str(&heard.recv_timeout(LONG).unwrap()).unwrap();
    assert_eq!(body["env"]["CNI_COMMAND"], "ADD");
    assert!(
        body["config"]
            .as_str()
            .unwrap()
            .starts_with("eyJjbmlWZXJzaW9u")
    );
}

#[test]
fn a_refusal_of_the_agent_is_told_with_its_words() {
    let folder = tempfile::tempdir().unwrap();
    let heard = answer(listen(folder.path()), "500 Internal", "no such pod\n");
    let error = ask(&agent(folder.path(), LONG), Command::Add, "1.0.0").unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Agent, "AgentFailed"));
    assert_eq!(error.message, "galaxy returns: no such pod");
    heard.recv_timeout(LONG).unwrap();
}

#[test]
fn an_error_object_of_the_agent_keeps_its_code_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let body = r#"{"code":101,"details":"more","msg":
        "AddressConflict: fail to establish network a: 10.0.0.5 is already in use by 02:00:00:00:00:01"}"#;
    let heard = answer(listen(folder.path()), "500 Internal", body);
    let error = ask(&agent(folder.path(), LONG), Command::Add, "1.0.0").unwrap_err();
    assert_eq!(
        (error.code, error.reason),
        (Code::AddressConflict, "AddressConflict")
    );
    assert_eq!(
        error.message,
        "galaxy returns: fail to establish network a: \
         10.0.0.5 is already in use by 02:00:00:00:00:01"
    );
    assert_eq!(error.details, "more");
    heard.recv_timeout(LONG).unwrap();
}

#[test]
fn an_agent_that_is_being_replaced_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    // A socket that nobody listens to any more, as a dead agent leaves it.
    drop(listen(&path));
    let late = thread::spawn(move || {
        fs::remove_file(path.join("galaxy.sock")).unwrap();
        answer(listen(&path), "200 OK", "")
    });
    assert_eq!(
        ask(&agent(folder.path(), LONG), Command::Status, "1.1.0"),
        Ok(None)
    );
    late.join().unwrap().recv_timeout(LONG).unwrap();
}

#[test]
fn without_an_agent_only_a_del_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(folder.path(), Duration::ZERO);
    let cases = [
        (Command::Add, Code::TryAgainLater),
        (Command::Status, Code::NotAvailable),
    ];
    for (command, code) in cases {
        let error = ask(&agent, command, "1.1.0").unwrap_err();
        assert_eq!((error.code, error.reason), (code, "AgentUnreachable"));
        let socket = folder.path().join("galaxy.sock");
        let (message, socket) = (error.to_string(), socket.display().to_string());
        for part in [socket.as_str(), "DaemonSet floe-agent on this node"] {
            assert!(message.contains(part), "{message}");
        }
    }
    assert_eq!(ask(&agent, Command::Del, "1.1.0"), Ok(None));
}

#[test]
fn without_an_agent_a_del_runs_what_was_attached_in_reverse() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let told = folder.path().join("told");
    for (name, end) in [
        ("first", "exit 0"),
        ("second", "exit 1"),
        ("third", "exit 0"),
    ] {
        let text = format!(
            "echo {name} $CNI_COMMAND $CNI_IFNAME \"$CNI_ARGS\" $(cat) >> {}\n{end}",
            told.display()
        );
        script(&plugins.join(name), &text);
    }
    let entry = |name: &str, ifname: &str| {
        format!(
            r#"{{"NetworkType":"{name}","Args":{{"{name}":"[1]"}},"Conf":{{"type":"{name}"}},"IfName":"{ifname}"}}"#
        )
    };
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    let file = state.join("c1");
    let text = format!(
        "[{},{},{}]",
        entry("first", "eth0"),
        entry("second", "eth1"),
        entry("third", "eth2")
    );
    fs::write(&file, text).unwrap();

    let agent = agent(folder.path(), Duration::ZERO);
    let error = ask(&agent, Command::Del, "0.4.0").unwrap_err();
    assert_eq!(error.reason, "DelegateFailed");
    let lines = fs::read_to_string(&told).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(
        lines,
        [
            r#"third DEL eth2 K8S_POD_NAME=p;first=[1];second=[1];third=[1] {"type":"third"}"#,
            r#"second DEL eth1 K8S_POD_NAME=p;first=[1];second=[1] {"type":"second"}"#,
            r#"first DEL eth0 K8S_POD_NAME=p;first=[1] {"type":"first"}"#,
        ]
    );
    let left = fs::read_to_string(&file).unwrap();
    assert!(left.contains("second") && !left.contains("third"), "{left}");

    // Once it can be done, the file goes. What no plugin can be told is left out.
    script(&plugins.join("second"), "exit 0");
    let long = "1".repeat(200 << 10);
    let entry = entry("second", "eth1");
    let odd = entry.replace(
        "\"Args\":{",
        &format!("\"Args\":{{\"a=b\":\"1\",\"long\":\"{long}\","),
    );
    fs::write(&file, format!("[{odd}]")).unwrap();
    assert_eq!(ask(&agent, Command::Del, "0.4.0"), Ok(None));
    assert!(!file.exists());

    fs::write(&file, b"[\xff]").unwrap();
    let error = ask(&agent, Command::Del, "0.4.0").unwrap_err();
    assert_eq!(error.reason, "StateUnreadable");
}

#[test]
fn the_configuration_says_where_the_agent_is_unless_the_environment_does() {
    let conf = |members: &str| {
        let text = format!(r#"{{"cniVersion":"1.0.0","name":"n","type":"galaxy-sdn"{members}}}"#);
        NetConf::parse(text.as_bytes()).unwrap()
    };
    let told = conf(r#","socket":"/run/a.sock","stateDir":"/var/lib/a""#);
    let at = |told: Option<&str>, conf: &NetConf| {
        place(told.map(Path::new), conf, "socket", SOCKET).unwrap()
    };
    assert_eq!(at(None, &told), Path::new("/run/a.sock"));
    assert_eq!(at(Some("/run/b.sock"), &told), Path::new("/run/b.sock"));
    assert_eq!(at(None, &conf("")), Path::new(SOCKET));
    assert_eq!(at(None, &conf(r#","socket":"""#)), Path::new(SOCKET));
    let state = place(None, &told, "stateDir", STATE).unwrap();
    assert_eq!(state, Path::new("/var/lib/a"));
    assert!(place(None, &conf(r#","socket":7"#), "socket", SOCKET).is_err());
}
