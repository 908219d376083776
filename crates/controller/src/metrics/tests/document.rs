//! `docs/metrics.md` says what is served.

use std::collections::BTreeMap;

use floe_shell::document;

use super::*;
use crate::installation::PERMISSION_MISSING;
use crate::nodepools::{Caller, Id};

const SOURCES: [&str; 6] = [
    include_str!("../../metrics.rs"),
    include_str!("../admission.rs"),
    include_str!("../rollouts.rs"),
    include_str!("../books.rs"),
    include_str!("../nodepools.rs"),
    include_str!("../vips.rs"),
];

/// Counts everything once.
fn count(metrics: &Metrics) {
    let took = Duration::from_millis(1);
    metrics.definition("pools.galaxy.k8s.io", definitions::State::Served);
    let installation = metrics.installation();
    installation.report(PERMISSION_MISSING, "patch nodes", "nodes are not annotated");
    metrics.answered("filter", took, true);
    metrics.cloud_called("assign", took);
    metrics.allocated("new");
    metrics.refused("NoAddressLeft");
    metrics.call_refused("CallerNotAllowed");
    metrics.reclaimed("freed", "WorkloadGone");
    metrics.adoption("adopted");
    metrics.certificate("floe-api-tls", Timestamp::UNIX_EPOCH);
    metrics.pool_shortages([("p", 1)].into_iter());
    metrics.api_called("/v2/ips", "GET", 200);
    metrics.api_refused("Forbidden");
    metrics.admission().reviewed("refused");
    metrics.admission().refused("InvalidArgs");
    metrics.rollouts().waiting(["DisruptionBudget"]);
    metrics.rollouts().evicted("evicted");
    metrics.vips().states(BTreeMap::from([("Held", 1)]));
    metrics.vips().moved("NodeSilent", 1);
    let id = Id {
        namespace: "ns".into(),
        name: "pool".into(),
    };
    let caller = Caller {
        kind: "FloatingIPPool",
        id: id.clone(),
    };
    let pools = metrics.node_pools();
    pools.called("l2", "AssignIP", Some(&caller), true, took);
    let ip = IpFigures {
        ip: "192.0.2.1".into(),
        state: "active",
        provider_id: "1".into(),
        ..IpFigures::default()
    };
    let figures = PoolFigures {
        ips: vec![ip],
        ..PoolFigures::default()
    };
    pools.pool(&id, Some(figures));
    pools.record_set(&id, Some(RecordFigures::default()));
}

#[tokio::test]
async fn the_document_lists_all_metrics() {
    let doubtful = json!([entry("10.1.0.0/16", &["10.0.70.0~10.0.70.9"], "10.0.70.1")]);
    let (store, outcome) = configured(&doubtful.to_string());
    hold(&store, &["10.0.70.2", "strange"]);
    let pool = json!({ "metadata": { "name": "p", "namespace": "ns" }, "size": 4 });
    store.change(|books| books.pool(serde_json::from_value(pool).unwrap()));
    let metrics = Metrics::default();
    metrics.configuration(&outcome);
    count(&metrics);
    let text = scrape(&metrics, &store, Standing::Leading).await;
    document::hold(
        env!("CARGO_MANIFEST_DIR"),
        "floe-controller",
        &text,
        &SOURCES,
    );
}
