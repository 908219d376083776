//! FLIPOP's own roles: floe may do less than it needs.

use super::*;

/// What FLIPOP's roles do not allow.
fn flipops_roles(scene: &Scene) {
    let denied = [
        "get namespaces",
        "patch floatingippools",
        "patch nodes",
        "create events",
    ];
    scene.server.state().denied = denied.map(str::to_owned).into();
    let refuse = |method, path: &str| scene.server.always(method, path, ServerFault::Refuse(403));
    refuse(Method::GET, "/namespaces/kube-system");
    refuse(Method::PATCH, "/floatingippools/");
    refuse(Method::PATCH, "/nodednsrecordsets/");
    refuse(Method::PATCH, "/nodes/");
    refuse(Method::POST, "/events");
}

#[tokio::test(start_paused = true)]
async fn with_flipops_roles_each_object_reports_what_is_missing() {
    let mut scene = two_nodes();
    flipops_roles(&scene);
    scene.server.put(POOLS, pool("p"));
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    scene
        .until(|it| it.condition(&it.status("p"), "Accepted") == "False PermissionMissing")
        .await;
    let error = scene.error("p");
    for part in ["get namespaces kube-system", "patch nodes", "k8s/floe.yaml"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    scene
        .until(|it| it.set_status("s")["state"] == "error")
        .await;
    assert_eq!(text(&scene.set_status("s")["error"]), error);
    let line = "floe_installation_problems{reason=\"PermissionMissing\",\
                subject=\"get namespaces kube-system\"} 1";
    assert!(
        scene.figures().lines().any(|it| it == line),
        "{}",
        scene.figures()
    );
    pass(60).await;
    let writes = scene.server.count(&Method::PUT, "/status");
    pass(300).await;
    assert_eq!(scene.server.count(&Method::PUT, "/status"), writes);

    // The roles are applied: everything goes on by itself.
    scene.server.heal();
    scene.server.state().denied.clear();
    pass(90).await;
    scene.until(|it| it.ip("p", A) == "active n2").await;
    scene.until(|it| it.error("p").is_empty()).await;
    scene
        .until(|it| !it.figures().contains("PermissionMissing"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_bought_that_could_not_be_entered() {
    let mut scene = Scene::new();
    scene.server.state().denied = vec!["patch floatingippools".to_owned()];
    let fault = ServerFault::Refuse(403);
    scene
        .server
        .always(Method::PATCH, "/floatingippools/", fault);
    scene.cloud.lock().shop = ["10.0.1.1"].map(|it| it.parse().unwrap()).into();
    scene.server.put(NODES, node("n1", "True"));
    let wishes = json!({ "ips": [], "desiredIPs": 1 });
    scene.server.put(POOLS, pool_with("p", wishes));
    scene.start();
    scene
        .until(|it| it.condition(&it.status("p"), "Ready") == "False PermissionMissing")
        .await;
    pass(600).await;
    assert_eq!(scene.cloud.count("buy"), 0);
    assert!(
        scene.error("p").contains("patch floatingippools"),
        "{}",
        scene.error("p")
    );
    scene.server.heal();
    scene.server.state().denied.clear();
    pass(90).await;
    scene.until(|it| it.cloud.count("buy") == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_review_without_an_answer_grants_nothing() {
    let mut scene = two_nodes();
    flipops_roles(&scene);
    scene.server.put(POOLS, pool("p"));
    scene.start();
    let blocked = |it: &Scene| {
        it.figures()
            .contains("subject=\"get namespaces kube-system\"")
    };
    scene.until(blocked).await;
    let reviews = "selfsubjectaccessreviews";
    let fault = ServerFault::Refuse(500);
    scene.server.always(Method::POST, reviews, fault);
    pass(180).await;
    assert!(blocked(&scene), "{}", scene.figures());

    // The roles are applied, and reviews are answered again.
    scene.server.heal();
    scene.server.state().denied.clear();
    pass(90).await;
    scene
        .until(|it| !it.figures().contains("PermissionMissing"))
        .await;
    scene.until(|it| it.ip("p", A) == "active n2").await;
}

/// Requests for this kind are forbidden: reviews say so, and lists and watches are refused.
fn forbid(scene: &Scene, kind: &str) {
    let denied = ["list", "watch"].map(|verb| format!("{verb} {kind}"));
    scene.server.state().denied = denied.into();
    let path = format!("/{kind}");
    let fault = ServerFault::Refuse(403);
    scene.server.always(Method::GET, &path, fault);
}

#[tokio::test(start_paused = true)]
async fn objects_report_that_nodes_may_not_be_listed() {
    let mut scene = two_nodes();
    scene.server.state().denied = vec!["list nodes".to_owned()];
    let fault = ServerFault::Refuse(403);
    scene.server.always(Method::GET, "/nodes", fault);
    scene.server.put(POOLS, pool("p"));
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    scene
        .until(|it| it.condition(&it.status("p"), "Accepted") == "False PermissionMissing")
        .await;
    scene
        .until(|it| it.condition(&it.set_status("s"), "Accepted") == "False PermissionMissing")
        .await;
    let error = scene.error("p");
    assert!(error.contains("list nodes"), "{error}");
    assert_eq!(text(&scene.set_status("s")["error"]), error);
    assert_eq!(scene.set_status("s")["state"], "error");
    for kind in ["FloatingIPPool p", "NodeDNSRecordSet s"] {
        let told = format!("{kind} PermissionMissing");
        scene.until(|it| it.events().contains(&told)).await;
    }
    let before = writes(&scene);
    pass(300).await;
    assert_eq!(writes(&scene), before, "an idle object is written to");

    // The roles are applied: everything goes on by itself.
    scene.server.heal();
    scene.server.state().denied.clear();
    pass(90).await;
    scene.until(|it| it.ip("p", A) == "active n2").await;
    scene
        .until(|it| it.condition(&it.status("p"), "Accepted") == "True Valid")
        .await;
    scene
        .until(|it| it.condition(&it.set_status("s"), "Accepted") == "True Valid")
        .await;
    assert_eq!(scene.error("p"), "");
}

#[tokio::test(start_paused = true)]
async fn only_pools_that_match_pods_report_that_pods_may_not_be_listed() {
    let mut scene = two_nodes();
    forbid(&scene, "pods");
    scene.server.put(POOLS, pool("simple"));
    let mut matching = pool_with("matching", json!({ "ips": ["192.168.1.9"] }));
    matching["spec"]["match"]["podNamespace"] = json!("ingress");
    matching["spec"]["match"]["podLabel"] = json!("app=ingress");
    scene.server.put(POOLS, matching);
    scene.start();
    scene
        .until(|it| it.condition(&it.status("matching"), "Accepted") == "False PermissionMissing")
        .await;
    scene
        .until(|it| it.condition(&it.status("simple"), "Accepted") == "True Valid")
        .await;
    assert_eq!(scene.error("simple"), "");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_write_is_no_problem_any_more_once_a_write_succeeds() {
    let mut scene = two_nodes();
    for kind in ["floatingippools", "nodednsrecordsets"] {
        for method in [Method::PATCH, Method::PUT] {
            let path = format!("/{kind}/");
            let fault = ServerFault::Refuse(403);
            scene.server.always(method, &path, fault);
        }
    }
    scene.server.put(POOLS, pool("p"));
    scene.server.put(SETS, record_set("s", json!({})));
    scene.start();
    for kind in ["floatingippools", "nodednsrecordsets"] {
        let subject = format!("subject=\"write {kind}/status in namespace ns\"");
        scene.until(|it| it.figures().contains(&subject)).await;
    }
    scene.server.heal();
    pass(180).await;
    scene
        .until(|it| !it.figures().contains("PermissionMissing"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_lead_any_more_has_no_missing_permissions() {
    let mut scene = two_nodes();
    flipops_roles(&scene);
    scene.server.put(POOLS, pool("p"));
    scene.start();
    scene
        .until(|it| it.figures().contains("PermissionMissing"))
        .await;
    scene.standing.send_replace(Standing::Unknown);
    scene
        .until(|it| !it.figures().contains("PermissionMissing"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_made_anew_reports_what_is_missing_again() {
    let mut scene = two_nodes();
    flipops_roles(&scene);
    scene.server.put(POOLS, pool("p"));
    scene.start();
    let blocked =
        |it: &Scene| it.condition(&it.status("p"), "Accepted") == "False PermissionMissing";
    scene.until(blocked).await;
    scene.server.delete(POOLS, "p");
    let mut again = pool("p");
    again["metadata"]["uid"] = json!("again");
    scene.server.put(POOLS, again);
    scene.until(blocked).await;
}
