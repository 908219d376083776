use std::io::Write as _;

use floe_shell::mock::{Fault, Server};
use kube::core::Status;

use super::*;
use crate::fixture;

fn api_error(code: u16, reason: &str, message: &str) -> kube::Error {
    let status = Status {
        code,
        reason: reason.into(),
        message: message.into(),
        ..Status::default()
    };
    kube::Error::Api(status.boxed())
}

#[tokio::test]
async fn each_answer_of_the_server_has_its_meaning() {
    let cluster = fixture::cluster(&Server::default());
    let access = Access::records("list");
    let table = [
        (401, "Unauthorized", "Unauthorized", "Unauthorized"),
        (403, "Forbidden", "floatingips is forbidden", "Forbidden"),
        (404, "", "404 page not found", "DefinitionMissing"),
        (
            404,
            "NotFound",
            "the server could not find the requested resource",
            "DefinitionMissing",
        ),
        (
            404,
            "NotFound",
            "namespaces \"x\" not found",
            "ServerRefused",
        ),
        (
            403,
            "Forbidden",
            "namespace web is being terminated",
            "ServerRefused",
        ),
        (500, "InternalError", "oops", "ServerRefused"),
    ];
    for (code, reason, message, wanted) in table {
        let failure = cluster.failure(&api_error(code, reason, message), access);
        assert_eq!(failure.reason(), wanted, "{code} {message}");
    }
}

#[test]
fn only_a_missing_object_counts_as_missing() {
    assert!(is_missing(&api_error(
        404,
        "NotFound",
        "pools \"x\" not found"
    )));
    assert!(!is_missing(&api_error(404, "", "404 page not found")));
    assert!(!is_missing(&api_error(403, "Forbidden", "no")));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named_with_its_context() {
    let server = Server::default();
    let cluster = fixture::cluster(&server);
    server.always(http::Method::GET, "floatingips", Fault::Break);
    let error = cluster.records().get("10.0.70.2").await.unwrap_err();
    let failure = cluster.failure(&error, Access::records("get"));
    assert_eq!(failure.reason(), "Unreachable");
    assert_eq!(
        failure.to_string(),
        "cannot reach the API server https://lab.example:6443 of context \"lab\": connection reset"
    );
}

#[tokio::test]
async fn a_kubeconfig_gives_context_namespace_and_server() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(
        file,
        "apiVersion: v1\nkind: Config\ncurrent-context: one\n\
         clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
         users: [{{name: u, user: {{}}}}]\n\
         contexts:\n\
         - {{name: one, context: {{cluster: c, user: u}}}}\n\
         - {{name: two, context: {{cluster: c, user: u, namespace: web}}}}\n"
    )
    .unwrap();
    let mut connection = Connection {
        kubeconfig: Some(file.path().into()),
        ..Connection::default()
    };
    let one = Cluster::find(&connection, false).await.unwrap();
    assert_eq!((one.context.as_str(), one.namespace()), ("one", "default"));
    assert_eq!(one.server, "http://127.0.0.1:1/");

    connection.context = Some("two".into());
    let two = Cluster::find(&connection, false).await.unwrap();
    assert_eq!((two.context.as_str(), two.namespace()), ("two", "web"));
    connection.namespace = Some("db".into());
    let typed = Cluster::find(&connection, false).await.unwrap();
    assert_eq!(typed.namespace(), "db");

    connection.context = Some("tow".into());
    let failure = Cluster::find(&connection, false).await.err().unwrap();
    assert_eq!(failure.to_string(), "no such context \"tow\"");
    assert_eq!(failure.hint().unwrap(), "did you mean \"two\"?");
    connection.kubeconfig = Some("/nowhere/kubeconfig".into());
    let failure = Cluster::find(&connection, false).await.err().unwrap();
    assert_eq!(failure.reason(), "InvalidKubeconfig");
    assert!(
        failure.to_string().contains("/nowhere/kubeconfig"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_read_is_not_quoted() {
    let read = async |text: &str| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let connection = Connection {
            kubeconfig: Some(file.path().into()),
            ..Connection::default()
        };
        Cluster::find(&connection, false).await.err().unwrap()
    };
    let broken = read("users:\n- name: u\n  user:\n    token: SECRET\n   x: y\n").await;
    assert_eq!(
        broken.to_string(),
        "cannot use the kubeconfig: it cannot be read at line 5 column 4"
    );
    let strange = read("users:\n- name: u\n  user: SECRET\n")
        .await
        .to_string();
    assert!(!strange.contains("SECRET"), "{strange}");
}

#[test]
fn what_a_plugin_says_to_the_client_is_not_quoted() {
    let output = std::process::Command::new("sh")
        .args(["-c", "echo SECRET; exit 7"])
        .output()
        .unwrap();
    let run = kube::client::AuthError::AuthExecRun {
        cmd: "KEY=SECRET plugin".into(),
        out: Box::new(output),
    };
    let error = kube::Error::Auth(run);
    let wanted = "the credential plugin ends with exit status: 7";
    assert_eq!(chain(&error), wanted);
    assert_eq!(root(&error), wanted);
}
