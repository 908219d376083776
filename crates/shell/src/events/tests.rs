use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::{mock::Server, stop};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/ns/events";

const MANNER: Manner = Manner {
    reporter: "floe.dev/test",
    sameness: Sameness::State,
    queue: 2000,
    writers: 8,
};

fn news(version: &str, reason: &'static str) -> News {
    News {
        about: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("ConfigMap".into()),
            name: Some("c".into()),
            namespace: Some("ns".into()),
            uid: Some("u".into()),
            resource_version: Some(version.into()),
            ..ObjectReference::default()
        },
        warning: true,
        reason,
        action: "Configure",
        note: "words".into(),
    }
}

fn letter(news: News, turn: u32) -> Letter {
    Letter {
        news,
        turn,
        at: Timestamp::UNIX_EPOCH,
        pause: Duration::ZERO,
    }
}

fn name(news: &News) -> String {
    name_in_turn(news, 0)
}

fn name_in_turn(news: &News, turn: u32) -> String {
    let event = event(&letter(news.clone(), turn), &MANNER, "pod");
    event.metadata.name.unwrap()
}

#[test]
fn an_event_has_what_the_api_server_demands() {
    let event = event(&letter(news("7", "Refused"), 0), &MANNER, "pod-1");
    let value = serde_json::to_value(&event).unwrap();
    let name = value["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        value,
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": { "name": name, "namespace": "ns" },
            "eventTime": "1970-01-01T00:00:00.000000Z",
            "reportingController": "floe.dev/test",
            "reportingInstance": "pod-1",
            "action": "Configure", "reason": "Refused", "type": "Warning", "note": "words",
            "regarding": {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "ns",
                "uid": "u", "resourceVersion": "7",
            },
        })
    );
}

#[test]
fn the_name_tells_states_and_reasons_apart_and_nothing_else() {
    let first = name(&news("7", "Refused"));
    // Other builds and replicas must find the same one.
    assert_eq!(first, "c.5f1c95f8a53bbc0f");
    let other_words = News {
        note: "other words".into(),
        ..news("7", "Refused")
    };
    assert_eq!(name(&other_words), first);
    assert_ne!(name(&news("8", "Refused")), first);
    assert_ne!(name(&news("7", "Applied")), first);
    let turns = [1, 2].map(|turn| name_in_turn(&news("7", "Refused"), turn));
    assert_ne!(turns[0], first);
    assert_ne!(turns[0], turns[1]);
}

#[test]
fn where_words_count_the_name_tells_them_apart_and_states_are_alike() {
    let manner = Manner {
        sameness: Sameness::Words,
        ..MANNER
    };
    let name = |news: News, turn| {
        let event = event(&letter(news, turn), &manner, "pod");
        event.metadata.name.unwrap()
    };
    let first = name(news("7", "Refused"), 0);
    assert_eq!(name(news("8", "Refused"), 0), first);
    let other_words = News {
        note: "other words".into(),
        ..news("7", "Refused")
    };
    assert_ne!(name(other_words, 0), first);
    assert_ne!(name(news("7", "Applied"), 0), first);
    assert_ne!(name(news("7", "Refused"), 1), first);
}

#[test]
fn long_names_leave_room_for_the_mark() {
    let mut long = news("7", "Refused");
    long.about.name = Some(format!("{}-.{}", "x".repeat(234), "y".repeat(17)));
    let name = name(&long);
    assert_eq!(name.len(), 234 + 17);
    assert!(!name.contains("-."), "{name}");
}

#[test]
fn long_notes_are_cut_between_characters() {
    assert_eq!(shortened("short", 5), "short");
    assert_eq!(shortened("longer", 5), "lo...");
    assert_eq!(shortened("éééé", 6), "é...");
    let long = News {
        note: "x".repeat(3_000),
        ..news("7", "Refused")
    };
    let event = event(&letter(long, 0), &MANNER, &"n".repeat(300));
    assert_eq!(event.note.unwrap().len(), LONGEST_NOTE);
    assert_eq!(event.reporting_instance.unwrap().len(), LONGEST_INSTANCE);
}

async fn tell(server: &Server, all: Vec<News>) {
    let (events, inbox) = channel(MANNER, || {});
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(inbox.write(server.client(), "pod".into(), stop));
    for news in all {
        events.tell(news);
    }
    tokio::time::sleep(Duration::from_mins(2)).await;
    stopper.stop();
    task.await.unwrap();
}

/// How many Events were lost, and who counts them.
fn counter() -> (Arc<AtomicU32>, impl Fn() + Send + Sync) {
    let lost = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&lost);
    (lost, move || {
        counted.fetch_add(1, Ordering::Relaxed);
    })
}

fn reasons(server: &Server) -> Vec<Value> {
    let events = server.objects(EVENTS).into_iter();
    events.map(|event| event["reason"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn news_that_was_told_is_not_told_again() {
    let server = Server::default();
    tell(&server, vec![news("7", "Refused"), news("7", "Refused")]).await;
    assert_eq!(reasons(&server), ["Refused"]);
    assert_eq!(
        server.state().calls.len(),
        2,
        "a refusal as known is no failure"
    );
}

#[tokio::test(start_paused = true)]
async fn news_that_can_wait_lets_all_others_go_before() {
    let server = Server::default();
    let (events, inbox) = channel(MANNER, || {});
    let (_stopper, stop) = stop::channel();
    tokio::spawn(inbox.write(server.client(), "pod".into(), stop));
    let hour = Duration::from_hours(1);
    // More than are ever written at once: they take nobody's place.
    for turn in 0..=u32::try_from(MANNER.writers).unwrap() {
        events.tell_later(news("7", "Moved"), turn + 1, hour);
    }
    events.tell(news("7", "Refused"));
    tokio::time::sleep(hour / 2).await;
    assert_eq!(reasons(&server), ["Refused"]);
    tokio::time::sleep(hour).await;
    assert_eq!(reasons(&server).len(), 2 + MANNER.writers);
}

#[tokio::test(start_paused = true)]
async fn news_is_tried_a_few_times_and_then_dropped() {
    let server = Server::default();
    server.state().refuse_writes = Some(500);
    tell(&server, vec![news("7", "Refused")]).await;
    assert_eq!(server.state().calls.len(), 1 + PAUSES.len());
    server.state().refuse_writes = None;
    tell(&server, vec![news("8", "Refused")]).await;
    assert_eq!(reasons(&server), ["Refused"]);
}

#[tokio::test(start_paused = true)]
async fn telling_never_waits_and_what_is_dropped_is_counted() {
    let (lost, count) = counter();
    let (events, mut inbox) = channel(MANNER, count);
    for _ in 0..MANNER.queue + 5 {
        events.tell(news("7", "Refused"));
    }
    assert_eq!(lost.load(Ordering::Relaxed), 5);
    assert_eq!(inbox.so_far().len(), MANNER.queue);
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_written_completely() {
    let server = Server::default();
    let all = (0..1000).map(|version| news(&version.to_string(), "Allocated"));
    tell(&server, all.collect()).await;
    assert_eq!(server.objects(EVENTS).len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_is_counted_and_holds_nobody_up() {
    let server = Server::default();
    let (lost, count) = counter();
    let (events, inbox) = channel(MANNER, count);
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(inbox.write(server.client(), "pod".into(), stop));
    server.state().refuse_writes = Some(500);
    events.tell(news("7", "Refused"));
    while server.state().calls.is_empty() {
        tokio::task::yield_now().await;
    }
    // It is tried again in a second; the next one does not wait for that.
    server.state().refuse_writes = None;
    let asked = tokio::time::Instant::now();
    events.tell(news("8", "Refused"));
    while server.objects(EVENTS).is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(asked.elapsed() < PAUSES[0]);
    server.state().refuse_writes = Some(500);
    while lost.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    stopper.stop();
    task.await.unwrap();
}
