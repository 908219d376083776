use super::*;

/// The addresses of a list, and how many there are in all.
async fn found(api: &Api, query: &str) -> (Vec<String>, u64) {
    let (status, body) = api.get(&format!("/v2/ips?{query}")).await;
    assert_eq!(status, 200, "{query}: {body}");
    let items = body["items"].as_array().unwrap().iter();
    let ips = items.map(|item| item["ip"].as_str().unwrap().to_owned());
    (ips.collect(), body["total"].as_u64().unwrap())
}

#[tokio::test(start_paused = true)]
async fn every_filter_finds_its_addresses() {
    let scene = world().await;
    let api = Api::of(&scene);
    let table: [(&str, &[&str]); 22] = [
        ("state=Bound", &["10.0.70.2", "10.0.70.5", "192.0.2.7"]),
        ("state=Kept,Spare", &["10.0.70.3", "10.0.70.4"]),
        ("state=Reserved", &["10.0.70.6"]),
        ("state=Foreign", &["10.0.80.2"]),
        ("namespace=ns", &["10.0.70.2", "10.0.70.3", "10.0.70.5"]),
        (
            "namespace=ns&appType=statefulset",
            &["10.0.70.2", "10.0.70.3"],
        ),
        ("appType=deployment", &["10.0.70.5", "192.0.2.7"]),
        ("app=web", &["10.0.70.5"]),
        ("pool=p", &["10.0.70.4", "10.0.70.5"]),
        ("pod=a-1", &["10.0.70.3"]),
        ("node=n1", &["10.0.70.2", "10.0.70.5", "192.0.2.7"]),
        ("policy=on-delete", &["10.0.80.2", "192.0.2.7"]),
        ("outside=true", &["192.0.2.7"]),
        ("q=WEB", &["10.0.70.5"]),
        ("q=192.0", &["192.0.2.7"]),
        ("ip=10.0.70.3~10.0.70.4", &["10.0.70.3", "10.0.70.4"]),
        ("ip=192.0.2.0/24", &["192.0.2.7"]),
        ("ip=10.0.80.5", &["10.0.80.5"]),
        ("subnet=10.0.80.0/24&state=Foreign", &["10.0.80.2"]),
        ("nodeSubnet=10.0.1.0/24&state=Kept", &["10.0.70.3"]),
        ("subnet=10.0.70.0/24&nodeSubnet=10.0.2.0/24", &[]),
        ("ip=10.0.70.3&subnet=10.0.80.0/24", &[]),
    ];
    for (query, wanted) in table {
        let (ips, total) = found(&api, query).await;
        assert_eq!(ips, wanted, "{query}");
        assert_eq!(total, wanted.len() as u64, "{query}");
    }
    // All of both entries, and one outside of them.
    assert_eq!(found(&api, "").await.1, 8 + 4 + 1);
}

#[tokio::test(start_paused = true)]
async fn pages_and_orders_are_those_that_were_asked_for() {
    let scene = world().await;
    let api = Api::of(&scene);
    let (ips, total) = found(&api, "page=1&size=5").await;
    assert_eq!(
        ips,
        [
            "10.0.70.7",
            "10.0.70.8",
            "10.0.70.9",
            "10.0.80.2",
            "10.0.80.3"
        ]
    );
    assert_eq!(total, 13);
    assert_eq!(found(&api, "page=4000000000&size=1000").await.0.len(), 0);
    let (ips, _) = found(&api, "sort=-ip&size=2").await;
    assert_eq!(ips, ["192.0.2.7", "10.0.80.5"]);
    let (ips, _) = found(&api, "sort=pod&state=Bound").await;
    assert_eq!(ips, ["10.0.70.2", "10.0.70.5", "192.0.2.7"]);
    let (_, body) = api.get("/v2/ips?page=1&size=5").await;
    assert_eq!((&body["page"], &body["size"]), (&json!(1), &json!(5)));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_refused_by_name() {
    let scene = world().await;
    let api = Api::of(&scene);
    let table = [
        ("ips?page=x", "page"),
        ("ips?page=-1", "page"),
        ("ips?page=", "page"),
        ("ips?size=0", "size"),
        ("ips?size=1001", "size"),
        ("ips?ip=10.0.70.5~10.0.70.2", "ip"),
        ("ips?ip=10.0.0.0/33", "ip"),
        ("ips?ip=", "ip"),
        ("ips?state=bound", "state"),
        ("ips?state=Bound,", "state"),
        ("ips?policy=1", "policy"),
        ("ips?subnet=10.0.70.0", "subnet"),
        ("ips?nodeSubnet=x", "nodeSubnet"),
        ("ips?outside=1", "outside"),
        ("ips?sort=key", "sort"),
        ("ips?sort=", "sort"),
        ("ips?color=red", "color"),
        ("ips?q=a&q=b", "q"),
        ("ips/x", "ip"),
        ("ips/10.0.70.2?q=x", "q"),
        ("subnets?q=x", "q"),
        ("pools?q=x", "q"),
        ("holders?node=x", "node"),
        ("holders?size=0", "size"),
        ("watch?state=Bound", "state"),
        ("explain", "ip"),
        ("explain?ip=10.0.70.2&pod=ns/a-0", "ip"),
        ("explain?ip=x", "ip"),
        ("explain?pod=a-0", "pod"),
        ("explain?pod=/a-0", "pod"),
        ("explain?pod=ns/a/0", "pod"),
    ];
    for (path, field) in table {
        let refused = api.get(&format!("/v2/{path}")).await;
        assert_eq!(
            refusal(&refused),
            (400, "InvalidParameter", field),
            "{path}"
        );
    }
    let broken = api.get("/v2/ips/%ff").await;
    assert_eq!(refusal(&broken), (400, "InvalidParameter", ""));
}

#[tokio::test(start_paused = true)]
async fn one_address_is_shown_with_all_that_is_known() {
    let scene = world().await;
    let api = Api::of(&scene);
    let place = json!({
        "subnet": "10.0.70.0/24", "gateway": "10.0.70.1", "nodeSubnets": ["10.0.1.0/24"],
    });
    let with = |mut more: Value| {
        let more_members = more.as_object_mut().unwrap();
        more_members.extend(place.as_object().unwrap().clone());
        more
    };
    let bound = with(json!({
        "ip": "10.0.70.2", "state": "Bound", "key": "sts_ns_a_a-0",
        "holder": { "appType": "statefulset", "namespace": "ns", "app": "a", "pod": "a-0" },
        "policy": "immutable", "node": "n1", "podUid": "u0", "podPhase": "Running",
        "since": "2026-01-01T00:00:00Z", "releasable": false,
    }));
    assert_eq!(api.get("/v2/ips/10.0.70.2").await, (200, bound.clone()));
    assert_eq!(api.get("/v2/ips/::ffff:10.0.70.2").await, (200, bound));
    let free = with(json!({ "ip": "10.0.70.9", "state": "Free", "releasable": false }));
    assert_eq!(api.get("/v2/ips/10.0.70.9").await, (200, free));
    let (_, kept) = api.get("/v2/ips/10.0.70.3").await;
    assert_eq!(kept["podPhase"], "Gone");
    assert_eq!(kept["releasable"], true);
    let (_, spare) = api.get("/v2/ips/10.0.70.4").await;
    assert_eq!(spare["holder"], json!({ "pool": "p" }));
    assert_eq!(spare["releasable"], true);
    assert_eq!(api.get("/v2/ips/10.0.70.6").await.1["releasable"], false);
    let (_, outside) = api.get("/v2/ips/192.0.2.7").await;
    assert_eq!(outside.get("subnet"), None);
    let nowhere = api.get("/v2/ips/192.0.2.8").await;
    assert_eq!(refusal(&nowhere), (404, "NotConfigured", ""));
}

#[tokio::test(start_paused = true)]
async fn subnets_are_counted_by_what_their_addresses_are() {
    let scene = world().await;
    let answer = Api::of(&scene).get("/v2/subnets").await;
    let items = json!([
        {
            "subnet": "10.0.70.0/24", "gateway": "10.0.70.1", "ranges": ["10.0.70.2~10.0.70.9"],
            "capacity": "8", "free": "3", "bound": 2, "kept": 1, "spare": 1, "reserved": 1,
            "foreign": 0, "shared": 0, "nodeSubnets": [{ "subnet": "10.0.1.0/24", "nodes": 1 }],
        },
        {
            "subnet": "10.0.80.0/24", "gateway": "10.0.80.1", "ranges": ["10.0.80.2~10.0.80.5"],
            "capacity": "4", "free": "3", "bound": 0, "kept": 0, "spare": 0, "reserved": 0,
            "foreign": 1, "shared": 0, "nodeSubnets": [{ "subnet": "10.0.2.0/24", "nodes": 1 }],
        },
    ]);
    assert_eq!(answer, (200, json!({ "items": items, "outside": 1 })));
}

#[tokio::test(start_paused = true)]
async fn shared_addresses_are_listed_as_such_and_counted_apart() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "vip__ns_web_", 2, ""));
        server.put(FIPS, fip("10.0.70.20", "vip__ns_web_", 2, ""));
        server.put(FIPS, fip("10.0.70.30", "vip__ns_web_", 2, ""));
    })
    .await;
    scene.configure(
        r#"[{"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.9"],
             "shared": ["10.0.70.20~10.0.70.29"], "subnet": "10.0.70.0/24",
             "gateway": "10.0.70.1"}]"#,
    );
    let api = Api::of(&scene);
    let (_, answer) = api.get("/v2/subnets").await;
    let subnet = &answer["items"][0];
    assert_eq!(subnet["sharedRanges"], json!(["10.0.70.20~10.0.70.29"]));
    assert_eq!(subnet["shared"], 1);
    // Where pods should be, it is in the way.
    assert_eq!(
        (&subnet["foreign"], &subnet["free"]),
        (&json!(1), &json!("7"))
    );
    assert_eq!(answer["outside"], 1);
    let (_, list) = api.get("/v2/ips?state=Shared").await;
    assert_eq!(list["total"], 3);
    let (_, ip) = api.get("/v2/ips/10.0.70.20").await;
    assert_eq!(
        (&ip["state"], &ip["releasable"]),
        (&json!("Shared"), &json!(false))
    );
    assert_eq!(ip["subnet"], "10.0.70.0/24");
    let (_, free) = api.get("/v2/ips?state=Free").await;
    assert_eq!(
        free["total"], 7,
        "nothing that is set aside is free for pods"
    );
}

#[tokio::test(start_paused = true)]
async fn holders_are_summed_up_and_paged() {
    let scene = world().await;
    let api = Api::of(&scene);
    let dp = |addresses: u64| {
        json!({
            "holder": { "appType": "deployment", "namespace": "other", "app": "x" },
            "addresses": addresses, "bound": 1,
        })
    };
    let set = json!({
        "holder": { "appType": "statefulset", "namespace": "ns", "app": "a" },
        "addresses": 2, "bound": 1,
    });
    let spares = json!({ "holder": { "pool": "p" }, "addresses": 1, "bound": 0 });
    let web = json!({
        "holder": { "pool": "p", "appType": "deployment", "namespace": "ns", "app": "web" },
        "addresses": 1, "bound": 1,
    });
    let list = |items: &[&Value], total: u64, page: u64, size: u64| {
        let body = json!({ "items": items, "total": total, "page": page, "size": size });
        (200, body)
    };
    let all = [&set, &dp(1), &spares, &web];
    assert_eq!(api.get("/v2/holders").await, list(&all, 4, 0, 50));
    let paged = api.get("/v2/holders?page=1&size=3").await;
    assert_eq!(paged, list(&[&web], 4, 1, 3));
    let table: [(&str, &[&Value]); 5] = [
        ("namespace=ns", &[&set, &web]),
        ("pool=p", &[&spares, &web]),
        ("pool=&namespace=ns", &[&set]),
        ("appType=Deployments&app=x", &[&all[1].clone()]),
        ("q=EB_", &[&web]),
    ];
    for (query, wanted) in table {
        let got = api.get(&format!("/v2/holders?{query}")).await;
        assert_eq!(got, list(wanted, wanted.len() as u64, 0, 50), "{query}");
    }
}
