//! What is asked, and how long the answers take.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{
    Effort,
    scene::{self, COMMON},
};
use crate::{bare::Bare, line::Line, program::ClockOf, scene::Size};

/// How many addresses a page has.
const PAGE: u32 = 100;
/// How many a large page has.
const LARGE: u32 = 1_000;

/// One question, always the same.
pub struct Question {
    /// What it is called in the table.
    pub name: String,
    /// Whether its answer is promised in time: a page of a thousand is ten times the work
    /// of a usual one.
    pub is_promised: bool,
    path: String,
    /// How many addresses the answer has in all; none if it is no list.
    total: Option<u64>,
}

/// The same list, from its start to its end.
pub struct List {
    /// What it is called in the table.
    pub name: &'static str,
    /// Some of its pages, of which the first is the first and the last the last.
    pub pages: Vec<Question>,
}

/// How long answers took.
pub struct Times {
    /// Of the controller's own computing, for the very first call.
    pub first: f64,
    /// Of the controller's own computing, for each call.
    pub computed: Vec<f64>,
    /// By the clock on the wall, for each call.
    pub waited: Vec<f64>,
    /// The same of a server that does nothing but send the same answer.
    pub of_the_way: Vec<f64>,
}

/// Lists of many pages.
pub fn lists(size: Size) -> Result<Vec<List>> {
    let configured = size.subnets * (size.held_per_subnet + size.free_per_subnet);
    let held = size.held();
    let holders = u32::try_from(scene::holders(size))?;
    let found = |rest: &str| format!("/v2/ips?q={COMMON}&{rest}");
    let order = |field: &str| format!("/v2/ips?sort={field}&");
    Ok(vec![
        list("v2, by address", "/v2/ips?", configured, PAGE),
        list("v1, by address as a text", "/v1/ip?", configured, PAGE),
        list("v2, by pod", &order("pod"), configured, PAGE),
        list("v2, by namespace", &order("namespace"), configured, PAGE),
        list("v2, by app", &order("app"), configured, PAGE),
        list("v2, by node", &order("node"), configured, PAGE),
        list("v2, by policy", &order("policy"), configured, PAGE),
        list(
            "v2, by time, newest first",
            &order("-since"),
            configured,
            PAGE,
        ),
        list("v2, a search with many hits", &found(""), held, PAGE),
        list(
            "v2, the same by namespace",
            &found("sort=namespace&"),
            held,
            PAGE,
        ),
        list("v2, the same, 1000 on a page", &found(""), held, LARGE),
        list("v2, holders", "/v2/holders?", holders, PAGE),
    ])
}

/// Questions about one address, and what is told of all at once.
pub fn few(size: Size) -> Result<Vec<Question>> {
    let (ip, pod) = scene::one(size)?;
    let question = |name: &str, path: String, total| Question {
        name: name.to_owned(),
        is_promised: true,
        path,
        total,
    };
    let one = |name: &str, path: &str| question(name, format!("{path}{pod}"), Some(1));
    Ok(vec![
        one("v1, a search with one hit", "/v1/ip?keyword="),
        one("v2, a search with one hit", "/v2/ips?q="),
        one("v2, one pod by its name", "/v2/ips?pod="),
        question(
            "v2, explain by address",
            format!("/v2/explain?ip={ip}"),
            None,
        ),
        question(
            "v2, a search among holders",
            "/v2/holders?q=RELEASE-00777".to_owned(),
            Some(1),
        ),
        question("v2, pools", "/v2/pools".to_owned(), None),
    ])
}

fn list(name: &'static str, path: &str, total: u32, size: u32) -> List {
    let last = total.div_ceil(size) - 1;
    let page = |(place, page): (&str, u32)| Question {
        name: format!("{name}: {place} page"),
        is_promised: size == PAGE,
        path: format!("{path}page={page}&size={size}"),
        total: Some(total.into()),
    };
    let pages = [("first", 0), ("middle", last / 2), ("last", last)].map(page);
    List {
        name,
        pages: pages.into(),
    }
}

impl Question {
    /// A text that is the same for all, of the same server.
    pub fn fixed() -> Self {
        Self {
            name: "a fixed text".to_owned(),
            is_promised: false,
            path: "/openapi.json".to_owned(),
            total: None,
        }
    }

    /// Asks, in turns with a server that does nothing.
    pub async fn measure(&self, line: &mut Line, clock: ClockOf, effort: Effort) -> Result<Times> {
        let before = clock.now()?;
        let answer = line.get(&self.path).await?;
        let first = clock.now()?.saturating_sub(before).as_secs_f64();
        self.check(&answer)?;
        let bare = Bare::start(answer).await?;
        let mut way = Line::open(bare.port).await?;
        let mut times = Times {
            first,
            computed: Vec::new(),
            waited: Vec::new(),
            of_the_way: Vec::new(),
        };
        for number in 0..effort.warm_up + effort.calls {
            let (before, start) = (clock.now()?, Instant::now());
            line.get(&self.path).await?;
            let (waited, after) = (start.elapsed(), clock.now()?);
            let start = Instant::now();
            way.get(&self.path).await?;
            let of_the_way = start.elapsed();
            if number >= effort.warm_up {
                times
                    .computed
                    .push((after.saturating_sub(before)).as_secs_f64());
                times.waited.push(waited.as_secs_f64());
                times.of_the_way.push(of_the_way.as_secs_f64());
            }
        }
        Ok(times)
    }

    /// Fails unless the answer is about as many addresses as there are.
    fn check(&self, answer: &[u8]) -> Result<()> {
        let Some(wanted) = self.total else {
            return Ok(());
        };
        let answer: Value = serde_json::from_slice(answer)?;
        let total = answer["total"].as_u64();
        let total = total.or(answer["totalElements"].as_u64());
        let total = total.context("the answer has no total")?;
        ensure!(total == wanted, "{} found {total} addresses", self.path);
        Ok(())
    }
}
