//! floe comes to a cluster that galaxy has run: records of galaxy, pods that run
//! with their addresses, and some that do not fit together.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::floe;
use floe_testbed::supervisor::fake_nodes;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{
    ARGS, POLICY, Record, addresses, api, forget, holds, records, records_of, told,
};
use crate::racks;

/// The only node of the rack.
const NODE: u32 = 10;

/// What the annotation of a bound pod says.
fn result(ip: &str) -> String {
    json!({ "common": { "ipinfos": [{ "ip": format!("{ip}/24"), "vlan": 0, "gateway": "10.0.76.1" }] } })
        .to_string()
}

/// A pod that galaxy has bound, which runs and shows the address.
async fn runs(
    namespace: &TestNamespace<'_>,
    name: &str,
    claimed: &str,
    shown: &str,
) -> Result<Pod> {
    let mut pod = racks::pod(name, &json!({ ARGS: result(claimed) }));
    pod["spec"]["nodeName"] = json!(fake_nodes::name(NODE));
    namespace.apply(&pod.to_string())?;
    let pods: Api<Pod> = namespace.api();
    namespace
        .ready_pods(&format!("app={name}"), 1, LIMIT)
        .await?;
    let status = json!({ "status": { "podIP": shown, "podIPs": [{ "ip": shown }] } });
    Ok(pods
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?)
}

/// A record as galaxy writes it.
fn galaxy_record(ip: &str, key: &str, policy: u8, node: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
        "metadata": { "name": ip, "labels": { "ipType": "internalIP" } },
        "spec": {
            "key": key, "policy": policy, "subnet": "10.24.0.0/24",
            "attribute": json!({ "NodeName": node, "Uid": uid }).to_string(),
            "updateTime": "2020-05-29T11:11:44Z",
        },
    })
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn floe_takes_over_what_galaxy_has_left_without_changing_an_address_or_a_pod() -> Result<()> {
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "adoption").await?;
    floe::scale(&cluster, 0)?;
    let (ns, node) = (namespace.name(), fake_nodes::name(NODE));
    let bare = |pod: &str| format!("NULL_{ns}_NULL_{pod}");

    let mut pods = vec![
        runs(&namespace, "recorded", "10.0.76.10", "10.0.76.10").await?,
        runs(&namespace, "lost-record", "10.0.76.11", "10.0.76.11").await?,
        runs(&namespace, "only-says-so", "10.0.76.12", "10.244.9.9").await?,
        runs(&namespace, "second", "10.0.76.10", "10.0.76.10").await?,
    ];
    let uid = pods[0].metadata.uid.clone().context("it exists")?;
    for record in [
        galaxy_record("10.0.76.10", &bare("recorded"), 0, &node, &uid),
        // Kept for a pod of a StatefulSet, and a spare of a Deployment.
        galaxy_record("10.0.76.20", &format!("sts_{ns}_db_db-0"), 2, "", ""),
        galaxy_record("10.0.76.21", &format!("dp_{ns}_web_"), 2, "", ""),
        // Of a pod that is gone since, while nobody was there to see it.
        galaxy_record("10.0.76.22", &bare("gone"), 0, &node, "1-2-3"),
    ] {
        cluster.apply(&record.to_string(), "default")?;
    }
    let before = specs(&namespace).await?;

    floe::scale(&cluster, 2)?;
    // The pod whose record was lost has one again, and the lost pod's is free.
    wait::until("records are as pods are", LIMIT, async || {
        let found = records_of(&namespace).await?;
        let adopted = found
            .get("10.0.76.11")
            .map(|it| (it.key.as_str(), it.uid.as_str()));
        let wanted = (
            bare("lost-record"),
            pods[1].metadata.uid.clone().unwrap_or_default(),
        );
        let missed = found.contains_key("10.0.76.22");
        ensure!(
            adopted == Some((wanted.0.as_str(), wanted.1.as_str())) && !missed,
            "found {found:?}"
        );
        Ok(Some(()))
    })
    .await?;
    let said = told(&namespace, "second", "AddressConflict", "10.0.76.10").await?;
    assert!(said.contains(&bare("recorded")), "{said}");

    let mut after = specs(&namespace).await?;
    after.remove("10.0.76.11");
    let mut kept = before;
    kept.remove("10.0.76.22");
    assert_eq!(after, kept, "no other record has changed, and none is new");
    for pod in &mut pods {
        let now = namespace.api::<Pod>().get(&pod.name_any()).await?;
        assert_eq!(
            now.metadata.resource_version,
            pod.metadata.resource_version,
            "{} was touched",
            pod.name_any()
        );
    }

    what_galaxy_kept_is_found(&namespace).await?;
    // From now on they are pods like all others.
    for pod in &pods {
        namespace.kubectl(&["delete", "pod", &pod.name_any(), "--wait=false"])?;
    }
    holds(&namespace, 2).await?;
    namespace.kubectl(&["delete", "statefulset/db", "deployment/web"])?;
    wait::until("no pod holds one", LIMIT, async || {
        let found = records(&cluster, &format!("_{ns}_")).await?;
        let idle = |it: &Record| it.uid.is_empty() && it.node.is_empty();
        Ok(found.values().all(idle).then_some(()))
    })
    .await?;
    forget(&cluster, &format!("_{ns}_")).await
}

/// Pods that come after get the addresses that galaxy kept for them.
async fn what_galaxy_kept_is_found(namespace: &TestNamespace<'_>) -> Result<()> {
    let never = json!({ POLICY: "never" });
    for (kind, name, ip) in [
        ("StatefulSet", "db", "10.0.76.20"),
        ("Deployment", "web", "10.0.76.21"),
    ] {
        namespace.apply(&racks::workload(kind, name, 1, &never).to_string())?;
        let got = addresses(namespace, &format!("app={name}"), 1).await?;
        assert!(got.values().all(|had| had == ip), "{got:?}");
    }
    Ok(())
}

/// What the records of a namespace say, in galaxy's words alone.
async fn specs(namespace: &TestNamespace<'_>) -> Result<BTreeMap<String, Value>> {
    let api = api(namespace.cluster().client().await?);
    let mut specs = BTreeMap::new();
    for name in records_of(namespace).await?.keys() {
        specs.insert(name.clone(), api.get(name).await?.data["spec"].take());
    }
    Ok(specs)
}
