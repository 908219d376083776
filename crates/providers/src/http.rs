//! How HTTP APIs are called: one try, an end, and refusals without secrets.

use std::{fmt, sync::Once, time::Duration};

use floe_core::{
    json::{self, Names},
    nodepool::cloud::{Class, Refusal},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header::RETRY_AFTER};
use jiff::Timestamp;
use serde::de::DeserializeOwned;

#[cfg(test)]
mod tests;

/// How floe introduces itself.
pub const AGENT: &str = concat!("floe/", env!("CARGO_PKG_VERSION"));

/// How long a call may take in all.
pub const LIMIT: Duration = Duration::from_secs(10);

/// The longest answer that is read.
const LONGEST: usize = 16 << 20;

/// The longest wait that a server can ask for.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// What stands where a server has repeated a secret.
const HIDDEN: &str = "(hidden)";

/// Shorter words are names of roles and the like, and may well stand in a refusal.
const SHORTEST: usize = 8;

/// A text that nobody sees.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a secret; line ends around it, as in files, do not belong to it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The text, for whoever has to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Http {
    client: reqwest::Client,
    base: String,
    headers: HeaderMap,
    /// What a server may not make floe say, whatever it answers.
    secrets: Vec<Secret>,
    limit: Duration,
}

/// A request. Its path begins with `/` and is added to the address of the server.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method. All but GET and HEAD are taken to change something.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// More headers.
    pub headers: HeaderMap,
    /// What is sent.
    pub body: Vec<u8>,
}

/// What a server has answered, whatever its status is.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// All of the body.
    pub body: Vec<u8>,
    /// The request was one that changes something.
    changes: bool,
}

impl Request {
    /// A request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Vec::new(),
        }
    }

    /// The same with a body of JSON.
    #[must_use]
    pub fn json(mut self, body: &serde_json::Value) -> Self {
        let kind = HeaderValue::from_static("application/json");
        self.headers.insert(http::header::CONTENT_TYPE, kind);
        self.body = body.to_string().into_bytes();
        self
    }
}

impl Http {
    /// A client of the server at `base`, who introduces itself as `agent`.
    ///
    /// # Errors
    /// When the address is no address, in words for whoever wrote it.
    pub fn new(base: &str, agent: &str) -> Result<Self, String> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // It fails only when the process has chosen one before.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let base = base.trim_end_matches('/');
        let parsed = reqwest::Url::parse(base).map_err(|error| format!("{base:?}: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host().is_none() {
            return Err(format!("{base:?} is no address of an HTTP server"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("an address with a password in it: put it elsewhere".to_owned());
        }
        let mut client = reqwest::Client::builder()
            .user_agent(agent)
            .redirect(reqwest::redirect::Policy::none());
        if parsed.scheme() == "http" {
            // Nobody is asked for a certificate, so none has to be there to judge it: an image
            // may have nothing but the program.
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|error| no_client(&error))?;
        Ok(Self {
            client,
            base: base.to_owned(),
            headers: HeaderMap::new(),
            secrets: Vec::new(),
            limit: LIMIT,
        })
    }

    /// The same with calls that may take so long in all.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sends this header with each request, and shows its value to nobody.
    ///
    /// # Errors
    /// When a secret has characters that no header can have.
    pub fn with_secret(mut self, name: HeaderName, value: &str) -> Result<Self, String> {
        let parsed = HeaderValue::from_str(value);
        let mut value = parsed.map_err(|_| "the credentials cannot be sent in a header")?;
        value.set_sensitive(true);
        // The word before a token says what it is, and is no secret.
        let words = value.to_str().unwrap_or_default().split_whitespace();
        let token = words.last().filter(|it| it.len() >= SHORTEST);
        self.secrets.extend(token.map(Secret::new));
        self.headers.insert(name, value);
        Ok(self)
    }

    /// The address of the server, without a `/` at its end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request, once. Any answer is an answer; a refusal says that there is none.
    pub async fn send(&self, request: Request) -> Result<Response, Refusal> {
        let changes = !matches!(request.method, Method::GET | Method::HEAD);
        let sent = self
            .client
            .request(request.method, format!("{}{}", self.base, request.path))
            .headers(self.headers.clone())
            .headers(request.headers)
            .body(request.body)
            .timeout(self.limit)
            .send();
        let lost = |error: reqwest::Error| unanswered(&error, changes, self.limit);
        let mut answer = sent.await.map_err(lost)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(lost)? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST {
                let class = if changes {
                    Class::Unclear
                } else {
                    Class::Unavailable
                };
                return Err(Refusal::new(class, "the answer is too long"));
            }
        }
        // Words of a refusal go to logs, Events and status.
        if !status.is_success() {
            body = self.without_secrets(body);
        }
        Ok(Response {
            status,
            headers,
            body,
            changes,
        })
    }

    fn without_secrets(&self, body: Vec<u8>) -> Vec<u8> {
        let Ok(text) = str::from_utf8(&body) else {
            return body;
        };
        let mut known = self.secrets.iter().map(Secret::expose);
        if !known.any(|it| text.contains(it)) {
            return body;
        }
        let mut text = text.to_owned();
        for secret in self.secrets.iter().map(Secret::expose) {
            text = text.replace(secret, HIDDEN);
        }
        text.into_bytes()
    }
}

impl Response {
    /// The body as JSON, of an answer that is good.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        json::decode(&self.body, Names::Exact).map_err(|error| self.senseless(error))
    }

    /// The refusal of an answer that is good by its status and cannot be read.
    pub fn senseless(&self, error: impl fmt::Display) -> Refusal {
        let class = if self.changes {
            Class::Unclear
        } else {
            Class::Unavailable
        };
        Refusal::new(class, format!("the answer makes no sense: {error}"))
    }

    /// The refusal that a status stands for by itself, in the given words; a client that
    /// knows more looks at its own codes first.
    pub fn refusal(&self, words: &str) -> Refusal {
        let class = match self.status.as_u16() {
            401 | 403 => Class::Unauthorized,
            404 | 410 => Class::AddressUnknown,
            409 | 423 => Class::Busy,
            429 => Class::RateLimited,
            // It may have failed after it had done it.
            408 | 500 | 502 | 504 if self.changes => Class::Unclear,
            408 | 500..=599 => Class::Unavailable,
            _ => Class::Invalid,
        };
        let status = self.status.as_u16();
        let words = if words.is_empty() {
            "no reason given"
        } else {
            words
        };
        Refusal {
            // Proxies answer with other statuses, and the server behind them may still be at it.
            answered: status == 500,
            ..Refusal::new(class, format!("{words} (status {status})")).after(self.retry_after())
        }
    }

    /// When the server wants to be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = if let Ok(seconds) = text.parse() {
            Duration::from_secs(seconds)
        } else {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            let wait = at.duration_since(Timestamp::now());
            Duration::try_from(wait).unwrap_or_default()
        };
        Some(wait.min(LONGEST_WAIT))
    }
}

/// Why there is no client at all.
fn no_client(error: &reqwest::Error) -> String {
    let words = describe(error, LIMIT);
    format!(
        "no client for HTTPS: {words}; are there CA certificates in the image? SSL_CERT_FILE may name others"
    )
}

/// No answer came: whether anything was done is known only if nobody was reached.
fn unanswered(error: &reqwest::Error, changes: bool, limit: Duration) -> Refusal {
    let class = if changes && !error.is_connect() && !error.is_builder() {
        Class::Unclear
    } else {
        Class::Unavailable
    };
    Refusal::new(class, describe(error, limit))
}

/// What went wrong, without the address: queries may be confidential.
fn describe(error: &reqwest::Error, limit: Duration) -> String {
    let mut words = if error.is_timeout() {
        format!("no answer within {} s", limit.as_secs_f64())
    } else if error.is_connect() {
        "cannot connect".to_owned()
    } else if error.is_builder() {
        "it cannot be made".to_owned()
    } else {
        "the connection broke".to_owned()
    };
    let mut cause = std::error::Error::source(error);
    let mut last = String::new();
    while let Some(error) = cause {
        last = error.to_string();
        cause = error.source();
    }
    if !last.is_empty() {
        words = format!("{words}: {last}");
    }
    words
}
