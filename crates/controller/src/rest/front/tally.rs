//! Calls and refusals are counted here, by what they were for and never by who called.

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
    response::Response,
};

use crate::{metrics::Metrics, rest::refused::Reason};

/// The route of paths that nobody has; their texts are the callers' and have no end.
const NO_ROUTE: &str = "other";

/// Counts one call.
#[derive(Clone)]
pub struct Tally {
    metrics: Metrics,
    route: String,
    method: &'static str,
}

/// An answer that is counted already.
#[derive(Clone, Copy)]
struct Counted;

impl Tally {
    /// For this call.
    pub fn of(metrics: Metrics, request: &Request) -> Self {
        let route = request.extensions().get::<MatchedPath>();
        Self {
            metrics,
            route: route.map_or(NO_ROUTE, MatchedPath::as_str).to_owned(),
            method: word(request.method()),
        }
    }

    /// Counts the answer, if nobody has done so.
    pub fn note(&self, mut answer: Response) -> Response {
        if answer.extensions_mut().insert(Counted).is_some() {
            return answer;
        }
        let status = answer.status().as_u16();
        self.metrics.api_called(&self.route, self.method, status);
        if let Some(Reason(reason)) = answer.extensions().get() {
            self.metrics.api_refused(reason);
        }
        answer
    }
}

/// Anybody can invent methods.
fn word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}
