use axum::http::Method;
use floe_core::ipam::owner::AppKind;
use floe_shell::mock::{Fault, Server};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::cluster::{
    Workloads,
    tests::{Running, start},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TAPPS: &str = "/apis/apps.tkestack.io/v1/tapps";
const ONE_TAPP: &str = "/apis/apps.tkestack.io/v1/namespaces/ns/tapps";
const GET: Method = Method::GET;

/// A kind with a scale subresource, and objects of it.
struct Bench {
    server: Server,
    running: Running,
    workloads: Workloads,
}

impl Bench {
    async fn new() -> Self {
        let server = Server::default();
        serve(&server, "v1", &[("tapps", "TApp", true)]);
        define(&server, "v1", Some(".spec.replicas"));
        server.put(TAPPS, tapp("a", 3));
        let running = start(&server).await;
        let workloads = Workloads::new(server.client(), running.cluster.clone());
        Self {
            server,
            running,
            workloads,
        }
    }

    async fn look(&self, kind: &str, name: &str, freshness: Freshness) -> (Scale, State) {
        let app = App {
            kind: AppKind::Custom(kind.parse().unwrap()),
            namespace: "ns".into(),
            name: name.into(),
        };
        let found = self.workloads.workload(app, freshness).await;
        (found.scale, found.state)
    }

    async fn tapp(&self, freshness: Freshness) -> (Scale, State) {
        self.look(TAPP, "a", freshness).await
    }
}

const TAPP: &str = "TApp.apps.tkestack.io";

fn tapp(name: &str, replicas: u32) -> Value {
    json!({ "metadata": { "name": name, "namespace": "ns" }, "spec": { "replicas": replicas } })
}

fn serve(server: &Server, version: &str, kinds: &[(&str, &str, bool)]) {
    let resources: Vec<Value> = kinds
        .iter()
        .map(|(plural, kind, has_scale)| {
            let below: &[&str] = if *has_scale { &["scale"] } else { &[] };
            let below: Vec<Value> = below
                .iter()
                .map(|it| json!({ "subresource": it }))
                .collect();
            json!({
                "resource": plural, "responseKind": { "kind": kind }, "scope": "Namespaced",
                "verbs": ["list", "watch"], "subresources": below,
            })
        })
        .collect();
    let versions = json!([{ "version": version, "resources": resources }]);
    let groups = json!([
        { "metadata": { "name": "apps.tkestack.io" }, "versions": versions },
        { "metadata": { "name": "other.org" }, "versions": [] },
    ]);
    let raw = &mut server.state().raw;
    raw.insert("/api".into(), json!({ "items": [] }));
    raw.insert("/apis".into(), json!({ "items": groups }));
}

fn define(server: &Server, version: &str, path: Option<&str>) {
    let scale = path
        .map(|path| json!({ "specReplicasPath": path, "statusReplicasPath": ".status.replicas" }));
    server.put(DEFINITIONS, json!({
        "metadata": { "name": "tapps.apps.tkestack.io" },
        "spec": { "versions": [
            { "name": "v0", "subresources": { "scale": { "specReplicasPath": ".spec.wrong" } } },
            { "name": version, "schema": { "openAPIV3Schema": {} }, "subresources": { "scale": scale } },
        ] },
    }));
}

fn exists(replicas: u32) -> State {
    State::Exists {
        replicas: Some(replicas),
        first_ordinal: 0,
    }
}

fn why((scale, state): (Scale, State)) -> String {
    match (scale, state) {
        (Scale::Unreadable { why }, State::Unreadable { .. }) => why,
        other => panic!("{other:?} is readable"),
    }
}

async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_is_direct_and_later_ones_come_from_a_watch() {
    let mut bench = Bench::new().await;
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(3)));
    let lists = bench.server.count(&GET, ONE_TAPP);
    assert_eq!(lists, 1);
    let selected = format!("{ONE_TAPP}?&fieldSelector=metadata.name%3Da");
    assert_eq!(
        bench.server.count(&GET, &selected),
        1,
        "{:?}",
        bench.server.state().calls.last()
    );
    assert_eq!(bench.running.told().await, ["Relisted"]);

    let asked = bench.server.state().calls.len();
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(3)));
    assert_eq!(bench.server.state().calls.len(), asked, "from the watch");

    // As keys of galaxy have it.
    assert_eq!(
        bench.look("tapp", "a", Freshness::Cached).await,
        (Scale::Yes, exists(3))
    );
    assert_eq!(
        bench.server.state().calls.len(),
        asked,
        "from the same watch"
    );

    bench.server.put(TAPPS, tapp("a", 1));
    let spoken = |kind: &str| {
        let kind = AppKind::Custom(kind.parse().unwrap());
        format!("Workload {kind:?} ns/a")
    };
    assert_eq!(bench.running.told().await, [spoken("tapp"), spoken(TAPP)]);
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(1)));
    bench.server.put(TAPPS, tapp("a", 1));
    assert_eq!(bench.running.told().await, [""; 0], "nothing that matters");

    // Direct means direct, for the object and for the path.
    define(&bench.server, "v1", Some(".spec.size"));
    bench.server.put(
        TAPPS,
        json!({ "metadata": { "name": "a", "namespace": "ns" }, "spec": { "size": 9, "replicas": 1 } }),
    );
    assert_eq!(bench.tapp(Freshness::Direct).await, (Scale::Yes, exists(9)));
    settle().await;
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(9)));

    bench.server.delete(TAPPS, "a");
    assert_eq!(
        bench.tapp(Freshness::Direct).await,
        (Scale::Yes, State::Gone)
    );
    settle().await;
    assert_eq!(
        bench.tapp(Freshness::Cached).await,
        (Scale::Yes, State::Gone)
    );
}

#[tokio::test(start_paused = true)]
async fn where_the_replicas_are_is_what_the_served_version_defines() {
    let bench = Bench::new().await;
    let cases = [
        (Some(".spec.replicas"), Scale::Yes),
        (Some(""), Scale::No),
        (None, Scale::No),
        (Some(".spec.replicas"), Scale::Yes),
    ];
    for (path, scale) in cases {
        define(&bench.server, "v1", path);
        assert_eq!(bench.tapp(Freshness::Direct).await.0, scale, "{path:?}");
    }
    // The definition knows better than a discovery that lags behind.
    serve(&bench.server, "v1", &[("tapps", "TApp", false)]);
    sleep(Duration::from_mins(6)).await;
    assert_eq!(bench.tapp(Freshness::Cached).await.0, Scale::Yes);
    // Without it, discovery tells what has no replicas, and nothing more.
    bench.server.always(GET, DEFINITIONS, Fault::Refuse(403));
    assert_eq!(bench.tapp(Freshness::Direct).await.0, Scale::No);
    serve(&bench.server, "v1", &[("tapps", "TApp", true)]);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(
        why(bench.tapp(Freshness::Direct).await),
        "cannot read CustomResourceDefinition tapps.apps.tkestack.io: forbidden: floe-controller \
         lacks the right to get customresourcedefinitions of API group apiextensions.k8s.io"
    );
    let gone = bench.look(TAPP, "gone", Freshness::Direct).await;
    assert_eq!(gone.1, State::Gone, "that much can be told");
    bench.server.heal();
    sleep(Duration::from_secs(11)).await;
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(3)));
    // A kind of another API server has no definition.
    bench.server.always(GET, DEFINITIONS, Fault::Refuse(404));
    assert_eq!(
        why(bench.tapp(Freshness::Direct).await),
        "tapps.apps.tkestack.io has no CustomResourceDefinition that tells where its replicas are"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_to_read_the_definition_is_no_answer() {
    let bench = Bench::new().await;
    serve(&bench.server, "v1", &[("tapps", "TApp", false)]);
    assert_eq!(bench.tapp(Freshness::Cached).await.0, Scale::Yes);
    bench.server.always(GET, DEFINITIONS, Fault::Refuse(500));
    let scale = bench.tapp(Freshness::Direct).await.0;
    assert!(matches!(scale, Scale::Unreadable { .. }), "{scale:?}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_and_nothing_waits_for_it() {
    let bench = Bench::new().await;
    bench.server.always(GET, "/v1/tapps", Fault::Refuse(403));
    bench.server.always(GET, "/ns/tapps", Fault::Refuse(403));
    let expected = State::Unreadable {
        why: "cannot read tapps.apps.tkestack.io ns/a: forbidden: floe-controller lacks the right \
              to list and watch tapps of API group apps.tkestack.io"
            .into(),
    };
    let begin = Instant::now();
    for freshness in [Freshness::Cached, Freshness::Direct, Freshness::Cached] {
        assert_eq!(bench.tapp(freshness).await, (Scale::Yes, expected.clone()));
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    sleep(Duration::from_mins(5)).await;
    assert!(
        bench.server.count(&GET, TAPPS) <= 12,
        "the watch is tried now and then"
    );
    bench.server.heal();
    assert_eq!(
        bench.tapp(Freshness::Cached).await,
        (Scale::Yes, exists(3)),
        "at once"
    );
    sleep(REFUSED).await;
    let asked = bench.server.state().calls.len();
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(3)));
    assert_eq!(bench.server.state().calls.len(), asked, "the watch works");
}

const REFUSED: Duration = Duration::from_secs(31);

#[tokio::test(start_paused = true)]
async fn silence_has_a_limit() {
    for path in ["/apis", DEFINITIONS, ONE_TAPP] {
        let bench = Bench::new().await;
        bench.server.always(GET, path, Fault::Hang);
        let begin = Instant::now();
        let (_, state) = bench.tapp(Freshness::Direct).await;
        assert!(
            matches!(state, State::Unreadable { .. }),
            "{path}: {state:?}"
        );
        assert!(begin.elapsed() <= PATIENCE, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_that_cannot_be_told_are_named() {
    let bench = Bench::new().await;
    let found = bench.look("spark", "a", Freshness::Cached).await;
    assert_eq!(why(found), "no API serves the kind spark");
    let asked = |bench: &Bench| {
        bench
            .server
            .state()
            .calls
            .iter()
            .filter(|it| *it == "GET /apis")
            .count()
    };
    assert_eq!(asked(&bench), 1);
    serve(
        &bench.server,
        "v1",
        &[("tapps", "TApp", true), ("sparks", "Spark", false)],
    );
    for _ in 0..3 {
        bench.look("spark", "a", Freshness::Direct).await;
    }
    assert_eq!(asked(&bench), 1, "not more often than every second");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        bench.look("spark", "a", Freshness::Cached).await.0,
        Scale::No
    );
    assert_eq!(asked(&bench), 2);

    let mut groups = bench.server.state().raw["/apis"].clone();
    groups["items"][1]["versions"] = groups["items"][0]["versions"].clone();
    bench.server.state().raw.insert("/apis".into(), groups);
    sleep(Duration::from_mins(6)).await;
    let found = bench.look("tapp", "a", Freshness::Cached).await;
    assert_eq!(
        why(found),
        "the kind tapp is ambiguous: tapps.apps.tkestack.io, tapps.other.org"
    );
    assert_eq!(bench.tapp(Freshness::Cached).await.0, Scale::Yes);

    bench
        .server
        .state()
        .raw
        .insert("/apis".into(), json!({ "groups": [] }));
    sleep(Duration::from_mins(6)).await;
    let found = bench.look("other", "a", Freshness::Cached).await;
    assert_eq!(
        why(found),
        "cannot discover the kind other: the list of API groups is empty"
    );
    let known = bench.tapp(Freshness::Cached).await;
    assert_eq!(known, (Scale::Yes, exists(3)), "what was known goes on");
}

#[tokio::test(start_paused = true)]
async fn another_version_is_found_when_the_old_one_is_not_served() {
    let bench = Bench::new().await;
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(3)));
    settle().await;
    serve(&bench.server, "v2", &[("tapps", "TApp", true)]);
    define(&bench.server, "v2", Some(".spec.size"));
    let object = json!({ "metadata": { "name": "a", "namespace": "ns" }, "spec": { "size": 5 } });
    bench.server.put("/apis/apps.tkestack.io/v2/tapps", object);
    bench
        .server
        .always(GET, "/apis/apps.tkestack.io/v1/", Fault::Refuse(404));
    bench.server.compact();
    sleep(Duration::from_secs(11)).await;
    assert_eq!(bench.tapp(Freshness::Cached).await.1, exists(5));
    settle().await;
    let asked = bench.server.state().calls.len();
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(5)));
    assert_eq!(
        bench.server.state().calls.len(),
        asked,
        "the new version is watched"
    );
}

#[tokio::test(start_paused = true)]
async fn with_a_definition_its_objects_are_gone() {
    let bench = Bench::new().await;
    assert_eq!(bench.tapp(Freshness::Cached).await, (Scale::Yes, exists(3)));
    serve(&bench.server, "v1", &[("others", "Other", true)]);
    bench
        .server
        .always(GET, "/apis/apps.tkestack.io/v1/", Fault::Refuse(404));
    bench.server.compact();
    sleep(Duration::from_secs(11)).await;
    // Not served, but still defined: this proves nothing.
    let (_, state) = bench.tapp(Freshness::Direct).await;
    assert!(matches!(state, State::Unreadable { .. }), "{state:?}");
    bench.server.delete(DEFINITIONS, "tapps.apps.tkestack.io");
    let (scale, state) = bench.tapp(Freshness::Direct).await;
    assert_eq!(state, State::Gone);
    assert!(matches!(scale, Scale::Unreadable { .. }), "{scale:?}");
    // Of a kind that was never seen, nothing is known.
    let (_, state) = bench.look("Spark.other.org", "a", Freshness::Direct).await;
    assert!(matches!(state, State::Unreadable { .. }), "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn replicas_that_make_no_sense_are_no_answer() {
    let bench = Bench::new().await;
    let object =
        json!({ "metadata": { "name": "b", "namespace": "ns" }, "spec": { "replicas": "many" } });
    bench.server.put(TAPPS, object);
    let expected = State::Unreadable {
        why: ".spec.replicas is no number of replicas: \"many\"".into(),
    };
    for _ in 0..2 {
        assert_eq!(bench.look(TAPP, "b", Freshness::Cached).await.1, expected);
        settle().await;
    }
}
