//! Asking Neutron, with a token that is believed and page by page.

use std::sync::Arc;

use floe_core::{
    json,
    nodepool::cloud::{Class, Refusal},
};
use http::{Method, StatusCode};
use serde_json::Value;

use super::{
    errors,
    keystone::{Door, Session},
    settings::Entry,
    wire::{FloatingIp, Kind},
};
use crate::{
    cloud::query::with_query,
    http::{Request, Response},
};

/// How much is asked for at once. Servers may give less.
const PER_PAGE: &str = "500";

/// Neutron, behind its door.
#[derive(Clone, Debug)]
pub struct Api {
    door: Arc<Door>,
}

impl Api {
    /// Nobody is asked yet.
    ///
    /// # Errors
    /// When an address cannot be used.
    pub fn new(entry: Entry) -> Result<Self, String> {
        Ok(Self {
            door: Arc::new(Door::new(entry)?),
        })
    }

    /// Whose addresses are meant.
    pub async fn project(&self) -> Result<Option<String>, Refusal> {
        Ok(self.door.session().await?.project.clone())
    }

    /// All objects of the project, page by page.
    pub async fn pages<T: Kind>(
        &self,
        path: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Vec<T>, Refusal> {
        let project = self.project().await?;
        let mut pairs = pairs.to_vec();
        if let Some(project) = &project
            && T::KEY == FloatingIp::KEY
        {
            // An administrator would see those of others too.
            pairs.push(("project_id", project));
        }
        self.ask(path, &pairs).await
    }

    /// All objects that can be seen, page by page.
    pub async fn ask<T: Kind>(
        &self,
        path: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Vec<T>, Refusal> {
        let mut all: Vec<T> = Vec::new();
        loop {
            let mut pairs = pairs.to_vec();
            pairs.push(("limit", PER_PAGE));
            if let Some(last) = all.last() {
                pairs.push(("marker", last.id()));
            }
            let request = Request::new(Method::GET, with_query(path, &pairs));
            let mut page: Value = self.send(request).await?.json()?;
            let nonsense = || {
                let words = format!("the answer has no list of {}", T::KEY);
                Refusal::new(Class::Unavailable, words)
            };
            // Not by index, which panics for an answer that is no object.
            let list = page.get_mut(T::KEY).map(Value::take);
            let found: Vec<T> = list
                .and_then(|list| json::from_value(list).ok())
                .ok_or_else(nonsense)?;
            let more = page[format!("{}_links", T::KEY)]
                .as_array()
                .is_some_and(|links| links.iter().any(|link| link["rel"] == "next"));
            let empty = found.is_empty();
            all.extend(found);
            if !more || empty {
                return Ok(all);
            }
        }
    }

    /// Sends a request; when its token is not believed, once more with another.
    pub async fn send(&self, request: Request) -> Result<Response, Refusal> {
        let session: Arc<Session> = self.door.session().await?;
        let mut answer = session.http.send(request.clone()).await?;
        if answer.status == StatusCode::UNAUTHORIZED && self.door.forget(&session) {
            let session = self.door.session().await?;
            answer = session.http.send(request).await?;
        }
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(errors::read(&answer))
    }
}
