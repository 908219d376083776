use super::*;

/// Address, whether it was done, and reason.
fn results((status, body): &Told) -> Vec<(String, bool, String)> {
    assert_eq!(*status, 200, "{body}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let results = body["results"].as_array().unwrap().iter();
    results
        .map(|it| {
            assert!(!text(&it["message"]).is_empty());
            (
                text(&it["ip"]),
                it["done"].as_bool().unwrap(),
                text(&it["reason"]),
            )
        })
        .collect()
}

fn row(ip: &str, done: bool, reason: &str) -> (String, bool, String) {
    (ip.into(), done, reason.into())
}

#[tokio::test(start_paused = true)]
async fn each_address_is_released_or_told_why_not() {
    let scene = world().await;
    let api = Api::of(&scene);
    let body = |dry_run| {
        json!({
            "dryRun": dry_run,
            "ips": [
                { "ip": "10.0.70.2" },
                { "ip": "10.0.70.3", "key": "sts_ns_a_a-9" },
                { "ip": "10.0.70.3", "key": "sts_ns_a_a-1" },
                { "ip": "10.0.70.6" },
                { "ip": "10.0.70.9" },
            ],
        })
    };
    let wanted = [
        row("10.0.70.2", false, "PodRuns"),
        row("10.0.70.3", false, "HeldByAnother"),
        row("10.0.70.3", true, "Released"),
        row("10.0.70.6", false, "AddressReserved"),
        row("10.0.70.9", true, "AlreadyFree"),
    ];
    let dry = api.post("/v2/ips/release", body(true)).await;
    assert_eq!(results(&dry), wanted);
    assert_eq!(dry.1["dryRun"], true);
    assert_eq!(
        scene.held("10.0.70.3"),
        "sts_ns_a_a-1",
        "nothing has changed"
    );
    let done = api.post("/v2/ips/release", body(false)).await;
    assert_eq!(results(&done), wanted);
    assert_eq!(scene.held("10.0.70.3"), "");
    assert_eq!(scene.held("10.0.70.2"), "sts_ns_a_a-0 u0");
    let (_, now) = api.get("/v2/ips/10.0.70.3").await;
    assert_eq!(now["state"], "Free", "everybody reads what he wrote");
}

#[tokio::test(start_paused = true)]
async fn addresses_are_reserved_and_free_again() {
    let scene = world().await;
    let api = Api::of(&scene);
    let ips = json!(["10.0.70.5~10.0.70.7", "10.0.80.4/31", "192.0.2.9"]);
    let reserve = |dry_run| json!({ "ips": ips, "purpose": "printer", "dryRun": dry_run });
    let wanted = [
        row("10.0.70.5", false, "HeldByAnother"),
        row("10.0.70.6", true, "AlreadyReserved"),
        row("10.0.70.7", true, "Reserved"),
        row("10.0.80.4", true, "Reserved"),
        row("10.0.80.5", true, "Reserved"),
        row("192.0.2.9", false, "NotConfigured"),
    ];
    let before = scene.server.objects(FIPS).len();
    let dry = api.post("/v2/ips/reserve", reserve(true)).await;
    assert_eq!(results(&dry), wanted);
    assert_eq!(scene.server.objects(FIPS).len(), before);
    let done = api.post("/v2/ips/reserve", reserve(false)).await;
    assert_eq!(results(&done), wanted);
    assert_eq!(scene.held("10.0.70.7"), "pool__reserved-for-printer_");
    assert_eq!(api.get("/v2/ips/10.0.80.5").await.1["state"], "Reserved");

    let unreserve = |dry_run| json!({ "ips": ips, "dryRun": dry_run });
    let wanted = [
        row("10.0.70.5", false, "NotReserved"),
        row("10.0.70.6", true, "Unreserved"),
        row("10.0.70.7", true, "Unreserved"),
        row("10.0.80.4", true, "Unreserved"),
        row("10.0.80.5", true, "Unreserved"),
        row("192.0.2.9", true, "AlreadyFree"),
    ];
    let dry = api.post("/v2/ips/unreserve", unreserve(true)).await;
    assert_eq!(results(&dry), wanted);
    assert_eq!(scene.held("10.0.70.7"), "pool__reserved-for-printer_");
    let done = api.post("/v2/ips/unreserve", unreserve(false)).await;
    assert_eq!(results(&done), wanted);
    assert_eq!(scene.server.objects(FIPS).len(), before - 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_makes_no_sense_changes_nothing() {
    let scene = world().await;
    let api = Api::of(&scene);
    let one = json!({ "ip": "10.0.70.3" });
    let many: Vec<&Value> = vec![&one; 1001];
    let table = [
        ("release", json!({}), "MalformedBody", ""),
        ("release", json!([]), "MalformedBody", ""),
        ("release", json!([[one], false]), "MalformedBody", ""),
        (
            "release",
            json!({ "ips": [["10.0.70.3"]] }),
            "MalformedBody",
            "",
        ),
        ("reserve", json!([["10.0.70.8"]]), "MalformedBody", ""),
        ("unreserve", json!([["10.0.70.6"]]), "MalformedBody", ""),
        (
            "release",
            json!({ "ips": [], "dryrun": true }),
            "MalformedBody",
            "",
        ),
        (
            "release",
            json!({ "ips": ["10.0.70.3"] }),
            "MalformedBody",
            "",
        ),
        (
            "release",
            json!({ "ips": [one, { "ip": "x" }] }),
            "InvalidParameter",
            "ips[1].ip",
        ),
        ("release", json!({ "ips": many }), "InvalidParameter", "ips"),
        (
            "reserve",
            json!({ "ips": ["10.0.70.8", "x"] }),
            "InvalidParameter",
            "ips[1]",
        ),
        (
            "reserve",
            json!({ "ips": ["fd00::/64"] }),
            "InvalidParameter",
            "ips",
        ),
        (
            "reserve",
            json!({ "ips": ["10.0.70.8"], "purpose": "a_b" }),
            "InvalidPurpose",
            "purpose",
        ),
        (
            "unreserve",
            json!({ "ips": ["10.0.70.6", ""] }),
            "InvalidParameter",
            "ips[1]",
        ),
        (
            "unreserve",
            json!({ "ips": ["10.0.70.6"], "purpose": "x" }),
            "MalformedBody",
            "",
        ),
    ];
    for (path, body, reason, field) in table {
        let refused = api.post(&format!("/v2/ips/{path}"), body.clone()).await;
        assert_eq!(refusal(&refused), (400, reason, field), "{path} {body}");
    }
    // Also if they are few in the end.
    for path in ["reserve", "unreserve"] {
        let many = json!({ "ips": vec!["10.0.70.6"; 257] });
        let refused = api.post(&format!("/v2/ips/{path}"), many).await;
        assert_eq!(refusal(&refused), (400, "InvalidParameter", "ips"));
    }
    for kind in [None, Some("text/plain"), Some("application/jsonx")] {
        let mut request = Request::post("/v2/ips/release");
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let body = Body::from(json!({ "ips": [one] }).to_string());
        let refused = told(api.call(request.body(body).unwrap()).await).await;
        assert_eq!(refusal(&refused), (415, "UnsupportedMediaType", ""));
    }
    let request = Request::post("/v2/ips/release").header(header::CONTENT_TYPE, "application/json");
    let refused = told(
        api.call(request.body(Body::from("{\"ips\":")).unwrap())
            .await,
    )
    .await;
    assert_eq!(refusal(&refused), (400, "MalformedBody", ""));
    let unknown = api
        .post("/v2/ips/release?dryRun=true", json!({ "ips": [one] }))
        .await;
    assert_eq!(refusal(&unknown), (400, "InvalidParameter", "dryRun"));
    assert_eq!(scene.server.objects(FIPS).len(), 7);
}
