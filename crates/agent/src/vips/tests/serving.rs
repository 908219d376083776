use super::*;

#[tokio::test(start_paused = true)]
async fn a_free_address_is_taken_served_and_told() {
    let server = shared_by_two();
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;

    let status = scene.status("web");
    assert_eq!(status["holder"]["pod"], "a");
    assert_eq!(status["holder"]["node"], "n1");
    assert_eq!(status["holder"]["term"], 1);
    assert_eq!(status["lastMove"]["reason"], "FirstHolder");
    assert_eq!(status["lastMove"]["to"], "a");
    let lease = server.object(LEASES, "floe-vip-n1").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 3);
    assert_eq!(lease["metadata"]["annotations"]["floe.dev/peers"], "n2");
    assert_eq!(lease["metadata"]["labels"]["floe.dev/vip-lease"], "true");
    let told = |kind, status: &str, reason: &str| {
        scene.condition("web", kind) == Some((status.to_owned(), reason.to_owned()))
    };
    server
        .until(|_| told("Serving", "True", "HolderReady") && told("Reachable", "True", "Announced"))
        .await;
    assert!(scene.metrics.has("floe_agent_vip_addresses_held 1"));
}

#[tokio::test(start_paused = true)]
async fn in_steady_state_only_the_lease_is_written() {
    let server = Server::default();
    put_pod(&server, "a", true);
    for vip in ["one", "two", "three"] {
        put_vip(&server, vip, &[candidate("a", "n1")], &Value::Null);
    }
    let scene = Scene::start(&server);
    for vip in ["one", "two", "three"] {
        scene.until_it_serves(vip).await;
        server
            .until(|_| scene.condition(vip, "Serving").is_some())
            .await;
    }
    server.state().calls.clear();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let renewals = server.count(&Method::PUT, "floe-vip-n1");
    assert!((19..=21).contains(&renewals), "{renewals}");
    assert_eq!(server.state().calls.len(), renewals);
    assert!(["one", "two", "three"].iter().all(|vip| scene.serves(vip)));
}

#[tokio::test(start_paused = true)]
async fn without_renewals_and_promises_it_is_silent_at_the_deadline_and_comes_back_in_a_new_term() {
    let server = shared_by_two();
    let mut scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    assert!(!scene.metrics.text().contains(r#"{result="unknown"}"#));
    server.always(Method::PUT, "leases", Fault::Hang);
    server.always(Method::GET, "leases", Fault::Hang);
    // The last renewal that succeeded was sent a second ago at most.
    tokio::time::sleep(Duration::from_millis(1900)).await;
    assert!(scene.serves("web"));
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(!scene.serves("web"));
    server.until(|_| scene.kernel.role("web").is_none()).await;
    let asked = scene.said.try_recv().unwrap();
    assert!(matches!(asked, Said::Ask { to, term: 1, .. } if to == "n2"));
    assert!(scene.metrics.has("floe_agent_vip_addresses_held 0"));
    assert!(scene.metrics.text().contains(r#"{result="unknown"}"#));

    server.heal();
    scene.until_it_serves("web").await;
    let status = scene.status("web");
    assert_eq!(status["holder"]["term"], 2);
    // The same pod has it again: that is no move.
    assert_eq!(status["moves"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_process_takes_back_what_its_node_has_in_a_new_term() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_lease(&server, "n1", 6, "n2");
    let candidates = [candidate("a", "n1"), candidate("b", "n2")];
    put_vip(&server, "web", &candidates, &holding("a", "n1", 6));
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    assert_eq!(scene.status("web")["holder"]["term"], 7);
    let lease = server.object(LEASES, "floe-vip-n1").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 7);
}

#[tokio::test(start_paused = true)]
async fn an_address_without_an_interface_is_served_and_told_unreachable() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.kernel.0.lock().unwrap().unreachable = Some(Unreachable::NoInterface);
    scene.until_it_serves("web").await;
    let wanted = Some(("False".to_owned(), "NoInterface".to_owned()));
    server
        .until(|_| scene.condition("web", "Reachable") == wanted)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_turns_unready_stays_when_there_is_nobody_else_and_that_is_told() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    put_pod(&server, "a", false);
    let wanted = Some(("True".to_owned(), "HolderNotReady".to_owned()));
    server
        .until(|_| scene.condition("web", "Serving") == wanted)
        .await;
    assert!(scene.serves("web"));
    server.delete(PODS, "a");
    let wanted = Some(("False".to_owned(), "PodDeleted".to_owned()));
    server
        .until(|_| scene.condition("web", "Serving") == wanted)
        .await;
    assert!(scene.status("web")["holder"].is_null());
    assert!(!scene.serves("web"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_served_is_given_up_after_two_looks() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    scene.kernel.0.lock().unwrap().trouble = Some(Trouble::NoRoute);
    server
        .until(|_| scene.status("web")["holder"].is_null())
        .await;
    assert_eq!(scene.status("web")["lastMove"]["reason"], "CannotServe");
    assert!(!scene.serves("web"));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_lost_its_link_hands_over_when_somebody_else_can_have_it() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    scene.kernel.0.lock().unwrap().unreachable = Some(Unreachable::LinkLost);
    let wanted = Some(("False".to_owned(), "LinkLost".to_owned()));
    server
        .until(|_| scene.condition("web", "Reachable") == wanted)
        .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(scene.serves("web"), "from inside it still works");
    let mut object = server.object(VIPS, "web").unwrap();
    object["status"]["candidates"] = json!([candidate("a", "n1"), candidate("b", "n2")]);
    server.put(VIPS, object);
    server
        .until(|_| scene.status("web")["successor"]["pod"] == "b")
        .await;
    assert_eq!(scene.status("web")["successor"]["reason"], "CannotServe");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_does_not_forward_hands_over_unless_it_got_the_address_for_that() {
    for came_by in ["FirstHolder", "CannotServe"] {
        let server = shared_by_two();
        let scene = Scene::start(&server);
        scene.until_it_serves("web").await;
        scene.write("web", |entry| {
            entry["lastMove"] = json!({ "at": jiff::Timestamp::now(), "reason": came_by });
        });
        let obstacle = Obstacle::Policy("ip filter FORWARD".into());
        scene.kernel.0.lock().unwrap().unreachable = Some(Unreachable::NotForwarding(obstacle));
        let wanted = Some(("False".to_owned(), "NotForwarding".to_owned()));
        server
            .until(|_| scene.condition("web", "Reachable") == wanted)
            .await;
        if came_by == "CannotServe" {
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert!(scene.serves("web"), "it is not passed on");
            assert!(scene.status("web")["successor"].is_null());
        } else {
            server
                .until(|_| scene.status("web")["successor"]["pod"] == "b")
                .await;
            assert_eq!(scene.status("web")["successor"]["reason"], "CannotServe");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kernel_that_takes_no_orders_is_silent_by_itself_and_then_given_up() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    scene.kernel.0.lock().unwrap().is_broken = true;
    tokio::time::sleep(Duration::from_millis(3100)).await;
    assert!(!scene.serves("web"), "it goes silent by itself");
    assert_eq!(scene.status("web")["holder"]["pod"], "a");
    server
        .until(|_| scene.status("web")["holder"].is_null())
        .await;
    assert_eq!(scene.status("web")["lastMove"]["reason"], "CannotServe");
}
