//! Marks on addresses, as names of projects.
//!
//! A reserved IP has no tags and no description: all that can be written on it when it is
//! bought is the project it belongs to. Names of projects are unique in an account, so a
//! project whose name is a mark, and which is made before the address is bought into it,
//! says who bought it. It costs a project for each address, which is why it has to be
//! asked for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use floe_core::nodepool::cloud::{Class, Mark, Refusal};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::{
    api::{self, Api},
    with_body,
};
use crate::http::Request;

#[derive(Deserialize)]
struct Project {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct OneProject {
    project: Project,
}

/// The projects of the account, and the marks that are names of some.
pub type Known = BTreeMap<String, Option<Mark>>;

/// The projects as they were listed last. The name of one hardly ever changes, so they are
/// listed again only when an address is in one that is new; who gives an address back asks
/// for its mark once more.
#[derive(Debug, Default)]
pub struct Marks(Mutex<Arc<Known>>);

impl Marks {
    /// All that are known, these among them.
    pub async fn of<'a>(
        &self,
        api: &Api,
        mut projects: impl Iterator<Item = &'a str>,
    ) -> Result<Arc<Known>, Refusal> {
        let known = Arc::clone(&self.lock());
        if projects.all(|id| known.contains_key(id)) {
            return Ok(known);
        }
        let listed = all(api).await?.into_iter();
        let listed = listed.map(|project| (project.id, Mark::parse(&project.name)));
        let known = Arc::new(listed.collect());
        *self.lock() = Arc::clone(&known);
        Ok(known)
    }

    /// Nobody holds it across an await.
    fn lock(&self) -> MutexGuard<'_, Arc<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The project of a mark, if there is one.
pub async fn find(api: &Api, mark: &Mark) -> Result<Option<String>, Refusal> {
    let name = mark.text();
    let mut projects = all(api).await?.into_iter();
    let found = projects.find(|project| project.name == name);
    Ok(found.map(|project| project.id))
}

/// The project of a mark, which is made if there is none.
pub async fn ensure(api: &Api, mark: &Mark) -> Result<String, Refusal> {
    if let Some(id) = find(api, mark).await? {
        return Ok(id);
    }
    let project = json!({
        "name": mark.text(),
        "description": "One reserved IP that floe bought. The name proves it: keep both together.",
        "purpose": "Operational / Developer tooling",
    });
    let request = with_body(Method::POST, "/v2/projects".to_owned(), &project);
    let answer = api.send(request).await?;
    if !answer.status.is_success() {
        let refusal = api::refusal(&answer, Class::Invalid);
        let taken = matches!(
            answer.status,
            StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY
        );
        // It was made since, by an order whose answer was lost.
        if taken && let Some(id) = find(api, mark).await? {
            return Ok(id);
        }
        return Err(refusal);
    }
    let made: OneProject = answer.json()?;
    Ok(made.project.id)
}

/// Removes the project of a mark whose address is gone. One that has come to hold other
/// things stays.
pub async fn remove(api: &Api, id: &str) -> Result<(), Refusal> {
    let request = Request::new(Method::DELETE, format!("/v2/projects/{id}"));
    let answer = api.send(request).await?;
    if matches!(
        answer.status,
        StatusCode::NOT_FOUND | StatusCode::PRECONDITION_FAILED
    ) {
        return Ok(());
    }
    api::good(&answer, Class::Invalid).map(drop)
}

async fn all(api: &Api) -> Result<Vec<Project>, Refusal> {
    let projects = api.pages("/v2/projects", "projects").await?;
    projects.ok_or_else(|| Refusal::new(Class::Unavailable, "the server has no list of projects"))
}
