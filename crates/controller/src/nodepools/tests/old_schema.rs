//! FLIPOP's own CRDs: the API server drops every field that only floe's have.

use super::*;

/// The schemas of FLIPOP's CRDs, as `FLIPOP` publishes them.
fn flipops_schemas(scene: &Scene) {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text });
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let ip = json!({ "type": "object", "properties": {
        "state": text, "providerID": text, "nodeName": text, "error": text,
    } });
    let pool = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "provider": text, "region": text, "ips": texts, "desiredIPs": { "type": "integer" },
            "assignmentCoolOffSeconds": { "type": "number" }, "match": free, "dnsRecordSet": free,
        } },
        "status": { "type": "object", "properties": {
            "error": text, "ips": { "type": "object", "additionalProperties": ip },
            "nodeErrors": texts, "assignableNodes": texts,
        } },
    } });
    let set = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "match": free, "dnsRecordSet": free, "addressType": text,
        } },
        "status": { "type": "object", "properties": { "state": text, "error": text } },
    } });
    let group = "/apis/flipop.digitalocean.com/v1alpha1";
    let schemas = &mut scene.server.state().schemas;
    schemas.insert(format!("{group}/floatingippools"), pool);
    schemas.insert(format!("{group}/nodednsrecordsets"), set);
}

#[tokio::test(start_paused = true)]
async fn an_idle_cluster_with_flipops_crds_is_not_written_to() {
    let mut scene = two_nodes();
    flipops_schemas(&scene);
    scene.server.put(POOLS, pool("p"));
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    scene
        .until(|it| it.ip("p", A) == "active n2" && it.ip("p", B) == "active n1")
        .await;
    scene
        .until(|it| it.set_status("s")["state"] == "active")
        .await;
    pass(10).await;
    let writes = scene.server.count(&Method::PATCH, "/status");
    assert!(writes < 20, "{writes} writes of two objects that settled");
    pass(300).await;
    let more = scene.server.count(&Method::PATCH, "/status") - writes;
    assert_eq!(more, 0, "an idle cluster is written to");
    // What FLIPOP's CRD has is still kept current.
    scene.server.put(NODES, cordoned("n1"));
    scene.until(|it| it.ip("p", B) == "no-match").await;
}

#[tokio::test(start_paused = true)]
async fn with_flipops_crds_nothing_is_bought_and_the_pool_reports_why() {
    let mut scene = Scene::new();
    flipops_schemas(&scene);
    scene.cloud.lock().shop = ["10.0.1.1", "10.0.2.2"]
        .map(|it| it.parse().unwrap())
        .into();
    scene.cloud.has(A, None);
    scene.server.put(NODES, node("n1", "True"));
    let wishes = json!({ "ips": [A], "desiredIPs": 2 });
    scene.server.put(POOLS, pool_with("p", wishes));
    scene.start();
    scene
        .until(|it| it.error("p").contains("deploy/crds/flipop.yaml"))
        .await;
    let told = "FloatingIPPool p SchemaOutdated".to_owned();
    scene.until(|it| it.events().contains(&told)).await;
    // What needs no memory goes on.
    scene.until(|it| it.ip("p", A) == "active n1").await;
    pass(300).await;
    let writes = scene.server.count(&Method::PATCH, "/status");
    pass(300).await;
    assert_eq!(
        scene.cloud.count("buy"),
        0,
        "a purchase that is not remembered"
    );
    let more = scene.server.count(&Method::PATCH, "/status") - writes;
    assert!(more <= 2, "{more} writes in five minutes");
    assert!(
        scene.error("p").contains("status.purchase"),
        "{}",
        scene.error("p")
    );
    let figures = scene.figures();
    let line = "floe_installation_problems{reason=\"SchemaOutdated\",\
                subject=\"floatingippools.flipop.digitalocean.com\"} 1";
    assert!(figures.lines().any(|it| it == line), "{figures}");

    // floe's CRDs are applied: within the pause of the last try it buys.
    scene.server.state().schemas.clear();
    scene.crd_changes.send_modify(|it| *it += 1);
    scene.until(|it| it.cloud.count("buy") == 1).await;
    scene.until(|it| it.error("p").is_empty()).await;
}
