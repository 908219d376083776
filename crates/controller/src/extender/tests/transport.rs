//! What is no call of a scheduler, and how much is taken at once.

use axum::body::Bytes;
use futures::stream;

use super::*;

#[tokio::test]
async fn it_is_healthy_whether_it_leads_or_not() {
    for standing in [Standing::Leading, Standing::Unknown, follower_of(None)] {
        let setup = setup(Clerk::new(), standing);
        let request = Request::get("/healthy").body(Body::empty()).unwrap();
        assert_eq!(text(&setup.router, request).await, (200, "ok".into()));
    }
}

#[tokio::test]
async fn other_paths_methods_and_types_are_refused_as_by_galaxy() {
    let router = setup(Clerk::new(), Standing::Leading).router;
    let request = |method: &str, path: &str, kind: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        request.body(Body::from(names().to_string())).unwrap()
    };
    let json = Some("application/json");
    let page = (404, "404: Page Not Found".to_owned());
    let media = (415, "415: Unsupported Media Type".to_owned());
    let method = (405, "405: Method Not Allowed".to_owned());
    let cases = [
        ("POST", "/v1/unknown", json, &page),
        ("POST", "/filter", json, &page),
        ("GET", "/v1/healthy", None, &page),
        ("POST", "/v1/filter", None, &media),
        ("POST", "/v1/filter", Some("text/json"), &media),
        ("POST", "/v1/filter", Some(""), &media),
        ("GET", "/v1/filter", None, &method),
        ("PUT", "/v1/bind", json, &method),
        ("POST", "/healthy", json, &method),
    ];
    for (verb, path, kind, want) in cases {
        let got = text(&router, request(verb, path, kind)).await;
        assert_eq!(got, *want, "{verb} {path} {kind:?}");
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        let (status, _) = text(&router, request("POST", "/v1/filter", Some(kind))).await;
        assert_eq!(status, 200, "{kind}");
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_an_error_with_its_reason() {
    let router = setup(Clerk::new(), Standing::Leading).router;
    let cut = names().to_string();
    let cut = &cut[..cut.len() - 1];
    for body in ["", "no json", "[]", "{}", "null", cut] {
        for path in ["/v1/filter", "/v1/priority", "/v1/bind", "/v1/preempt"] {
            let (status, answer) = text(&router, post_of(path, body.to_owned())).await;
            assert_eq!(status, 500, "{path} {body}");
            assert!(answer.starts_with("MalformedBody: "), "{path}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_not_read() {
    let setup = setup(Clerk::new(), Standing::Leading);
    let mut request = post_of(
        "/v1/filter",
        Body::from_stream(stream::pending::<Result<Bytes, axum::Error>>()),
    );
    let length = (256 * 1024 * 1024 + 1).into();
    request.headers_mut().insert("content-length", length);
    let (status, told) = text(&setup.router, request).await;
    assert_eq!(status, 413);
    assert!(told.starts_with("BodyTooLarge: "), "{told}");
}

#[tokio::test]
async fn a_long_body_that_does_not_tell_its_length_is_cut_off() {
    let setup = setup(Clerk::new(), Standing::Leading);
    let chunk = Bytes::from(vec![b' '; 16 * 1024 * 1024]);
    let endless = stream::repeat_with(move || Ok::<_, axum::Error>(chunk.clone()));
    let request = post_of("/v1/filter", Body::from_stream(endless));
    assert_eq!(text(&setup.router, request).await.0, 413);
}

#[tokio::test]
async fn a_long_body_is_answered() {
    let setup = setup(Clerk::new(), Standing::Leading);
    let mut offer = objects();
    offer["nodes"]["items"][0]["padding"] = Value::from("x".repeat(3 * 1024 * 1024));
    let answer = ask(&setup.router, "/v1/filter", &offer).await;
    assert_eq!(answer["nodes"]["items"][0], offer["nodes"]["items"][0]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_ends_the_call() {
    let setup = setup(Clerk::new(), Standing::Leading);
    let never = stream::pending::<Result<Bytes, axum::Error>>();
    let begin = Instant::now();
    let request = post_of("/v1/filter", Body::from_stream(never));
    let (status, told) = text(&setup.router, request).await;
    assert_eq!(status, 408);
    assert!(told.starts_with("BodyTooSlow: "), "{told}");
    assert_eq!(begin.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_room_wait_and_are_then_refused() {
    let setup = setup(Clerk::with(0), Standing::Leading);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..512 {
        let router = setup.router.clone();
        calls.spawn(async move { ask(&router, "/v1/bind", &binding("best")).await });
    }
    // Time stands still while there is something to do.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(setup.clerk.asked().len(), 512);
    let bind = || post_of("/v1/bind", binding("best").to_string());
    let (status, told) = text(&setup.router, bind()).await;
    assert_eq!(status, 503);
    assert!(told.starts_with("Overloaded: "), "{told}");
    assert_eq!(setup.clerk.asked().len(), 512);

    // Their callers have left in the meantime, but the binds still take room.
    setup.clerk.leave.add_permits(513);
    assert_eq!(text(&setup.router, bind()).await.0, 200);
    setup.entry.empty().await;
}
