//! A record whose key an administrator edits and reverts: the pod loses its address, and has
//! it again afterwards.

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{POLICY, ip, records_of, told};
use crate::segment;
use crate::underlay::{answers, pod_on};

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_whose_record_is_edited_and_reverted_is_reached_again() -> Result<()> {
    /// A bare pod keeps its address only if its name ends in a number.
    const POD: &str = "edited-0";
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "edited").await?;
    let outside = cluster.outside().await?;
    let pod = pod_on("node-2", POD, &json!({ POLICY: "never" }));
    namespace.apply(&pod.to_string())?;
    namespace
        .ready_pods(&format!("app={POD}"), 1, LIMIT)
        .await?;
    let pod = namespace.api::<Pod>().get(POD).await?;
    let ip = ip(&pod)?;
    answers(&outside, POD, &ip)?;

    let records = records_of(&namespace).await?;
    let key = records.get(&ip).context("it has a record")?.key.clone();
    let edit = |key: &str| {
        let patch = json!({ "spec": { "key": key } }).to_string();
        namespace.kubectl(&[
            "patch",
            "floatingip",
            &ip,
            "--type=merge",
            "--patch",
            &patch,
        ])
    };
    edit(&format!("{key}-of-another-pod"))?;
    told(&namespace, POD, "AddressMovedAway", &ip).await?;
    ensure!(answers(&outside, POD, &ip).is_err(), "it still answers");

    edit(&key)?;
    told(&namespace, POD, "AddressRestored", &ip).await?;
    wait::until("the pod answers again", LIMIT, async || {
        answers(&outside, POD, &ip).map(Some)
    })
    .await?;
    let now = namespace.api::<Pod>().get(POD).await?;
    assert_eq!(now.metadata.uid, pod.metadata.uid, "it is the same pod");
    Ok(())
}
