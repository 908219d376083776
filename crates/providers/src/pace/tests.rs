//! Time is paused here: it moves on by itself when everybody waits for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{advance, timeout},
};

use super::*;

const NODE: &str = "node-1";

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_moment_is_tried_again_with_growing_pauses() {
    let (cloud, paced) = paced(Pace::default());
    cloud.fail(ip(5), 3, &unreachable());

    let started = Instant::now();
    paced.assign(NODE, ip(5)).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(100 + 200 + 400));
    assert_eq!(cloud.calls(), ["assign 5"; 4]);
    assert_eq!(
        cloud.told(),
        [
            ("assign", "ProviderUnreachable", Some(100)),
            ("assign", "ProviderUnreachable", Some(200)),
            ("assign", "ProviderUnreachable", Some(400)),
            ("assign", "", None),
        ]
    );
    assert!(paced.0.lanes().is_empty(), "nothing is left behind");
}

#[tokio::test(start_paused = true)]
async fn after_the_last_try_the_error_comes_out() {
    let (cloud, paced) = paced(Pace {
        backoff: Backoff {
            tries: 2,
            ..Backoff::default()
        },
        ..Pace::default()
    });
    cloud.fail(ip(5), 9, &unreachable());

    assert_eq!(paced.unassign(NODE, ip(5)).await, Err(unreachable()));
    assert_eq!(cloud.calls(), ["unassign 5"; 2]);
    assert_eq!(
        cloud.told().last(),
        Some(&("unassign", "ProviderUnreachable", None))
    );
}

#[tokio::test(start_paused = true)]
async fn a_no_is_not_tried_again() {
    let (cloud, paced) = paced(Pace::default());
    let no = ProviderError::Refused {
        message: "no".into(),
    };
    cloud.fail(ip(5), 1, &no);

    assert_eq!(paced.assign(NODE, ip(5)).await, Err(no));
    assert_eq!(cloud.calls(), ["assign 5"]);
    paced.assign(NODE, ip(5)).await.unwrap();
    assert_eq!(cloud.calls(), ["assign 5"; 2], "the next round asks again");
}

#[tokio::test(start_paused = true)]
async fn an_unassign_never_overtakes_an_assign() {
    let (cloud, paced) = paced(Pace::default());
    cloud.hold(ip(5));
    let assign = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;
    let unassign = give(&paced, Func::Unassign, ip(5));
    settle().await;
    assert_eq!(cloud.calls(), ["assign 5"], "the unassign waits");

    cloud.let_go(ip(5));
    assign.await.unwrap().unwrap();
    unassign.await.unwrap().unwrap();
    assert_eq!(cloud.calls(), ["assign 5", "unassign 5"]);
}

#[tokio::test(start_paused = true)]
async fn not_even_when_the_caller_of_the_assign_has_gone() {
    let (cloud, paced) = paced(Pace::default());
    cloud.hold(ip(5));
    let assign = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;
    assign.abort();
    let unassign = give(&paced, Func::Unassign, ip(5));
    settle().await;
    assert_eq!(cloud.calls(), ["assign 5"], "the call is still under way");

    cloud.let_go(ip(5));
    unassign.await.unwrap().unwrap();
    assert_eq!(cloud.calls(), ["assign 5", "unassign 5"]);
}

#[tokio::test(start_paused = true)]
async fn both_ways_to_write_an_address_are_one_lane() {
    let (cloud, paced) = paced(Pace::default());
    cloud.hold(ip(5));
    let assign = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;
    let unassign = give(&paced, Func::Unassign, "::ffff:10.0.70.5".parse().unwrap());
    settle().await;
    assert_eq!(cloud.calls(), ["assign 5"]);
    cloud.let_go(ip(5));
    assign.await.unwrap().unwrap();
    unassign.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn addresses_do_not_wait_for_each_other() {
    let (cloud, paced) = paced(Pace {
        at_once: 2,
        ..Pace::default()
    });
    cloud.hold(ip(5));
    let slow = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;
    for last in 6..20 {
        paced.assign(NODE, ip(last)).await.unwrap();
    }
    assert!(!slow.is_finished());
    cloud.let_go(ip(5));
    slow.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_no_slot() {
    let (cloud, paced) = paced(Pace {
        at_once: 1,
        ..Pace::default()
    });
    cloud.fail(ip(5), 1, &unreachable());
    let failing = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;

    let started = Instant::now();
    paced.assign(NODE, ip(6)).await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    failing.await.unwrap().unwrap();
    assert_eq!(cloud.calls(), ["assign 5", "assign 6", "assign 5"]);
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_than_allowed_are_under_way() {
    let (cloud, paced) = paced(Pace {
        at_once: 3,
        ..Pace::default()
    });
    for last in 1..=20 {
        cloud.hold(ip(last));
    }
    let given: Vec<_> = (1..=20)
        .map(|last| give(&paced, Func::Assign, ip(last)))
        .collect();
    cloud.until_calls(3).await;
    settle().await;
    assert_eq!(cloud.calls().len(), 3);

    for last in 1..=20 {
        cloud.let_go(ip(last));
    }
    for call in given {
        call.await.unwrap().unwrap();
    }
    assert_eq!(cloud.calls().len(), 20);
    assert_eq!(cloud.most_at_once.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_order_joins_the_one_under_way() {
    let (cloud, paced) = paced(Pace::default());
    cloud.hold(ip(5));
    let first = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;
    let again = give(&paced, Func::Assign, ip(5));
    settle().await;
    // The first caller leaves; who joined still gets the answer.
    first.abort();
    cloud.let_go(ip(5));
    again.await.unwrap().unwrap();
    assert_eq!(cloud.calls(), ["assign 5"]);

    paced.assign(NODE, ip(5)).await.unwrap();
    assert_eq!(cloud.calls(), ["assign 5"; 2], "later it is asked again");
}

#[tokio::test(start_paused = true)]
async fn another_node_is_another_order() {
    let (cloud, paced) = paced(Pace::default());
    cloud.hold(ip(5));
    let first = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;
    let other = tokio::spawn({
        let paced = paced.clone();
        async move { paced.assign("node-2", ip(5)).await }
    });
    settle().await;
    cloud.let_go(ip(5));
    first.await.unwrap().unwrap();
    other.await.unwrap().unwrap();
    assert_eq!(cloud.calls(), ["assign 5"; 2]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_is_not_begun() {
    let (cloud, paced) = paced(Pace {
        at_once: 1,
        ..Pace::default()
    });
    cloud.hold(ip(5));
    let slow = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;
    let waiting = give(&paced, Func::Assign, ip(6));
    settle().await;
    waiting.abort();
    let _ = waiting.await;
    cloud.let_go(ip(5));
    slow.await.unwrap().unwrap();
    paced.assign(NODE, ip(7)).await.unwrap();

    assert_eq!(cloud.calls(), ["assign 5", "assign 7"]);
    assert!(paced.0.lanes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_is_not_tried_again() {
    let (cloud, paced) = paced(Pace::default());
    cloud.fail(ip(5), 9, &unreachable());
    let call = give(&paced, Func::Unassign, ip(5));
    cloud.until_calls(1).await;
    call.abort();
    let _ = call.await;
    advance(Duration::from_mins(1)).await;
    settle().await;
    assert_eq!(cloud.calls(), ["unassign 5"]);
    assert!(paced.0.lanes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_assign_gives_way_to_a_newer_order() {
    let (cloud, paced) = paced(Pace::default());
    cloud.fail(ip(5), 1, &unreachable());
    let assign = give(&paced, Func::Assign, ip(5));
    cloud.until_calls(1).await;
    paced.unassign(NODE, ip(5)).await.unwrap();
    assert_eq!(assign.await.unwrap(), Err(unreachable()));
    assert_eq!(cloud.calls(), ["assign 5", "unassign 5"]);
}

#[tokio::test(start_paused = true)]
async fn an_unassign_does_not_give_way() {
    let (cloud, paced) = paced(Pace::default());
    cloud.fail(ip(5), 1, &unreachable());
    let unassign = give(&paced, Func::Unassign, ip(5));
    cloud.until_calls(1).await;
    paced.assign(NODE, ip(5)).await.unwrap();
    unassign.await.unwrap().unwrap();
    assert_eq!(cloud.calls(), ["unassign 5", "unassign 5", "assign 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_panics_does_not_block_its_address() {
    let (cloud, paced) = paced(Pace::default());
    cloud.fail(ip(5), 1, &ProviderError::Stopped);
    let hour = Duration::from_hours(1);
    for expected in [Err(ProviderError::Stopped), Ok(())] {
        let outcome = timeout(hour, paced.assign(NODE, ip(5))).await;
        assert_eq!(outcome.expect("an answer comes"), expected);
    }
    assert_eq!(cloud.calls(), ["assign 5"; 2]);
}

/// A cloud without a wire. An error `Stopped` makes it panic.
#[derive(Default)]
struct Cloud {
    calls: watch::Sender<Vec<String>>,
    held: watch::Sender<Vec<IpAddr>>,
    failures: Mutex<Vec<(IpAddr, ProviderError)>>,
    told: Mutex<Vec<Told>>,
    under_way: AtomicUsize,
    most_at_once: AtomicUsize,
}

/// Function, reason of the failure, milliseconds to the next try.
type Told = (&'static str, &'static str, Option<u128>);

impl Cloud {
    fn fail(&self, ip: IpAddr, times: usize, error: &ProviderError) {
        let mut failures = self.failures.lock().unwrap();
        failures.extend(std::iter::repeat_n((ip, error.clone()), times));
    }

    fn hold(&self, ip: IpAddr) {
        self.held.send_modify(|held| held.push(ip));
    }

    fn let_go(&self, ip: IpAddr) {
        self.held
            .send_modify(|held| held.retain(|other| *other != ip));
    }

    fn calls(&self) -> Vec<String> {
        self.calls.borrow().clone()
    }

    async fn until_calls(&self, count: usize) {
        let mut calls = self.calls.subscribe();
        calls.wait_for(|calls| calls.len() >= count).await.unwrap();
    }

    fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    async fn answer(&self, func: Func, ip: IpAddr) -> Outcome {
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(under_way, Ordering::SeqCst);
        let last = ip.to_string().rsplit('.').next().unwrap().to_owned();
        self.calls
            .send_modify(|calls| calls.push(format!("{} {last}", func.name())));
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held.contains(&ip)).await.unwrap();
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        let failure = {
            let mut failures = self.failures.lock().unwrap();
            let at = failures.iter().position(|(of, _)| *of == ip);
            at.map(|at| failures.remove(at).1)
        };
        assert_ne!(failure, Some(ProviderError::Stopped), "a panic on purpose");
        failure.map_or(Ok(()), Err)
    }
}

impl IpProvider for Cloud {
    fn assign<'a>(&'a self, _: &'a str, ip: IpAddr) -> Answer<'a> {
        Box::pin(self.answer(Func::Assign, ip))
    }

    fn unassign<'a>(&'a self, _: &'a str, ip: IpAddr) -> Answer<'a> {
        Box::pin(self.answer(Func::Unassign, ip))
    }
}

impl Observer for Cloud {
    fn called(&self, call: &Call<'_>) {
        self.told.lock().unwrap().push((
            call.func.name(),
            call.result.err().map_or("", ProviderError::reason),
            call.retry_in.map(|pause| pause.as_millis()),
        ));
    }
}

fn paced(pace: Pace) -> (Arc<Cloud>, Paced) {
    let cloud = Arc::new(Cloud::default());
    let paced = Paced::new(cloud.clone(), pace, cloud.clone());
    (cloud, paced)
}

fn give(paced: &Paced, func: Func, ip: IpAddr) -> JoinHandle<Outcome> {
    let paced = paced.clone();
    tokio::spawn(async move { paced.call(func, NODE, ip).await })
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 70, last])
}

fn unreachable() -> ProviderError {
    ProviderError::Unreachable {
        message: "connection refused".into(),
    }
}

/// Lets everything run that can run without time passing by more than this.
async fn settle() {
    sleep(Duration::from_nanos(1)).await;
}
