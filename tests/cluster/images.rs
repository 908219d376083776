//! Images are made on the spot: ordinary names work, and nothing is pulled.

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{shared, wait};
use k8s_openapi::api::core::v1::Pod;

use crate::LIMIT;

fn pod(name: &str, image: &str, policy: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: images}}}}, spec: {{containers: \
         [{{name: main, image: '{image}', imagePullPolicy: {policy}, command: [tail, -f, /etc/os-release]}}]}}}}"
    )
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn images_of_the_documented_manifests_start_under_their_own_names() -> Result<()> {
    let cluster = shared::together().await;
    let namespace = TestNamespace::create(&cluster, "images").await?;
    namespace.apply(&pod("tagged", "nginx:1.7.9", "IfNotPresent"))?;
    let other_registry = "registry.cn-hangzhou.aliyuncs.com/generals-space/centos7";
    namespace.apply(&pod("untagged", other_registry, "Always"))?;
    namespace.apply(&pod("shell", "busybox", "Always"))?;
    namespace.ready_pods("app=images", 3, LIMIT).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_image_that_nobody_made_is_refused_by_name() -> Result<()> {
    let cluster = shared::together().await;
    let namespace = TestNamespace::create(&cluster, "images").await?;
    namespace.apply(&pod("typo", "nginy:1.7.9", "IfNotPresent"))?;
    let message = wait::until("the pull is refused", LIMIT, async || {
        let pod = namespace.api::<Pod>().get("typo").await?;
        let statuses = pod
            .status
            .and_then(|status| status.container_statuses)
            .unwrap_or_default();
        let waiting = statuses
            .into_iter()
            .find_map(|container| container.state?.waiting);
        Ok(waiting.filter(|waiting| waiting.reason.as_deref() == Some("ErrImagePull")))
    })
    .await?
    .message
    .context("the refusal has no message")?;
    assert!(
        message.contains("nginy") && message.contains("not found"),
        "{message}"
    );
    Ok(())
}
