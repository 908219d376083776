//! An administrator's address ranges, as the user document prints them: taken,
//! changed, refused, reserved. What floe makes of them shows in its metrics.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::{Cluster, shared, wait};
use floe_testbed::floe;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams};

use crate::LIMIT;
use crate::http::{get_path, pod_ip};

/// Seed of the user document, with `floatingips` below `data` where it belongs.
const RANGES: &str = r#"
kind: ConfigMap
apiVersion: v1
metadata:
 name: floatingip-config
 namespace: kube-system
data:
  floatingips: '[{"routableSubnet":"10.0.0.0/16","ips":["10.0.70.2~10.0.70.241"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1","vlan":2}]'
"#;

/// The documented way to reserve an address, which galaxy's own schema refuses.
const RESERVATION: &str = "
apiVersion: galaxy.k8s.io/v1alpha1
kind: FloatingIP
metadata:
  name: 10.0.70.5
  labels: { reserved: this-is-not-for-pods }
spec: { key: pool__reserved-for-node_, policy: 2 }
";

/// Waits until every controller's metrics have a line.
pub async fn every_controller_counts(cluster: &Cluster, line: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let outside = cluster.outside().await?;
    wait::until(&format!("metrics have {line}"), LIMIT, async || {
        let controllers = pods
            .list(&ListParams::default().labels(floe::CONTROLLER))
            .await?;
        for pod in controllers.items {
            let metrics = get_path(&outside, SocketAddr::new(pod_ip(&pod)?, 8080), "/metrics")?;
            let found = metrics.lines().any(|have| sample(have) == sample(line));
            let kin = line.split('{').next().unwrap_or(line);
            let near: Vec<_> = metrics
                .lines()
                .filter(|have| have.starts_with(kin))
                .collect();
            ensure!(found, "seen {near:?}");
        }
        Ok(Some(()))
    })
    .await
}

/// The name with its labels, and the value, of a line of metrics.
fn sample(line: &str) -> Option<(&str, f64)> {
    let (name, value) = line.trim().rsplit_once(' ')?;
    Some((name, value.parse().ok()?))
}

/// Waits for an Event on the configuration whose reason and text satisfy.
async fn told(cluster: &Cluster, wanted: impl Fn(&str) -> bool) -> Result<String> {
    wait::until("an Event on the ConfigMap tells", LIMIT, async || {
        let mut kubectl = cluster.kubectl();
        kubectl.args(["get", "events", "--all-namespaces", "--output"]);
        kubectl.arg(
            "jsonpath={range .items[*]}{.involvedObject.name} {.reason} {.message}{\"\\n\"}{end}",
        );
        let output = String::from_utf8(kubectl.output()?.stdout)?;
        let events = output
            .lines()
            .filter(|line| line.starts_with("floatingip-config "));
        let found = events.clone().find(|line| wanted(line)).map(str::to_owned);
        ensure!(found.is_some(), "seen {:?}", events.collect::<Vec<_>>());
        Ok(found)
    })
    .await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn ranges_are_taken_from_the_config_map_and_a_bad_change_leaves_them_in_force() -> Result<()>
{
    let cluster = shared::alone().await;
    floe::install(&cluster)?;
    cluster.apply(RANGES, floe::NAMESPACE)?;
    let total = |count: u32| {
        format!(
            r#"galaxy_ip_counter{{type="total",subnet="10.0.70.0/24",first_ip="10.0.70.2"}} {count}"#
        )
    };
    let used = |count: u32| {
        format!(
            r#"galaxy_ip_counter{{type="allocated",subnet="10.0.70.0/24",first_ip="10.0.70.2"}} {count}"#
        )
    };
    every_controller_counts(&cluster, &total(240)).await?;
    every_controller_counts(&cluster, &used(0)).await?;

    // A reservation as documented counts as taken, and is free again afterwards.
    cluster.apply(RESERVATION, floe::NAMESPACE)?;
    every_controller_counts(&cluster, &used(1)).await?;
    // A change that takes its address out of the ranges does not touch it.
    cluster.apply(
        &RANGES.replace("10.0.70.2~10.0.70.241", "10.0.70.10~10.0.70.19"),
        floe::NAMESPACE,
    )?;
    every_controller_counts(&cluster, "floe_ip_outside_configuration 1").await?;
    let kept = cluster
        .kubectl()
        .args(["get", "fip", "10.0.70.5"])
        .status()?;
    assert!(kept.success(), "the record is gone");

    // A change that cannot be right is refused, and says where it is wrong.
    cluster.apply(
        &RANGES.replace("\"gateway\":\"10.0.70.1\"", "\"gateway\":\"10.0.99.1\""),
        floe::NAMESPACE,
    )?;
    let event = told(&cluster, |event| event.contains("not in subnet")).await?;
    assert!(event.contains("entry") && event.contains("ips"), "{event}");
    let still = total(10).replace("10.0.70.2\"}", "10.0.70.10\"}");
    every_controller_counts(&cluster, &still).await?;

    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    maps.delete("floatingip-config", &DeleteParams::default())
        .await?;
    let deleted = cluster
        .kubectl()
        .args(["delete", "fip", "10.0.70.5"])
        .status()?;
    assert!(deleted.success());
    every_controller_counts(&cluster, "floe_ip_outside_configuration 0")
        .await
        .context("it is forgotten")
}
