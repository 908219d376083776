//! Who may call the management API: each route of its document asks for a token and for
//! a right, and whoever is refused has changed nothing.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::api::Caller;
use crate::holdings::{Record, records_of};
use crate::racks;

const DOCUMENT: &str = include_str!("../../docs/openapi.json");

/// Accounts of a namespace: one that may do nothing, one that may list addresses.
const ACCOUNTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: { name: nobody }
---
apiVersion: v1
kind: ServiceAccount
metadata: { name: reader }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: float-ip-reader }
rules: [{ apiGroups: [galaxy.k8s.io], resources: [floatingips], verbs: [list] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: NAMESPACE-reader }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: float-ip-reader }
subjects: [{ kind: ServiceAccount, name: reader, namespace: NAMESPACE }]
";

/// A call that would be answered, and change something if it can, for whoever may.
struct Call {
    method: String,
    path: String,
    body: Option<Value>,
}

impl Call {
    fn send(&self, caller: &Caller) -> Result<(u16, Value)> {
        let json = ["Content-Type: application/json"];
        let body = self.body.as_ref().map(Value::to_string);
        let headers = if body.is_some() { &json[..] } else { &[] };
        let answer = caller.call(&self.method, &self.path, headers, body.as_deref())?;
        Ok((answer.status, answer.json()?))
    }
}

/// Every route of the document.
fn calls(ip: &str, key: &str) -> Result<Vec<Call>> {
    let document: Value = serde_json::from_str(DOCUMENT)?;
    let paths = document["paths"].as_object().context("it has paths")?;
    let mut calls = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().context("it has methods")? {
            let body = match path.as_str() {
                _ if operation["requestBody"].is_null() => None,
                "/v1/ip" | "/v2/ips/release" => Some(json!({ "ips": [element(ip, key)] })),
                "/v1/pool" => Some(json!({ "name": "denied", "size": 1 })),
                "/v2/ips/reserve" => Some(json!({ "ips": ["10.0.75.6"], "purpose": "denied" })),
                "/v2/ips/unreserve" => Some(json!({ "ips": [ip] })),
                "/v2/pools/{namespace}/{name}" => Some(json!({ "size": 1 })),
                _ => anyhow::bail!("this test has no body for {method} {path}"),
            };
            let body = body.map(|body| fitting(path, body, ip, key));
            let filled = path
                .replace("{ip}", ip)
                .replace("{namespace}", "kube-system")
                .replace("{name}", "denied");
            ensure!(!filled.contains('{'), "this test cannot fill in {path}");
            let query = if path == "/v2/explain" {
                format!("?ip={ip}")
            } else {
                String::new()
            };
            calls.push(Call {
                method: method.to_uppercase(),
                path: filled + &query,
                body,
            });
        }
    }
    Ok(calls)
}

/// An address as galaxy's API has it.
fn element(ip: &str, key: &str) -> Value {
    let parts: Vec<&str> = key.split('_').collect();
    json!({ "ip": ip, "appType": "statefulset", "namespace": parts[1], "appName": parts[2],
        "podName": parts[3] })
}

fn fitting(path: &str, body: Value, ip: &str, key: &str) -> Value {
    match path {
        "/v2/ips/release" => json!({ "ips": [{ "ip": ip, "key": key }] }),
        _ => body,
    }
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn every_route_of_the_document_wants_a_token_and_the_right() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "denied").await?;
    let (before, key) = keep(&namespace, "10.0.75.4").await?;
    let stranger = Caller::nobody(&cluster).await?;
    let powerless = account(&namespace, &stranger, "nobody")?;
    let calls = calls("10.0.75.4", &key)?;
    assert!(calls.len() >= 18, "the document has lost routes");
    for call in &calls {
        let what = format!("{} {}", call.method, call.path);
        let other = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmVk";
        for (who, caller) in [
            ("nobody", stranger.clone()),
            ("a liar", stranger.with(other)),
        ] {
            let (status, answer) = call.send(&caller)?;
            ensure!(status == 401, "{what} by {who}: {status} {answer}");
            has_reason(&call.path, &answer, "Unauthenticated")?;
        }
        let (status, answer) = call.send(&powerless)?;
        ensure!(status == 403, "{what} without the right: {status} {answer}");
        has_reason(&call.path, &answer, "Forbidden")?;
    }
    assert_eq!(records_of(&namespace).await?, before);
    let pool = [
        "get",
        "pool",
        "denied",
        "--namespace",
        "kube-system",
        "--ignore-not-found",
    ];
    assert_eq!(namespace.kubectl(&pool)?, "");
    crate::holdings::forget(&cluster, &key).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn who_may_only_list_can_look_and_release_nothing() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "reader").await?;
    let (before, key) = keep(&namespace, "10.0.75.8").await?;
    let reader = account(&namespace, &Caller::nobody(&cluster).await?, "reader")?;
    let name = namespace.name();
    for path in [
        format!("/v1/ip?namespace={name}&appName=web"),
        format!("/v2/ips?namespace={name}"),
        "/v2/ips/10.0.75.8".to_owned(),
        "/v2/explain?ip=10.0.75.8".to_owned(),
        "/v2/subnets".to_owned(),
        format!("/v2/holders?namespace={name}"),
    ] {
        let answer = reader.get(&path)?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
    }
    let mut refused = 0;
    for call in calls("10.0.75.8", &key)? {
        let about_others = call.path.contains("/pool") || call.path.contains("/vips");
        if call.method != "GET" || about_others {
            let (status, answer) = call.send(&reader)?;
            ensure!(
                status == 403,
                "{} {}: {status} {answer}",
                call.method,
                call.path
            );
            refused += 1;
        }
    }
    assert!(refused >= 9, "only {refused} were tried");
    // Of a pod only he learns something who may read it.
    let answer = reader.get(&format!("/v2/explain?pod={name}/web-0"))?;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(records_of(&namespace).await?, before);

    // The same call by who may shows that it was the right that was missing.
    let operator = Caller::operator(&cluster).await?;
    let answer = operator.post("/v1/ip", &json!({ "ips": [element("10.0.75.8", &key)] }))?;
    assert_eq!(answer.body, r#"{"code":200,"message":""}"#);
    assert_eq!(records_of(&namespace).await?, BTreeMap::new());
    Ok(())
}

/// A record that is kept for a pod of the namespace; with its key.
async fn keep(
    namespace: &TestNamespace<'_>,
    ip: &str,
) -> Result<(BTreeMap<String, Record>, String)> {
    let key = format!("sts_{}_web_web-0", namespace.name());
    let record = json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
        "metadata": { "name": ip, "annotations": { "floe.dev/state": "Kept" } },
        "spec": { "key": key, "policy": 2 },
    });
    namespace.apply(&record.to_string())?;
    let operator = Caller::operator(namespace.cluster()).await?;
    wait::until("the record is known", LIMIT, async || {
        let answer = operator.get(&format!("/v2/ips/{ip}"))?.json()?;
        Ok((answer["key"] == key.as_str()).then_some(()))
    })
    .await?;
    Ok((records_of(namespace).await?, key))
}

/// Somebody with the token of an account of the namespace.
fn account(namespace: &TestNamespace<'_>, caller: &Caller, name: &str) -> Result<Caller> {
    namespace.apply(&ACCOUNTS.replace("NAMESPACE", namespace.name()))?;
    let token = namespace.kubectl(&["create", "token", name])?;
    Ok(caller.with(token.trim()))
}

/// Refusals have galaxy's shape in its API, and ours everywhere else.
fn has_reason(path: &str, answer: &Value, reason: &str) -> Result<()> {
    let told = if path.starts_with("/v1/") {
        let message = answer["message"].as_str().unwrap_or_default();
        message.starts_with(&format!("{reason}: "))
    } else {
        answer["reason"] == reason
    };
    ensure!(told, "{path}: {answer} does not say {reason}");
    Ok(())
}
