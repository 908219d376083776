use std::fs;

use kube::{Client, Config};

use super::*;

/// A plugin that writes down each run and says this.
fn plugin(folder: &tempfile::TempDir, says: &str, code: u8) -> ExecConfig {
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("answer"), says).unwrap();
    let script = format!(
        "echo \"$KUBERNETES_EXEC_INFO$EXTRA\" >> {}; cat {}; exit {code}",
        path("runs"),
        path("answer")
    );
    serde_json::from_value(json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "env": [{ "name": "EXTRA", "value": "extra" }], "interactiveMode": "IfAvailable",
    }))
    .unwrap()
}

fn runs(folder: &tempfile::TempDir) -> Vec<String> {
    let runs = fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
    runs.lines().map(str::to_owned).collect()
}

fn user(plugin: ExecConfig) -> AuthInfo {
    AuthInfo {
        exec: Some(plugin),
        ..AuthInfo::default()
    }
}

fn says(status: &Value) -> String {
    json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status,
    })
    .to_string()
}

/// The user as the kubeconfig would have him.
fn shown(user: &AuthInfo) -> Value {
    serde_json::to_value(user).unwrap()
}

#[tokio::test]
async fn a_plugin_is_run_once_however_much_is_asked() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let answer = says(&json!({ "token": "t", "expirationTimestamp": "2999-01-01T00:00:00Z" }));
    let mut config = Config::new(http::Uri::from_static("https://127.0.0.1:1"));
    config.auth_info = user(plugin(&folder, &answer, 0));
    settle(&mut config.auth_info).unwrap();
    Client::try_from(config.clone()).unwrap();
    Client::try_from(config.clone()).unwrap();
    let runs = runs(&folder);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(runs[0].ends_with("extra"), "{runs:?}");
    assert!(runs[0].contains(r#""interactive":"#), "{runs:?}");
}

#[test]
fn a_certificate_comes_as_a_kubeconfig_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let answer = says(&json!({ "clientCertificateData": "cert", "clientKeyData": "key" }));
    let mut user = user(plugin(&folder, &answer, 0));
    settle(&mut user).unwrap();
    assert_eq!(user.client_certificate_data.as_deref(), Some("Y2VydA=="));
    assert_eq!(shown(&user)["client-key-data"], "a2V5");
    assert!(user.exec.is_none() && user.token.is_none());
}

#[test]
fn what_stands_in_the_kubeconfig_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut user = user(plugin(&folder, &says(&json!({ "token": "t" })), 0));
    user.token = Some("own".to_owned().into());
    settle(&mut user).unwrap();
    assert_eq!(shown(&user)["token"], "own");
    assert_eq!(runs(&folder).len(), 0);
}

#[test]
fn what_a_plugin_says_is_never_told() {
    let folder = tempfile::tempdir().unwrap();
    let good = says(&json!({ "token": "SECRET" }));
    for (answer, code, told) in [
        (good.as_str(), 3, "ends with exit status: 3"),
        ("{\"token\": SECRET", 0, "answers with no credential"),
        ("{\"status\": \"SECRET\"}", 0, "answers with no credential"),
        ("{\"status\": {}}", 0, "answers with no credential"),
    ] {
        let failure = settle(&mut user(plugin(&folder, answer, code))).unwrap_err();
        assert_eq!(
            failure.to_string(),
            format!("cannot use the kubeconfig: the credential plugin \"sh\" {told}")
        );
    }
    let mut missing = plugin(&folder, "", 0);
    missing.command = Some("/nowhere/plugin".into());
    missing.install_hint = Some("install it".into());
    let failure = settle(&mut user(missing)).unwrap_err().to_string();
    assert!(failure.contains("cannot be run"), "{failure}");
    assert!(failure.ends_with("; install it"), "{failure}");
}
