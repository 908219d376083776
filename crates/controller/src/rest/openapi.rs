//! The whole API, described as `OpenAPI` 3.1.
//!
//! `docs/openapi.json` is its text, and a test keeps both in step.

use std::collections::BTreeMap;

use floe_api::rest::{v1 as galaxy, v2 as floe};
use utoipa::{
    IntoResponses, Modify, OpenApi,
    openapi::{
        self, Content, Object, Ref, RefOr, Response, ResponseBuilder, Type,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

use super::v2;

mod v1;

/// The description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "floe",
        description = "Floating IPs of Kubernetes pods: who has which address, and why.\n\n\
            Callers send a bearer token of Kubernetes; each operation says which right they need. \
            Every refusal has one stable `reason`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(
        v2::ips::list, v2::ips::get,
        v2::changes::release, v2::changes::reserve, v2::changes::unreserve,
        v2::subnets::list, v2::holders::list,
        v2::pools::list, v2::pools::get, v2::pools::set, v2::pools::delete,
        v2::vips::list, v2::vips::get,
        v2::explain::explain, v2::watch::watch,
        v1::list_ip, v1::release_ip, v1::get_pool, v1::set_pool, v1::delete_pool,
    ),
    components(schemas(floe::Problem, galaxy::Answer)),
    tags(
        (name = "ips", description = "Addresses"),
        (name = "subnets", description = "How full the configured ranges are"),
        (name = "holders", description = "Workloads and pools that hold addresses"),
        (name = "pools", description = "Addresses that several workloads share"),
        (name = "vips", description = "Addresses that several pods share, and which of them has them"),
        (name = "explain", description = "Who, why, since when, and what would release it"),
        (name = "watch", description = "Changes as they happen"),
        (name = "v1", description = "galaxy's API, unchanged for its clients"),
    ),
    security(("bearer" = [])),
    modifiers(&Bearer),
)]
struct Description;

/// How callers are known.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, description: &mut openapi::OpenApi) {
        let mut bearer = Http::new(HttpAuthScheme::Bearer);
        bearer.description = Some(
            "A token of Kubernetes, for example of `kubectl create token`. With \
             `--api-auth=none` nobody asks for it."
                .into(),
        );
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

/// The description as a text.
pub fn json() -> String {
    let text = serde_json::to_string_pretty(&Description::openapi());
    let mut text = text.expect("it has only texts, numbers and lists, which JSON can say");
    text.push('\n');
    text
}

/// How calls of floe's own API can be refused.
pub struct Refusals;

/// How calls of galaxy's API can be refused.
pub struct GalaxyRefusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let own = [
            (404, "There is no such thing"),
            (
                409,
                "Somebody else has changed it at the same time, again and again",
            ),
        ];
        let all = COMMON.iter().chain(&own);
        all.map(|it| refusal(*it, "Problem")).collect()
    }
}

impl IntoResponses for GalaxyRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let own = [
            (404, "There is no such pool"),
            (406, "The caller takes no JSON"),
        ];
        let all = COMMON.iter().chain(&own);
        let described = |it: &(u16, &str)| match it.0 {
            // galaxy's router refuses these itself.
            406 | 415 => text_refusal(*it),
            _ => refusal(*it, "v1.Answer"),
        };
        all.map(described).collect()
    }
}

/// What can happen to any call, mostly before it reaches its route.
const COMMON: [(u16, &str); 10] = [
    (400, "A parameter or the body cannot be read or used"),
    (401, "The caller is not known: no token, or a bad one"),
    (403, "The caller lacks the right"),
    (408, "The body did not come in time"),
    (413, "The body is too long"),
    (414, "The path is too long"),
    (415, "The body is not announced as JSON"),
    (431, "The headers are too long"),
    (
        500,
        "A defect of floe, or, with galaxy's API, the API server refuses",
    ),
    (
        503,
        "Not now: no replica leads, it is not ready, there are too many calls, or the API server does not answer",
    ),
];

fn refusal((status, text): (u16, &str), schema: &str) -> (String, RefOr<Response>) {
    let schema = Ref::from_schema_name(schema);
    let response = ResponseBuilder::new()
        .description(text)
        .content("application/json", Content::new(Some(schema)))
        .build();
    (status.to_string(), response.into())
}

fn text_refusal((status, text): (u16, &str)) -> (String, RefOr<Response>) {
    let schema = Object::with_type(Type::String);
    let response = ResponseBuilder::new()
        .description(text)
        .content("text/plain", Content::new(Some(schema)))
        .build();
    (status.to_string(), response.into())
}

#[cfg(test)]
mod tests;
