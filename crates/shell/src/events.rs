//! Events on Kubernetes objects.
//!
//! An Event's name is made from what it tells. The API server refuses a second one of
//! the same name, so however many processes see a thing, and however often they see
//! it, it is told once until the API server has forgotten it. What makes two pieces of
//! news the same is for each program to say: see [`Sameness`].

use std::{fmt, future::pending, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::{Semaphore, mpsc},
    time::{sleep, timeout},
};
use tracing::warn;

use crate::{logs, stop::Stop};

/// The API server takes no longer note.
const LONGEST_NOTE: usize = 1024;

/// The API server takes no longer name.
const LONGEST_NAME: usize = 253;

/// The API server takes no longer name of an instance.
const LONGEST_INSTANCE: usize = 128;

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

/// How a program tells.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The name under which it reports, such as `floe.dev/agent`.
    pub reporter: &'static str,
    /// What it does not tell twice.
    pub sameness: Sameness,
    /// How many Events may wait to be written, and how many more until it is their time.
    pub queue: usize,
    /// How many Events are written at once. One that is tried again holds up its own
    /// place only.
    pub writers: usize,
}

/// What makes two pieces of news about one object the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// The state of the object and the reason: a later change of the object is told
    /// again, another wording is not.
    State,
    /// The reason and the words, in whatever state the object is.
    Words,
}

/// Takes news without waiting.
#[derive(Clone, Debug)]
pub struct Events {
    sender: mpsc::Sender<Letter>,
    lost: Lost,
}

/// Where the news of all arrives, to be written.
#[derive(Debug)]
pub struct Inbox {
    receiver: mpsc::Receiver<Letter>,
    manner: Manner,
    lost: Lost,
}

/// News, and which one about its object it is. Zero where that does not matter.
#[derive(Clone, Debug, PartialEq)]
struct Letter {
    news: News,
    turn: u32,
    /// When it happened, which may be long before it is written.
    at: Timestamp,
    /// How long it can wait for what cannot.
    pause: Duration,
}

/// Who is called for each Event that is never written.
#[derive(Clone)]
struct Lost(Arc<dyn Fn() + Send + Sync>);

/// A way to tell, and the task's end of it. `lost` is called for each Event that is
/// never written.
pub fn channel(manner: Manner, lost: impl Fn() + Send + Sync + 'static) -> (Events, Inbox) {
    let (sender, receiver) = mpsc::channel(manner.queue);
    let lost = Lost(Arc::new(lost));
    let inbox = Inbox {
        receiver,
        manner,
        lost: lost.clone(),
    };
    (Events { sender, lost }, inbox)
}

impl Events {
    /// Hands news on to be written. When too much waits already the news is
    /// dropped: Events are a help, the log has everything.
    pub fn tell(&self, news: News) {
        self.tell_in_turn(news, 0);
    }

    /// The same for news that may come again although it is the same. `turn` tells
    /// the times apart.
    pub fn tell_in_turn(&self, news: News, turn: u32) {
        self.tell_later(news, turn, Duration::ZERO);
    }

    /// The same for news that comes by hundreds while there is more urgent work for the API
    /// server: it is written after this time. What is lost when the process ends meanwhile
    /// somebody else has to tell.
    pub fn tell_later(&self, news: News, turn: u32, pause: Duration) {
        let letter = Letter {
            news,
            turn,
            at: Timestamp::now(),
            pause,
        };
        if let Err(error) = self.sender.try_send(letter) {
            (self.lost.0)();
            warn!(reason = "EventDropped", error = %error, "Event is not written");
        }
    }
}

impl Inbox {
    /// The news that have come so far, for tests.
    #[cfg(any(test, feature = "mock"))]
    pub fn so_far(&mut self) -> Vec<News> {
        let next = || self.receiver.try_recv().ok().map(|letter| letter.news);
        std::iter::from_fn(next).collect()
    }

    /// Writes all news until `stop`, in the name of this instance of the program.
    pub async fn write(self, client: Client, instance: String, mut stop: Stop) {
        let Self {
            receiver,
            manner,
            lost,
        } = self;
        let letters = stream::unfold(receiver, |mut receiver| async {
            let letter = receiver.recv().await?;
            Some((letter, receiver))
        });
        // Whoever waits takes nobody's place.
        let writers = Semaphore::new(manner.writers);
        let write = async |letter: Letter| {
            sleep(letter.pause).await;
            let _place = writers.acquire().await;
            let event = event(&letter, &manner, &instance);
            publish(&client, event, &lost).await;
        };
        let work = async {
            let written = letters.for_each_concurrent(manner.queue, &write);
            written.await;
            // Nobody is left who could tell something.
            pending::<()>().await;
        };
        tokio::select! {
            () = stop.requested() => {}
            () = work => {}
        }
    }
}

async fn publish(client: &Client, event: Event, lost: &Lost) {
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
            (lost.0)();
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

fn event(letter: &Letter, manner: &Manner, instance: &str) -> Event {
    let Letter { news, turn, at, .. } = letter;
    let about = &news.about;
    let name = about.name.as_deref().unwrap_or_default();
    let mark = mark(&story(news, *turn, manner.sameness));
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{mark:016x}", start_of(name))),
            // Events about objects without a namespace go to the default one.
            namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".into())),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(*at)),
        reporting_controller: Some(manner.reporter.into()),
        reporting_instance: Some(shortened(instance, LONGEST_INSTANCE)),
        action: Some(news.action.into()),
        reason: Some(news.reason.into()),
        regarding: Some(about.clone()),
        note: Some(shortened(&news.note, LONGEST_NOTE)),
        type_: Some(if news.warning { "Warning" } else { "Normal" }.into()),
        ..Event::default()
    }
}

/// What the name of the Event is made from. It stays as it is: processes of different
/// versions must find the same name.
fn story(news: &News, turn: u32, sameness: Sameness) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let about = &news.about;
    let mut parts = vec![text(&about.kind), text(&about.uid)];
    match sameness {
        Sameness::State => parts.extend([text(&about.resource_version), news.reason.into()]),
        Sameness::Words => parts.extend([news.reason.into(), news.note.clone()]),
    }
    if turn > 0 {
        parts.push(turn.to_string());
    }
    parts
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
fn mark(parts: &[String]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |mark, byte| {
        (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lost")
    }
}

#[cfg(test)]
mod tests;
