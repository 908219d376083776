//! What a watch adds to the election, and what it must leave alone.

use std::convert::Infallible;

use tokio::task::JoinHandle;

use super::{server::Replica, *};

/// The pauses of a replica that rolls a one: usual, and woken by a release.
const PERIOD: Duration = Duration::from_millis(4_400);
const WAKE: Duration = Duration::from_millis(100);

const FAULTS: [WatchFault; 10] = [
    WatchFault::Forbid,
    WatchFault::Refuse,
    WatchFault::Hang,
    WatchFault::Mute,
    WatchFault::End,
    WatchFault::ShowAndEnd,
    WatchFault::Error,
    WatchFault::Gone,
    WatchFault::GoneStatus,
    WatchFault::Garbage,
];

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_within_the_pause() {
    let server = Server::new();
    let mut replica = follower(&server).await;
    let begin = Instant::now();
    server.state().put(&spec_of("", 1));
    replica.until(leads).await;
    assert_eq!(begin.elapsed().as_millis(), WAKE.as_millis());
    assert_eq!(server.calls(), ["GET", "GET", "PUT"]);
    assert_eq!(server.state().looks, 1);
    assert_eq!(server.state().watches, 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_shortly_before_the_next_look_does_not_delay_it() {
    let server = Server::new();
    let mut replica = follower(&server).await;
    tokio::time::sleep(Duration::from_millis(4_370)).await;
    let begin = Instant::now();
    server.state().put(&spec_of("", 1));
    replica.until(leads).await;
    assert_eq!(begin.elapsed().as_millis(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_hands_over_at_once() {
    let server = Server::new();
    let mut first = server.start();
    first.until(leads).await;
    let mut second = server.start_with(|| 1.0);
    second
        .until(|standing| *standing != Standing::Unknown)
        .await;
    // The watch must outlive many rounds and events.
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(server.state().watches, 2, "one for each replica");
    assert!(server.state().looks <= 3, "the first may find no lease");
    let begin = Instant::now();
    first.stop().await;
    second.until(leads).await;
    assert_eq!(begin.elapsed().as_millis(), WAKE.as_millis());
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_use_changes_nothing() {
    for fault in FAULTS {
        let server = Server::new();
        server.state().watch_fault = Some(fault);
        let mut replica = follower(&server).await;
        let begin = Instant::now();
        // Not at the moment of a try to watch, so that none can see it.
        tokio::time::sleep(Duration::from_millis(3_700)).await;
        server.state().put(&spec_of("", 1));
        replica.until(leads).await;
        assert_eq!(begin.elapsed().as_millis(), PERIOD.as_millis(), "{fault:?}");
        assert_eq!(server.calls(), ["GET", "GET", "PUT"], "{fault:?}");

        server.state().calls.clear();
        tokio::time::sleep(Duration::from_mins(1)).await;
        let calls = server.calls();
        let renewals = calls.iter().filter(|call| *call == "PUT").count();
        assert!((29..=30).contains(&renewals), "{fault:?}: {renewals}");
        assert_eq!(calls.len(), 2 * renewals, "{fault:?}");
        assert_eq!(*replica.standing.borrow(), Standing::Leading, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_tried_again_ever_less_often() {
    for fault in FAULTS {
        let server = Server::new();
        server.state().watch_fault = Some(fault);
        let _replica = follower(&server).await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        let watches = server.state().watches;
        assert!(
            (12..=22).contains(&watches),
            "{fault:?}: {watches} in 5 min"
        );
        assert_eq!(server.state().looks, watches, "{fault:?}: one for each");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_lost_comes_back() {
    for fault in FAULTS {
        let server = Server::new();
        let mut replica = follower(&server).await;
        server.state().watch_fault = Some(fault);
        server.state().end_watches();
        hold_on(&server, Duration::from_mins(1)).await;
        server.state().watch_fault = None;
        hold_on(&server, Duration::from_secs(31)).await;
        let begin = Instant::now();
        server.state().put(&spec_of("", 1));
        replica.until(leads).await;
        let waited = begin.elapsed();
        assert!(
            waited <= WAKE + Duration::from_millis(1),
            "{fault:?}: {waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_between_two_watches_is_seen_by_the_next_read() {
    let server = Server::new();
    let mut replica = follower(&server).await;
    let begin = Instant::now();
    server.state().end_watches();
    server.state().put(&spec_of("", 1));
    replica.until(leads).await;
    let backoff = Duration::from_millis(500);
    let waited = begin.elapsed();
    assert!(waited >= backoff, "nobody watched: {waited:?}");
    assert!(
        waited <= backoff + WAKE + Duration::from_millis(2),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_between_the_read_and_the_watch_is_seen() {
    let server = Server::new();
    server.state().put(&spec_of("other", 15));
    server.state().before_watch = Some(spec_of("", 1));
    let mut lookout = lookout(&server);
    let begin = Instant::now();
    lookout
        .until(|record| record.as_ref().is_some_and(Record::is_released))
        .await;
    assert_eq!(begin.elapsed().as_millis(), 0);
    assert_eq!(server.state().looks, 1);
    assert_eq!(server.state().watches, 1);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_leads_to_a_new_read() {
    for fault in [WatchFault::Gone, WatchFault::GoneStatus] {
        let server = Server::new();
        server.state().forgotten = Some((10, fault));
        let mut replica = follower(&server).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(server.state().watches, 1, "{fault:?}");
        server.state().skip_versions(10);
        server.state().put(&spec_of("other", 15));
        tokio::time::sleep(Duration::from_millis(101)).await;
        assert_eq!(server.state().looks, 2, "{fault:?}");
        assert_eq!(server.state().watches, 2, "{fault:?}");

        let begin = Instant::now();
        server.state().put(&spec_of("", 1));
        replica.until(leads).await;
        assert_eq!(begin.elapsed().as_millis(), WAKE.as_millis(), "{fault:?}");
        assert_eq!(server.state().watches, 2, "{fault:?}: the second is used");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_no_watch_can_tell_of_is_seen_by_the_next_read() {
    for fault in [WatchFault::Gone, WatchFault::GoneStatus] {
        let server = Server::new();
        server.state().watch_fault = Some(fault);
        let mut replica = follower(&server).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.state().put(&spec_of("", 1));
        let begin = Instant::now();
        replica.until(leads).await;
        let waited = begin.elapsed();
        assert!(
            waited <= Duration::from_millis(100) + WAKE + Duration::from_millis(2),
            "{fault:?}: {waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_initial_events_still_shows_a_release() {
    let server = Server::new();
    server.state().lacks_progress = true;
    let mut replica = follower(&server).await;
    hold_on(&server, Duration::from_mins(1)).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begin = Instant::now();
    server.state().put(&spec_of("", 1));
    replica.until(leads).await;
    assert_eq!(begin.elapsed().as_millis(), WAKE.as_millis());
    assert_eq!(server.state().watches, 1, "none has failed");
}

#[tokio::test(start_paused = true)]
async fn an_absent_lease_is_looked_for_ever_less_often() {
    let server = Server::new();
    let mut lookout = lookout(&server);
    tokio::time::sleep(Duration::from_mins(5)).await;
    let looks = server.state().looks;
    assert!((12..=22).contains(&looks), "{looks} in 5 min");
    assert_eq!(server.state().watches, 0, "nothing to watch");

    server.state().put(&spec_of("other", 15));
    let begin = Instant::now();
    lookout.until(Option::is_some).await;
    assert!(begin.elapsed() <= Duration::from_secs(30));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(server.state().watches, 1);
}

#[tokio::test(start_paused = true)]
async fn a_live_holder_causes_neither_a_write_nor_an_early_look() {
    let server = Server::new();
    let replica = follower(&server).await;
    hold_on(&server, Duration::from_secs(30)).await;
    server.state().put(&spec_of("third", 15));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let holder = Some("third".to_owned());
    assert_eq!(*replica.standing.borrow(), follows(holder));
    // At 0 s and then in each period, of which 40 s have nine.
    assert_eq!(server.calls(), ["GET"; 10]);
}

#[tokio::test(start_paused = true)]
async fn an_old_release_causes_one_look_and_no_write() {
    let server = Server::new();
    let replica = follower(&server).await;
    server.state().pretend(&spec_of("", 1));
    tokio::time::sleep(PERIOD).await;
    assert_eq!(server.calls(), ["GET"; 2]);
    let holder = Some("other".to_owned());
    assert_eq!(*replica.standing.borrow(), follows(holder));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_wakes_nobody() {
    let server = Server::new();
    let mut replica = follower(&server).await;
    let begin = Instant::now();
    server.state().delete();
    replica.until(leads).await;
    assert_eq!(begin.elapsed().as_millis(), PERIOD.as_millis());
}

#[tokio::test(start_paused = true)]
async fn of_several_followers_one_writes() {
    let server = Server::new();
    server.state().put(&spec_of("other", 15));
    let dice: [fn() -> f64; 4] = [|| 0.9, || 0.2, || 0.5, || 0.7];
    let mut replicas = dice.map(|dice| server.start_with(dice));
    for replica in &mut replicas {
        replica
            .until(|standing| *standing != Standing::Unknown)
            .await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    server.state().calls.clear();
    server.state().put(&spec_of("", 1));
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(*replicas[1].standing.borrow(), Standing::Leading);
    assert_eq!(server.calls(), ["GET", "PUT", "GET", "GET", "GET"]);
}

/// A lookout without an election.
struct Alone {
    shown: Shown,
    task: JoinHandle<Infallible>,
}

impl Alone {
    async fn until(&mut self, wanted: impl FnMut(&Option<Record>) -> bool) {
        let shown = timeout(Duration::from_mins(5), self.shown.wait_for(wanted)).await;
        shown.expect("shown in time").expect("the lookout runs");
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lookout(server: &Server) -> Alone {
    let (lookout, shown) = Lookout::new(server.watched(), "the-lease", Duration::from_secs(15));
    let task = tokio::spawn(lookout.run());
    Alone { shown, task }
}

/// A replica that follows "other", rolls ones, and has just looked.
async fn follower(server: &Server) -> Replica {
    server.state().put(&spec_of("other", 15));
    let mut replica = server.start_with(|| 1.0);
    let holder = Some("other".to_owned());
    let following = follows(holder);
    replica.until(|standing| *standing == following).await;
    replica
}

/// Lets "other" renew every two seconds for this long.
async fn hold_on(server: &Server, span: Duration) {
    let end = Instant::now() + span;
    let mut transitions = 0;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_secs(2).min(end - Instant::now())).await;
        // A clock that nobody compares: any change is a renewal.
        transitions += 1;
        let mut spec = spec_of("other", 15);
        spec["leaseTransitions"] = json!(transitions);
        server.state().put(&spec);
    }
}

fn leads(standing: &Standing) -> bool {
    *standing == Standing::Leading
}
