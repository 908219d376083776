//! Workloads that Kubernetes does not know. The test plays the part of their
//! controller: it makes and deletes the pods `name-0`, `name-1`.

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{POLICY, addresses, holds, refused, told};
use crate::racks;

/// A kind of workload, whose definition is what a test makes of it.
struct Definition {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    scalable: bool,
}

impl Definition {
    /// Applies its definition, and waits until it is served.
    fn define(&self, namespace: &TestNamespace<'_>) -> Result<()> {
        let Self { group, plural, .. } = self;
        let name = format!("{plural}.{group}");
        let mut version = json!({
            // Not the first that is listed, and the only one that is served.
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } },
        });
        let mut old = version.clone();
        old["name"] = json!("v1alpha1");
        (old["served"], old["storage"]) = (json!(false), json!(false));
        if self.scalable {
            version["subresources"] = json!({ "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            } });
        }
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": name },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "kind": self.kind, "plural": plural, "singular": self.kind.to_lowercase() },
                "versions": [old, version],
            },
        });
        namespace.apply(&definition.to_string())?;
        let established = [
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            "crd",
            &name,
        ];
        namespace.kubectl(&established)?;
        Ok(())
    }

    fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, "v1", self.kind);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }

    /// Creates a workload of that name and returns it.
    async fn create(
        &self,
        namespace: &TestNamespace<'_>,
        name: &str,
        replicas: u32,
    ) -> Result<DynamicObject> {
        let client = namespace.cluster().client().await?;
        let api = Api::namespaced_with(client, namespace.name(), &self.resource());
        let object = json!({
            "apiVersion": format!("{}/v1", self.group), "kind": self.kind,
            "metadata": { "name": name }, "spec": { "replicas": replicas },
        });
        namespace.apply(&object.to_string())?;
        Ok(api.get(name).await?)
    }

    /// A pod of a workload.
    fn pod(&self, of: &DynamicObject, name: &str, policy: &str) -> Value {
        let pod = racks::pod(name, &json!({ POLICY: policy }));
        let mut pod = racks::in_rack(pod, "document");
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": format!("{}/v1", self.group), "kind": self.kind, "controller": true,
            "name": of.metadata.name, "uid": of.metadata.uid,
        }]);
        pod["metadata"]["labels"]["app"] = json!("web");
        pod
    }
}

/// The rule as printed, in a role that floe's own gathers by its label.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: floe-tapps
  labels: { floe.dev/aggregate-to-controller: "true" }
rules:
- apiGroups: ["apps.tkestack.io"]
  resources:
  - tapps
  verbs: ["list", "watch"]
"#;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_tapp_keeps_addresses_by_the_names_of_its_pods_and_frees_them_with_its_replicas()
-> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "tapp").await?;
    let kind = Definition {
        group: "apps.tkestack.io",
        kind: "TApp",
        plural: "tapps",
        scalable: true,
    };
    kind.define(&namespace)?;
    cluster.apply(RIGHTS, "default")?;
    let web = kind.create(&namespace, "web", 2).await?;
    for name in ["web-0", "web-1"] {
        namespace.apply(&kind.pod(&web, name, "immutable").to_string())?;
    }
    let first = addresses(&namespace, "app=web", 2).await?;
    for (pod, ip) in &first {
        let record = &holds(&namespace, 2).await?[ip];
        assert_eq!(record.key, format!("tapp_{}_web_{pod}", namespace.name()));
        assert_eq!(record.policy, 1);
    }
    // A pod whose name has no number is none that comes back.
    namespace.apply(&kind.pod(&web, "web-x", "never").to_string())?;
    let text = "pod name doesn't match '.*-[0-9]*$'";
    refused(&namespace, "web-x", "PodNameWithoutIndex", text).await?;
    namespace.kubectl(&["delete", "pod", "web-x"])?;

    namespace.kubectl(&["delete", "pod", "web-1"])?;
    wait::until("its address is kept", LIMIT, async || {
        let found = holds(&namespace, 2).await?;
        Ok((found[&first["web-1"]].state == "Kept").then_some(()))
    })
    .await?;
    namespace.apply(&kind.pod(&web, "web-1", "immutable").to_string())?;
    assert_eq!(addresses(&namespace, "app=web", 2).await?, first);

    namespace.kubectl(&["scale", "tapp", "web", "--replicas=1"])?;
    namespace.kubectl(&["delete", "pod", "web-1"])?;
    let left = holds(&namespace, 1).await?;
    assert!(left.contains_key(&first["web-0"]), "{left:?}");
    // Gone altogether: the address of the pod that is still there stays until
    // the pod is gone, too.
    namespace.kubectl(&["delete", "tapp", "web", "--cascade=orphan"])?;
    assert_eq!(
        addresses(&namespace, "app=web", 1).await?["web-0"],
        first["web-0"]
    );
    namespace.kubectl(&["delete", "pod", "web-0"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_workload_that_floe_may_not_list_is_named_and_its_pods_run_once_it_may() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "game").await?;
    let kind = Definition {
        group: "example.dev",
        kind: "Game",
        plural: "games",
        scalable: true,
    };
    kind.define(&namespace)?;
    namespace.kubectl(&["delete", "clusterrole", "floe-games", "--ignore-not-found"])?;
    let web = kind.create(&namespace, "web", 1).await?;
    namespace.apply(&kind.pod(&web, "web-0", "immutable").to_string())?;
    let note = told(&namespace, "web-0", "WorkloadUnreadable", "games").await?;
    assert!(note.contains("forbidden"), "{note}");
    told(&namespace, "web-0", "FailedScheduling", "games").await?;

    let rights = RIGHTS
        .replace("apps.tkestack.io", "example.dev")
        .replace("tapps", "games");
    cluster.apply(&rights, "default")?;
    addresses(&namespace, "app=web", 1).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_workload_without_replicas_can_keep_for_ever_but_not_while_it_wants() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "shard").await?;
    let kind = Definition {
        group: "example.dev",
        kind: "Shard",
        plural: "shards",
        scalable: false,
    };
    kind.define(&namespace)?;
    let web = kind.create(&namespace, "web", 1).await?;
    namespace.apply(&kind.pod(&web, "web-0", "immutable").to_string())?;
    let text =
        "release policy immutable is not supported for pod web-0: parent workload has no replicas";
    refused(&namespace, "web-0", "WorkloadHasNoReplicas", text).await?;
    namespace.kubectl(&["delete", "pod", "web-0"])?;

    namespace.apply(&kind.pod(&web, "web-0", "never").to_string())?;
    let first = addresses(&namespace, "app=web", 1).await?;
    namespace.kubectl(&["delete", "pod", "web-0"])?;
    let pods = namespace.api::<Pod>();
    assert!(pods.get_opt("web-0").await?.is_none());
    namespace.apply(&kind.pod(&web, "web-0", "never").to_string())?;
    assert_eq!(addresses(&namespace, "app=web", 1).await?, first);

    namespace.kubectl(&["delete", "pod", "web-0"])?;
    let key = format!("shard_{}_web_web-0", namespace.name());
    wait::until("it is kept", LIMIT, async || {
        let found = holds(&namespace, 1).await?;
        let kept = found.values().next().context("there is one")?;
        Ok((kept.key == key && kept.state == "Kept").then_some(()))
    })
    .await?;
    crate::holdings::forget(&cluster, &key).await
}
