use floe_shell::mock::Server;
use kube::config::{AuthInfo, ExecConfig};
use std::io::Write as _;

use super::*;
use crate::fixture;

async fn bearer(user: AuthInfo) -> Result<Bearer, Failure> {
    let mut cluster = fixture::cluster(&Server::default());
    cluster.config.auth_info = user;
    Bearer::of(&cluster, None).await
}

/// The header, or why there is none.
async fn told(user: AuthInfo) -> String {
    match bearer(user).await.unwrap() {
        Bearer::Token(header) => {
            assert!(header.is_sensitive());
            header.to_str().unwrap().to_owned()
        }
        Bearer::Lacking { why, .. } => why.to_owned(),
    }
}

fn user(change: impl FnOnce(&mut AuthInfo)) -> AuthInfo {
    let mut user = AuthInfo::default();
    change(&mut user);
    user
}

#[tokio::test]
async fn tokens_are_taken_from_wherever_the_kubeconfig_has_them() {
    assert_eq!(
        told(user(|it| it.token = Some("static".to_owned().into()))).await,
        "Bearer static"
    );
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "from-a-file").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    assert_eq!(
        told(user(|it| it.token_file = Some(path))).await,
        "Bearer from-a-file"
    );
    let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-a-program","expirationTimestamp":"2999-01-01T00:00:00Z"}}"#;
    let exec: ExecConfig = serde_json::from_value(serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "echo", "args": [credential], "interactiveMode": "Never",
    }))
    .unwrap();
    assert_eq!(
        told(user(|it| it.exec = Some(exec))).await,
        "Bearer from-a-program"
    );
}

#[tokio::test]
async fn users_without_a_token_are_told_why() {
    assert_eq!(
        told(user(|it| it.client_certificate_data = Some("x".into()))).await,
        "the user is known by a client certificate"
    );
    let none = "the kubeconfig has none for the user";
    assert_eq!(told(AuthInfo::default()).await, none);
    let basic = user(|it| {
        it.username = Some("jane".into());
        it.password = Some("secret".to_owned().into());
    });
    assert_eq!(told(basic).await, none, "a password is no token");
    let other = user(|it| {
        it.token = Some("admin".to_owned().into());
        it.impersonate = Some("jane".into());
    });
    assert_eq!(
        told(other).await,
        "the kubeconfig impersonates somebody else",
        "the token of somebody else would do more than was asked for"
    );
}

#[tokio::test]
async fn a_token_file_that_is_not_there_is_a_fault_of_the_kubeconfig() {
    let failure = bearer(user(|it| it.token_file = Some("/nowhere/token".into()))).await;
    assert_eq!(failure.unwrap_err().reason(), "InvalidKubeconfig");
}

/// A server that makes a token, or does not know the account.
fn cluster(answer: Option<&'static str>) -> Cluster {
    let service = service_fn(move |request: Request<Body>| async move {
        assert_eq!(
            request.uri().path(),
            "/api/v1/namespaces/ops/serviceaccounts/jane/token"
        );
        let (status, body) = match answer {
            Some(token) => (
                201,
                serde_json::json!({
                    "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                    "spec": { "audiences": [] },
                    "status": { "token": token, "expirationTimestamp": "2999-01-01T00:00:00Z" },
                }),
            ),
            None => (
                404,
                serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                    "reason": "NotFound", "message": "serviceaccounts \"jane\" not found",
                }),
            ),
        };
        let body = Body::from(body.to_string().into_bytes());
        let response = Response::builder().status(status).body(body).unwrap();
        Ok::<_, std::io::Error>(response)
    });
    Cluster {
        client: kube::Client::new(service, "default"),
        ..fixture::cluster(&Server::default())
    }
}

#[tokio::test]
async fn a_named_service_account_comes_before_the_user() {
    let account: Account = "ops/jane".parse().unwrap();
    let made = Bearer::of(&cluster(Some("made")), Some(&account)).await;
    assert_eq!(made.unwrap().header().unwrap(), "Bearer made");
    let failure = Bearer::of(&cluster(None), Some(&account))
        .await
        .unwrap_err();
    assert_eq!(
        failure.to_string(),
        "no such service account \"jane\" in namespace ops"
    );
    assert_eq!(
        failure.hint().unwrap(),
        "kubectl -n ops create serviceaccount jane"
    );
    for wrong in ["jane", "/jane", "ops/", "a/b/c"] {
        assert!(wrong.parse::<Account>().is_err(), "{wrong}");
    }
}
