use super::*;
use crate::conformance::proxy::{Fault, On, Proxy};
use crate::fake::server::Server;

const SECRET: &str = "Bearer s3cr3t-of-the-test";

/// A server that says what it was asked, and the way to it.
async fn stage() -> (Server, Proxy, Http) {
    let echo = |method: Method, headers: HeaderMap, body: String| async move {
        let known = headers.get("authorization").is_some_and(|it| it == SECRET);
        format!("{{\"method\":\"{method}\",\"known\":{known},\"body\":{body:?}}}")
    };
    let server = Server::start(axum::Router::new().fallback(echo))
        .await
        .unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let http = Http::new(&proxy.url(), "floe-test")
        .unwrap()
        .with_secret(http::header::AUTHORIZATION, SECRET)
        .unwrap()
        .with_limit(Duration::from_secs(1));
    (server, proxy, http)
}

fn get() -> Request {
    Request::new(Method::GET, "/a?b=c")
}

fn post() -> Request {
    Request::new(Method::POST, "/a").json(&serde_json::json!({"d": 1}))
}

#[tokio::test]
async fn an_answer_is_an_answer() {
    let (_server, proxy, http) = stage().await;
    let answer: serde_json::Value = http.send(post()).await.unwrap().json().unwrap();
    assert_eq!(answer["known"], true);
    assert_eq!(answer["body"], "{\"d\":1}");
    proxy.fail_next(On::Reads, Fault::Status(418, None));
    let answer = http.send(get()).await.unwrap();
    assert_eq!(answer.status.as_u16(), 418);
    assert_eq!(answer.refusal("no").class, Class::Invalid);
}

#[tokio::test]
async fn who_was_not_heard_is_told_from_who_may_have_been() {
    let (_server, proxy, http) = stage().await;
    for fault in [
        Fault::DoneThenClosed,
        Fault::DoneThenSilent,
        Fault::ResetBefore,
    ] {
        proxy.fail_next(On::Reads, fault.clone());
        let refusal = http.send(get()).await.unwrap_err();
        assert_eq!(refusal.class, Class::Unavailable, "{fault:?}");
        proxy.fail_next(On::Writes, fault.clone());
        let refusal = http.send(post()).await.unwrap_err();
        assert_eq!(refusal.class, Class::Unclear, "{fault:?}");
    }
    proxy.go_away().await;
    let refusal = http.send(post()).await.unwrap_err();
    assert_eq!(refusal.class, Class::Unavailable, "nobody was reached");
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let (_server, proxy, http) = stage().await;
    proxy.fail_next(On::Reads, Fault::Malformed);
    let answer = http.send(get()).await.unwrap();
    let refusal = answer.json::<serde_json::Value>().unwrap_err();
    assert_eq!(refusal.class, Class::Unavailable);
    proxy.fail_next(On::Writes, Fault::Malformed);
    let answer = http.send(post()).await.unwrap();
    let refusal = answer.json::<serde_json::Value>().unwrap_err();
    assert_eq!(refusal.class, Class::Unclear);
}

#[tokio::test]
async fn a_status_stands_for_a_class_and_a_time() {
    let (_server, proxy, http) = stage().await;
    for (status, read, written) in [
        (401, Class::Unauthorized, Class::Unauthorized),
        (403, Class::Unauthorized, Class::Unauthorized),
        (404, Class::AddressUnknown, Class::AddressUnknown),
        (409, Class::Busy, Class::Busy),
        (422, Class::Invalid, Class::Invalid),
        (423, Class::Busy, Class::Busy),
        (429, Class::RateLimited, Class::RateLimited),
        (500, Class::Unavailable, Class::Unclear),
        (502, Class::Unavailable, Class::Unclear),
        (503, Class::Unavailable, Class::Unavailable),
        (504, Class::Unavailable, Class::Unclear),
    ] {
        let fault = Fault::Status(status, Some(5));
        proxy.fail_next(On::Reads, fault.clone());
        proxy.fail_next(On::Writes, fault);
        for (request, class) in [(get(), read), (post(), written)] {
            let refusal = http.send(request).await.unwrap().refusal("words");
            assert_eq!(refusal.class, class, "{status}");
            assert_eq!(refusal.retry_after, Some(Duration::from_secs(5)));
            assert_eq!(refusal.message, format!("words (status {status})"));
        }
    }
}

#[test]
fn a_time_to_come_back_is_read_in_both_forms_and_has_an_end() {
    let answer = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
        let answer = Response {
            status: StatusCode::TOO_MANY_REQUESTS,
            headers,
            body: vec![],
            changes: false,
        };
        answer.retry_after()
    };
    assert_eq!(answer(" 12 "), Some(Duration::from_secs(12)));
    assert_eq!(answer("999999"), Some(LONGEST_WAIT));
    assert_eq!(answer("soon"), None);
    assert_eq!(
        answer("Sun, 06 Nov 1994 08:49:37 GMT"),
        Some(Duration::ZERO)
    );
    let wait = answer("Tue, 31 Dec 2999 23:59:59 GMT");
    assert_eq!(wait, Some(LONGEST_WAIT));
}

#[tokio::test]
async fn the_secret_is_shown_to_nobody() {
    let (_server, proxy, http) = stage().await;
    assert!(!format!("{http:?}").contains("s3cr3t"));
    assert!(!format!("{:?}", Secret::new("s3cr3t")).contains("s3cr3t"));
    proxy.fail_next(On::Writes, Fault::ResetBefore);
    let refusal = http.send(post()).await.unwrap_err();
    assert!(!format!("{refusal:?}").contains("s3cr3t"));
    assert!(!refusal.message.contains("127.0.0.1"), "{refusal:?}");
}

#[test]
fn an_address_is_one_of_a_server_and_has_no_password() {
    for good in ["http://127.0.0.1:1", "https://api.example.com/client/v4/"] {
        assert!(Http::new(good, "test").is_ok(), "{good}");
    }
    for bad in ["", "api.example.com", "ftp://a", "https://me:s3cr3t@a"] {
        let words = Http::new(bad, "test").unwrap_err();
        assert!(!words.contains("s3cr3t"), "{words}");
    }
}

#[tokio::test]
async fn what_a_refusal_repeats_of_the_credentials_is_hidden() {
    let echo = |headers: HeaderMap| async move {
        let given = headers["authorization"].to_str().unwrap().to_owned();
        (StatusCode::FORBIDDEN, format!("{given} may not do that"))
    };
    let server = Server::start(axum::Router::new().fallback(echo));
    let server = server.await.unwrap();
    let http = Http::new(&server.url(), "floe-test").unwrap();
    let http = http.with_secret(http::header::AUTHORIZATION, SECRET);
    let answer = http.unwrap().send(get()).await.unwrap();
    let words = String::from_utf8(answer.body).unwrap();
    assert_eq!(words, "Bearer (hidden) may not do that");
}
