//! A scheduler that sends whole nodes to its extender, as galaxy's users have it,
//! gets the same answers as one that sends names.

use anyhow::Result;
use floe_testbed::cluster::namespace::TestNamespace;
use serde_json::json;

use crate::holdings::{POLICY, addresses, holds, refused};
use crate::racks;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn pods_get_addresses_from_a_scheduler_that_sends_whole_nodes() -> Result<()> {
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "whole").await?;
    cluster.send_names_only(false).await?;
    let web = racks::workload("Deployment", "web", 2, &json!({ POLICY: "immutable" }));
    namespace.apply(&racks::in_rack(web, "document").to_string())?;
    let mut outside = racks::pod("outside", &json!({}));
    outside["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "node-1" });
    namespace.apply(&outside.to_string())?;
    let got = addresses(&namespace, "app=web", 2).await?;
    assert!(got.values().all(|ip| ip.starts_with("10.0.70.")), "{got:?}");
    let text = "FloatingIPPlugin:NoFIPConfigNode";
    refused(&namespace, "outside", "NodeNotConfigured", text).await?;

    cluster.send_names_only(true).await?;
    namespace.kubectl(&["delete", "deployment", "web"])?;
    holds(&namespace, 0).await?;
    cluster.heal().await
}
