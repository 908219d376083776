use super::*;

/// One page as it is printed.
async fn list(scene: &Scene, query: &str) -> String {
    let (status, text) = call(scene, Method::GET, &format!("/v1/ip?{query}")).await;
    assert_eq!(status, 200, "{text}");
    text
}

/// The addresses of a page.
async fn ips(scene: &Scene, query: &str) -> Vec<String> {
    let page: Value = serde_json::from_str(&list(scene, query).await).unwrap();
    let content = page["content"].as_array().cloned().unwrap_or_default();
    let ip = |it: &Value| it["ip"].as_str().unwrap().to_owned();
    content.iter().map(ip).collect()
}

/// The only address of a page.
async fn only(scene: &Scene, query: &str) -> Value {
    let page: Value = serde_json::from_str(&list(scene, query).await).unwrap();
    assert_eq!(page["totalElements"], 1, "{query}: {page}");
    page["content"][0].clone()
}

#[tokio::test(start_paused = true)]
async fn a_page_is_printed_as_galaxy_does() {
    let scene = Scene::start(|server| {
        let mut object = fip("10.0.0.112", "sts_default_sts_sts-0", 2, "");
        object["spec"]["updateTime"] = json!("2020-05-29T11:11:44.6Z");
        server.put(FIPS, object);
        let mut timeless = fip("10.0.70.2", "pool__p_", 2, "");
        timeless["spec"]["updateTime"] = Value::Null;
        server.put(FIPS, timeless);
    })
    .await;
    assert_eq!(
        list(&scene, "namespace=default&appName=sts").await,
        concat!(
            r#"{"last":true,"totalElements":1,"totalPages":1,"first":true,"numberOfElements":1,"#,
            r#""size":10,"number":0,"content":[{"ip":"10.0.0.112","namespace":"default","#,
            r#""appName":"sts","podName":"sts-0","policy":2,"appType":"statefulset","#,
            r#""updateTime":"2020-05-29T11:11:44.6Z","status":"Deleted","releasable":true}]}"#,
        ),
    );
    assert_eq!(
        list(&scene, "poolName=nobody").await,
        concat!(
            r#"{"last":true,"totalElements":0,"totalPages":0,"first":true,"numberOfElements":0,"#,
            r#""size":10,"number":0}"#,
        ),
    );
    let spare = json!({
        "ip": "10.0.70.2", "poolName": "p", "policy": 2, "status": "Deleted", "releasable": true,
        "updateTime": "0001-01-01T00:00:00Z",
    });
    assert_eq!(only(&scene, "poolName=p").await, spare);
    let free = json!({ "ip": "10.0.70.3", "policy": 0, "updateTime": "0001-01-01T00:00:00Z" });
    let page = get(&scene, "/v1/ip?size=100").await;
    assert!(
        page["content"].as_array().unwrap().contains(&free),
        "{page}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_holder_has_the_status_and_releasability_of_galaxy() {
    let scene = Scene::start(|server| {
        let mut reserved = fip("10.0.70.2", "pool__reserved-for-node_", 2, "");
        reserved["metadata"]["labels"] = json!({ "reserved": "x" });
        server.put(FIPS, reserved);
        server.put(FIPS, fip("10.0.70.3", "dp_ns_web_", 1, ""));
        server.put(PODS, numbered("a-0", "u"));
        server.put(FIPS, fip("10.0.70.4", "sts_ns_a_a-0", 1, "u"));
        server.put(FIPS, fip("10.0.70.5", "tapp_ns_t_t-1", 2, ""));
        let mut failed = running("p", "v", "");
        failed["status"]["phase"] = json!("Failed");
        server.put(PODS, failed);
        server.put(FIPS, fip("10.0.70.6", "NULL_ns_NULL_p", 0, "v"));
    })
    .await;
    let table = [
        ("keyword=reserved", "", "", false),
        (
            "namespace=ns&appName=web&appType=deployment",
            "deployment",
            "Deleted",
            true,
        ),
        ("namespace=ns&appName=a", "statefulset", "Running", false),
        (
            "namespace=ns&appName=t&appType=tapp",
            "tapp",
            "Deleted",
            true,
        ),
        (
            "namespace=ns&appName=NULL&appType=NULL",
            "NULL",
            "Failed",
            false,
        ),
    ];
    for (query, app_type, status, releasable) in table {
        let ip = only(&scene, query).await;
        let text = |name: &str| ip[name].as_str().unwrap_or_default();
        assert_eq!(text("appType"), app_type, "{query}");
        assert_eq!(text("status"), status, "{query}");
        assert_eq!(
            ip["releasable"].as_bool().unwrap_or(false),
            releasable,
            "{query}"
        );
    }
    assert_eq!(
        only(&scene, "keyword=reserved").await["poolName"],
        "reserved-for-node"
    );
    scene.store.warm(|warmth| warmth.pods = false);
    let ip = only(&scene, "namespace=ns&appName=a").await;
    assert_eq!(
        (&ip["status"], &ip["releasable"]),
        (&json!("Unknown"), &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_are_prefixes_and_a_keyword_beats_them() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "sts_ns_a_a-1", 1, ""));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-10", 1, ""));
        server.put(FIPS, fip("10.0.70.4", "pool__p_dp_ns_web_web-1", 2, ""));
        server.put(FIPS, fip("10.0.70.5", "pool__p_", 2, ""));
    })
    .await;
    let table: [(&str, &[&str]); 7] = [
        (
            "namespace=ns&appName=a&podName=a-1",
            &["10.0.70.2", "10.0.70.3"],
        ),
        ("poolName=p", &["10.0.70.4", "10.0.70.5"]),
        ("namespace=ns", &[]),
        ("appName=a", &[]),
        ("keyword=web&namespace=ns&appName=a", &["10.0.70.4"]),
        ("keyword=70.2", &[]),
        (
            "poolName=p&appName=web&namespace=ns&appType=deployment",
            &["10.0.70.4"],
        ),
    ];
    for (query, wanted) in table {
        assert_eq!(ips(&scene, query).await, wanted, "{query}");
    }
    let page = get(&scene, "/v1/ip?podName=a-1&appType=tapp").await;
    assert_eq!(page["totalElements"], 12, "free ones, too");
}

#[tokio::test(start_paused = true)]
async fn addresses_are_texts_unless_somebody_sorts_them() {
    let scene = Scene::start(|_| ()).await;
    scene.configure(
        r#"[{"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.8~10.0.70.11"],
             "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"}]"#,
    );
    let ip = |number: u8| format!("10.0.70.{number}");
    let textual = [10, 11, 8, 9].map(ip);
    assert_eq!(ips(&scene, "").await, textual);
    assert_eq!(ips(&scene, "sort=namespace").await, textual);
    assert_eq!(ips(&scene, "sort=ip").await, [8, 9, 10, 11].map(ip));
    assert_eq!(ips(&scene, "sort=ip+asc").await, [8, 9, 10, 11].map(ip));
    assert_eq!(ips(&scene, "sort=IP%20desc").await, [11, 10, 9, 8].map(ip));
    for (query, first, last, number, elements) in [
        ("size=3", true, false, 0, 3),
        ("size=3&page=1", false, true, 1, 1),
        // Beyond the end.
        ("size=3&page=9", false, true, 1, 0),
        ("size=4&page=9", false, true, 1, 0),
        ("size=4", true, true, 0, 4),
    ] {
        let page = get(&scene, &format!("/v1/ip?{query}")).await;
        let wanted = json!([first, last, number, elements, 4]);
        let found = [
            "first",
            "last",
            "number",
            "numberOfElements",
            "totalElements",
        ];
        let found: Value = found.iter().map(|name| page[name].clone()).collect();
        assert_eq!(found, wanted, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_listed_can_be_sent_back_to_release_it() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "sts_ns_a_a-1", 2, ""));
        server.put(FIPS, fip("10.0.70.3", "tapp_ns_t_t-1", 2, ""));
        server.put(FIPS, fip("10.0.70.4", "pool__p_", 2, ""));
        server.put(FIPS, fip("10.0.70.5", "NULL_ns_NULL_p", 2, ""));
        server.put(FIPS, fip("10.0.70.6", "pool__p_dp_ns_web_web-1", 2, ""));
    })
    .await;
    let page = get(&scene, "/v1/ip?keyword=_").await;
    assert_eq!(page["totalElements"], 5);
    let body = json!({ "ips": page["content"] }).to_string();
    let answer = post(&scene, "/v1/ip", body).await;
    assert_eq!(answer, (200, r#"{"code":200,"message":""}"#.into()));
    assert!(scene.server.objects(FIPS).is_empty());
    let page = get(&scene, "/v1/ip?keyword=_").await;
    assert_eq!(page["totalElements"], 0, "what was written is read at once");
}

#[tokio::test(start_paused = true)]
async fn a_release_says_what_was_not_released_and_why() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "sts_ns_a_a-1", 2, ""));
        server.put(PODS, numbered("a-2", "u"));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-2", 2, "u"));
        server.put(FIPS, fip("10.0.70.4", "sts_ns_a_a-4", 2, ""));
        let mut reserved = fip("10.0.70.5", "pool__node_", 2, "");
        reserved["metadata"]["labels"] = json!({ "reserved": "" });
        server.put(FIPS, reserved);
    })
    .await;
    let numbered = |ip: &str, pod: &str| json!({ "ip": ip, "namespace": "ns", "appName": "a", "podName": pod, "appType": "" });
    let body = json!({ "ips": [
        numbered("10.0.70.3", "a-2"),
        numbered("10.0.70.2", "a-1"),
        numbered("10.0.70.4", "a-3"),
        { "ip": "10.0.70.5", "poolName": "node" },
        { "ip": "10.0.70.6" },
        numbered("10.0.70.7", "a-7"),
        numbered("192.0.2.1", "a-7"),
    ]});
    let (status, text) = post(&scene, "/v1/ip", body.to_string()).await;
    assert_eq!(status, 202);
    let wanted = concat!(
        r#"{"code":202,"message":"Released 3 ips, 4 ips failed, please check the reasons why they failed","#,
        r#""unreleased":["10.0.70.3","10.0.70.4","10.0.70.5","10.0.70.6"],"#,
        r#""reasons":["releasable is false, pod status Running","#,
        r#""ip allocated to another pod sts_ns_a_a-4","releasable is false, ip is reserved","#,
        r#""releasable is false, pod status "]}"#,
    );
    assert_eq!(text, wanted);
    assert_eq!(scene.held("10.0.70.2"), "");
    assert_eq!(scene.server.objects(FIPS).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_cannot_be_read_releases_nothing() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, "sts_ns_a_a-1", 2, ""));
    })
    .await;
    let good = json!({ "ip": IP, "namespace": "ns", "appName": "a", "podName": "a-1" });
    let bodies = [
        json!({ "ips": [good, { "ip": "10.0.70" }] }).to_string(),
        json!({ "ips": [good, { "ip": 5 }] }).to_string(),
        json!({ "ips": good }).to_string(),
        json!([good]).to_string() + "x",
        // Arrays are no objects.
        json!([]).to_string(),
        json!([[good]]).to_string(),
        json!({ "ips": [[IP, "ns", "a", "a-1"]] }).to_string(),
        String::new(),
    ];
    for body in bodies {
        let (status, text) = post(&scene, "/v1/ip", body.clone()).await;
        assert_eq!(status, 400, "{body}");
        assert!(
            text.starts_with(r#"{"code":400,"message":"bad request: "#),
            "{text}"
        );
    }
    let body = json!({ "ips": [good, { "ip": "10.0.70" }] }).to_string();
    let (_, text) = post(&scene, "/v1/ip", body).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        answer["message"],
        r#"bad request: "10.0.70" is not a valid ip"#
    );
    assert_eq!(scene.held(IP), "sts_ns_a_a-1");
    for body in [r#"{"ips":[]}"#, r#"{"ips":null}"#, "{}"] {
        let answer = post(&scene, "/v1/ip", body).await;
        assert_eq!(answer, (200, r#"{"code":200,"message":""}"#.into()));
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_that_are_not_released_are_counted_by_reason() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, "sts_ns_a_a-0", 2, ""));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-1", 2, ""));
        server.put(FIPS, fip("10.0.70.4", "vip__shop_web_", 2, ""));
    })
    .await;
    let body = json!({ "ips": [
        { "ip": IP },
        { "ip": "10.0.70.4" },
        { "ip": "10.0.70.4", "namespace": "shop", "appName": "web", "podName": "web-0" },
        { "ip": IP, "namespace": "ns", "appName": "b", "podName": "b-0" },
        { "ip": "10.0.70.3", "namespace": "ns", "appName": "a", "podName": "a-1" },
    ] });
    let (status, text) = post(&scene, "/v1/ip", body.to_string()).await;
    assert_eq!(status, 202, "{text}");
    let standing = scene.standing.subscribe();
    let metrics = scene.actions().metrics;
    let registry = metrics.registry(scene.store.clone(), standing);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let lines = text.lines();
    let mut lines: Vec<_> = lines.filter(|it| it.starts_with("floe_api_")).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            r#"floe_api_refusals_total{reason="HeldByAnother"} 1"#,
            r#"floe_api_refusals_total{reason="NotReleasable"} 1"#,
            r#"floe_api_refusals_total{reason="SharedAddress"} 2"#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn names_of_members_count_in_any_case_and_the_last_of_several_does() {
    let bodies = [
        json!({ "IPS": [{ "IP": IP, "NameSpace": "ns", "APPNAME": "a", "podname": "a-1" }] })
            .to_string(),
        format!(
            r#"{{"ips":[],"ips":[{{"ip":"10.0.70.9","Ip":"{IP}","namespace":"ns","appName":"a","podName":"a-1"}}]}}"#
        ),
    ];
    for body in bodies {
        let scene = Scene::start(|server| {
            server.put(FIPS, fip(IP, "sts_ns_a_a-1", 2, ""));
        })
        .await;
        let answer = post(&scene, "/v1/ip", body.clone()).await;
        assert_eq!(answer, (200, r#"{"code":200,"message":""}"#.into()));
        assert_eq!(scene.held(IP), "", "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_can_be_named_by_the_old_flag() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, "dp_ns_a_", 2, ""));
    })
    .await;
    assert_eq!(
        ips(&scene, "namespace=ns&appName=a&isDeployment=true").await,
        [IP]
    );
    let (status, text) = call(&scene, Method::GET, "/v1/ip?isDeployment=x").await;
    let refused = r#"{"code":400,"message":"bad request: invalid isDeployment(bool field): x"}"#;
    assert_eq!((status, &*text), (400, refused));
    let old =
        json!({ "ips": [{ "ip": IP, "namespace": "ns", "appName": "a", "isDeployment": true }] });
    let answer = post(&scene, "/v1/ip", old.to_string()).await;
    assert_eq!(answer, (200, r#"{"code":200,"message":""}"#.into()));
    assert_eq!(scene.held(IP), "");
}
