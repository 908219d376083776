use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use axum::http::{Request, Response};
use floe_shell::stop;
use kube::client::Body;
use serde_json::json;
use tokio::time::Instant;
use tower::service_fn;

use super::*;

const PACE: Pace = Pace {
    period: Duration::from_secs(2),
    limit: Duration::from_secs(5),
};

fn version(major: &str, minor: &str) -> Info {
    Info {
        major: major.into(),
        minor: minor.into(),
        ..Info::default()
    }
}

#[test]
fn releases_are_read_from_what_servers_say() {
    let cases = [
        ("1", "34", Some(Release(1, 34))),
        ("1", "29+", Some(Release(1, 29))),
        ("1", "30-gke", Some(Release(1, 30))),
        ("2", "0", Some(Release(2, 0))),
        ("", "", None),
        ("1", "", None),
        ("1", "x", None),
    ];
    for (major, minor, want) in cases {
        assert_eq!(Release::of(&version(major, minor)), want, "{major}.{minor}");
    }
}

#[test]
fn releases_before_1_30_are_too_old() {
    for old in [Release(1, 29), Release(1, 9), Release(0, 99)] {
        assert!(old < OLDEST, "{old}");
    }
    for good in [Release(1, 30), Release(1, 100), Release(2, 0)] {
        assert!(good >= OLDEST, "{good}");
    }
}

/// A server that can be switched off, and counts the requests it gets.
#[derive(Clone, Default)]
struct Server {
    on: Arc<AtomicBool>,
    requests: Arc<AtomicU32>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                assert_eq!(request.uri().path(), "/version");
                server.requests.fetch_add(1, Ordering::Relaxed);
                if !server.on.load(Ordering::Relaxed) {
                    return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
                }
                let info = json!({
                    "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "",
                    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "",
                    "platform": "linux/amd64",
                });
                Ok(Response::new(Body::from(info.to_string().into_bytes())))
            }
        });
        Client::new(service, "default")
    }
}

#[tokio::test(start_paused = true)]
async fn an_absent_server_is_asked_until_it_answers() {
    let server = Server::default();
    let contact = Contact::new();
    let (stopper, stop) = stop::channel();
    let task = tokio::spawn(keep_contact(server.client(), contact.clone(), PACE, stop));

    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(contact.age(), None);
    // At 0, 0.5, 1.5, 3.5, 7.5 and then every 5 s.
    assert_eq!(server.requests.load(Ordering::Relaxed), 15);

    server.on.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(contact.age().unwrap() <= PACE.period);

    server.on.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(contact.age().unwrap() >= Duration::from_secs(58));

    let begin = Instant::now();
    stopper.stop();
    task.await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO, "a stop waits for no pause");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_not_waited_for_forever() {
    let service =
        service_fn(|_: Request<Body>| std::future::pending::<io::Result<Response<Body>>>());
    let error = ask(&Client::new(service, "default"), PACE.limit)
        .await
        .unwrap_err();
    assert!(matches!(error, AskError::Silent(limit) if limit == PACE.limit));
}
