//! Events on Kubernetes objects.
//!
//! An Event's name is made from the state of the object that it is about and
//! from its reason. The API server refuses a second one of the same name, so
//! however many replicas see a change, and however often they start again, it
//! is told once. A later change of the object is told again.
//!
//! About a pod there may be several things to tell although the pod does not
//! change: it waits for one thing, then for another, then for the first again.
//! So news about pods also has a turn: a number that the reporter counts up for
//! each pod. It begins anew with each process, so that a restart repeats at most
//! what is another story by then.

use std::{future::pending, time::Duration};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use prometheus_client::metrics::counter::Counter;
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

/// How many Events may wait to be written: a large Deployment starts at once.
const QUEUE: usize = 4096;

/// How many Events are written at once. One that is tried again holds up its own
/// place only.
const WRITERS: usize = 8;

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
pub struct Events {
    sender: mpsc::Sender<Letter>,
    lost: Counter,
}

/// Where the news of all arrives, to be written.
#[derive(Debug)]
pub struct Inbox {
    receiver: mpsc::Receiver<Letter>,
    lost: Counter,
}

/// News, and which one about its object it is. Zero where that does not matter.
#[derive(Clone, Debug, PartialEq)]
struct Letter {
    news: News,
    turn: u32,
    /// When it happened, which may be long before it is written.
    at: Timestamp,
}

impl Events {
    /// Hands news on to be written. When too much waits already the news is
    /// dropped: Events are a help, the log has everything.
    pub fn tell(&self, news: News) {
        self.tell_in_turn(news, 0);
    }

    /// The same for news that may come again while its object stays the same.
    /// `turn` tells the times apart.
    pub fn tell_in_turn(&self, news: News, turn: u32) {
        let at = Timestamp::now();
        if let Err(error) = self.sender.try_send(Letter { news, turn, at }) {
            self.lost.inc();
            warn!(reason = "EventDropped", error = %error, "Event is not written");
        }
    }
}

/// A way to tell, and the task's end of it.
#[cfg(test)]
pub fn channel() -> (Events, Inbox) {
    counting_channel(Counter::default())
}

/// A way to tell, and the task's end of it, with a counter for the Events that are
/// never written.
pub fn counting_channel(lost: Counter) -> (Events, Inbox) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let inbox = Inbox {
        receiver,
        lost: lost.clone(),
    };
    (Events { sender, lost }, inbox)
}

/// Writes all news until `stop`.
pub async fn write(client: Client, inbox: Inbox, instance: String, mut stop: Stop) {
    let Inbox { receiver, lost } = inbox;
    let letters = stream::unfold(receiver, |mut receiver| async {
        let letter = receiver.recv().await?;
        Some((letter, receiver))
    });
    let work = async {
        let written = letters.for_each_concurrent(WRITERS, |letter| {
            let event = event(&letter, &instance);
            publish(&client, event, &lost)
        });
        written.await;
        // Nobody is left who could tell something.
        pending::<()>().await;
    };
    tokio::select! {
        () = stop.requested() => {}
        () = work => {}
    }
}

async fn publish(client: &Client, event: Event, lost: &Counter) {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut pauses = PAUSES.into_iter();
    loop {
        let params = PostParams::default();
        let error = match timeout(PATIENCE, api.create(&params, &event)).await {
            Ok(Ok(_)) => return,
            // Told already.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => return,
            Ok(Err(error)) => logs::with_causes(&error),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        let Some(pause) = pauses.next() else {
            lost.inc();
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

fn event(letter: &Letter, instance: &str) -> Event {
    let Letter { news, turn, at } = letter;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let about = &news.about;
    let name = text(&about.name);
    let turn = turn.to_string();
    let parts = [
        &text(&about.kind),
        &text(&about.uid),
        &text(&about.resource_version),
        news.reason,
        &turn,
    ];
    // Without a turn the mark is what it was before there were any.
    let parts = if turn == "0" { &parts[..4] } else { &parts };
    let mark = mark(parts);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{mark:016x}", start_of(&name))),
            // Events about objects without a namespace go to the default one.
            namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".into())),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(*at)),
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
