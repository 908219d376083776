//! How Cloudflare's API speaks.

use floe_core::nodepool::cloud::{Class, Refusal};
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cloud::query::with_query,
    http::{Http, Request, Response},
    zone::plan,
};

/// How many records are asked for at once.
const PER_PAGE: usize = 100;

/// More pages than any name has; it only ends a server that never does.
const PAGES: usize = 1000;

/// A client of the API.
#[derive(Debug)]
pub struct Api {
    http: Http,
}

/// A record of a zone.
#[derive(Debug, Deserialize)]
pub struct Record {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub content: String,
    pub ttl: u32,
    #[serde(default)]
    pub proxied: bool,
    #[serde(default)]
    pub created_on: String,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    result: Vec<Record>,
    result_info: Option<PageInfo>,
}

#[derive(Deserialize)]
struct PageInfo {
    #[serde(default)]
    total_pages: usize,
}

/// What every answer says of how it went.
#[derive(Deserialize)]
struct Outcome {
    success: bool,
    #[serde(default)]
    errors: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    code: u64,
    #[serde(default)]
    message: String,
}

impl Api {
    /// Speaks through that client.
    pub fn new(http: Http) -> Self {
        Self { http }
    }

    /// All records of a name.
    pub async fn records(&self, zone: &str, name: &str) -> Result<Vec<Record>, Refusal> {
        let zone = plan::part_of_path(zone)?;
        let mut all = Vec::new();
        for number in 1..=PAGES {
            let path = with_query(
                &format!("/zones/{zone}/dns_records"),
                &[
                    ("name", name),
                    ("page", &number.to_string()),
                    ("per_page", &PER_PAGE.to_string()),
                ],
            );
            let answer = self.http.send(Request::new(Method::GET, path)).await?;
            let page: Page = good(&answer)?.json()?;
            all.extend(page.result);
            if number >= page.result_info.map_or(0, |info| info.total_pages) {
                return Ok(all);
            }
        }
        let words = "the answer makes no sense: the list has no end";
        Err(Refusal::new(Class::Unavailable, words))
    }

    /// Changes something.
    pub async fn write(&self, method: Method, path: &str, body: &Value) -> Result<(), Refusal> {
        let request = Request::new(method, path).json(body);
        let answer = self.http.send(request).await?;
        let outcome: Outcome = good(&answer)?.json()?;
        if outcome.success {
            Ok(())
        } else {
            Err(refusal(&answer))
        }
    }
}

/// The answer, if it is good.
fn good(answer: &Response) -> Result<&Response, Refusal> {
    if answer.status.is_success() {
        Ok(answer)
    } else {
        Err(refusal(answer))
    }
}

/// What an answer that is not good means. Its numbers say more than its status.
fn refusal(answer: &Response) -> Refusal {
    let outcome: Option<Outcome> = serde_json::from_slice(&answer.body).ok();
    let faults = outcome.map(|outcome| outcome.errors).unwrap_or_default();
    let words: Vec<String> = faults
        .iter()
        .map(|fault| format!("{} {}", fault.code, fault.message))
        .collect();
    let mut refusal = answer.refusal(&words.join("; "));
    let class = faults.iter().find_map(|fault| match fault.code {
        // No such zone, or no right to know of it.
        1001 | 7000 | 7003 => Some(Class::ZoneUnknown),
        6003 | 6111 | 9106 | 9109 | 10000 | 10001 => Some(Class::Unauthorized),
        // The record is gone or has come since it was read.
        81044 | 81053 | 81057 | 81058 => Some(Class::Busy),
        81045 => Some(Class::Quota),
        971 => Some(Class::RateLimited),
        _ => None,
    });
    match class {
        // A limit uses the number of a failed login too.
        Some(_) if refusal.class == Class::RateLimited => {}
        Some(class) => refusal.class = class,
        // A route that is not there.
        None if refusal.class == Class::AddressUnknown => refusal.class = Class::ZoneUnknown,
        None => {}
    }
    refusal
}
