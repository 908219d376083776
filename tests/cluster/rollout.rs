//! A rolling update where new pods wait for the addresses of old ones. By the
//! default strategy a Deployment of up to three replicas takes no old pod away
//! before a new one runs, so somebody has to: then floe hands the address over.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{POLICY, addresses, holds, ip, refused, set};
use crate::racks;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_rolling_update_goes_on_with_each_old_pod_that_is_deleted_and_no_address_changes()
-> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "rollout").await?;
    // With one replica one deletion is enough; with three it takes three.
    for replicas in [1, 3] {
        let name = format!("web{replicas}");
        let policy = json!({ POLICY: "immutable" });
        let web = racks::workload("Deployment", &name, u32::try_from(replicas)?, &policy);
        let mut web = racks::in_rack(web, "document");
        namespace.apply(&web.to_string())?;
        let selector = format!("app={name}");
        let before = addresses(&namespace, &selector, replicas).await?;

        web["spec"]["template"]["metadata"]["annotations"]["release"] = json!("2");
        namespace.apply(&web.to_string())?;
        for step in 0..replicas {
            let new = wait::until("a new pod waits", LIMIT, async || {
                let pods = namespace.pods(&selector).await?;
                let mut waiting = pods.iter().filter(|pod| is_new(pod) && !is_ready(pod));
                Ok(waiting.next().map(ResourceExt::name_any))
            })
            .await?;
            if step == 0 {
                refused(
                    &namespace,
                    &new,
                    "WorkloadLimitReached",
                    "wait for releasing",
                )
                .await?;
            }
            hand_over(&namespace, &selector, &before, step + 1)
                .await
                .with_context(|| format!("step {step} of {name}"))?;
        }
        let rolled = ["rollout", "status", "deployment", &name, "--timeout=60s"];
        namespace.kubectl(&rolled)?;
        let after = addresses(&namespace, &selector, replicas).await?;
        assert!(after.keys().all(|pod| !before.contains_key(pod)));
        assert_eq!(set(&after), set(&before), "no address has changed");
        namespace.kubectl(&["delete", "deployment", &name])?;
        holds(&namespace, 0).await?;
    }
    Ok(())
}

/// Deletes one of the old pods, and waits until one more of the new ones runs.
async fn hand_over(
    namespace: &TestNamespace<'_>,
    selector: &str,
    before: &BTreeMap<String, String>,
    wanted: usize,
) -> Result<()> {
    let pods = namespace.pods(selector).await?;
    let mut old = pods.iter().filter(|pod| !is_new(pod) && is_ready(pod));
    let old = old.next().context("no old pod runs")?.name_any();
    namespace
        .api::<Pod>()
        .delete(&old, &DeleteParams::default())
        .await?;
    wait::until(&format!("{wanted} new pods run"), LIMIT, async || {
        let pods = namespace.pods(selector).await?;
        let mut running = 0;
        for pod in pods.iter().filter(|pod| is_ready(pod)) {
            let ip = ip(pod)?;
            ensure!(before.values().any(|it| *it == ip), "{ip} is new");
            running += usize::from(is_new(pod));
        }
        ensure!(running == wanted, "{running} new pods run");
        Ok(Some(()))
    })
    .await
}

fn is_new(pod: &Pod) -> bool {
    pod.annotations().contains_key("release")
}
