//! Reviews without a network.

use axum::body::{Body, to_bytes};
use floe_api::galaxy::FloatingIP;
use floe_core::{
    config::{AddressConfig, Mode},
    ipam::names,
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::store::Seen;

const ENTRIES: &str = r#"[{"nodeSubnets":["10.0.1.0/24"],"ips":["10.0.70.2~10.0.70.9"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1"}]"#;

const JSON: &str = "application/json";

/// A replica that has read everything, and a pod that runs with 10.0.70.2.
fn admission() -> Admission {
    let store = Store::default();
    store.change(|books| {
        let loaded = AddressConfig::parse(ENTRIES, Mode::Strict).unwrap();
        books.configure(loaded.config);
        books.record(&record());
    });
    store.warm(|warmth| {
        *warmth = Warmth {
            records: true,
            pools: true,
            configuration: true,
            pods: true,
            nodes: true,
            workloads: true,
        };
    });
    Admission {
        warmth: store.warmth(),
        store,
        metrics: Metrics::default(),
        own: Arc::new(own_accounts("kube-system")),
        map: Some(ConfigMapRef {
            namespace: "kube-system".into(),
            name: "floatingip-config".into(),
            key: "floatingips".into(),
        }),
        gates: false,
    }
}

fn record() -> Seen<FloatingIP> {
    let object = json!({
        "metadata": { "name": "10.0.70.2", "uid": "u", "resourceVersion": "1" },
        "spec": { "key": "dp_shop_web_web-1", "attribute": r#"{"NodeName":"n1","Uid":"p1"}"#, "policy": 2 },
    });
    serde_json::from_value(object).unwrap()
}

fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "annotations": annotations },
        "spec": { "containers": [{ "resources": { "requests": { names::RESOURCE: "1" } } }] },
    })
}

fn given() -> Value {
    let info = json!({ "ip": "10.0.70.2/24", "vlan": 0, "gateway": "10.0.70.1" });
    json!({ names::ARGS: json!({ "common": { "ipinfos": [info] } }).to_string() })
}

fn question(group: &str, resource: &str, operation: &str, object: &Value) -> Value {
    let deleted = operation == "DELETE";
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5", "operation": operation,
            "resource": { "group": group, "version": "v1", "resource": resource },
            "namespace": object["metadata"]["namespace"], "name": object["metadata"]["name"],
            "userInfo": { "username": "jane", "groups": ["system:authenticated"] },
            "object": if deleted { Value::Null } else { object.clone() },
            "oldObject": if deleted { object.clone() } else { Value::Null },
        },
    })
}

async fn send(router: &Router, path: &str, kind: &str, body: impl Into<Body>) -> (u16, Value) {
    let request = Request::post(path).header("content-type", kind);
    let request = request.body(body.into()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// What the API server is told.
async fn told(admission: Admission, path: &str, review: &Value) -> Value {
    let (status, answer) = send(&router(admission), path, JSON, review.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], "705ab4f5");
    answer["response"].clone()
}

#[tokio::test]
async fn an_object_that_cannot_work_is_refused_with_its_reason() {
    let admission = admission();
    let object = pod(&json!({ names::POOL: "a_b" }));
    let review = question("", "pods", "CREATE", &object);
    let answer = told(admission.clone(), "/validate", &review).await;
    assert_eq!(answer["allowed"], false);
    let status = &answer["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(403), &json!("InvalidPoolName"))
    );
    let message = status["message"].as_str().unwrap();
    let begin =
        "InvalidPoolName: metadata.annotations[tke.cloud.tencent.com/eni-ip-pool]: pool name";
    assert!(message.starts_with(begin), "{message}");

    let deployment = json!({ "metadata": { "name": "web" }, "spec": { "template": object } });
    let review = question("apps", "deployments", "CREATE", &deployment);
    let answer = told(admission.clone(), "/validate", &review).await;
    assert_eq!(answer["status"]["reason"], "InvalidPoolName");

    let nothing = json!({ "metadata": { "name": "x" }, "spec": {} });
    let review = question(
        "flipop.digitalocean.com",
        "floatingippools",
        "CREATE",
        &nothing,
    );
    let answer = told(admission.clone(), "/validate", &review).await;
    assert_eq!(answer["status"]["reason"], "NothingAsked");
}

#[tokio::test]
async fn risks_are_warnings_that_clients_print() {
    let object = json!({
        "metadata": { "name": "web" },
        "spec": { "replicas": 1, "template": pod(&json!({ names::RELEASE_POLICY: "never" })) },
    });
    let review = question("apps", "deployments", "CREATE", &object);
    let answer = told(admission(), "/validate", &review).await;
    assert_eq!(answer["allowed"], true);
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = warnings[0].as_str().unwrap();
    assert!(
        warning.starts_with("RolloutInterrupts: spec.strategy: "),
        "{warning}"
    );
    assert!(warning.chars().count() <= 250, "{warning}");
}

#[tokio::test]
async fn only_floe_writes_what_a_pod_was_given() {
    let mut review = question("", "pods", "CREATE", &pod(&given()));
    let answer = told(admission(), "/validate", &review).await;
    assert_eq!(answer["status"]["reason"], "IpInfosForbidden");
    let floe = "system:serviceaccount:kube-system:floe-controller";
    review["request"]["userInfo"]["username"] = json!(floe);
    let answer = told(admission(), "/validate", &review).await;
    assert_eq!(answer["allowed"], true);
    // An account of the same name elsewhere is somebody else.
    let other = "system:serviceaccount:shop:floe-controller";
    review["request"]["userInfo"]["username"] = json!(other);
    let answer = told(admission(), "/validate", &review).await;
    assert_eq!(answer["allowed"], false);
}

#[tokio::test]
async fn a_configuration_that_hurts_is_refused_with_the_list() {
    let map = |namespace: &str, text: &str| {
        json!({
            "metadata": { "name": "floatingip-config", "namespace": namespace },
            "data": { "floatingips": text },
        })
    };
    let review = question("", "configmaps", "CREATE", &map("kube-system", "[]"));
    let answer = told(admission(), "/validate", &review).await;
    assert_eq!(answer["status"]["reason"], "ConfigurationHarms");
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.contains("10.0.70.2 of pod shop/web-1"), "{message}");
    // The same in another namespace is nobody's business.
    let review = question("", "configmaps", "CREATE", &map("shop", "{"));
    let answer = told(admission(), "/validate", &review).await;
    assert_eq!(answer["allowed"], true);
    let review = question("", "configmaps", "CREATE", &map("kube-system", "{"));
    let answer = told(admission(), "/validate", &review).await;
    assert_eq!(answer["status"]["reason"], "InvalidJson");
    // A replica that has not read everything cannot tell whom it hurts.
    let cold = admission();
    cold.store.warm(|warmth| warmth.records = false);
    let review = question("", "configmaps", "CREATE", &map("kube-system", "[]"));
    let answer = told(cold, "/validate", &review).await;
    assert_eq!(answer["status"]["reason"], "NotReady");
}

#[tokio::test]
async fn whatever_else_comes_is_let_through() {
    let bad = pod(&json!({ names::POOL: "a_b" }));
    let mut part = question("", "pods", "CREATE", &bad);
    part["request"]["subResource"] = json!("binding");
    let mut odd = question("", "pods", "CREATE", &bad);
    odd["request"]["operation"] = json!("CONNECT");
    let secret = question("", "secrets", "CREATE", &bad);
    let deleted = question("", "pods", "DELETE", &bad);
    for review in [part, odd, secret, deleted] {
        let answer = told(admission(), "/validate", &review).await;
        assert_eq!(answer, json!({ "uid": "705ab4f5", "allowed": true }));
    }
}

#[tokio::test]
async fn pods_get_the_gate_where_the_scheduler_does_not_ask() {
    let review = question("", "pods", "CREATE", &pod(&json!({})));
    let gating = Admission {
        gates: true,
        ..admission()
    };
    let answer = told(gating.clone(), "/mutate/pods", &review).await;
    assert_eq!(
        (&answer["allowed"], &answer["patchType"]),
        (&json!(true), &json!("JSONPatch"))
    );
    let patch: k8s_openapi::ByteString = serde_json::from_value(answer["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    assert_eq!(patch[0]["value"], json!([{ "name": "floe.dev/ip" }]));

    let plain = json!({ "uid": "705ab4f5", "allowed": true });
    assert_eq!(told(admission(), "/mutate/pods", &review).await, plain);
    let changed = question("", "pods", "UPDATE", &pod(&json!({})));
    assert_eq!(told(gating.clone(), "/mutate/pods", &changed).await, plain);
    let other = question("apps", "deployments", "CREATE", &pod(&json!({})));
    assert_eq!(told(gating, "/mutate/pods", &other).await, plain);
}

#[tokio::test]
async fn bodies_that_are_no_reviews_get_clear_errors() {
    let router = router(admission());
    let (version, kind) = (
        r#""apiVersion":"admission.k8s.io/v1""#,
        r#""kind":"AdmissionReview""#,
    );
    let empty = format!("{{{version},{kind}}}");
    let old = format!(r#"{{"apiVersion":"admission.k8s.io/v1beta1",{kind}}}"#);
    let nameless = format!(r#"{{{version},{kind},"request":{{"uid":""}}}}"#);
    let array = r#"["admission.k8s.io/v1","AdmissionReview",{"uid":"u"}]"#.to_owned();
    let nested = format!(r#"{{{version},{kind},"request":["u"]}}"#);
    for (body, status, reason) in [
        ("", 400, "MalformedBody"),
        ("{", 400, "MalformedBody"),
        ("[]", 400, "MalformedBody"),
        // An array must not be read as an object, at any depth.
        (&*array, 400, "MalformedBody"),
        (&*nested, 400, "MalformedBody"),
        ("7", 400, "MalformedBody"),
        ("\u{0}", 400, "MalformedBody"),
        (&*empty, 400, "MalformedBody"),
        (&*nameless, 400, "MalformedBody"),
        (&*old, 400, "UnsupportedReview"),
        ("{}", 400, "UnsupportedReview"),
    ] {
        for path in ["/validate", "/mutate/pods"] {
            let (found, answer) = send(&router, path, JSON, body.to_owned()).await;
            assert_eq!(
                (found, &answer["reason"]),
                (status, &json!(reason)),
                "{body:?}"
            );
            assert!(!answer["message"].as_str().unwrap().is_empty());
        }
    }
    for kind in ["", "text/plain", "application/yaml"] {
        let (status, answer) = send(&router, "/validate", kind, "{}").await;
        assert_eq!(
            (status, &answer["reason"]),
            (415, &json!("ContentTypeNotJson"))
        );
    }
    let (status, _) = send(&router, "/validate", "application/json; charset=utf-8", "{").await;
    assert_eq!(status, 400);
    let (status, answer) = send(&router, "/elsewhere", JSON, "{}").await;
    assert_eq!((status, &answer["reason"]), (404, &json!("PathNotFound")));
}

#[tokio::test]
async fn a_body_that_is_too_long_or_never_ends_is_refused() {
    let router = router(admission());
    let long = vec![b' '; intake::LARGEST + 1];
    let (status, answer) = send(&router, "/validate", JSON, long).await;
    assert_eq!((status, &answer["reason"]), (413, &json!("BodyTooLarge")));
    // Without a length, it is noticed on the way.
    let piece = vec![b' '; 1024 * 1024];
    let pieces = futures::stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()));
    let (status, answer) = send(&router, "/validate", JSON, Body::from_stream(pieces)).await;
    assert_eq!((status, &answer["reason"]), (413, &json!("BodyTooLarge")));
    let broken = futures::stream::iter([Err::<Vec<u8>, _>(std::io::Error::other("gone"))]);
    let (status, answer) = send(&router, "/validate", JSON, Body::from_stream(broken)).await;
    assert_eq!((status, &answer["reason"]), (400, &json!("BodyBroken")));
    // What was taken is given back.
    let review = question("", "pods", "CREATE", &pod(&json!({}))).to_string();
    let (status, _) = send(&router, "/validate", JSON, review).await;
    assert_eq!(status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let router = router(admission());
    let silent = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let (status, answer) = send(&router, "/validate", JSON, Body::from_stream(silent)).await;
    assert_eq!((status, &answer["reason"]), (408, &json!("BodyTooSlow")));
}

#[tokio::test]
async fn answers_are_counted() {
    let admission = admission();
    for annotations in [json!({}), json!({ names::POOL: "a_b" })] {
        let review = question("", "pods", "CREATE", &pod(&annotations));
        told(admission.clone(), "/validate", &review).await;
    }
    let mut registry = prometheus_client::registry::Registry::default();
    admission.metrics.admission().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"floe_admission_reviews_total{result="allowed"} 1"#,
        r#"floe_admission_reviews_total{result="refused"} 1"#,
        r#"floe_admission_refusals_total{reason="InvalidPoolName"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}
