use floe_shell::{
    mock::Server,
    stop::{self, Stopper},
};
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Duration, Instant},
};

use super::*;
use crate::store::Warmth;

const FLOATING_IPS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";
const POOLS: &str = "/apis/galaxy.k8s.io/v1alpha1/pools";

struct Running {
    store: Store,
    defined: watch::Sender<bool>,
    stopper: Stopper,
    task: JoinHandle<()>,
}

fn start(server: &Server) -> Running {
    start_when(server, true)
}

fn start_when(server: &Server, is_defined: bool) -> Running {
    let (defined, receiver) = watch::channel(is_defined);
    let (stopper, stop) = stop::channel();
    let store = Store::default();
    let feeds = Feeds {
        client: server.client(),
        store: store.clone(),
        defined: receiver,
    };
    Running {
        store,
        defined,
        stopper,
        task: tokio::spawn(feed(feeds, stop)),
    }
}

impl Running {
    fn held(&self) -> Vec<String> {
        self.store.read(|books| {
            let records = books.ledger().records();
            records
                .map(|it| format!("{} {}", it.ip, it.key.as_str()))
                .collect()
        })
    }

    async fn until_listed(&self) {
        let mut warmth = self.store.warmth();
        warmth.wait_for(|it| it.records && it.pools).await.unwrap();
    }
}

fn fip(ip: &str, key: &str) -> Value {
    json!({ "metadata": { "name": ip }, "spec": { "key": key } })
}

/// Lets everything happen that can happen without time passing.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_books_follow_the_api_server() {
    let server = Server::default();
    server.put(FLOATING_IPS, fip("10.0.0.5", "a"));
    server.put(
        POOLS,
        json!({ "metadata": { "name": "p", "namespace": "ns" }, "size": 4 }),
    );
    let running = start(&server);
    running.until_listed().await;
    assert_eq!(running.held(), ["10.0.0.5 a"]);
    assert_eq!(running.store.read(|books| books.pools().len()), 1);

    server.put(FLOATING_IPS, fip("10.0.0.6", "b"));
    server.put(FLOATING_IPS, fip("10.0.0.5", "c"));
    server.delete(POOLS, "p");
    settle().await;
    assert_eq!(running.held(), ["10.0.0.5 c", "10.0.0.6 b"]);
    assert_eq!(running.store.read(|books| books.pools().len()), 0);

    server.delete(FLOATING_IPS, "10.0.0.5");
    settle().await;
    assert_eq!(running.held(), ["10.0.0.6 b"]);
    assert!(
        !running.store.warmth().borrow().is_warm(),
        "no configuration was looked for"
    );

    let begin = Instant::now();
    running.stopper.stop();
    running.task.await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO, "nothing was waited for");
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_nobody_watched_is_found_by_a_new_list() {
    let server = Server::default();
    server.put(FLOATING_IPS, fip("10.0.0.5", "a"));
    let running = start(&server);
    running.until_listed().await;
    server.state().down = true;
    server.put(FLOATING_IPS, fip("10.0.0.6", "b"));
    server.delete(FLOATING_IPS, "10.0.0.5");
    server.compact();
    tokio::time::sleep(Duration::from_mins(2)).await;
    let tries = server.state().calls.len();
    server.state().down = false;
    server.put(FLOATING_IPS, fip("10.0.0.7", "c"));
    // The longest pause between two tries.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(running.held(), ["10.0.0.6 b", "10.0.0.7 c"]);
    assert!(
        (30..=70).contains(&tries),
        "{tries} tries of two watches in 120 s, and of looks at the version"
    );
}

#[tokio::test(start_paused = true)]
async fn an_own_write_during_a_list_outlives_it() {
    let server = Server::default();
    let running = start(&server);
    running.until_listed().await;
    let written = server.put(FLOATING_IPS, fip("10.0.0.5", "ours"));
    let written: Seen<FloatingIP> = serde_json::from_value(written).unwrap();
    running.store.change(|books| {
        books.begin_records();
        books.record(&written);
        books.end_records();
    });
    settle().await;
    assert_eq!(running.held(), ["10.0.0.5 ours"]);
}

#[tokio::test(start_paused = true)]
async fn watches_wait_for_the_definitions() {
    let server = Server::default();
    let running = start_when(&server, false);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(server.state().calls, [""; 0]);
    assert_eq!(*running.store.warmth().borrow(), Warmth::default());
    running.defined.send_replace(true);
    running.until_listed().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_list_is_tried_again() {
    let server = Server::default();
    server.put(FLOATING_IPS, fip("10.0.0.5", "a"));
    server.state().refuse_reads = Some(403);
    let running = start(&server);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(*running.store.warmth().borrow(), Warmth::default());
    // At 0, 0.5, 1.5, 3.5, 7.5 and then every 5 s, of each kind.
    assert_eq!(server.state().calls.len(), 2 * 15);
    server.state().refuse_reads = None;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(running.held(), ["10.0.0.5 a"]);
}
