//! Pods that ask for certain addresses: one of each of several ranges, one of each
//! family, or the very same one as another pod.

use std::time::Duration;

use anyhow::Result;
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{
    ARGS, FAMILIES, POLICY, addresses, agrees, api, args, holds, ips, records_of, refused,
};
use crate::racks;

/// As printed.
const THREE_RANGES: &str = r#"{"request_ip_range":[["10.0.0.200~10.0.0.238"],["10.0.0.2~10.0.0.30"],["10.0.0.60~10.0.0.80"]]}"#;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_documented_three_ranges_give_three_addresses_in_their_order() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "ranges").await?;
    namespace.apply(&racks::pod("web", &json!({ ARGS: THREE_RANGES })).to_string())?;
    let pods = namespace.ready_pods("app=web", 1, LIMIT).await?;

    // What the document prints, whatever of each range was free.
    let got = args(&pods[0])?;
    let wanted: Value = serde_json::from_str(THREE_RANGES)?;
    assert_eq!(got["request_ip_range"], wanted["request_ip_range"]);
    let found = ips(&pods[0])?;
    let ranges = [200..=238, 2..=30, 60..=80];
    assert_eq!(found.len(), ranges.len());
    for ((ip, range), info) in found
        .iter()
        .zip(ranges)
        .zip(got["common"]["ipinfos"].as_array().expect("it is a list"))
    {
        let last: u8 = ip.strip_prefix("10.0.0.").expect(ip).parse()?;
        assert!(range.contains(&last), "{ip} is not in {range:?}");
        let info_wanted = json!({ "ip": format!("{ip}/24"), "vlan": 0, "gateway": "10.0.0.1" });
        assert_eq!(*info, info_wanted);
    }
    let records = holds(&namespace, 3).await?;
    for ip in &found {
        agrees(&pods[0], records.get(ip))?;
    }

    namespace.kubectl(&["delete", "pod", "web"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn what_others_wrote_into_the_annotation_is_still_there_after_the_bind() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "foreign").await?;
    let wrote = json!({
        "request_ip_range": [["10.0.0.2~10.0.0.30"]],
        "common": { "bandwidth": { "egress": 1_000_000 }, "ipinfos": [{ "ip": "1.2.3.4/8", "gateway": "1.0.0.1" }] },
        "team": ["a", 1.50, null],
    });
    namespace.apply(&racks::pod("web", &json!({ ARGS: wrote.to_string() })).to_string())?;
    let address = addresses(&namespace, "app=web", 1).await?["web"].clone();

    let pods = namespace.pods("app=web").await?;
    let mut wanted = wrote;
    wanted["common"]["ipinfos"] =
        json!([{ "ip": format!("{address}/24"), "vlan": 0, "gateway": "10.0.0.1" }]);
    assert_eq!(args(&pods[0])?, wanted);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_that_asks_for_both_families_gets_one_address_of_each() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "dual").await?;
    let annotations = json!({ FAMILIES: "v4,v6", POLICY: "immutable" });
    let db = racks::workload("StatefulSet", "db", 1, &annotations);
    namespace.apply(&db.to_string())?;
    let pods = namespace.ready_pods("app=db", 1, LIMIT).await?;
    let first = ips(&pods[0])?;
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(first[0].starts_with("10.0.73."), "{first:?}");
    assert!(first[1].starts_with("fd00:73::"), "{first:?}");
    let info = &args(&pods[0])?["common"]["ipinfos"][1];
    let wanted = json!({ "ip": format!("{}/64", first[1]), "vlan": 3, "gateway": "fd00:73::1" });
    assert_eq!(*info, wanted);

    // A name has no colons; people see the address as they know it.
    let last = first[1].trim_start_matches("fd00:73::");
    let name = format!("fd00-0073-0000-0000-0000-0000-0000-{last:0>4}");
    let records = holds(&namespace, 2).await?;
    agrees(&pods[0], records.get(&first[0]))?;
    agrees(&pods[0], records.get(&name))?;
    let object = api(cluster.client().await?).get(&name).await?;
    let shown = object.metadata.annotations.unwrap_or_default();
    assert_eq!(shown["floe.dev/address"], first[1]);

    let api = namespace.api::<Pod>();
    api.delete("db-0", &DeleteParams::default()).await?;
    let again = wait::until("it is back", LIMIT, async || {
        let now = namespace.pods("app=db").await?;
        let ready = now.into_iter().find(is_ready);
        Ok(ready.filter(|pod| pod.metadata.uid != pods[0].metadata.uid))
    })
    .await?;
    assert_eq!(ips(&again)?, first, "both are kept");
    namespace.kubectl(&["delete", "statefulset", "db"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

/// Alone, so that nothing but floe can wake who waits.
#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_that_waits_for_the_only_address_is_woken_when_it_is_free() -> Result<()> {
    /// The scheduler alone would not look again for five minutes.
    const SOON: Duration = Duration::from_secs(30);
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "woken").await?;
    let only = json!({ ARGS: r#"{"request_ip_range":[["10.0.74.2"]]}"# });
    namespace.apply(&racks::pod("first", &only).to_string())?;
    addresses(&namespace, "app=first", 1).await?;
    namespace.apply(&racks::pod("second", &only).to_string())?;
    refused(
        &namespace,
        "second",
        "NoAddressLeft",
        "FloatingIPPlugin:NoFIPLeft",
    )
    .await?;

    let pods: Api<Pod> = namespace.api();
    pods.delete("first", &DeleteParams::default()).await?;
    namespace.ready_pods("app=second", 1, SOON).await?;
    let records = records_of(&namespace).await?;
    assert_eq!(records.len(), 1, "{records:?}");
    let second = pods.get("second").await?;
    agrees(&second, records.get("10.0.74.2"))
}
