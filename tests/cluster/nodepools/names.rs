//! Names of nodes: a `NodeDNSRecordSet` says the addresses of the nodes that fit.

use anyhow::{Context, Result, ensure};
use floe_api::flipop::records::{NodeDNSRecordSet, NodeDNSRecordSetStatus};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use serde_json::json;

use super::ground::{Ground, ZONE, ground, said};
use crate::LIMIT;

/// Waits until the status is as `wanted`.
async fn status(
    namespace: &TestNamespace<'_>,
    wanted: impl Fn(&NodeDNSRecordSetStatus) -> bool,
) -> Result<NodeDNSRecordSetStatus> {
    let sets = namespace.api::<NodeDNSRecordSet>();
    wait::until("the record set says so", LIMIT, async || {
        let status = sets.get("nodes").await?.status.context("it says nothing")?;
        ensure!(wanted(&status), "it says {status:?}");
        Ok(Some(status))
    })
    .await
}

fn published(status: &NodeDNSRecordSetStatus) -> Option<(&str, &str)> {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|it| it.type_ == "Published")?;
    Some((&found.status, &found.reason))
}

/// Waits until name, status, column and figure say so many addresses.
async fn named(ground: &Ground, namespace: &TestNamespace<'_>, ips: &[&str]) -> Result<()> {
    ground.says("nodes", ips).await?;
    let count = ips.len();
    status(namespace, |it| it.state == "active" && it.addresses == ips).await?;
    let row = namespace.kubectl(&["get", "nodedns", "nodes", "--no-headers"])?;
    let row: Vec<&str> = row.split_whitespace().collect();
    let wanted = [
        "nodes",
        ZONE,
        "nodes",
        &count.to_string(),
        "active",
        "Published",
    ];
    ensure!(row.starts_with(&wanted), "kubectl get shows {row:?}");
    let name = namespace.name();
    let figure = format!(
        "flipop_nodednsrecordset_records{{namespace=\"{name}\",name=\"nodes\",\
         provider=\"digitalocean\",dns=\"nodes.{ZONE}\"}}"
    );
    let count = u32::try_from(count)?;
    ground.measured(&[(figure, count.into())]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_name_says_the_addresses_of_the_nodes_that_fit_and_never_nothing() -> Result<()> {
    let ground = ground().await?;
    let namespace = TestNamespace::create(&ground.cluster, "names").await?;
    for node in ["node-1", "node-2"] {
        ground.label(node, Some(namespace.name()))?;
    }
    let set = json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "NodeDNSRecordSet",
        "metadata": { "name": "nodes" },
        "spec": {
            "match": { "nodeLabel": format!("pool={}", namespace.name()) },
            "dnsRecordSet": {
                "provider": "digitalocean", "zone": ZONE, "recordName": "nodes", "ttl": 60,
            },
            "addressType": "InternalIP",
        },
    });
    namespace.apply(&set.to_string())?;
    named(&ground, &namespace, &["10.200.0.11", "10.200.0.12"]).await?;
    ground.terminal.run("kubectl cordon node-1")?;
    named(&ground, &namespace, &["10.200.0.12"]).await?;
    ground.label("node-3", Some(namespace.name()))?;
    named(&ground, &namespace, &["10.200.0.12", "10.200.0.13"]).await?;
    // A name that somebody else has taken away is mended only now and then; one that
    // nobody is left for keeps what it says.
    for node in ["node-2", "node-3"] {
        ground.label(node, None)?;
    }
    let last = status(&namespace, |it| {
        published(it) == Some(("False", "NameKept")) && it.state == "active"
    })
    .await?;
    ensure!(!last.addresses.is_empty(), "it says {last:?}");
    let said_now = said(&ground.cloud, "nodes");
    ensure!(said_now.into_iter().eq(last.addresses), "another one");
    // An address that DNS cannot take is told, and the old one stays.
    let mut other = set.clone();
    other["spec"]["dnsRecordSet"]["zone"] = "example.net".into();
    namespace.apply(&other.to_string())?;
    ground.label("node-2", Some(namespace.name()))?;
    let status = status(&namespace, |it| {
        published(it) == Some(("False", "ZoneUnknown"))
    })
    .await?;
    ensure!(status.state == "in-progress" && status.error.starts_with("Failed to update DNS: "));
    crate::holdings::told(&namespace, "nodes", "ZoneUnknown", "nodes.example.net").await?;
    namespace.kubectl(&["delete", "nodedns", "nodes"])?;
    ensure!(
        !said(&ground.cloud, "nodes").is_empty(),
        "the record went with the object"
    );
    Ok(())
}
