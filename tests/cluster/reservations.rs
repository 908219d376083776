//! An administrator keeps addresses from pods by the label `reserved`: on a new
//! object, on one that is there, and no longer.

use anyhow::{Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{ARGS, POLICY, addresses, forget, records_of, refused};
use crate::racks;

/// The documented way, which galaxy's own schema refuses.
const RESERVATION: &str = "
apiVersion: galaxy.k8s.io/v1alpha1
kind: FloatingIP
metadata:
  name: 10.0.75.5
  labels: { reserved: this-is-not-for-pods }
spec: { key: pool__reserved-for-node_, policy: 2 }
";

fn asks_for(ip: &str) -> serde_json::Value {
    json!({ ARGS: format!(r#"{{"request_ip_range":[["{ip}"]]}}"#), POLICY: "never" })
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_reserved_address_is_given_to_nobody_until_its_object_is_deleted() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "reserve").await?;
    cluster.apply(RESERVATION, "default")?;
    let pod = racks::pod("web-0", &asks_for("10.0.75.5"));
    namespace.apply(&pod.to_string())?;
    refused(
        &namespace,
        "web-0",
        "NoAddressLeft",
        "FloatingIPPlugin:NoFIPLeft",
    )
    .await?;

    namespace.kubectl(&["delete", "fip", "10.0.75.5"])?;
    let got = addresses(&namespace, "app=web-0", 1).await?;
    assert_eq!(got["web-0"], "10.0.75.5");
    namespace.kubectl(&["delete", "pod", "web-0"])?;
    kept(&namespace, "10.0.75.5").await?;
    forget(&cluster, &format!("_{}_", namespace.name())).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_label_counts_as_well_when_it_is_put_on_a_kept_address_and_taken_off() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "relabel").await?;
    let pod = racks::pod("web-0", &asks_for("10.0.75.7"));
    namespace.apply(&pod.to_string())?;
    addresses(&namespace, "app=web-0", 1).await?;
    namespace.kubectl(&["delete", "pod", "web-0"])?;
    kept(&namespace, "10.0.75.7").await?;

    namespace.kubectl(&["label", "fip", "10.0.75.7", "reserved=by-me"])?;
    namespace.apply(&pod.to_string())?;
    refused(
        &namespace,
        "web-0",
        "NoAddressLeft",
        "FloatingIPPlugin:NoFIPLeft",
    )
    .await?;

    namespace.kubectl(&["label", "fip", "10.0.75.7", "reserved-"])?;
    let got = addresses(&namespace, "app=web-0", 1).await?;
    assert_eq!(got["web-0"], "10.0.75.7");
    namespace.kubectl(&["delete", "pod", "web-0"])?;
    kept(&namespace, "10.0.75.7").await?;
    forget(&cluster, &format!("_{}_", namespace.name())).await
}

/// Waits until an address is kept for the next pod of its name.
async fn kept(namespace: &TestNamespace<'_>, ip: &str) -> Result<()> {
    wait::until(&format!("{ip} is kept"), LIMIT, async || {
        let found = records_of(namespace).await?;
        let kept = found
            .get(ip)
            .is_some_and(|it| it.uid.is_empty() && it.state == "Kept");
        ensure!(kept, "found {found:?}");
        Ok(Some(()))
    })
    .await
}
