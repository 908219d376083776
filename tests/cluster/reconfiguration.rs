//! An administrator takes addresses out of the configuration while a pod has one:
//! the pod keeps it, nobody else gets it, and it is forgotten with the pod.

use anyhow::Result;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{ARGS, addresses, api, holds, refused};
use crate::racks;

/// More addresses for a rack that has some.
const MORE: &str = r#"{"nodeSubnets":["10.24.0.0/24"],"ips":["10.0.81.2~10.0.81.9"],"subnet":"10.0.81.0/24","gateway":"10.0.81.1"}"#;
const MORE_TOTAL: &str =
    r#"galaxy_ip_counter{type="total",subnet="10.0.81.0/24",first_ip="10.0.81.2"} 8"#;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_address_that_is_taken_out_while_in_use_stays_with_its_pod_and_goes_with_it()
-> Result<()> {
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "taken-out").await?;
    let range = json!({ ARGS: r#"{"request_ip_range":[["10.0.81.2~10.0.81.9"]]}"# });
    // It waits for a configuration that has the range.
    namespace.apply(&racks::pod("first", &range).to_string())?;
    let text = "FloatingIPPlugin:NoFIPLeft";
    refused(&namespace, "first", "RangeNotConfigured", text).await?;
    racks::also_configure(&cluster, MORE, MORE_TOTAL).await?;
    let first = addresses(&namespace, "app=first", 1).await?;
    let name = &first["first"];

    racks::restore_configuration(&cluster).await?;
    let api = api(cluster.client().await?);
    wait::until("the record is marked", LIMIT, async || {
        let labels = api.get(name).await?.metadata.labels.unwrap_or_default();
        Ok(labels.get("floe.dev/outside-configuration").cloned())
    })
    .await?;
    assert_eq!(addresses(&namespace, "app=first", 1).await?, first);
    namespace.apply(&racks::pod("second", &range).to_string())?;
    refused(&namespace, "second", "RangeNotConfigured", text).await?;

    namespace.kubectl(&["delete", "pod", "first"])?;
    holds(&namespace, 0).await?;
    Ok(())
}
