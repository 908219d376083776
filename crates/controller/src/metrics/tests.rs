use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use floe_core::config::{AddressConfig, Mode};
use floe_shell::figures;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;
use crate::addresses::Intake;

mod document;

async fn scrape(metrics: &Metrics, store: &Store, standing: Standing) -> String {
    let standing = watch::channel(standing).1;
    let router = figures::router(metrics.registry(store.clone(), standing), PLAIN_COUNTERS);
    let request = Request::get("/metrics").header("accept", "application/openmetrics-text");
    let request = request.body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], figures::OPEN_METRICS);
    let body = to_bytes(response.into_body(), 100_000).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// The lines of these metrics, without help and type.
fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.lines()
        .filter(|line| line.starts_with(start))
        .collect()
}

fn configured(text: &str) -> (Store, Outcome) {
    let store = Store::default();
    let loaded = AddressConfig::parse(text, Mode::Lenient).unwrap();
    let outcome = Intake::new(store.clone()).apply(loaded);
    (store, outcome)
}

fn entry(node: &str, ips: &[&str], gateway: &str) -> serde_json::Value {
    json!({ "nodeSubnets": [node], "ips": ips, "subnet": "10.0.70.0/24", "gateway": gateway })
}

fn hold(store: &Store, names: &[&str]) {
    for name in names {
        let object =
            json!({ "metadata": { "name": name, "resourceVersion": "1" }, "spec": { "key": "k" } });
        let object = serde_json::from_value(object).unwrap();
        store.change(|books| books.record(&object));
    }
}

#[tokio::test]
async fn addresses_are_counted_per_entry_as_galaxy_does() {
    let text = json!([
        entry("10.1.0.0/16", &["10.0.70.2~10.0.70.9"], "10.0.70.1"),
        entry("10.2.0.0/16", &["10.0.70.20~10.0.70.29"], "10.0.70.1"),
        // Equal labels: neither has addresses.
        entry("10.3.0.0/16", &[], "10.0.70.1"),
        entry("10.4.0.0/16", &[], "10.0.70.1"),
    ]);
    let (store, _) = configured(&text.to_string());
    hold(
        &store,
        &[
            "10.0.70.2",
            "10.0.70.20",
            "10.0.70.21",
            "10.9.9.9",
            "strange",
        ],
    );
    let text = scrape(&Metrics::default(), &store, Standing::Leading).await;
    assert_eq!(
        lines(&text, "galaxy_ip_counter{"),
        [
            r#"galaxy_ip_counter{type="allocated",subnet="10.0.70.0/24",first_ip=""} 0.0"#,
            r#"galaxy_ip_counter{type="total",subnet="10.0.70.0/24",first_ip=""} 0.0"#,
            r#"galaxy_ip_counter{type="allocated",subnet="10.0.70.0/24",first_ip="10.0.70.2"} 1.0"#,
            r#"galaxy_ip_counter{type="total",subnet="10.0.70.0/24",first_ip="10.0.70.2"} 8.0"#,
            r#"galaxy_ip_counter{type="allocated",subnet="10.0.70.0/24",first_ip="10.0.70.20"} 2.0"#,
            r#"galaxy_ip_counter{type="total",subnet="10.0.70.0/24",first_ip="10.0.70.20"} 10.0"#,
        ]
    );
    assert_eq!(
        lines(&text, "floe_ip_free{"),
        [r#"floe_ip_free{subnet="10.0.70.0/24"} 15.0"#]
    );
    assert_eq!(
        lines(&text, "floe_ip_used{"),
        [r#"floe_ip_used{subnet="10.0.70.0/24"} 3.0"#]
    );
    assert_eq!(
        lines(&text, "floe_ip_outside"),
        ["floe_ip_outside_configuration 1.0"]
    );
    assert_eq!(
        lines(&text, "floe_ip_strange_records{"),
        [r#"floe_ip_strange_records{reason="NameNotAnAddress"} 1.0"#]
    );
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn pools_leadership_and_build_are_told() {
    let store = Store::default();
    let pool = json!({ "metadata": { "name": "p", "namespace": "ns" }, "size": 4 });
    store.change(|books| books.pool(serde_json::from_value(pool).unwrap()));
    let text = scrape(&Metrics::default(), &store, Standing::Leading).await;
    assert_eq!(
        lines(&text, "floe_pool_size{"),
        [r#"floe_pool_size{namespace="ns",pool="p"} 4.0"#]
    );
    assert_eq!(lines(&text, "floe_leader "), ["floe_leader 1.0"]);
    let version = version::VERSION;
    let build = lines(&text, "floe_build_info{");
    assert!(
        build[0].starts_with(&format!(r#"floe_build_info{{version="{version}""#)),
        "{build:?}"
    );

    let text = scrape(&Metrics::default(), &store, Standing::Unknown).await;
    assert_eq!(lines(&text, "floe_leader "), ["floe_leader 0.0"]);
}

#[tokio::test]
async fn the_configuration_leaves_its_marks() {
    let doubtful = json!([entry("10.1.0.0/16", &["10.0.70.0~10.0.70.9"], "10.0.70.1")]);
    let (store, applied) = configured(&doubtful.to_string());
    let metrics = Metrics::default();
    metrics.configuration(&Outcome::Absent {
        object: false,
        fallback: false,
    });
    let text = scrape(&metrics, &store, Standing::Leading).await;
    assert_eq!(lines(&text, "floe_config_found "), ["floe_config_found 0"]);
    assert_eq!(
        lines(&text, "floe_config_last_applied_timestamp_seconds "),
        ["floe_config_last_applied_timestamp_seconds 0.0"]
    );

    metrics.configuration(&applied);
    metrics.definition("pools.galaxy.k8s.io", definitions::State::Served);
    metrics.definition("floatingips.galaxy.k8s.io", definitions::State::Differs);
    let text = scrape(&metrics, &store, Standing::Leading).await;
    assert_eq!(lines(&text, "floe_config_found "), ["floe_config_found 1"]);
    let mut problems = lines(&text, "floe_config_problems{");
    problems.sort_unstable();
    assert_eq!(
        problems,
        [
            r#"floe_config_problems{reason="GatewayInIps"} 1"#,
            r#"floe_config_problems{reason="NetworkInIps"} 1"#,
        ]
    );
    let mut results = lines(&text, "floe_config_applied_total{");
    results.sort_unstable();
    assert_eq!(
        results,
        [
            r#"floe_config_applied_total{result="absent"} 1"#,
            r#"floe_config_applied_total{result="applied"} 1"#,
        ]
    );
    let last = lines(&text, "floe_config_last_applied_timestamp_seconds ");
    let seconds: f64 = last[0].rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!(seconds > 1.7e9, "{seconds}");
    let mut served = lines(&text, "floe_crd_served{");
    served.sort_unstable();
    assert_eq!(
        served,
        [
            r#"floe_crd_served{crd="floatingips.galaxy.k8s.io"} 0"#,
            r#"floe_crd_served{crd="pools.galaxy.k8s.io"} 1"#,
        ]
    );

    // What is mended is gone from the figures.
    let (_, good) = configured("[]");
    metrics.configuration(&good);
    let text = scrape(&metrics, &store, Standing::Leading).await;
    assert_eq!(lines(&text, "floe_config_problems{"), [""; 0]);
}
