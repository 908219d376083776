//! How long the controller takes to be ready, and how much memory it needs.

use std::time::Instant;

use anyhow::{Result, ensure};
use floe_api::galaxy::FloatingIP;
use kube::{Api, Client, api::ListParams};
use tokio::time::{Duration, sleep};

use super::Scene;
use crate::{
    program::Controller,
    table::{Figure, Row, Wanted},
};

const ROUNDS: usize = 3;
/// As many as the controller's own watches ask for at once.
const PAGE: u32 = 500;
/// The promised memory.
const MEMORY: Wanted = Wanted::AtMost(Figure::Bytes(150.0 * 1024.0 * 1024.0));
/// How long memory is looked at after a start, and how often.
const WATCHED: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(100);

/// Measures starts and bare lists in turns, and the memory of the last start.
pub async fn measure(scene: &Scene<'_>) -> Result<Vec<Row>> {
    let (mut starts, mut lists) = (Vec::new(), Vec::new());
    let mut memory = None;
    for round in 0..ROUNDS {
        lists.push(list(&scene.client, scene.size.held()).await?);
        let controller = scene.controller().await?;
        starts.push(controller.took);
        if round + 1 == ROUNDS {
            memory = Some(settled(&controller).await?);
        }
        controller.stop().await?;
    }
    let held = scene.size.held();
    let mut rows = vec![
        Row::new(
            format!("start to ready, {held} held"),
            median(starts),
            Wanted::RatioAtMost(1.5),
        )
        .against(median(lists)),
    ];
    if let Some((steady, peak)) = memory {
        rows.push(Row::new(format!("memory, {held} held"), steady, MEMORY));
        rows.push(Row::new(
            "  its peak since the start",
            peak,
            Wanted::Nothing,
        ));
    }
    Ok(rows)
}

/// Measures a start when pods and nodes are there as well.
pub async fn measure_beside_pods(scene: &Scene<'_>) -> Result<Vec<Row>> {
    let controller = scene.controller().await?;
    let (steady, peak) = settled(&controller).await?;
    let took = controller.took;
    controller.stop().await?;
    let (pods, nodes) = (scene.size.pods, scene.size.nodes());
    let beside = format!("{pods} pods and {nodes} nodes");
    Ok(vec![
        Row::new(format!("memory, beside {beside}"), steady, Wanted::Nothing),
        Row::new("  its peak since the start", peak, Wanted::Nothing),
        Row::new(
            format!("start to ready, beside {beside}"),
            took,
            Wanted::Nothing,
        ),
    ])
}

/// The most memory that it has once it is ready, and that it ever had.
async fn settled(controller: &Controller) -> Result<(Figure, Figure)> {
    let end = Instant::now() + WATCHED;
    let (mut most, mut peak) = controller.memory()?;
    while Instant::now() < end {
        sleep(LOOK).await;
        let now = controller.memory()?;
        (most, peak) = (most.max(now.0), now.1);
    }
    Ok((Figure::Bytes(most), Figure::Bytes(peak)))
}

/// How long a list of all records takes, page by page, with nothing done to them.
async fn list(client: &Client, expected: u32) -> Result<Figure> {
    let api: Api<FloatingIP> = Api::all(client.clone());
    let start = Instant::now();
    let (mut found, mut token) = (0, None);
    loop {
        let mut page = ListParams::default().limit(PAGE);
        page.continue_token = token;
        let list = api.list(&page).await?;
        found += list.items.len();
        token = list.metadata.continue_.filter(|token| !token.is_empty());
        if token.is_none() {
            break;
        }
    }
    ensure!(found == expected as usize, "{found} records were listed");
    Ok(Figure::Seconds(start.elapsed().as_secs_f64()))
}

fn median(mut figures: Vec<Figure>) -> Figure {
    figures.sort_unstable_by(Figure::cmp);
    figures[figures.len() / 2]
}
