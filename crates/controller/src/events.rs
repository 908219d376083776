//! Events on Kubernetes objects.
//!
//! An Event's name is made from the state of the object that it is about and
//! from its reason. The API server refuses a second one of the same name, so
//! however many replicas see a change, and however often they start again, it
//! is told once. A later change of the object is told again.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tracing::warn;

use crate::{logs, stop::Stop};

/// The name under which floe reports.
const CONTROLLER: &str = "floe.dev/controller";

/// The API server takes no longer note.
const LONGEST_NOTE: usize = 1024;

/// The API server takes no longer name.
const LONGEST_NAME: usize = 253;

/// How many Events may wait to be written.
const QUEUE: usize = 64;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pauses before each further try.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(20),
];

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// The object, in the state that the news is about.
    pub about: ObjectReference,
    /// Whether somebody should do something.
    pub warning: bool,
    /// The stable reason.
    pub reason: &'static str,
    /// What floe did or tried, in one word.
    pub action: &'static str,
    /// The words for people.
    pub note: String,
}

/// Takes news without waiting.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<News>);

impl Events {
    /// Hands news on to be written. When too much waits already the news is
    /// dropped: Events are a help, the log has everything.
    pub fn tell(&self, news: News) {
        if let Err(error) = self.0.try_send(news) {
            warn!(reason = "EventDropped", error = %error, "Event is not written");
        }
    }
}

/// A way to tell, and the task's end of it.
pub fn channel() -> (Events, mpsc::Receiver<News>) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Events(sender), receiver)
}

/// Writes all news until `stop`.
pub async fn write(
    client: Client,
    mut news: mpsc::Receiver<News>,
    instance: String,
    mut stop: Stop,
) {
    let work = async {
        while let Some(news) = news.recv().await {
            publish(&client, &event(&news, &instance, Timestamp::now())).await;
        }
        // Nobody is left who could tell something.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = stop.requested() => {}
        () = work => {}
    }
}

async fn publish(client: &Client, event: &Event) {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut pauses = PAUSES.into_iter();
    loop {
        let params = PostParams::default();
        let error = match timeout(PATIENCE, api.create(&params, event)).await {
            Ok(Ok(_)) => return,
            // Told already.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => return,
            Ok(Err(error)) => logs::with_causes(&error),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        let Some(pause) = pauses.next() else {
            warn!(
                reason = "EventNotWritten",
                event = event.reason,
                error,
                "Event is not written",
            );
            return;
        };
        sleep(pause).await;
    }
}

fn event(news: &News, instance: &str, now: Timestamp) -> Event {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let about = &news.about;
    let name = text(&about.name);
    let mark = mark(&[
        &text(&about.kind),
        &text(&about.uid),
        &text(&about.resource_version),
        news.reason,
    ]);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{mark:016x}", start_of(&name))),
            // Events about objects without a namespace go to the default one.
            namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".into())),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(CONTROLLER.into()),
        reporting_instance: Some(shortened(instance, 128)),
        action: Some(news.action.into()),
        reason: Some(news.reason.into()),
        regarding: Some(about.clone()),
        note: Some(shortened(&news.note, LONGEST_NOTE)),
        type_: Some(if news.warning { "Warning" } else { "Normal" }.into()),
        ..Event::default()
    }
}

/// As much of an object's name as leaves room for the mark, and is a name.
fn start_of(name: &str) -> &str {
    let end = name.floor_char_boundary(LONGEST_NAME - ".0123456789abcdef".len());
    name[..end].trim_end_matches(['-', '.'])
}

/// At most so many bytes of a text, and three dots where some are missing.
fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let dots = "...";
    let end = text.floor_char_boundary(longest - dots.len());
    format!("{}{dots}", &text[..end])
}

/// A number for the parts, the same in every build: FNV-1a.
fn mark(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |mark, byte| {
        (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
