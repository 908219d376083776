//! How long the management API takes for lists, searches and explanations.
//!
//! The controller is the program as it ships, and has read all records from a
//! [stand-in](server) for the API server. Each call is measured twice. What counts is
//! the time that the controller computes for it, with all of its threads: from the
//! bytes of the question to those of the answer, and nothing that others do on the
//! machine. The clock on the wall is shown beside a server that has the same answer
//! ready.

mod changes;
mod question;
mod scene;
mod server;

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use floe_testbed::progress::Step;
use rustls::{ClientConfig, RootCertStore};

use self::{
    question::{Question, Times},
    server::Server,
};
use crate::{
    filter::{median_of, percentile_99_of},
    line::Line,
    program::{Api, Controller, Start},
    scene::Size,
    table::{Figure, Row, Wanted},
};

/// The slowest that one in a hundred calls may be.
const LIMIT: Wanted = Wanted::AtMost(Figure::Seconds(0.010));
/// How much longer the last page of a list may take than the first.
const FLAT: Wanted = Wanted::RatioAtMost(1.5);
const KUBECONFIG: &str = "kubeconfig";
const TOKEN: &str = "a-token-that-everybody-trusts";

/// How often each question is asked.
#[derive(Clone, Copy)]
struct Effort {
    warm_up: u32,
    calls: u32,
}

impl Effort {
    fn of(size: Size) -> Self {
        let calls = size.held() / 250;
        let warm_up = calls / 10;
        Self { warm_up, calls }
    }
}

/// Measures all questions, and one of them by TLS with a token.
pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(size).await?;
    server.write_kubeconfig(&folder.path().join(KUBECONFIG))?;
    let title = format!("asking the API about {} records", size.held());
    let (mut rows, plain) = Step::run_async(title, Box::pin(open(size, folder.path()))).await?;
    let title = "the same by TLS with a token";
    let closed = Step::run_async(title, Box::pin(closed(size, folder.path()))).await;
    rows.push(match closed {
        Ok(closed) => {
            let name = "the same by TLS with a token, beside plain HTTP: median on the wall";
            Row::new(name, closed, Wanted::Nothing).against(plain)
        }
        Err(error) => Row::failed(title, &error),
    });
    rows.extend(Step::run("changing records of the catalogue", || {
        changes::measure(size)
    })?);
    Ok(rows)
}

/// Everybody may ask, by plain HTTP. The figure is that of the question that is asked
/// by TLS as well.
async fn open(size: Size, folder: &Path) -> Result<(Vec<Row>, Figure)> {
    let controller = start(size, folder, Api::Open).await?;
    let (clock, effort) = (controller.clock()?, Effort::of(size));
    let mut line = Line::open(controller.api).await?;
    let fixed = Question::fixed().measure(&mut line, clock, effort).await?;
    let fixed = percentile_99_of(fixed.computed);
    let without = controller.memory()?.0;
    let (mut rows, mut flat) = (Vec::new(), Vec::new());
    for list in question::lists(size)? {
        let (mut medians, mut first) = (Vec::new(), None);
        for question in list.pages {
            let mut times = question.measure(&mut line, clock, effort).await?;
            medians.push(median_of(&mut times.computed));
            first.get_or_insert(times.first);
            rows.extend(rows_of(&question, times, fixed));
        }
        let name = format!("{}: median of the last page, beside the first", list.name);
        let last = medians[medians.len() - 1];
        flat.push(Row::new(name, last, FLAT).against(medians[0]));
        let name = format!("{}: the very first call", list.name);
        let first = Figure::Seconds(first.unwrap_or_default());
        flat.push(Row::new(name, first, Wanted::Nothing));
    }
    for question in question::few(size)? {
        let times = question.measure(&mut line, clock, effort).await?;
        rows.extend(rows_of(&question, times, fixed));
    }
    rows.extend(flat);
    let lists = (controller.memory()?.0 - without).max(0.0);
    let each = lists / f64::from(size.held());
    let name = format!("memory for lists in all orders: {each:.0} bytes a record");
    let all = Figure::Bytes(without + lists);
    rows.push(Row::new(name, Figure::Bytes(lists), Wanted::Nothing).against(all));
    let again = first_page(size)?;
    let mut again = again.measure(&mut line, clock, effort).await?;
    controller.stop().await?;
    Ok((rows, median_of(&mut again.waited)))
}

/// By TLS with a token. The API server is asked for its rights once in a while only,
/// as always.
async fn closed(size: Size, folder: &Path) -> Result<Figure> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    fs::write(&certificate, made.cert.pem())?;
    fs::write(&key, made.signing_key.serialize_pem())?;
    let api = Api::Closed {
        certificate: &certificate,
        key: &key,
    };
    let controller = start(size, folder, api).await?;
    let mut trusted = RootCertStore::empty();
    trusted.add(made.cert.der().clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let mut line = Line::open_closed(controller.api, Arc::new(tls), TOKEN).await?;
    let clock = controller.clock()?;
    let question = first_page(size)?;
    let mut times = (question.measure(&mut line, clock, Effort::of(size))).await?;
    controller.stop().await?;
    Ok(median_of(&mut times.waited))
}

fn first_page(size: Size) -> Result<Question> {
    let list = question::lists(size)?.into_iter().next();
    let page = list.and_then(|list| list.pages.into_iter().next());
    page.context("there are lists, and they have pages")
}

async fn start(size: Size, folder: &Path, api: Api<'_>) -> Result<Controller> {
    let start = Start {
        kubeconfig: &folder.join(KUBECONFIG),
        log: &folder.join("floe-controller.log"),
        addresses: size.entries(),
        api,
        arguments: &[],
        environment: &[],
    };
    Controller::start(start).await
}

fn rows_of(question: &Question, times: Times, fixed: Figure) -> [Row; 2] {
    let computed = percentile_99_of(times.computed);
    let (waited, way) = (
        percentile_99_of(times.waited),
        percentile_99_of(times.of_the_way),
    );
    let promise = if question.is_promised {
        LIMIT
    } else {
        Wanted::Nothing
    };
    [
        Row::new(format!("p99 of {}", question.name), computed, promise).against(fixed),
        Row::new("  on the wall", waited, Wanted::Nothing).against(way),
    ]
}
