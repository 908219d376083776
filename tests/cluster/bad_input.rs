//! What nobody can grant is refused with a reason in the pod's Events, and costs
//! nobody anything: it may be mended, and everybody else goes on.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;
use floe_testbed::supervisor::addresses::{CONTROL_PLANE, EXTENDER_PORT, EXTENDER_SERVICE};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{ARGS, FAMILIES, POLICY, POOL, addresses, holds, refused};
use crate::http::{get_path, post};
use crate::racks;

/// Pod, annotations, stable reason, and a piece of the text.
fn bad() -> [(&'static str, Value, &'static str, &'static str); 10] {
    [
        (
            "no-json",
            json!({ ARGS: "{nonsense" }),
            "InvalidArgs",
            "unmarshal pod cni args: ",
        ),
        (
            "no-lists",
            json!({ ARGS: r#"{"request_ip_range":"10.0.70.2"}"# }),
            "InvalidArgs",
            "unmarshal pod cni args: ",
        ),
        (
            "wrong-order",
            json!({ ARGS: r#"{"request_ip_range":[["10.0.70.9~10.0.70.2"]]}"# }),
            "InvalidRange",
            "invalid ip range 10.0.70.9~10.0.70.2",
        ),
        (
            "empty-list",
            json!({ ARGS: r#"{"request_ip_range":[["10.0.70.2"],[]]}"# }),
            "EmptyRangeList",
            "list 2 of request_ip_range is empty",
        ),
        (
            "families",
            json!({ FAMILIES: "v4,v5" }),
            "InvalidFamilies",
            "\"v5\" is neither v4 nor v6",
        ),
        (
            "pool-name",
            json!({ POOL: "a_b" }),
            "InvalidPoolName",
            "pool name \"a_b\" contains \"_\"",
        ),
        (
            "bare-0",
            json!({ POLICY: "immutable" }),
            "WorkloadHasNoReplicas",
            "release policy immutable is not supported for pod bare-0: parent workload has no replicas",
        ),
        (
            "bare",
            json!({ POLICY: "never" }),
            "PodNameWithoutIndex",
            "release policy never is not supported for pod bare: pod name doesn't match '.*-[0-9]*$'",
        ),
        (
            "nobodys-range",
            json!({ ARGS: r#"{"request_ip_range":[["192.0.2.1~192.0.2.9"]]}"# }),
            "RangeNotConfigured",
            "FloatingIPPlugin:NoFIPLeft",
        ),
        (
            "outside",
            json!({}),
            "NodeNotConfigured",
            "FloatingIPPlugin:NoFIPConfigNode",
        ),
    ]
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn what_cannot_be_granted_is_refused_with_its_reason_and_nothing_is_lost() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "bad-input").await?;
    for (name, annotations, ..) in bad() {
        let mut pod = racks::pod(name, &annotations);
        if name == "outside" {
            // A real node, whose subnet nobody has configured.
            pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "node-1" });
        }
        namespace.apply(&pod.to_string())?;
    }
    // Beside them, a pod that asks for nothing strange.
    let good = racks::in_rack(racks::pod("good", &json!({})), "document");
    namespace.apply(&good.to_string())?;
    for (name, _, reason, text) in bad() {
        refused(&namespace, name, reason, text)
            .await
            .with_context(|| format!("pod {name}"))?;
    }
    let address = addresses(&namespace, "app=good", 1).await?;
    let held = holds(&namespace, 1).await?;
    assert!(held.contains_key(&address["good"]), "{held:?}");

    // Whoever mends the annotation gets an address.
    let mended = format!(r#"{ARGS}={{"request_ip_range":[["10.0.0.2~10.0.0.30"]]}}"#);
    for pod in ["no-json", "nobodys-range"] {
        namespace.kubectl(&["annotate", "--overwrite", "pod", pod, &mended])?;
        addresses(&namespace, &format!("app={pod}"), 1).await?;
    }
    Ok(())
}

/// Sends to the extender, from where the scheduler is.
fn ask(from: &HostRef, verb: &str, kind: &str, body: &str) -> Result<(String, String)> {
    let to = SocketAddr::new(EXTENDER_SERVICE.into(), EXTENDER_PORT);
    let answer = post(from, to, verb, kind, body)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no status")?;
    Ok((status.to_owned(), body.to_owned()))
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_extender_believes_no_body_and_survives_every_one() -> Result<()> {
    const JSON: &str = "application/json";
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "bodies").await?;
    let from = cluster.host(CONTROL_PLANE).await?;
    for body in ["", "{", "[]", "7", "{\"Pod\":7}", "\u{0}\u{1}"] {
        for verb in ["/v1/filter", "/v1/priority", "/v1/bind", "/v1/preempt"] {
            let (status, answer) = ask(&from, verb, JSON, body)?;
            assert_eq!(status, "500", "{verb} {body:?}: {answer}");
            assert!(!answer.is_empty(), "it says what is wrong");
        }
    }
    assert_eq!(ask(&from, "/v1/filter", "text/plain", "{}")?.0, "415");
    assert_eq!(ask(&from, "/v1/nothing", JSON, "{}")?.0, "404");

    // A pod that is not what the body says, and one that wants no address.
    let mut plain = racks::pod("plain", &json!({}));
    plain["spec"]["containers"][0]["resources"] = json!({});
    plain["spec"]["nodeSelector"] = json!({ "nobody/has-this": "label" });
    namespace.apply(&plain.to_string())?;
    let mut wants = racks::pod("wants", &json!({}));
    wants["spec"]["nodeSelector"] = json!({ "nobody/has-this": "label" });
    namespace.apply(&wants.to_string())?;
    let pods = namespace.api::<Pod>();
    let plain_uid = pods.get("plain").await?.uid().context("it exists")?;
    for (name, uid, said) in [
        ("nobody", "1", "failed to find pod"),
        ("wants", "1", "failed to find pod"),
        (
            "plain",
            plain_uid.as_str(),
            "pod which doesn't want floatingip have been sent to plugin",
        ),
    ] {
        let bind = json!({
            "PodName": name, "PodNamespace": namespace.name(), "PodUID": uid, "Node": "fake-1",
        });
        let (status, answer) = ask(&from, "/v1/bind", JSON, &bind.to_string())?;
        assert_eq!(status, "200", "failures travel in the body");
        let answer: Value = serde_json::from_str(&answer)?;
        let error = answer["Error"].as_str().unwrap_or_default();
        assert!(error.contains(said), "{name}: {answer}");
        assert_eq!(bound(&namespace, name).await?, None);
    }

    // A node that cannot carry any address is no place to be bound to.
    let uid = pods.get("wants").await?.uid().context("it exists")?;
    for node in ["node-1", "no-such-node"] {
        let bind = json!({
            "PodName": "wants", "PodNamespace": namespace.name(), "PodUID": uid, "Node": node,
        });
        let (_, answer) = ask(&from, "/v1/bind", JSON, &bind.to_string())?;
        let answer: Value = serde_json::from_str(&answer)?;
        let error = answer["Error"].as_str().unwrap_or_default();
        assert!(!error.is_empty(), "{node}: {answer}");
        assert_eq!(bound(&namespace, "wants").await?, None);
    }
    holds(&namespace, 0).await?;

    let healthy = SocketAddr::new(EXTENDER_SERVICE.into(), EXTENDER_PORT);
    let answer = get_path(&from, healthy, "/healthy")?;
    assert!(answer.ends_with("ok"), "{answer}");
    // And it still works.
    let good = racks::in_rack(racks::pod("good", &json!({})), "document");
    namespace.apply(&good.to_string())?;
    namespace.ready_pods("app=good", 1, LIMIT).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn only_the_scheduler_may_bind_and_only_where_the_pod_accepts_the_node() -> Result<()> {
    const JSON: &str = "application/json";
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "callers").await?;
    let mut wants = racks::pod("wants", &json!({}));
    wants["spec"]["nodeSelector"] = json!({ "nobody/has-this": "label" });
    namespace.apply(&wants.to_string())?;
    let pods = namespace.api::<Pod>();
    let uid = pods.get("wants").await?.uid().context("it exists")?;
    let bind = json!({
        "PodName": "wants", "PodNamespace": namespace.name(), "PodUID": uid, "Node": "fake-1",
    });
    let error = |from: &HostRef| {
        let (status, answer) = ask(from, "/v1/bind", JSON, &bind.to_string())?;
        assert_eq!(status, "200", "refusals travel in the body");
        let answer: Value = serde_json::from_str(&answer)?;
        anyhow::Ok(answer["Error"].as_str().unwrap_or_default().to_owned())
    };
    // Several times: each replica may be the one that answers.
    for _ in 0..4 {
        let refused = error(&cluster.host("node-1").await?)?;
        assert!(refused.starts_with("CallerNotAllowed: "), "{refused}");
        let refused = error(&cluster.host(CONTROL_PLANE).await?)?;
        assert!(refused.contains("does not accept node fake-1"), "{refused}");
    }
    assert_eq!(bound(&namespace, "wants").await?, None);
    holds(&namespace, 0).await?;
    Ok(())
}

async fn bound(namespace: &TestNamespace<'_>, pod: &str) -> Result<Option<String>> {
    let found = namespace.api::<Pod>().get_opt(pod).await?;
    Ok(found.and_then(|pod| pod.spec?.node_name))
}
