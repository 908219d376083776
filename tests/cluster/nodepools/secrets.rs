//! Credentials of clouds are nowhere to be read: not in logs, Events, status or any object but
//! the Secret, whatever the cloud says.

use anyhow::{Result, ensure};
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use floe_testbed::cluster::namespace::TestNamespace;
use serde_json::json;

use super::ground::{FLIPOP, Ground, TOKEN, ground_with, is_ready, pool};
use crate::holdings::told;

/// All objects that floe writes or that tell of it. Not the Secret.
const KINDS: &str = "floatingippools,nodednsrecordsets,events,events.events.k8s.io,nodes,pods,\
                     leases,configmaps,deployments,replicasets";

/// What can be read about floe by somebody who may not read Secrets.
pub async fn nobody_tells_the_token(ground: &Ground) -> Result<()> {
    let run = |line: &str| ground.terminal.run(line);
    let mut told = vec![run(&format!("kubectl get {KINDS} -A -o yaml"))?];
    ensure!(
        told[0].contains("kind: FloatingIPPool"),
        "nothing can be seen"
    );
    let pods = run(&format!("kubectl -n {FLIPOP} get pods -o name"))?;
    ensure!(pods.lines().count() >= 1, "no pods: {pods}");
    for pod in pods.lines() {
        let log = run(&format!("kubectl -n {FLIPOP} logs {pod}"))?;
        ensure!(
            log.contains("providers of node addresses"),
            "no log of {pod}:\n{log}"
        );
        told.push(log);
    }
    for text in &told {
        let told = text.lines().find(|line| line.contains(TOKEN));
        ensure!(told.is_none(), "the token can be read: {told:?}");
    }
    // The same search finds it where it is.
    let secret =
        "kubectl -n flipop get secret flipop -o jsonpath={.data.DIGITALOCEAN_ACCESS_TOKEN}";
    let secret = run(&format!("{secret} | base64 -d"))?;
    ensure!(secret.contains(TOKEN), "floe has another token");
    Ok(())
}

/// A cloud that refuses everything, and says in its refusal who has asked.
async fn indiscreet(request: Request, _: Next) -> Response {
    let asked = request.headers().get(AUTHORIZATION);
    let asked = asked.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let message = format!("{asked} may not do that");
    let body = json!({ "id": "forbidden", "message": message }).to_string();
    (StatusCode::FORBIDDEN, Body::from(body)).into_response()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_token_is_told_to_nobody_also_when_the_cloud_repeats_it() -> Result<()> {
    let ground = ground_with(|routes| routes.layer(middleware::from_fn(indiscreet))).await?;
    let namespace = TestNamespace::create(&ground.cluster, "secrets").await?;
    ground.label("node-1", Some(namespace.name()))?;
    namespace.apply(&pool(&namespace).to_string())?;
    let pool = is_ready(&namespace, "False", "ProviderUnauthorized").await?;
    let told = told(
        &namespace,
        "ingress",
        "ProviderUnauthorized",
        "may not do that",
    )
    .await?;
    ensure!(!told.contains(TOKEN), "{told}");
    ensure!(pool.status.is_some());
    nobody_tells_the_token(&ground).await
}
