//! How long a filter call takes, from the scheduler's side of the connection.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::Value;

use super::{Scene, program::Controller};
use crate::{
    filter::{self, Case},
    scene,
    table::Row,
};

const CALLS: usize = 2_000;
const WARM_UP: usize = 50;

/// Measures a new pod and one that kept its address.
pub async fn measure(scene: &Scene<'_>) -> Result<Vec<Row>> {
    let controller = Controller::start(scene).await?;
    let mut rows = Vec::new();
    for case in [Case::Anywhere, Case::Kept] {
        rows.push(measure_case(scene, &controller, case).await?);
    }
    controller.stop().await?;
    Ok(rows)
}

async fn measure_case(scene: &Scene<'_>, controller: &Controller, case: Case) -> Result<Row> {
    let pods: Api<Pod> = Api::namespaced(scene.client.clone(), scene::NAMESPACE);
    let workloads: Api<StatefulSet> = Api::namespaced(scene.client.clone(), scene::NAMESPACE);
    let (pod, workload) = case.objects();
    let workload: StatefulSet = serde_json::from_value(workload)?;
    workloads.create(&PostParams::default(), &workload).await?;
    let pod: Pod = serde_json::from_value(pod)?;
    let pod = pods.create(&PostParams::default(), &pod).await?;
    let nodes = scene.size.node_list();
    let names = nodes.iter().map(|(name, _)| name.as_str());
    let body = filter::body(case.pod(), &pod.uid().unwrap_or_default(), names);

    let mut line = controller.extender().await?;
    let answer: Value = serde_json::from_slice(&line.post("/v1/filter", &body).await?)?;
    let fitting = answer["nodenames"].as_array().map_or(0, Vec::len);
    ensure!(
        fitting == case.fitting(scene.size),
        "{fitting} nodes fit: {:.300}",
        answer.to_string()
    );
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..WARM_UP + CALLS {
        let start = Instant::now();
        line.post("/v1/filter", &body).await?;
        if number >= WARM_UP {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    pods.delete(case.pod(), &DeleteParams::default().grace_period(0))
        .await?;
    let name = format!("p99 of filter over HTTP, {}", case.text());
    let figure = filter::percentile_99_of(times);
    Ok(Row::new(name, figure, filter::LIMIT).against(filter::reference(&body)))
}
