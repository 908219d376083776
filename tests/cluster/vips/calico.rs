//! From Calico's floating IPs and back, by `docs/guide/migrate.md`. Calico cannot be had here:
//! of it there is the setting that the guide changes, and pods with its annotation.

use std::net::IpAddr;

use anyhow::{Result, ensure};
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use serde_json::json;

use super::ground::{
    alone, claim, configure, configure_with, install_agents, pings, refused, served, webs,
};
use crate::LIMIT;
use crate::guides::{Walk, administrator};

/// One that nobody has set aside.
const IP: &str = "10.200.0.206";

const SETTING: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: felixconfigurations.crd.projectcalico.org }
spec:
  group: crd.projectcalico.org
  scope: Cluster
  names: { kind: FelixConfiguration, listKind: FelixConfigurationList, plural: felixconfigurations, singular: felixconfiguration }
  versions:
  - name: v1
    served: true
    storage: true
    schema: { openAPIV3Schema: { type: object, properties: { spec: { type: object, properties: { floatingIPs: { type: string } } } } } }
";

const ENABLED: &str = "{apiVersion: crd.projectcalico.org/v1, kind: FelixConfiguration, \
    metadata: {name: default}, spec: {floatingIPs: Enabled}}";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_address_of_calico_becomes_floes_and_goes_back_by_the_guide() -> Result<()> {
    let cluster = alone().await?;
    let outcome = there_and_back(&cluster).await;
    // However that ended, the next test has to find agents and its addresses.
    let restored = restore(&cluster);
    outcome.and(restored)
}

async fn there_and_back(cluster: &Cluster) -> Result<()> {
    let terminal = administrator(cluster)?;
    cluster.apply_all(SETTING)?;
    terminal.run(
        "kubectl wait --for=condition=Established crd/felixconfigurations.crd.projectcalico.org",
    )?;
    cluster.apply_all(ENABLED)?;
    let setting =
        || terminal.run("kubectl get felixconfiguration default -o jsonpath='{.spec.floatingIPs}'");
    let namespace = TestNamespace::create(cluster, "calico").await?;
    webs(&namespace, &claim(IP)).await?;

    let mut guide = Walk::of(&terminal, "guide/migrate.md", "## From Calico floating IPs")?;
    let noted = guide.run("kubectl get pods -A")?;
    let line = format!("{}/web-1 [\"{IP}\"]", namespace.name());
    ensure!(noted.contains(&line), "{noted}");
    // floe is there, and claims nothing that was not set aside for it.
    refused(&namespace, IP, "AddressNotShared").await?;
    guide.run("kubectl patch felixconfiguration default")?;
    ensure!(setting()? == "Disabled", "it is on");
    let entry = json!({
        "nodeSubnets": ["10.200.0.0/24"], "subnet": "10.200.0.0/24", "gateway": "10.200.0.1",
        "ips": [], "shared": [IP], "allowedNamespaces": [namespace.name()],
    });
    configure_with(cluster, &[entry])?;
    served(&namespace, IP, |_| true).await?;
    let shown = guide.run("kubectl get vip -A")?;
    ensure!(shown.contains(IP), "{shown}");

    let (outside, ip): (_, IpAddr) = (cluster.outside().await?, IP.parse()?);
    ensure!(pings(&outside, ip, 3)? > 0, "nobody answers before");
    guide.run("kubectl delete -f deploy/agent.yaml")?;
    wait::until("nobody answers", LIMIT, async || {
        let answers = pings(&outside, ip, 3)?;
        ensure!(answers == 0, "{answers} answers of 3");
        Ok(Some(()))
    })
    .await?;
    guide.run("kubectl patch felixconfiguration default")?;
    ensure!(setting()? == "Enabled", "it is off");
    guide.end()
}

/// Agents and configuration are as other tests want them.
fn restore(cluster: &Cluster) -> Result<()> {
    install_agents(cluster)?;
    configure(cluster)?;
    let definition = "felixconfigurations.crd.projectcalico.org";
    let gone = ["delete", "crd", definition, "--ignore-not-found"];
    let status = cluster.kubectl().args(gone).status()?;
    ensure!(status.success(), "{definition} is still there");
    Ok(())
}
