//! The calls, each with a limit to the waiting.

use std::{future::Future, time::Duration};

use floe_api::galaxy::FloatingIP;
use floe_shell::logs;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::store::Seen;

/// How long a write may take.
const WRITE: Duration = Duration::from_secs(5);

/// How long a read may take.
const READ: Duration = Duration::from_secs(3);

/// The objects of the API server.
#[derive(Clone)]
pub(super) struct Server {
    writes: Api<FloatingIP>,
    /// Reads and answers also when an object makes no sense.
    reads: Api<Seen<FloatingIP>>,
}

/// Why there is no answer that one could go on with.
#[derive(Debug)]
pub(super) enum Failure {
    /// The object is not in the expected state.
    Conflict,
    /// There is no such object.
    Missing,
    /// It was not done, and says why.
    Refused(String),
    /// It may have been done, or be done later.
    Unknown(String),
}

/// What came of a deletion.
pub(super) enum Deleted {
    /// The object is gone; this was its uid.
    Gone(Option<String>),
    /// The object stays until somebody takes its finalizers off.
    Waits(Box<Seen<FloatingIP>>),
}

impl Server {
    pub fn new(client: Client) -> Self {
        Self {
            writes: Api::all(client.clone()),
            reads: Api::all(client),
        }
    }

    pub async fn create(&self, object: &FloatingIP) -> Result<Seen<FloatingIP>, Failure> {
        let parameters = PostParams::default();
        let created = self.writes.create(&parameters, object);
        within(WRITE, created).await.map(Seen::Whole)
    }

    pub async fn patch(&self, name: &str, patch: &Value) -> Result<Seen<FloatingIP>, Failure> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        within(WRITE, self.reads.patch(name, &parameters, &patch)).await
    }

    pub async fn delete(&self, name: &str, version: &str) -> Result<Deleted, Failure> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: Some(version.to_owned()),
                uid: None,
            }),
            ..DeleteParams::default()
        };
        let answer = within(WRITE, self.reads.delete(name, &parameters)).await?;
        Ok(answer.either(
            |object| {
                use kube::Resource as _;
                let meta = object.meta();
                match &meta.finalizers {
                    Some(finalizers) if !finalizers.is_empty() => Deleted::Waits(Box::new(object)),
                    _ => Deleted::Gone(meta.uid.clone()),
                }
            },
            |status| Deleted::Gone(status.details.map(|details| details.uid)),
        ))
    }

    /// The object as it is now, never an old one.
    pub async fn read(&self, name: &str) -> Result<Option<Seen<FloatingIP>>, Failure> {
        within(READ, self.reads.get_opt(name)).await
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    let error = match timeout(limit, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => error,
        Err(_) => return Err(Failure::Unknown(format!("no answer within {limit:?}"))),
    };
    let kube::Error::Api(status) = &error else {
        return Err(Failure::Unknown(logs::with_causes(&error)));
    };
    let why = status.message.clone();
    Err(match status.code {
        404 => Failure::Missing,
        409 => Failure::Conflict,
        // The server gives up waiting for its store, which may still do it.
        500.. => Failure::Unknown(why),
        _ => Failure::Refused(why),
    })
}
