//! `AdmissionReview` of `admission.k8s.io/v1`: the question of the API server, and the
//! answer.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use floe_core::{
    admission::{Finding, Verdict, Write},
    json::{self, JsonError, Names},
};
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The longest warning: clients may cut what is longer.
const LONGEST: usize = 250;

/// The most warnings: the API server drops what is too much in all.
const MOST: usize = 10;

/// Why a body is no question.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("the body is no AdmissionReview: {0}")]
    Malformed(#[from] JsonError),
    /// It is of another version, or something else.
    #[error("only {KIND} of {API_VERSION} is known here, not {kind:?} of {version:?}")]
    Unsupported {
        /// What it is.
        kind: String,
        /// Of which version.
        version: String,
    },
    /// It asks nothing.
    #[error("the {KIND} has no request with a uid")]
    NoRequest,
}

impl ReadError {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::NoRequest => "MalformedBody",
            Self::Unsupported { .. } => "UnsupportedReview",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    request: Option<Question>,
}

/// What the API server asks.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Question {
    uid: String,
    resource: Resource,
    sub_resource: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    operation: String,
    user_info: User,
    object: Option<Value>,
    old_object: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resource {
    group: String,
    resource: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

/// Reads a question.
pub fn read(body: &[u8]) -> Result<Question, ReadError> {
    let review: Review = json::decode(body, Names::Exact)?;
    if (review.api_version.as_str(), review.kind.as_str()) != (API_VERSION, KIND) {
        return Err(ReadError::Unsupported {
            kind: shortened(&review.kind),
            version: shortened(&review.api_version),
        });
    }
    let question = review.request.filter(|question| !question.uid.is_empty());
    question.ok_or(ReadError::NoRequest)
}

impl Question {
    /// What the answer has to repeat.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Who writes.
    pub fn user(&self) -> &str {
        &self.user_info.username
    }

    /// The API group.
    pub fn group(&self) -> &str {
        &self.resource.group
    }

    /// The resource, in plural.
    pub fn resource(&self) -> &str {
        &self.resource.resource
    }

    /// Whether it is about this resource.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        (self.group(), self.resource()) == (group, resource)
    }

    /// The namespace of the object; empty for none.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The name of the object; empty while it has none.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// What is to be written; none if nothing of the object itself is.
    pub fn write(&self) -> Option<Write<'_>> {
        if self.sub_resource.as_ref().is_some_and(|it| !it.is_empty()) {
            return None;
        }
        match self.operation.as_str() {
            "CREATE" => Some(Write::Create(self.object.as_ref()?)),
            "UPDATE" => Some(Write::Update {
                new: self.object.as_ref()?,
                old: self.old_object.as_ref()?,
            }),
            "DELETE" => Some(Write::Delete(self.old_object.as_ref()?)),
            _ => None,
        }
    }
}

/// What the API server is told.
#[derive(Debug)]
pub struct Answer(Value);

impl Answer {
    /// A verdict.
    pub fn verdict(uid: &str, verdict: &Verdict) -> Self {
        let mut response = json!({ "uid": uid, "allowed": verdict.is_allowed() });
        if let Some(reason) = verdict.reason() {
            response["status"] = json!({
                "status": "Failure", "code": 403, "reason": reason, "message": verdict.message(),
            });
        }
        let warnings: Vec<String> = verdict.warnings.iter().map(warning).take(MOST).collect();
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        Self(response)
    }

    /// A patch, or nothing to be changed.
    pub fn patch(uid: &str, patch: Option<&Value>) -> Self {
        let mut response = json!({ "uid": uid, "allowed": true });
        if let Some(patch) = patch {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(ByteString(patch.to_string().into_bytes()));
        }
        Self(response)
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let review = json!({ "apiVersion": API_VERSION, "kind": KIND, "response": self.0 });
        Json(review).into_response()
    }
}

fn warning(finding: &Finding) -> String {
    shortened(&finding.to_string())
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}
