use floe_shell::mock::{Fault, State};

use super::*;

async fn set(scene: &Scene, body: &str) -> (u16, String) {
    post(scene, "/v1/pool", body.to_owned()).await
}

const FINE: &str = r#"{"code":200,"message":""}"#;

fn filled(size: u32) -> (u16, String) {
    (
        200,
        format!(r#"{{"code":200,"message":"","realPoolSize":{size}}}"#),
    )
}

fn short(size: u32) -> (u16, String) {
    (
        202,
        format!(r#"{{"code":202,"message":"No enough IPs","realPoolSize":{size}}}"#),
    )
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_set_read_and_deleted() {
    let scene = Scene::start(|_| ()).await;
    let missing = (
        404,
        r#"{"code":404,"message":"not found: pool p"}"#.to_owned(),
    );
    assert_eq!(call(&scene, Method::GET, "/v1/pool/p").await, missing);
    assert_eq!(call(&scene, Method::DELETE, "/v1/pool/p").await, missing);
    assert_eq!(
        set(&scene, r#"{"name":"p","size":4}"#).await,
        (200, FINE.into())
    );
    let answer = call(&scene, Method::GET, "/v1/pool/p").await;
    let wanted = r#"{"code":200,"message":"","pool":{"name":"p","size":4,"preAllocateIP":false}}"#;
    assert_eq!(answer, (200, wanted.into()));
    let object = scene.server.object(POOLS, "p").unwrap();
    assert_eq!(object["metadata"]["namespace"], "kube-system");
    assert!(scene.server.objects(FIPS).is_empty());
    assert_eq!(
        call(&scene, Method::DELETE, "/v1/pool/p").await,
        (200, FINE.into())
    );
    assert_eq!(call(&scene, Method::GET, "/v1/pool/p").await, missing);
    let (status, text) = call(&scene, Method::GET, "/v1/pool/a%2Fb_c").await;
    assert_eq!(
        (status, text.contains("not found: pool a/b_c")),
        (404, true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_asks_for_it_is_filled_before_the_answer() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, "pool__p_dp_ns_a_a-1", 2, "u"));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-1", 2, "u"));
    })
    .await;
    let ask = |size: u32| format!(r#"{{"name":"p","size":{size},"preAllocateIP":true}}"#);
    assert_eq!(set(&scene, &ask(3)).await, filled(3));
    assert_eq!(scene.server.objects(FIPS).len(), 4);
    assert_eq!(set(&scene, &ask(3)).await, filled(3));
    assert_eq!(
        set(&scene, &ask(2)).await,
        filled(3),
        "it keeps what it has"
    );
    assert_eq!(set(&scene, &ask(0)).await, filled(3));
    assert_eq!(set(&scene, &ask(11)).await, filled(11));
    assert_eq!(set(&scene, &ask(12)).await, short(11));
    assert_eq!(set(&scene, &ask(5)).await, short(11), "no address is free");
    assert_eq!(scene.server.objects(FIPS).len(), 12);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_pool_is_refused() {
    let scene = Scene::start(|_| ()).await;
    let message = async |body: &str| {
        let (status, text) = set(&scene, body).await;
        assert_eq!(status, 400, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(message("{}").await, "bad request: pool name is empty");
    let text = message(r#"{"name":"p","size":-1}"#).await;
    assert_eq!(text, "bad request: pool size -1 is negative");
    for body in [
        r#"{"name":"a_b","size":1}"#,
        r#"{"name":"A","size":1}"#,
        r#"{"name":"p","size":"1"}"#,
        r#"{"name":"p","size":1.5}"#,
        "",
        "[",
        r#"["seq",2,false]"#,
    ] {
        let text = message(body).await;
        assert!(text.starts_with("bad request: "), "{text}");
    }
    assert!(scene.server.objects(POOLS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn failures_and_races_of_the_api_server_are_told_or_mended() {
    let scene = Scene::start(|_| ()).await;
    scene
        .server
        .fault(Method::POST, "pools", Fault::Refuse(403));
    let body = r#"{"name":"p","size":1}"#;
    let (status, text) = set(&scene, body).await;
    assert_eq!(status, 500);
    let start = r#"{"code":500,"message":"server error: failed to create Pool: "#;
    assert!(text.starts_with(start), "{text}");

    let faster = |state: &mut State| {
        let metadata = json!({ "name": "p", "namespace": "kube-system" });
        let pool = json!({ "metadata": metadata, "size": 9, "preAllocateIP": false });
        state.put(POOLS, pool);
    };
    let fault = Fault::Before(Box::new(faster));
    scene.server.fault(Method::POST, "pools", fault);
    assert_eq!(set(&scene, body).await, (200, FINE.into()));
    assert_eq!(scene.server.object(POOLS, "p").unwrap()["size"], 1);
    scene
        .server
        .fault(Method::GET, "pools/p", Fault::Refuse(500));
    let (status, _) = call(&scene, Method::GET, "/v1/pool/p").await;
    assert_eq!(status, 500);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_set_a_pool_learns_nothing() {
    let metadata = json!({ "name": "there", "namespace": "kube-system" });
    let pool = json!({ "metadata": metadata, "size": 9, "preAllocateIP": false });
    let scene = Scene::start(|server| {
        server.put(POOLS, pool);
    })
    .await;
    let set_as = async |allowed: &[&str], body: &str| {
        let reviewer = Reviewer::new(Registry::allowing(allowed).client());
        let ada = Caller::with_token("ada-token", reviewer).await.unwrap();
        let request = Request::post("/v1/pool").header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let answer = routes_for(&scene, ada).oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let looks = || {
        let state = scene.server.state();
        let looks = state.calls.iter().filter(|call| call.contains("pools/"));
        looks.count()
    };
    let (there, new) = (r#"{"name":"there","size":1}"#, r#"{"name":"new","size":1}"#);
    for body in [there, new, r#"{"name":"A_B","size":-1}"#, "{}", "{", ""] {
        let (status, text) = set_as(&["delete pools"], body).await;
        assert_eq!(status, 403, "{body} {text}");
        assert!(text.contains("ada may not create pools"), "{text}");
    }
    assert_eq!(looks(), 0, "nobody has looked for the pool");
    assert_eq!(set_as(&["update pools"], new).await.0, 403);
    assert_eq!(set_as(&["create pools"], there).await.0, 403);
    assert_eq!(scene.server.object(POOLS, "there").unwrap()["size"], 9);
    assert_eq!(set_as(&["update pools"], there).await.0, 200);
    assert_eq!(set_as(&["create pools"], new).await.0, 200);
    assert_eq!(set_as(&["create pools"], "{").await.0, 400);
    assert_eq!(scene.server.object(POOLS, "there").unwrap()["size"], 1);
    assert_eq!(scene.server.object(POOLS, "new").unwrap()["size"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_text_is_refused_in_galaxys_shape() {
    let scene = Scene::start(|_| ()).await;
    for method in [Method::GET, Method::DELETE] {
        let (status, text) = call(&scene, method, "/v1/pool/%ff").await;
        assert_eq!(status, 400);
        let start = r#"{"code":400,"message":"bad request: "#;
        assert!(text.starts_with(start), "{text}");
    }
}
