use serde_json::{Value, json};

use super::*;

/// The body of a request of a runtime, as the shim sends it.
pub fn body(command: &str, container: &str, config: &Value) -> Value {
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web-0;\
                K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u1";
    json!({
        "env": {
            "CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": "/run/netns/x",
            "CNI_IFNAME": "eth0", "CNI_PATH": "/nowhere/bin", "CNI_ARGS": args, "HOME": "/root",
        },
        "config": encode(config.to_string().as_bytes()),
    })
}

/// The configuration of the shim, in a version of the protocol.
pub fn config(version: &str) -> Value {
    json!({ "cniVersion": version, "name": "galaxy-sdn", "type": "galaxy-sdn" })
}

pub fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0_u8; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(group);
        for place in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap();
            let letter = char::from(ALPHABET[index]);
            text.push(if place <= chunk.len() { letter } else { '=' });
        }
    }
    text
}

fn parse(body: &Value) -> Result<Request, RequestError> {
    Request::parse(body.to_string().as_bytes())
}

#[test]
fn what_the_shim_sends_is_read() {
    let request = parse(&body("ADD", "c1", &config("1.0.0"))).unwrap();
    assert_eq!(request.call.command, Command::Add);
    assert_eq!(request.call.container, "c1");
    assert_eq!(request.config.name, "galaxy-sdn");
    assert_eq!(request.config.version.as_str(), "1.0.0");
    let pod = request.pod();
    assert_eq!(
        (pod.namespace, pod.name, pod.uid),
        ("ns", "web-0", Some("u1"))
    );
}

#[test]
fn an_add_needs_all_that_galaxy_asks_for() {
    let whole = body("ADD", "c1", &config("1.0.0"));
    let variables = [
        "CNI_COMMAND",
        "CNI_CONTAINERID",
        "CNI_NETNS",
        "CNI_IFNAME",
        "CNI_PATH",
        "CNI_ARGS",
    ];
    for name in variables {
        let mut request = whole.clone();
        request["env"].as_object_mut().unwrap().remove(name);
        let error = parse(&request).unwrap_err();
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
    for (args, name) in [
        ("K8S_POD_NAME=web-0", "K8S_POD_NAMESPACE"),
        ("K8S_POD_NAMESPACE=ns", "K8S_POD_NAME"),
        (
            "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=../../nodes/n1",
            "K8S_POD_NAME",
        ),
    ] {
        let mut request = whole.clone();
        request["env"]["CNI_ARGS"] = json!(args);
        let error = parse(&request).unwrap_err();
        assert!(error.to_string().contains(name), "{args}: {error}");
    }
}

#[test]
fn a_del_needs_only_what_it_uses() {
    let mut request = body("DEL", "c1", &config("1.0.0"));
    for name in ["CNI_NETNS", "CNI_PATH", "CNI_ARGS"] {
        request["env"].as_object_mut().unwrap().remove(name);
    }
    assert_eq!(parse(&request).unwrap().call.command, Command::Del);
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let whole = body("ADD", "c1", &config("1.0.0"));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut request = whole.clone();
        change(&mut request);
        request.to_string()
    };
    let table = [
        (String::new(), "MalformedRequest"),
        ("{".into(), "MalformedRequest"),
        ("7".into(), "MalformedRequest"),
        ("{}".into(), "InvalidEnvironment"),
        (
            with(&|it| it["env"]["CNI_COMMAND"] = json!("FLY")),
            "InvalidEnvironment",
        ),
        (
            with(&|it| it["env"]["CNI_CONTAINERID"] = json!("../c1")),
            "InvalidEnvironment",
        ),
        (
            with(&|it| it["env"]["CNI_CONTAINERID"] = json!(5)),
            "MalformedRequest",
        ),
        (with(&|it| it["config"] = json!("?")), "MalformedRequest"),
        (with(&|it| it["config"] = json!("")), "UndecodableContent"),
        (
            with(&|it| it["config"] = json!(encode(b"{}"))),
            "InvalidConfiguration",
        ),
        (
            with(&|it| it["config"] = json!(encode(config("9.0.0").to_string().as_bytes()))),
            "IncompatibleVersion",
        ),
    ];
    for (body, reason) in table {
        let error = Request::parse(body.as_bytes()).unwrap_err();
        assert_eq!(error.reason(), reason, "{body}: {error}");
    }
}
