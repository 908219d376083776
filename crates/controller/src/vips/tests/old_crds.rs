//! A CRD of an older floe: the API server drops every field that it lacks.

use super::*;

/// The CRD lacks `status.summary`.
fn without_summary(server: &floe_shell::mock::Server) {
    let mut schema = json!(floe_api::crds::own()[1].spec.versions[0].schema);
    let schema = &mut schema["openAPIV3Schema"];
    let status = &mut schema["properties"]["status"]["properties"];
    assert!(status.as_object_mut().unwrap().remove("summary").is_some());
    let schema = (VIPS.to_owned(), schema.clone());
    server.state().schemas.extend([schema]);
}

fn writes(scene: &Scene) -> usize {
    scene.server.count(&Method::PATCH, "virtualips/web/status")
}

fn is_reported(scene: &Scene) -> bool {
    let reason = "SchemaOutdated";
    scene.events().iter().any(|event| event.contains(reason))
}

#[tokio::test(start_paused = true)]
async fn a_field_that_the_crd_lacks_is_written_again_only_when_the_crd_has_changed() {
    let scene = Scene::start(|server| {
        without_summary(server);
        server.put(PODS, pod("a", "n1", "True"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    assert!(scene.vip("web")["status"]["summary"].is_null());
    scene.until(is_reported).await;
    assert_eq!(scene.metrics.installation().problems().len(), 1);
    pass(5).await;
    let before = writes(&scene);
    pass(300).await;
    assert_eq!(writes(&scene), before, "an idle object is written to");
    // What the CRD has is still kept current.
    scene.server.put(PODS, pod("b", "n2", "True"));
    scene.until(|it| it.candidates("web") == ["a", "b"]).await;

    // The new CRD is applied: the pause is over.
    scene.server.state().schemas.clear();
    scene.crd_changes.send_modify(|count| *count += 1);
    let summary = json!({ "addresses": IP, "candidates": 2 });
    scene
        .until(|it| it.vip("web")["status"]["summary"] == summary)
        .await;
    scene
        .until(|it| it.metrics.installation().problems().is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_another_writer_changed_since_is_not_taken_for_a_field_that_was_dropped() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        let agent_writes = |state: &mut floe_shell::mock::State| {
            let mut written = state.list_of(VIPS).remove(0);
            let conditions = written["status"]["conditions"].as_array_mut();
            conditions.unwrap().push(json!({
                "type": "Ready", "status": "True", "reason": "Served", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }));
            state.put(VIPS, written);
        };
        let fault = Fault::After(Box::new(agent_writes));
        server.fault(Method::PATCH, "virtualips/web/status", fault);
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    pass(5).await;
    assert_eq!(scene.vip("web")["status"]["conditions"][1]["type"], "Ready");
    assert!(!is_reported(&scene), "{:?}", scene.events());
    assert_eq!(scene.metrics.installation().problems(), []);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_was_dropped_is_reported_although_the_object_is_gone_by_then() {
    let scene = Scene::start(|server| {
        without_summary(server);
        server.put(PODS, pod("a", "n1", "True"));
        let deleted = |state: &mut floe_shell::mock::State| state.remove_named(VIPS, "web");
        let fault = Fault::After(Box::new(deleted));
        server.fault(Method::PATCH, "virtualips/web/status", fault);
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    let outdated = |it: &Scene| it.metrics.installation().problems().len() == 1;
    scene.until(outdated).await;
}
