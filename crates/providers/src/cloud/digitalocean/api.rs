//! How DigitalOcean's API speaks: pages, errors, and when to come back.

use std::time::Duration;

use floe_core::{
    json,
    nodepool::cloud::{Class, Refusal},
};
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};

use crate::http::{Http, LONGEST_WAIT, Request, Response};

/// How many things are on a page: as many as it gives.
const PER_PAGE: usize = 200;

/// More pages than any account has; it only ends a server that never does.
const PAGES: usize = 1000;

/// A client of the API.
#[derive(Clone, Debug)]
pub struct Api {
    http: Http,
}

/// How a refusal is written.
#[derive(Deserialize)]
struct Error {
    #[serde(default)]
    id: String,
    #[serde(default)]
    message: String,
}

/// What every page has besides its content.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    links: Links,
}

#[derive(Default, Deserialize)]
struct Links {
    #[serde(default)]
    pages: Option<Pages>,
}

#[derive(Deserialize)]
struct Pages {
    next: Option<String>,
}

impl Api {
    /// Speaks through that client.
    pub fn new(http: Http) -> Self {
        Self { http }
    }

    /// Sends a request, once.
    pub async fn send(&self, request: Request) -> Result<Response, Refusal> {
        self.http.send(request).await
    }

    /// Asks for something.
    pub async fn get(&self, path: impl Into<String>) -> Result<Response, Refusal> {
        self.send(Request::new(Method::GET, path)).await
    }

    /// All pages of a list: what stands under `key` on each. A path may have a query.
    /// Nothing if there is no such list.
    pub async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
    ) -> Result<Option<Vec<T>>, Refusal> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let mut all = Vec::new();
        for page in 1..=PAGES {
            let path = format!("{path}{joint}page={page}&per_page={PER_PAGE}");
            let answer = self.get(path).await?;
            if answer.status == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            let answer = good(&answer, Class::AddressUnknown)?;
            let mut body: serde_json::Value = answer.json()?;
            let items = body
                .get_mut(key)
                .map(serde_json::Value::take)
                .ok_or_else(|| senseless(format_args!("{key:?} is missing")))?;
            let items: Vec<T> = json::from_value(items).map_err(senseless)?;
            all.extend(items);
            let page: Page = json::from_value(body).map_err(senseless)?;
            if page.links.pages.and_then(|pages| pages.next).is_none() {
                return Ok(Some(all));
            }
        }
        Err(senseless("the list has no end"))
    }
}

/// A list that cannot be read. Nothing was done.
fn senseless(words: impl std::fmt::Display) -> Refusal {
    Refusal::new(
        Class::Unavailable,
        format!("the answer makes no sense: {words}"),
    )
}

/// The answer, if it is good; else the refusal, where `missing` is what a 404 means.
pub fn good(answer: &Response, missing: Class) -> Result<&Response, Refusal> {
    if answer.status.is_success() {
        Ok(answer)
    } else {
        Err(refusal(answer, missing))
    }
}

/// What an answer that is not good means.
pub fn refusal(answer: &Response, missing: Class) -> Refusal {
    let error: Option<Error> = serde_json::from_slice(&answer.body).ok();
    let words = error.map_or(String::new(), |error| match error.id.as_str() {
        "" => error.message,
        id => format!("{id}: {}", error.message),
    });
    let mut refusal = answer.refusal(&words);
    if answer.status == StatusCode::NOT_FOUND {
        refusal.class = missing;
    }
    if refusal.class == Class::RateLimited && refusal.retry_after.is_none() {
        refusal.retry_after = reset(answer);
    }
    refusal
}

/// When the oldest of too many requests is forgotten: the limit of the hour says no more.
fn reset(answer: &Response) -> Option<Duration> {
    let text = answer.headers.get("ratelimit-reset")?.to_str().ok()?;
    let at = Timestamp::from_second(text.trim().parse().ok()?).ok()?;
    let wait = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
    Some(wait.clamp(Duration::from_secs(1), LONGEST_WAIT))
}
