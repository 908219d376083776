//! What galaxy's API says about itself, in Swagger 1.2.
//!
//! Compat: the declaration is the one that galaxy's documents print, word for word, and
//! `reasons` of the answer to a release, which came later; a test compares both.

use axum::{
    Extension, Json, Router,
    http::{HeaderMap, header::HOST},
    routing::get,
};
use serde_json::{Value, json};

use self::models::models;
use crate::rest::Rest;

mod models;

const VERSION: &str = "1.2";
const RESOURCE: &str = "/v1";

/// How the caller has come: `http` or `https`. An extension of the request, put
/// there by who serves the connection; without one it is `http`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme(pub &'static str);

/// The pages.
pub fn router() -> Router<Rest> {
    Router::new()
        .route("/apidocs.json", get(async || Json(listing())))
        .route("/apidocs.json/v1", get(serve_declaration))
}

async fn serve_declaration(headers: HeaderMap, scheme: Option<Extension<Scheme>>) -> Json<Value> {
    let scheme = scheme.map_or("http", |Extension(Scheme(scheme))| scheme);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let base = host.map_or_else(String::new, |host| format!("{scheme}://{host}"));
    Json(declaration(&base))
}

/// Which declarations there are.
fn listing() -> Value {
    json!({
        "apiVersion": "",
        "swaggerVersion": VERSION,
        "apis": [{ "path": RESOURCE, "description": "" }],
        "info": { "title": "", "description": "" },
    })
}

/// The declaration of all operations.
fn declaration(base: &str) -> Value {
    json!({
        "swaggerVersion": VERSION,
        "apiVersion": "",
        "basePath": base,
        "resourcePath": RESOURCE,
        "info": { "title": "", "description": "" },
        "apis": [
            api("/v1/ip", &[list(), release()]),
            api("/v1/pool/{name}", &[get_pool(), delete_pool()]),
            api("/v1/pool", &[set_pool()]),
        ],
        "models": models(),
    })
}

fn list() -> Value {
    let text = |name, description| parameter("string", name, description, None);
    let parameters = [
        text("keyword", "keyword"),
        text("poolName", "pool name"),
        text("appName", "app name"),
        text("podName", "pod name"),
        text("namespace", "namespace"),
        parameter(
            "boolean",
            "isDeployment",
            "listing deployments or statefulsets. Deprecated, please set appType",
            None,
        ),
        text("appType", "app type, deployment, statefulset or tapp"),
        parameter(
            "integer",
            "page",
            "page number, valid range [0,99999]",
            None,
        ),
        parameter(
            "integer",
            "size",
            "page size, valid range (0,9999]",
            Some("10"),
        ),
        parameter(
            "string",
            "sort",
            "sort by which field, supports ip/namespace/podname/policy asc/desc",
            Some("ip asc"),
        ),
    ];
    operation(
        [
            "GET",
            "ListIPs",
            "List ips by keyword or params",
            "api.ListIPResp",
        ],
        &parameters,
        &[(200, SUCCEEDED, Some("api.ListIPResp"))],
    )
}

fn release() -> Value {
    let partly = "Unreleased ips have been released or allocated to other pods, or are not within valid range";
    operation(
        ["POST", "ReleaseIPs", "Release ips", "api.ReleaseIPResp"],
        &[body("api.ReleaseIPReq")],
        &[
            (200, SUCCEEDED, Some("api.ReleaseIPResp")),
            (202, partly, Some("api.ReleaseIPResp")),
            (400, "10.0.0.2 is not releasable", None),
            (500, FAILED, None),
        ],
    )
}

fn get_pool() -> Value {
    operation(
        ["GET", "Get", "Get pool by name", "api.GetPoolResp"],
        &[name()],
        &[
            (200, SUCCEEDED, Some("api.GetPoolResp")),
            (400, NAMELESS, None),
            (404, "pool not found", None),
            (500, FAILED, None),
        ],
    )
}

fn delete_pool() -> Value {
    operation(
        ["DELETE", "Delete", "Delete pool by name", "httputil.Resp"],
        &[name()],
        &[
            (200, SUCCEEDED, Some("httputil.Resp")),
            (400, NAMELESS, None),
            (404, "pool not found", None),
            (500, FAILED, None),
        ],
    )
}

fn set_pool() -> Value {
    operation(
        [
            "POST",
            "CreateOrUpdate",
            "Create or update pool",
            "httputil.Resp",
        ],
        &[body("api.Pool")],
        &[
            (200, SUCCEEDED, Some("api.UpdatePoolResp")),
            (202, "No enough IPs", Some("api.UpdatePoolResp")),
            (400, NAMELESS, None),
            (500, FAILED, None),
        ],
    )
}

const SUCCEEDED: &str = "request succeed";
const FAILED: &str = "internal server error";
const NAMELESS: &str = "pool name is empty";

/// Status, message, and the model of the body if it has one.
type Response = (u16, &'static str, Option<&'static str>);

fn api(path: &str, operations: &[Value]) -> Value {
    json!({ "path": path, "description": "", "operations": operations })
}

/// An operation by method, nickname, summary and the model of its answer.
fn operation(names: [&str; 4], parameters: &[Value], responses: &[Response]) -> Value {
    let [method, nickname, summary, model] = names;
    let responses = responses.iter().map(|(code, message, model)| {
        let mut response = json!({ "code": code, "message": message });
        if let Some(model) = model {
            response["responseModel"] = json!(model);
        }
        response
    });
    json!({
        "type": model,
        "method": method,
        "summary": summary,
        "nickname": nickname,
        "parameters": parameters,
        "responseMessages": responses.collect::<Value>(),
        "produces": ["application/json"],
        "consumes": ["application/json"],
    })
}

fn parameter(kind: &str, name: &str, description: &str, default: Option<&str>) -> Value {
    let mut parameter = json!({
        "type": kind,
        "paramType": "query",
        "name": name,
        "description": description,
        "required": false,
        "allowMultiple": false,
    });
    if let Some(default) = default {
        parameter["defaultValue"] = json!(default);
    }
    parameter
}

fn name() -> Value {
    needed("string", "path", "name", "pool name")
}

fn body(model: &str) -> Value {
    needed(model, "body", "body", "")
}

fn needed(kind: &str, place: &str, name: &str, description: &str) -> Value {
    json!({
        "type": kind,
        "paramType": place,
        "name": name,
        "description": description,
        "required": true,
        "allowMultiple": false,
    })
}

#[cfg(test)]
mod tests;
