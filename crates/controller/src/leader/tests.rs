//! The election against an API server that is a tower service. Time is paused:
//! it jumps to the next timer as soon as every task waits.

use serde_json::json;

use super::*;
use server::{Fault, Server, WatchFault, spec_of};

mod server;
mod watching;

#[tokio::test(start_paused = true)]
async fn an_absent_lease_is_created_and_then_led_by() {
    let server = Server::new();
    let mut replica = server.start();
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;

    let spec = server.spec();
    let identity = spec["holderIdentity"].as_str().unwrap();
    assert_eq!(identity, replica.identity);
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    assert_eq!(server.calls(), ["GET", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_in_every_retry_period() {
    let server = Server::new();
    let mut replica = server.start();
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    let first = server.spec();

    tokio::time::sleep(Duration::from_mins(1)).await;
    let writes = server.calls().iter().filter(|call| *call == "PUT").count();
    assert!((29..=30).contains(&writes), "{writes} renewals in 60 s");
    let last = server.spec();
    for field in ["holderIdentity", "acquireTime", "leaseTransitions"] {
        assert_eq!(last[field], first[field], "{field}");
    }
    assert_ne!(last["renewTime"], first["renewTime"]);
    assert_eq!(*replica.standing.borrow(), Standing::Leading);
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_for_a_new_lease_makes_a_follower() {
    let server = Server::new();
    // The other one creates the lease between our read and our write.
    server.state().before_write = Some(spec_of("other", 15));
    let mut replica = server.start();
    let other = Some("other".to_owned());
    let following = follows(other);
    let seen = replica
        .until(|standing| *standing != Standing::Unknown)
        .await;
    assert_eq!(seen, follows(None), "not known yet who was faster");
    replica.until(|standing| *standing == following).await;
    assert_eq!(server.calls(), ["GET", "POST", "GET"]);
    assert_eq!(server.spec()["holderIdentity"], "other");
}

#[tokio::test(start_paused = true)]
async fn a_conflicting_write_makes_a_leader_step_down() {
    let server = Server::new();
    let mut replica = server.start();
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    server.state().before_write = Some(spec_of("other", 15));
    let seen = replica
        .until(|standing| *standing != Standing::Leading)
        .await;
    let holder = Some("other".to_owned());
    assert_eq!(seen, follows(holder));
    assert_eq!(server.spec()["holderIdentity"], "other");
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_is_replaced_after_its_lease_duration() {
    let server = Server::new();
    // Its times lie far in the past, which must not count.
    server.state().put(&spec_of("other", 15));
    let begin = Instant::now();
    let mut replica = server.start();
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_secs(15), "{waited:?}");
    assert!(waited <= Duration::from_secs(15 + 2), "{waited:?}");
    assert_eq!(server.spec()["leaseTransitions"], 8);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_with_the_next_look() {
    let server = Server::new();
    server.state().watch_fault = Some(WatchFault::Forbid);
    server.state().put(&spec_of("other", 15));
    let mut replica = server.start();
    replica
        .until(|standing| *standing != Standing::Unknown)
        .await;
    server.state().put(&spec_of("", 1));
    let begin = Instant::now();
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    assert!(begin.elapsed() <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_an_api_server_stops_at_the_renew_deadline_and_comes_back() {
    for fault in [Fault::Refuse, Fault::Hang] {
        let server = Server::new();
        let mut replica = server.start();
        replica
            .until(|standing| *standing == Standing::Leading)
            .await;
        server.state().fault = Some(fault);
        let begin = Instant::now();
        replica
            .until(|standing| *standing != Standing::Leading)
            .await;
        // The last renewal was sent at `begin`: to the millisecond.
        assert_eq!(begin.elapsed().as_millis(), 10_000, "{fault:?}");

        server.state().fault = None;
        replica
            .until(|standing| *standing == Standing::Leading)
            .await;
        assert_eq!(
            server.spec()["leaseTransitions"],
            0,
            "{fault:?}: never left our hands"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_releases_the_lease_at_once() {
    let server = Server::new();
    let mut replica = server.start();
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    let begin = Instant::now();
    replica.stop().await;
    assert_eq!(begin.elapsed(), Duration::ZERO, "nothing was waited for");
    let spec = server.spec();
    assert_eq!(spec["holderIdentity"], "");
    assert_eq!(spec["leaseDurationSeconds"], 1);
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(*replica.standing.borrow(), follows(None));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_meets_a_late_renewal_is_tried_again() {
    let server = Server::new();
    let mut replica = server.start();
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    let mut late = spec_of(&replica.identity, 15);
    late["leaseTransitions"] = json!(3);
    server.state().before_write = Some(late);
    replica.stop().await;
    let spec = server.spec();
    assert_eq!(spec["holderIdentity"], "");
    assert_eq!(spec["leaseTransitions"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_stop_without_an_api_server_ends_soon() {
    for fault in [Fault::Refuse, Fault::Hang] {
        let server = Server::new();
        let mut replica = server.start();
        replica
            .until(|standing| *standing == Standing::Leading)
            .await;
        server.state().fault = Some(fault);
        let begin = Instant::now();
        replica.stop().await;
        assert!(begin.elapsed() <= Duration::from_secs(5), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_stops_without_a_request() {
    let server = Server::new();
    server.state().put(&spec_of("other", 15));
    let mut replica = server.start();
    replica
        .until(|standing| *standing != Standing::Unknown)
        .await;
    let calls = server.calls();
    replica.stop().await;
    assert_eq!(server.calls(), calls);
    assert_eq!(server.spec()["holderIdentity"], "other");
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_replicas_leads_when_the_first_stops() {
    let server = Server::new();
    let mut first = server.start();
    first.until(|standing| *standing == Standing::Leading).await;
    let mut second = server.start();
    let holder = Some(first.identity.clone());
    second
        .until(|standing| *standing == follows(holder.clone()))
        .await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(*second.standing.borrow(), follows(holder));
    first.stop().await;
    let begin = Instant::now();
    second
        .until(|standing| *standing == Standing::Leading)
        .await;
    assert!(begin.elapsed() <= Duration::from_secs(2));
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_lease_leaves_the_standing_unknown() {
    let server = Server::new();
    server.state().fault = Some(Fault::Refuse);
    let replica = server.start();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(*replica.standing.borrow(), Standing::Unknown);
    assert_eq!(replica.contact.age(), None);
}

#[tokio::test(start_paused = true)]
async fn the_lease_tells_where_the_leader_answers() {
    let server = Server::new();
    let address = "http://10.0.0.1:9040".to_owned();
    let mut first = server.start_at(Some(&address));
    first.until(|standing| *standing == Standing::Leading).await;
    let mut second = server.start_at(None);
    let following = Standing::Following {
        holder: Some(first.identity.clone()),
        api: Some("http://10.0.0.1:9041".to_owned()),
        extender: Some(address),
    };
    second.until(|standing| *standing == following).await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_learns_at_once_where_the_next_leader_answers() {
    let server = Server::new();
    server.state().put(&spec_of("old", 15));
    let mut replica = server.start_with(|| 1.0);
    let following = |holder: &str, extender: Option<&str>| Standing::Following {
        holder: Some(holder.into()),
        extender: extender.map(str::to_owned),
        api: None,
    };
    let old = following("old", None);
    replica.until(|standing| *standing == old).await;
    let begin = Instant::now();
    let address = "http://10.0.0.2:9040";
    server.state().annotations = json!({ "floe.dev/extender": address });
    server.state().put(&spec_of("new", 15));
    let new = following("new", Some(address));
    replica.until(|standing| *standing == new).await;
    assert!(begin.elapsed() <= floe_core::lease::LONGEST_WAKE_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn annotations_of_others_stay_and_an_old_address_goes() {
    let server = Server::new();
    server.state().annotations = json!({
        "floe.dev/extender": "http://10.0.0.1:9040",
        "floe.dev/api": "http://10.0.0.1:9041",
        "example.com/note": "mine",
    });
    server.state().put(&spec_of("", 1));
    let mut replica = server.start_at(Some("https://[fd00::1]:9040"));
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    let notes = server.state().annotations.clone();
    assert_eq!(
        notes,
        json!({
            "floe.dev/extender": "https://[fd00::1]:9040",
            "floe.dev/api": "https://[fd00::1]:9041",
            "example.com/note": "mine",
        })
    );
    replica.stop().await;

    let mut replica = server.start_at(None);
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    let notes = server.state().annotations.clone();
    assert_eq!(notes, json!({ "example.com/note": "mine" }));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_term_has_ended_does_not_point_to_itself() {
    let server = Server::new();
    let mut replica = server.start_at(Some("http://10.0.0.1:9040"));
    replica
        .until(|standing| *standing == Standing::Leading)
        .await;
    server.state().fault = Some(Fault::Refuse);
    let seen = replica
        .until(|standing| *standing != Standing::Leading)
        .await;
    assert_eq!(seen, follows(Some(replica.identity.clone())));
}

/// Follows somebody who does not tell where it answers the scheduler.
fn follows(holder: Option<String>) -> Standing {
    Standing::Following {
        holder,
        extender: None,
        api: None,
    }
}
