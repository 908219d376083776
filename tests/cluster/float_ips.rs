//! The Deployment of the user document: three addresses of the administrator's
//! range, which stay reserved when it is deleted and come back with it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::Result;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use kube::ResourceExt;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{Record, addresses, args, forget, holds, records_of, set};
use crate::racks;

/// As printed.
pub const NGINX: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx-deployment
  labels:
    app: nginx
spec:
  replicas: 3
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
      annotations:
        k8s.v1.cni.cncf.io/networks: galaxy-k8s-vlan
        k8s.v1.cni.galaxy.io/release-policy: never
    spec:
      containers:
      - name: nginx
        image: nginx:1.7.9
        resources:
          limits:
            tke.cloud.tencent.com/eni-ip: "1"
          requests:
            tke.cloud.tencent.com/eni-ip: "1"
"#;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_documented_deployment_gets_three_addresses_and_the_same_after_delete_and_apply()
-> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "never").await?;
    namespace.apply(NGINX)?;
    let first = addresses(&namespace, "app=nginx", 3).await?;

    // In the pod, for CNI plugins: exactly what galaxy would have written.
    for pod in namespace.pods("app=nginx").await? {
        let ip = &first[&pod.name_any()];
        let number: Ipv4Addr = ip.parse()?;
        let range = Ipv4Addr::new(10, 0, 70, 2)..=Ipv4Addr::new(10, 0, 70, 241);
        assert!(range.contains(&number), "{ip} is not of the range");
        let info = json!({ "ip": format!("{ip}/24"), "vlan": 2, "gateway": "10.0.70.1" });
        assert_eq!(args(&pod)?, json!({ "common": { "ipinfos": [info] } }));
        assert_eq!(
            pod.annotations()["k8s.v1.cni.cncf.io/networks"],
            "galaxy-k8s-vlan"
        );
    }
    // And as objects, of which each is one address.
    let app = format!("dp_{}_nginx-deployment_", namespace.name());
    let records = records_of(&namespace).await?;
    assert_eq!(records.len(), 3, "{records:?}");
    for (pod, ip) in &first {
        assert_eq!(records[ip].key, format!("{app}{pod}"));
        assert_eq!(records[ip].policy, 2);
    }

    namespace.kubectl(&["delete", "deployment", "nginx-deployment"])?;
    wait::until("all three are spares of the name", LIMIT, async || {
        let spare = Record {
            key: app.clone(),
            policy: 2,
            node: String::new(),
            uid: String::new(),
            state: "Spare".to_owned(),
        };
        let kept: BTreeMap<_, _> = set(&first)
            .into_iter()
            .map(|ip| (ip, spare.clone()))
            .collect();
        let found = records_of(&namespace).await?;
        anyhow::ensure!(found == kept, "found {found:?}");
        Ok(Some(()))
    })
    .await?;

    namespace.apply(NGINX)?;
    let second = addresses(&namespace, "app=nginx", 3).await?;
    assert_eq!(set(&second), set(&first));
    holds(&namespace, 3).await?;

    // Deleting the object is how an address that is never released gets free.
    namespace.kubectl(&["delete", "deployment", "nginx-deployment"])?;
    wait::until("no pod holds one", LIMIT, async || {
        let found = records_of(&namespace).await?;
        Ok(found.values().all(|record| record.key == app).then_some(()))
    })
    .await?;
    forget(&cluster, &app).await?;
    holds(&namespace, 0).await?;
    Ok(())
}
