use floe_shell::mock::Fault;

use super::*;

#[tokio::test(start_paused = true)]
async fn all_pools_are_listed_with_what_they_have() {
    let scene = world().await;
    let answer = Api::of(&scene).get("/v2/pools").await;
    let items = json!([
        { "name": "p", "preAllocateIP": false, "used": 1, "spare": 1 },
        {
            "name": "q", "namespace": "kube-system", "size": 3, "preAllocateIP": false,
            "used": 0, "spare": 0,
        },
    ]);
    assert_eq!(answer, (200, json!({ "items": items })));
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_made_changed_shown_and_deleted() {
    let scene = world().await;
    let api = Api::of(&scene);
    let path = "/v2/pools/ns/p";
    let missing = api.get(path).await;
    assert_eq!(refusal(&missing), (404, "PoolNotFound", ""));
    let pool = |size: i64| {
        json!({
            "name": "p", "namespace": "ns", "size": size, "preAllocateIP": false,
            "used": 1, "spare": 1,
        })
    };
    let made = api.send(Method::PUT, path, &json!({ "size": 4 })).await;
    assert_eq!(made, (201, pool(4)));
    let changed = api.send(Method::PUT, path, &json!({ "size": 5 })).await;
    assert_eq!(changed, (200, pool(5)));
    assert_eq!(api.get(path).await, (200, pool(5)));
    assert_eq!(api.delete(path).await, (204, Value::Null));
    let missing = api.delete(path).await;
    assert_eq!(refusal(&missing), (404, "PoolNotFound", ""));
    assert_eq!(scene.server.objects(POOLS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn addresses_that_are_taken_ahead_are_there_at_once() {
    let scene = world().await;
    let api = Api::of(&scene);
    let settings = json!({ "size": 2, "preAllocateIP": true });
    let path = "/v2/pools/kube-system/new";
    let (status, pool) = api.send(Method::PUT, path, &settings).await;
    assert_eq!((status, &pool["spare"]), (201, &json!(2)));
    let settings = json!({ "size": 100, "preAllocateIP": true });
    let (status, pool) = api.send(Method::PUT, path, &settings).await;
    assert_eq!(
        (status, &pool["spare"]),
        (200, &json!(6)),
        "all that are free"
    );
}

#[tokio::test(start_paused = true)]
async fn what_no_pool_can_be_is_refused() {
    let scene = world().await;
    let api = Api::of(&scene);
    let table = [
        (
            "ns/a_b",
            json!({ "size": 1 }),
            (400, "InvalidPoolName", "name"),
        ),
        (
            "ns/A",
            json!({ "size": 1 }),
            (400, "InvalidPoolName", "namespace, name"),
        ),
        (
            "n%20s/a",
            json!({ "size": 1 }),
            (400, "InvalidPoolName", "namespace, name"),
        ),
        (
            "ns/a",
            json!({ "size": -1 }),
            (400, "InvalidPoolSize", "size"),
        ),
        ("ns/a", json!({ "size": "1" }), (400, "MalformedBody", "")),
        ("ns/a", json!({}), (400, "MalformedBody", "")),
        ("ns/a", json!([2, false]), (400, "MalformedBody", "")),
        (
            "ns/a",
            json!({ "size": 1, "preallocateip": true }),
            (400, "MalformedBody", ""),
        ),
    ];
    for (path, body, wanted) in table {
        let path = format!("/v2/pools/{path}");
        let refused = api.send(Method::PUT, &path, &body).await;
        assert_eq!(refusal(&refused), wanted, "{path} {body}");
    }
    for path in ["/v2/pools/ns/a_b", "/v2/pools/ns/A"] {
        let missing = api.get(path).await;
        assert_eq!(refusal(&missing), (404, "PoolNotFound", ""), "{path}");
        let missing = api.delete(path).await;
        assert_eq!(refusal(&missing), (404, "PoolNotFound", ""), "{path}");
    }
    assert_eq!(scene.server.objects(POOLS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_a_namespace_that_is_not_there_is_the_callers_fault() {
    let scene = world().await;
    let api = Api::of(&scene);
    scene
        .server
        .fault(Method::POST, "/pools", Fault::Refuse(404));
    let (path, settings) = ("/v2/pools/gone/p", json!({ "size": 1 }));
    let refused = api.send(Method::PUT, path, &settings).await;
    assert_eq!(refusal(&refused), (400, "NamespaceNotFound", "namespace"));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_no_fault_of_the_caller() {
    let scene = world().await;
    let api = Api::of(&scene);
    scene
        .server
        .fault(Method::GET, "/pools/q", Fault::Refuse(500));
    let refused = api.get("/v2/pools/kube-system/q").await;
    assert_eq!(refusal(&refused), (503, "PoolWriteRefused", ""));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_set_a_pool_does_not_learn_whether_it_is_there() {
    let scene = world().await;
    let (there, new) = ("/v2/pools/kube-system/q", "/v2/pools/kube-system/new");
    let set_as = async |allowed: &[&str], path: &str, body: Value| {
        let api = Api::allowing(&scene, allowed).await;
        api.send(Method::PUT, path, &body).await
    };
    for path in [there, new] {
        for body in [json!({ "size": 4 }), json!(7)] {
            let refused = set_as(&["delete pools"], path, body).await;
            assert_eq!(refusal(&refused), (403, "Forbidden", ""), "{path}");
            let told = refused.1["message"].as_str().unwrap().to_owned();
            assert!(told.starts_with("ada may not create pools"), "{told}");
        }
    }
    let looks = |call: &&String| call.contains("pools/");
    assert_eq!(scene.server.state().calls.iter().filter(looks).count(), 0);
    let size = || json!({ "size": 4 });
    assert_eq!(set_as(&["update pools"], new, size()).await.0, 403);
    assert_eq!(set_as(&["create pools"], there, size()).await.0, 403);
    assert_eq!(scene.server.object(POOLS, "q").unwrap()["size"], 3);
    assert_eq!(set_as(&["update pools"], there, size()).await.0, 200);
    assert_eq!(set_as(&["create pools"], new, size()).await.0, 201);
}
