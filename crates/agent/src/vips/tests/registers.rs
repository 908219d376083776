//! What is kept together moves together.

use super::*;

const NAMES: [&str; 5] = ["one", "two", "three", "four", "five"];

/// Five addresses of one register, all held by `n2`, that a pod of this node could have.
fn held_by_another(server: &Server) {
    put_pod(server, "a", true);
    put_lease(server, "n2", 4, "n1");
    let candidates = [candidate("a", "n1"), candidate("b", "n2")];
    for name in NAMES {
        put_vip(server, name, &candidates, &holding("b", "n2", 4));
    }
}

#[tokio::test(start_paused = true)]
async fn all_addresses_of_a_silent_node_are_taken_in_one_write() {
    let server = Server::default();
    held_by_another(&server);
    let scene = Scene::start(&server);
    for name in NAMES {
        scene.until_it_serves(name).await;
    }
    assert_eq!(server.count(&Method::PATCH, REGISTER), 1);
    for name in NAMES {
        assert_eq!(scene.status(name)["lastMove"]["reason"], "NodeSilent");
    }
}

#[tokio::test(start_paused = true)]
async fn when_somebody_was_faster_one_read_tells_of_all_and_what_is_left_is_taken() {
    let server = Server::default();
    held_by_another(&server);
    // Node n3 takes one of them just before, and no watch tells of it in time.
    let taken = |state: &mut floe_shell::mock::State| {
        let mut register = state.list_of(REGISTERS).remove(0);
        edit(&mut register, &uid("two"), |entry| {
            entry["holder"] = holding("c", "n3", 9);
            entry["moves"] = json!(1);
        });
        state.put(REGISTERS, register);
    };
    server.fault(Method::PATCH, REGISTER, Fault::Before(Box::new(taken)));
    let scene = Scene::start(&server);
    for name in NAMES.iter().filter(|name| **name != "two") {
        scene.until_it_serves(name).await;
    }
    assert_eq!(scene.status("two")["holder"]["node"], "n3");
    assert!(!scene.serves("two"));
    assert_eq!(server.count(&Method::PATCH, REGISTER), 2);
    assert!(server.count(&Method::GET, REGISTER) <= 1);
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_who_has_an_address_a_moment_later() {
    let server = shared_by_two();
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    let shows = |pod: &Value| scene.shown("web")["holder"]["pod"] == *pod;
    server.until(|_| shows(&json!("a"))).await;
    let status = scene.shown("web");
    assert_eq!(status["addresses"], json!(["10.9.0.100"]));
    assert_eq!(status["summary"]["addresses"], "10.9.0.100");
    assert_eq!(status["lastMove"]["reason"], "FirstHolder");
    assert_eq!(status["candidates"].as_array().unwrap().len(), 2);
    // Whoever lets go shows that, too.
    scene.write("web", |entry| entry["addresses"] = json!([]));
    server.until(|_| shows(&Value::Null)).await;
    assert!(scene.status("web")["holder"].is_null());
    let (holds, _) = scene.condition("web", "Serving").unwrap();
    assert_eq!(holds, "False");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_shows_something_else_decides_nothing() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let mut object = server.object(VIPS, "web").unwrap();
    object["status"]["holder"] = holding("b", "n2", 4);
    object["status"]["addresses"] = json!(["10.9.0.200"]);
    server.put(VIPS, object);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    server
        .until(|_| scene.shown("web")["holder"]["pod"] == "a")
        .await;
    assert_eq!(scene.shown("web")["addresses"], json!(["10.9.0.100"]));
}

#[tokio::test(start_paused = true)]
async fn what_has_no_entry_is_nobodys() {
    let server = Server::default();
    put_pod(&server, "a", true);
    for name in ["web", "bare"] {
        put_vip(&server, name, &[candidate("a", "n1")], &Value::Null);
    }
    let mut register = server.object(REGISTERS, REGISTER).unwrap();
    let entry = entry_of(Some(register.clone()), &uid("bare"));
    let entries = register["entries"].as_object_mut().unwrap();
    entries.remove(&uid("bare")).unwrap();
    server.put(REGISTERS, register);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    assert!(scene.kernel.role("bare").is_none());
    scene.write("bare", |it| *it = entry);
    scene.until_it_serves("bare").await;
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_undoes_nothing_that_a_watch_has_told() {
    let server = Server::default();
    held_by_another(&server);
    let scene = Scene::start(&server);
    for name in NAMES {
        scene.until_it_serves(name).await;
    }
    let old = server.object(REGISTERS, REGISTER).unwrap();
    // Somebody takes the register away, and another one says that n2 has everything.
    server.delete(REGISTERS, REGISTER);
    let mut register = old.clone();
    register["metadata"] = json!({ "name": REGISTER });
    for name in NAMES {
        edit(&mut register, &uid(name), |entry| {
            entry["holder"] = holding("b", "n2", 9);
            entry["moves"] = json!(7);
        });
    }
    server.put(REGISTERS, register);
    server.until(|_| !scene.serves("one")).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(NAMES.iter().all(|name| !scene.serves(name)));
}

/// Objects that no definition would let in, from a time before it or from another server.
fn put_nonsense(server: &Server) {
    let mut candidate = candidate("a", "n1");
    candidate["nodeAddress"] = json!("nowhere");
    server.put(
        VIPS,
        json!({
            "metadata": { "name": "bad", "uid": uid("bad") },
            "spec": {}, "status": { "candidates": [candidate] },
        }),
    );
    let entries = json!({ "f-bad": { "vip": "shop/bad", "state": r#"{"moves":"many"}"# } });
    let register = json!({ "metadata": { "name": "floe-vips-f" }, "entries": entries });
    server.put(REGISTERS, register);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_costs_nothing_but_itself() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_nonsense(&server);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    // It comes once more, and so does everything else.
    put_nonsense(&server);
    put_vip(&server, "new", &[candidate("a", "n1")], &Value::Null);
    scene.until_it_serves("new").await;
    assert!(scene.serves("web"));
}

#[tokio::test(start_paused = true)]
async fn a_holder_stays_when_its_object_cannot_be_read_any_more() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    let mut object = server.object(VIPS, "web").unwrap();
    object["spec"]["failover"] = json!({ "unreadyGraceSeconds": "long" });
    server.put(VIPS, object);
    // A list is no proof either that it is gone.
    scene.doubts.send_modify(|count| *count += 1);
    put_vip(&server, "new", &[candidate("a", "n1")], &Value::Null);
    scene.until_it_serves("new").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(scene.serves("web"));
}
