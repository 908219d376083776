//! How long a filter call takes, from the scheduler's side of the connection.
//!
//! The clock on the wall counts here, so this is also about everybody else who runs
//! on the same processors, the API server among them. Therefore the reference is a
//! server that does nothing, asked in turns; what filter itself takes is measured
//! [without all of that](crate::filter).

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::Value;

use super::Scene;
use crate::{
    bare::Bare,
    filter::{self, Case},
    line::Line,
    program::Controller,
    scene,
    table::{Row, Wanted},
};

const CALLS: usize = 2_000;
const WARM_UP: usize = 50;

/// Measures a new pod and one that kept its address.
pub async fn measure(scene: &Scene<'_>) -> Result<Vec<Row>> {
    let controller = scene.controller().await?;
    let mut rows = Vec::new();
    for case in [Case::Anywhere, Case::Kept] {
        rows.extend(measure_case(scene, &controller, case).await?);
    }
    controller.stop().await?;
    Ok(rows)
}

async fn measure_case(scene: &Scene<'_>, controller: &Controller, case: Case) -> Result<Vec<Row>> {
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
    let answer = line.post("/v1/filter", &body).await?;
    let told: Value = serde_json::from_slice(&answer)?;
    let fitting = told["nodenames"].as_array().map_or(0, Vec::len);
    ensure!(
        fitting == case.fitting(scene.size),
        "{fitting} nodes fit: {:.300}",
        told.to_string()
    );
    let bare = Bare::start(answer).await?;
    let mut way = Line::open(bare.port).await?;
    let mut times = Vec::with_capacity(CALLS);
    let mut of_the_way = Vec::with_capacity(CALLS);
    // In turns, so that whatever else the machine does hits both alike.
    for number in 0..WARM_UP + CALLS {
        for (line, times) in [(&mut line, &mut times), (&mut way, &mut of_the_way)] {
            let start = Instant::now();
            line.post("/v1/filter", &body).await?;
            if number >= WARM_UP {
                times.push(start.elapsed().as_secs_f64());
            }
        }
    }
    pods.delete(case.pod(), &DeleteParams::default().grace_period(0))
        .await?;
    let row = |what: &str, figure, reference| {
        let name = format!("{what} of filter over HTTP, {}", case.text());
        Row::new(name, figure, Wanted::Nothing).against(reference)
    };
    let medians = (
        filter::median_of(&mut times),
        filter::median_of(&mut of_the_way),
    );
    let slowest = filter::percentile_99_of(times);
    Ok(vec![
        row("median", medians.0, medians.1),
        row("p99", slowest, filter::percentile_99_of(of_the_way)),
    ])
}
