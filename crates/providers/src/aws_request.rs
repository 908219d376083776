//! Requests to AWS: where they go, who signs them, and what its refusals mean.
//!
//! All of AWS is asked in one way: a request over HTTPS, signed with a key that is good for
//! one day, one region and one service (Signature Version 4), and an answer in XML.

pub mod credentials;
mod errors;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::SystemTime};

use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use floe_core::nodepool::cloud::{Class, Refusal};
use http::{HeaderValue, Method, header::CONTENT_TYPE};
use serde::de::DeserializeOwned;

use crate::{
    cloud::query::{self, Environment},
    http::{Http, Request, Response},
};
use credentials::{Credentials, Keys};
pub(crate) use errors::Coded;

/// How floe introduces itself.
const AGENT: &str = concat!("floe/", env!("CARGO_PKG_VERSION"));

/// One service of AWS, in one region.
#[derive(Clone, Debug)]
pub struct Service {
    http: Http,
    name: &'static str,
    region: String,
    credentials: Arc<Credentials>,
}

impl Service {
    /// The service `name` at `endpoint`, whose requests are signed for `region`.
    ///
    /// # Errors
    /// When the address cannot be used, in words for whoever wrote it.
    pub fn new(
        name: &'static str,
        region: &str,
        endpoint: &str,
        credentials: Arc<Credentials>,
    ) -> Result<Self, String> {
        Ok(Self {
            http: Http::new(endpoint, AGENT)?,
            name,
            region: region.to_owned(),
            credentials,
        })
    }

    /// The region for which it signs.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Signs a request, sends it once, and reads the answer.
    pub async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, Coded> {
        let keys = self.credentials.keys().await?;
        let request = self.signed(request, &keys, SystemTime::now())?;
        let answer = self.http.send(request).await?;
        read(&answer)
    }

    fn signed(
        &self,
        mut request: Request,
        keys: &Keys,
        now: SystemTime,
    ) -> Result<Request, Refusal> {
        let identity = aws_credential_types::Credentials::new(
            keys.id.as_str(),
            keys.secret.expose(),
            keys.token.as_ref().map(|token| token.expose().to_owned()),
            None,
            "floe",
        )
        .into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.name)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .expect("all that it asks for is given")
            .into();
        let unsignable = |_| Refusal::new(Class::Invalid, "the request cannot be signed");
        let url = format!("{}{}", self.http.base(), request.path);
        let headers = request.headers.iter();
        let headers: Vec<(&str, &str)> = headers
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        let signable = SignableRequest::new(
            request.method.as_str(),
            url,
            headers.into_iter(),
            SignableBody::Bytes(&request.body),
        )
        .map_err(unsignable)?;
        let signed = sign(signable, &parameters).map_err(unsignable)?;
        let (instructions, _) = signed.into_parts();
        for header in instructions.into_parts().0 {
            let value = HeaderValue::from_str(header.value());
            let mut value = value.map_err(|_| {
                let words = "the credentials cannot be sent in a header";
                Refusal::new(Class::Unauthorized, words)
            })?;
            value.set_sensitive(true);
            request.headers.insert(header.name(), value);
        }
        Ok(request)
    }
}

/// A request of the services that take their parameters as a form, also when they are only
/// asked something.
pub(crate) fn form(pairs: &[(&str, &str)]) -> Request {
    let mut request = Request::new(Method::POST, "/");
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
    request.headers.insert(CONTENT_TYPE, kind);
    let query = query::with_query("", pairs);
    request.body = query.trim_start_matches('?').as_bytes().to_vec();
    request
}

/// The answer, if it is a good one.
fn read<T: DeserializeOwned>(answer: &Response) -> Result<T, Coded> {
    if !answer.status.is_success() {
        return Err(errors::read(answer));
    }
    let text = std::str::from_utf8(&answer.body).map_err(|error| answer.senseless(error))?;
    let parsed = quick_xml::de::from_str(text);
    Ok(parsed.map_err(|error| answer.senseless(error))?)
}

/// Where a service is: where the environment says, or where AWS has it.
fn endpoint(environment: Environment<'_>, own: &str, usual: String) -> String {
    query::option(environment, own)
        .or_else(|| query::option(environment, "AWS_ENDPOINT_URL"))
        .unwrap_or(usual)
}

/// The region of the environment.
fn region(environment: Environment<'_>) -> Option<String> {
    query::option(environment, "AWS_REGION")
        .or_else(|| query::option(environment, "AWS_DEFAULT_REGION"))
}

/// The end of all names of AWS that has this region: China has one of its own.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    }
}

/// EC2 in the region of the environment, if that has credentials for AWS.
///
/// # Errors
/// When what is set cannot be used, in words for whoever set it.
pub fn ec2(environment: Environment<'_>) -> Result<Option<Service>, String> {
    let region = region(environment);
    let Some(credentials) = Credentials::from_environment(environment)? else {
        return Ok(None);
    };
    let region = region.ok_or("AWS_REGION: there are credentials for AWS, and no region")?;
    let usual = format!("https://ec2.{region}.{}", domain(&region));
    let endpoint = endpoint(environment, "AWS_ENDPOINT_URL_EC2", usual);
    Service::new("ec2", &region, &endpoint, Arc::new(credentials)).map(Some)
}

/// Route 53, which is in one place for all regions, if the environment has credentials.
///
/// # Errors
/// When what is set cannot be used, in words for whoever set it.
pub fn route53(environment: Environment<'_>) -> Result<Option<Service>, String> {
    let Some(credentials) = Credentials::from_environment(environment)? else {
        return Ok(None);
    };
    let near = region(environment).unwrap_or_default();
    let region = if near.starts_with("cn-") {
        "cn-northwest-1"
    } else {
        "us-east-1"
    };
    let usual = format!("https://route53.{}", domain(&near));
    let endpoint = endpoint(environment, "AWS_ENDPOINT_URL_ROUTE_53", usual);
    Service::new("route53", region, &endpoint, Arc::new(credentials)).map(Some)
}
