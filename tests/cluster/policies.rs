//! How long an address stays: until its pod is gone, or as long as the workload
//! wants a pod of that name.

use anyhow::{Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{POLICY, addresses, holds, records_of};
use crate::racks;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_immutable_stateful_set_keeps_addresses_by_name_until_it_shrinks_or_goes() -> Result<()>
{
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "immutable").await?;
    let db = racks::workload("StatefulSet", "db", 3, &json!({ POLICY: "immutable" }));
    namespace.apply(&racks::in_rack(db, "document").to_string())?;
    let first = addresses(&namespace, "app=db", 3).await?;
    for (pod, ip) in &first {
        let record = &holds(&namespace, 3).await?[ip];
        assert_eq!(record.key, format!("sts_{}_db_{pod}", namespace.name()));
        assert_eq!(record.policy, 1);
    }

    // A pod that is deleted comes back under its name, with its address.
    let before = uid(&namespace, "db-1").await?;
    let pods: Api<Pod> = namespace.api();
    pods.delete("db-1", &DeleteParams::default()).await?;
    wait::until("db-1 is another pod", LIMIT, async || {
        Ok((uid(&namespace, "db-1").await? != before).then_some(()))
    })
    .await?;
    assert_eq!(addresses(&namespace, "app=db", 3).await?, first);

    namespace.kubectl(&["scale", "statefulset", "db", "--replicas=1"])?;
    let left = holds(&namespace, 1).await?;
    assert!(left.contains_key(&first["db-0"]), "{left:?}");
    namespace.kubectl(&["scale", "statefulset", "db", "--replicas=3"])?;
    let grown = addresses(&namespace, "app=db", 3).await?;
    assert_eq!(grown["db-0"], first["db-0"], "it was never away");

    namespace.kubectl(&["delete", "statefulset", "db"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn without_a_policy_an_address_is_free_once_its_pod_is_deleted_or_has_finished() -> Result<()>
{
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "on-delete").await?;
    for manifest in [
        racks::workload("Deployment", "web", 2, &json!({})),
        // Any other word means the same as no annotation.
        racks::pod("fails", &json!({ POLICY: "forever" })),
        racks::pod("succeeds", &json!({})),
    ] {
        let mut manifest = racks::in_rack(manifest, "document");
        if manifest["kind"] == "Pod" {
            manifest["spec"]["restartPolicy"] = json!("Never");
        }
        namespace.apply(&manifest.to_string())?;
    }
    let web = addresses(&namespace, "app=web", 2).await?;
    let fails = addresses(&namespace, "app=fails", 1).await?;
    addresses(&namespace, "app=succeeds", 1).await?;
    assert!(
        holds(&namespace, 4)
            .await?
            .values()
            .all(|it| it.policy == 0)
    );

    // Fake nodes never end a pod by themselves.
    let pods: Api<Pod> = namespace.api();
    for (name, phase) in [("fails", "Failed"), ("succeeds", "Succeeded")] {
        let status = json!({ "status": { "phase": phase } });
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    let left = holds(&namespace, 2).await?;
    assert!(!left.contains_key(&fails["fails"]), "{left:?}");

    // A replaced pod gets an address like any new one, and the old one is free.
    let (gone, _) = web.first_key_value().expect("there are two");
    pods.delete(gone, &DeleteParams::default()).await?;
    wait::until("the deleted pod holds nothing", LIMIT, async || {
        let found = records_of(&namespace).await?;
        ensure!(
            found.len() == 2 && !found.values().any(|it| it.key.ends_with(gone)),
            "found {found:?}"
        );
        Ok(Some(()))
    })
    .await?;
    addresses(&namespace, "app=web", 2).await?;
    namespace.kubectl(&["delete", "deployment", "web"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

/// An immutable Deployment that is gone leaves nothing behind, in whatever order
/// the deletions are seen.
#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_immutable_deployment_has_spares_up_to_its_replicas_and_none_when_it_is_gone()
-> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "spares").await?;
    let web = racks::workload("Deployment", "web", 3, &json!({ POLICY: "immutable" }));
    namespace.apply(&racks::in_rack(web, "document").to_string())?;
    let first = addresses(&namespace, "app=web", 3).await?;

    let pods: Api<Pod> = namespace.api();
    for name in first.keys() {
        pods.delete(name, &DeleteParams::default()).await?;
    }
    wait::until("all three are other pods", LIMIT, async || {
        let now = namespace.pods("app=web").await?;
        let old = |pod: &Pod| {
            pod.metadata
                .name
                .as_ref()
                .is_some_and(|name| first.contains_key(name))
        };
        Ok((now.len() == 3 && !now.iter().any(old)).then_some(()))
    })
    .await?;
    let second = addresses(&namespace, "app=web", 3).await?;
    assert_eq!(crate::holdings::set(&second), crate::holdings::set(&first));

    namespace.kubectl(&["scale", "deployment", "web", "--replicas=1"])?;
    holds(&namespace, 1).await?;
    namespace.kubectl(&["delete", "deployment", "web"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

async fn uid(namespace: &TestNamespace<'_>, pod: &str) -> Result<Option<String>> {
    let found = namespace.api::<Pod>().get_opt(pod).await?;
    Ok(found.and_then(|pod| pod.metadata.uid))
}
