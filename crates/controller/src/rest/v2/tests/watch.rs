use std::time::Duration;

use axum::body::BodyDataStream;
use futures::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, timeout};

use super::*;
use crate::reclaim::scene::until;

/// A stream, and what came of it and was not read yet.
struct Events {
    body: BodyDataStream,
    text: String,
}

impl Events {
    async fn of(api: &Api, query: &str) -> Self {
        let request = Request::get(format!("/v2/watch{query}"));
        let response = api.call(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "text/event-stream"
        );
        let mut events = Self {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        };
        assert_eq!(events.next().await, "Relisted");
        events
    }

    /// The next piece of the stream, up to an empty line; `None` at the end.
    async fn piece(&mut self) -> Option<String> {
        loop {
            if let Some((piece, rest)) = self.text.split_once("\n\n") {
                let piece = piece.to_owned();
                self.text = rest.to_owned();
                return Some(piece);
            }
            let chunk = timeout(Duration::from_mins(10), self.body.next()).await;
            let chunk = chunk.unwrap()?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// How long it goes on, if nothing happens.
    async fn until_the_end(&mut self) -> Duration {
        let begin = Instant::now();
        while let Some(piece) = self.piece().await {
            assert_eq!(piece, ": still here");
            assert!(begin.elapsed() < Duration::from_hours(1), "it has no end");
        }
        begin.elapsed()
    }

    /// Lets it look at all that has happened, of which it tells nothing.
    fn stays_silent(&mut self) {
        assert_eq!(self.text, "");
        let told = self.body.next().now_or_never();
        assert!(told.is_none(), "{told:?}");
    }

    /// The next event: its name, and its address with its state.
    async fn next(&mut self) -> String {
        loop {
            let piece = self.piece().await.expect("it goes on");
            if piece.starts_with(':') {
                continue;
            }
            let (name, data) = piece.split_once('\n').unwrap();
            let name = name.strip_prefix("event: ").unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(data["kind"], name);
            let text = |name: &str| data["ip"][name].as_str().unwrap_or_default().to_owned();
            return format!("{name} {} {}", text("ip"), text("state"))
                .trim()
                .to_owned();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_told_as_they_happen() {
    let scene = world().await;
    let mut events = Events::of(&Api::of(&scene), "").await;
    scene
        .server
        .put(FIPS, fip("10.0.70.8", "sts_ns_a_a-2", 1, "u2"));
    assert_eq!(events.next().await, "Changed 10.0.70.8 Bound");
    scene.server.delete(FIPS, "10.0.70.8");
    assert_eq!(events.next().await, "Freed 10.0.70.8 Free");
    scene.server.delete(FIPS, "192.0.2.7");
    assert_eq!(events.next().await, "Freed 192.0.2.7 Free");
    scene.configure("[]");
    assert_eq!(events.next().await, "Configured");
}

#[tokio::test(start_paused = true)]
async fn a_filtered_stream_tells_of_what_comes_and_what_goes() {
    let scene = world().await;
    let api = Api::of(&scene);
    let mut events = Events::of(&api, "?namespace=ns&appType=statefulset").await;
    let put = |key: &str| scene.server.put(FIPS, fip("10.0.70.8", key, 1, ""));
    let is_known = |ip: &str| scene.known(ip).is_some();
    // Not theirs, neither when it comes nor when it goes.
    put("dp_ns_web_web-1");
    until("it is there", || is_known("10.0.70.8")).await;
    events.stays_silent();
    scene.server.delete(FIPS, "10.0.70.8");
    scene.server.delete(FIPS, "10.0.70.4");
    until("both are gone", || {
        !is_known("10.0.70.8") && !is_known("10.0.70.4")
    })
    .await;
    events.stays_silent();
    put("sts_ns_a_a-2");
    assert_eq!(events.next().await, "Changed 10.0.70.8 Kept");
    put("dp_other_x_");
    assert_eq!(
        events.next().await,
        "Changed 10.0.70.8 Spare",
        "it is theirs no more"
    );
    scene.server.delete(FIPS, "10.0.70.8");
    until("it is gone", || !is_known("10.0.70.8")).await;
    events.stays_silent();
    // It was theirs before the stream began.
    scene.server.delete(FIPS, "10.0.70.3");
    assert_eq!(events.next().await, "Freed 10.0.70.3 Free");
}

#[tokio::test(start_paused = true)]
async fn a_search_also_finds_what_becomes_free() {
    let scene = world().await;
    let mut events = Events::of(&Api::of(&scene), "?q=10.0.70").await;
    scene.server.delete(FIPS, "10.0.80.2");
    scene.server.delete(FIPS, "10.0.70.4");
    assert_eq!(events.next().await, "Freed 10.0.70.4 Free");
}

#[tokio::test(start_paused = true)]
async fn who_is_too_slow_has_to_list_again() {
    let scene = world().await;
    let mut events = Events::of(&Api::of(&scene), "?namespace=ns").await;
    for _ in 0..5000 {
        scene.configure("[]");
    }
    assert_eq!(events.next().await, "Relisted");
    // What was kept of the news comes after it.
    assert_eq!(events.next().await, "Configured");
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_says_that_it_is_there() {
    let scene = world().await;
    let mut events = Events::of(&Api::of(&scene), "").await;
    assert_eq!(events.piece().await.unwrap(), ": still here");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_right_to_follow_it() {
    let registry = Registry::allowing(&["list floatingips"]);
    let (_scene, mut events) = followed_by_ada(&registry).await;
    registry.allow(&[]);
    let length = events.until_the_end().await;
    assert!(length <= Duration::from_mins(2), "{length:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_token_it_was_asked_for_with() {
    let registry = Registry::allowing(&["list floatingips"]);
    let (_scene, mut events) = followed_by_ada(&registry).await;
    registry.revoke();
    let length = events.until_the_end().await;
    assert!(length <= Duration::from_mins(2), "{length:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_outlives_a_short_silence_of_the_api_server_but_no_long_one() {
    let registry = Registry::allowing(&["list floatingips"]);
    let (_scene, mut events) = followed_by_ada(&registry).await;
    registry.silence();
    let length = events.until_the_end().await;
    let minutes = length.as_secs() / 60;
    assert!((4..8).contains(&minutes), "{length:?}");
}

/// A stream without changes, whose caller the registry knows.
async fn followed_by_ada(registry: &Registry) -> (Scene, Events) {
    let scene = world().await;
    let reviewer = Reviewer::new(registry.client());
    let api = Api {
        caller: Caller::with_token("ada-token", reviewer).await.unwrap(),
        ..Api::of(&scene)
    };
    let events = Events::of(&api, "").await;
    (scene, events)
}
