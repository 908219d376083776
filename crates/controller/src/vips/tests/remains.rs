//! What entries of objects that are gone keep from others.

use super::*;

const OTHER: &str = "10.0.70.21";

/// Adds the entry of an object that is gone. No record tells of its address any more.
fn leave_entry(server: &floe_shell::mock::Server, name: &str, ip: &str) {
    let mut gone = vip(name, &web());
    gone["metadata"]["uid"] = json!("f-gone");
    gone["status"] = json!({ "addresses": [ip], "moves": 3 });
    set_entry(server, &gone);
}

fn message(scene: &Scene, name: &str) -> String {
    text(&scene.vip(name)["status"]["conditions"][0]["message"])
}

#[tokio::test(start_paused = true)]
async fn an_address_waits_until_it_is_withdrawn_from_an_object_that_is_gone() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        leave_entry(server, "gone", IP);
        for code in [500, 409, 500] {
            server.fault(Method::PATCH, "floe-vips-f", Fault::Refuse(code));
        }
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene
        .until(|it| it.accepted("shop", "web") == "False AddressStillHeld")
        .await;
    assert_eq!(scene.entry_of_uid("f-gone")["addresses"], json!([IP]));
    assert_eq!(scene.entry("web"), json!(null), "an agent may take it");
    assert_eq!(
        message(&scene, "web"),
        format!("{IP} is being withdrawn from VirtualIP shop/gone, which is gone")
    );
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
    assert_eq!(scene.entry_of_uid("f-gone")["addresses"], json!(null));
    assert_eq!(scene.entry("web")["addresses"], json!([IP]));
}

#[tokio::test(start_paused = true)]
async fn an_address_without_a_record_waits_while_a_lost_holder_may_answer_for_it() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        let mut gone = vip("gone", &web());
        gone["metadata"]["uid"] = json!("f-gone");
        gone["status"] = json!({
            "addresses": [IP], "holder": holding("b", "n2", 4), "moves": 3,
        });
        set_entry(server, &gone);
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene
        .until(|it| it.entry_of_uid("f-gone")["addresses"].is_null())
        .await;
    pass(300).await;
    assert_eq!(scene.accepted("shop", "web"), "False AddressStillHeld");
    assert_eq!(scene.entry("web"), json!(null), "n2 may go on by promises");
    let why = message(&scene, "web");
    assert!(why.contains("was held by node n2"), "{why}");
    pass(120).await;
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_gets_one_more_address_serves_the_others_while_it_waits() {
    let scene = Scene::start(|server| {
        server.put(PODS, pod("a", "n1", "True"));
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene.until(|it| it.candidates("web") == ["a"]).await;
    scene.set_status("web", |status| status["holder"] = holding("a", "n1", 4));
    pass(1).await;
    scene
        .server
        .always(Method::PATCH, "floe-vips-f", Fault::Refuse(500));
    leave_entry(&scene.server, "gone", OTHER);
    let mut object = scene.vip("web");
    object["spec"]["addresses"] = json!([IP, OTHER]);
    scene.server.put(VIPS, object);
    scene
        .until(|it| it.accepted("shop", "web") == "False AddressStillHeld")
        .await;
    pass(60).await;
    let entry = scene.entry("web");
    assert_eq!(entry["addresses"], json!([IP]));
    assert_eq!(entry["holder"]["node"], "n1", "it goes on");
    assert_eq!(scene.candidates("web"), ["a"]);
    assert_eq!(scene.key(OTHER), "vip__shop_web_", "it is next");
    scene.server.heal();
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
    assert_eq!(scene.entry("web")["addresses"], json!([IP, OTHER]));
    assert_eq!(scene.entry("web")["holder"]["node"], "n1");
}

#[tokio::test(start_paused = true)]
async fn addresses_of_an_entry_that_names_no_object_are_withdrawn() {
    let scene = Scene::start(|server| {
        leave_entry(server, "", IP);
        server.put(VIPS, vip("web", &web()));
    })
    .await;
    scene
        .until(|it| it.entry_of_uid("f-gone")["addresses"].is_null())
        .await;
    scene
        .until(|it| it.accepted("shop", "web") == "True Granted")
        .await;
}
