//! Claims that cannot be met: the pod runs, somebody is told why, and nobody else is
//! disturbed.

use anyhow::Result;
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::ground::{CLAIM, claim, holder, refused, seen, served, status, three, together, web};
use crate::LIMIT;
use crate::holdings::{records, told};

/// Values of the annotation, what each is refused for, and some of the words. The pods are
/// named by their place here.
const BAD: [(&str, &str, &str); 7] = [
    (
        "10.200.0.217",
        "InvalidAnnotation",
        r#"write '["10.200.0.217"]'"#,
    ),
    (
        r#"["10.200.0.217""#,
        "InvalidAnnotation",
        "is not a JSON list",
    ),
    (
        r#"["www.example.com"]"#,
        "InvalidAddress",
        "is not an IP address",
    ),
    (r#"["10.200.0.217/24"]"#, "InvalidAddress", "is a range"),
    (
        r#"["10.200.0.50"]"#,
        "AddressNotShared",
        "10.200.0.50 is in no range",
    ),
    // An address for pods is not one to be shared.
    (
        r#"["10.200.0.101"]"#,
        "AddressNotShared",
        "10.200.0.101 is in no range",
    ),
    (
        r#"["10.200.0.230"]"#,
        "NamespaceNotAllowed",
        "allowedNamespaces",
    ),
];

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn pods_with_bad_claims_run_and_are_told_what_is_wrong() -> Result<()> {
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "refused").await?;
    for (number, (value, ..)) in BAD.iter().enumerate() {
        let pod = web(&format!("bad-{number}"), "node-1", &json!({ CLAIM: value }));
        namespace.apply(&pod.to_string())?;
    }
    // The pods of this cluster have no address of IPv6.
    let v6 = web("other-family", "node-1", &claim("fd00:200::210"));
    namespace.apply(&v6.to_string())?;
    namespace
        .ready_pods("app=web", BAD.len() + 1, LIMIT)
        .await?;
    for (number, (_, reason, words)) in BAD.iter().enumerate() {
        told(&namespace, &format!("bad-{number}"), reason, words).await?;
    }
    for (name, reason) in [
        ("10.200.0.50", "AddressNotShared"),
        ("10.200.0.101", "AddressNotShared"),
        ("10.200.0.230", "NamespaceNotAllowed"),
    ] {
        refused(&namespace, name, reason).await?;
        told(&namespace, name, reason, name).await?;
    }
    told(&namespace, "other-family", "FamilyMissing", "fd00:200::210").await?;
    let name = "fd00-0200-0000-0000-0000-0000-0000-0210";
    let granted = |vip: &VirtualIP| {
        let accepted = vip.condition("Accepted");
        accepted.is_some_and(|it| it.status == "True")
    };
    let vip = seen(&namespace, name, "is granted", granted).await?;
    assert!(status(&vip).holder.is_none() && status(&vip).candidates.is_empty());
    // What cannot be read makes no objects.
    let vips = namespace
        .api::<VirtualIP>()
        .list(&ListParams::default())
        .await?;
    let names: Vec<String> = vips.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["10.200.0.101", "10.200.0.230", "10.200.0.50", name]);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_address_of_another_namespace_is_refused_and_stays_where_it_is() -> Result<()> {
    const IP: &str = "10.200.0.218";
    let cluster = together().await?;
    let namespace = TestNamespace::create(&cluster, "owner").await?;
    let other = TestNamespace::create(&cluster, "thief").await?;
    let first = three(&namespace, IP).await?;
    other.apply(&web("thief", &holder(&first)?.node, &claim(IP)).to_string())?;
    other.ready_pods("app=web", 1, LIMIT).await?;
    let owner = format!("VirtualIP {}/{IP}", namespace.name());
    refused(&other, IP, "AddressTaken").await?;
    told(&other, "thief", "AddressTaken", &owner).await?;
    let object = json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": "thief" },
        "spec": { "addresses": [IP], "selector": { "matchLabels": { "app": "web" } } },
    });
    other.apply(&object.to_string())?;
    refused(&other, "thief", "AddressTaken").await?;
    told(&other, "thief", "AddressTaken", &owner).await?;
    let same = served(&namespace, IP, |_| true).await?;
    assert_eq!(holder(&same)?.uid, holder(&first)?.uid);
    assert_eq!(status(&same).moves, status(&first).moves);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_namespace_that_is_named_in_the_configuration_gets_what_others_do_not() -> Result<()> {
    const IP: &str = "10.200.0.231";
    let cluster = together().await?;
    let vips: Api<VirtualIP> = Api::namespaced(cluster.client().await?, "default");
    let object = json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": "named" },
        "spec": { "addresses": [IP], "selector": { "matchLabels": { "app": "nobody" } } },
    });
    cluster.apply(&object.to_string(), "default")?;
    let granted = async || {
        let vip = vips.get("named").await?;
        let accepted = vip.condition("Accepted").cloned();
        anyhow::ensure!(
            status(&vip).addresses == [IP.parse::<std::net::IpAddr>()?],
            "{accepted:?}"
        );
        Ok(Some(()))
    };
    floe_testbed::cluster::wait::until("it is granted", LIMIT, granted).await?;
    vips.delete("named", &DeleteParams::default()).await?;
    let free = async || {
        Ok(records(&cluster, "vip__default_named_")
            .await?
            .is_empty()
            .then_some(()))
    };
    floe_testbed::cluster::wait::until("its address is free", LIMIT, free).await
}
