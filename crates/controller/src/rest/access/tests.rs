//! An API server that knows a few tokens and rights, and what is made of its answers.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{body::Body, http::Response};
use kube::{Client, client};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, advance};
use tower::service_fn;

use super::*;

/// Knows `ada-token` and `bob-token`. Ada may do everything that is in `allowed`,
/// which are verbs with resources as `list floatingips`; Bob may do nothing.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    allowed: Vec<String>,
    /// What was asked, without tokens.
    asked: Vec<Value>,
    silent: bool,
    broken: bool,
    revoked: bool,
}

impl Registry {
    pub fn allowing(allowed: &[&str]) -> Self {
        let registry = Self::default();
        registry.allow(allowed);
        registry
    }

    pub fn allow(&self, allowed: &[&str]) {
        self.book().allowed = allowed.iter().map(|it| (*it).to_owned()).collect();
    }

    /// How often it was asked for callers, and for rights.
    pub fn asked(&self) -> (usize, usize) {
        let book = self.book();
        let tokens = book.asked.iter().filter(|it| **it == "TokenReview").count();
        (tokens, book.asked.len() - tokens)
    }

    pub fn silence(&self) {
        self.book().silent = true;
    }

    /// Ada's token is good no more.
    pub fn revoke(&self) {
        self.book().revoked = true;
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn client(&self) -> Client {
        let registry = self.clone();
        let service = service_fn(move |request: axum::http::Request<client::Body>| {
            let registry = registry.clone();
            async move {
                let bytes = request.into_body().collect_bytes().await.unwrap();
                let question: Value = serde_json::from_slice(&bytes).unwrap();
                if registry.book().silent {
                    std::future::pending::<()>().await;
                }
                let answer = registry.book().answer(question);
                let code = if answer["kind"] == "Status" { 500 } else { 201 };
                let body = Body::from(answer.to_string());
                let answer = Response::builder().status(code).body(body);
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        Client::new(service, "default")
    }
}

impl Book {
    fn answer(&mut self, mut question: Value) -> Value {
        let spec = question["spec"].clone();
        let person = |name: &str| {
            json!({ "authenticated": true, "user": {
                "username": name, "uid": "7", "groups": ["people"], "extra": { "k": ["v"] },
            } })
        };
        if self.broken {
            return json!({ "kind": "Status", "status": "Failure", "message": "on purpose", "code": 500 });
        }
        if question["kind"] == "TokenReview" {
            self.asked.push(json!("TokenReview"));
            question["status"] = match spec["token"].as_str().unwrap() {
                "ada-token" if !self.revoked => person("ada"),
                "bob-token" => person("bob"),
                _ => json!({ "authenticated": false, "error": "unknown" }),
            };
        } else {
            self.asked.push(spec.clone());
            let what = &spec["resourceAttributes"];
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let wanted = format!("{} {}", text(&what["verb"]), text(&what["resource"]));
            let allowed = spec["user"] == "ada" && self.allowed.contains(&wanted);
            question["status"] = json!({ "allowed": allowed });
        }
        question
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_asked_for_once_a_minute_and_a_bad_one_again_soon() {
    let registry = Registry::default();
    let reviewer = Reviewer::new(registry.client());
    for _ in 0..3 {
        assert_eq!(reviewer.who("ada-token").await.unwrap().name(), "ada");
        let refused = reviewer.who("wrong").await.unwrap_err();
        assert_eq!(
            (refused.reason(), refused.status()),
            ("Unauthenticated", 401)
        );
    }
    assert_eq!(registry.asked(), (2, 0));
    advance(Duration::from_secs(5)).await;
    reviewer.who("wrong").await.unwrap_err();
    reviewer.who("ada-token").await.unwrap();
    assert_eq!(registry.asked(), (3, 0));
    // A token that is good no more is refused within a minute.
    registry.revoke();
    advance(Duration::from_secs(54)).await;
    reviewer.who("ada-token").await.unwrap();
    advance(Duration::from_secs(1)).await;
    reviewer.who("ada-token").await.unwrap_err();
}

#[tokio::test]
async fn empty_and_huge_tokens_are_not_even_asked_for() {
    let registry = Registry::default();
    let reviewer = Reviewer::new(registry.client());
    reviewer.who("").await.unwrap_err();
    reviewer.who(&"x".repeat(16 * 1024 + 1)).await.unwrap_err();
    assert_eq!(registry.asked(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn rights_are_asked_for_with_all_that_is_known_and_remembered_shortly() {
    let registry = Registry::allowing(&["delete pools"]);
    let reviewer = Reviewer::new(registry.client());
    let ada = reviewer.who("ada-token").await.unwrap();
    let pool = Access::pool("delete", "shop", "web");
    for _ in 0..2 {
        reviewer.may(&ada, &pool).await.unwrap();
    }
    assert_eq!(registry.asked(), (1, 1));
    let asked = registry.book().asked[1].clone();
    assert_eq!(
        asked,
        json!({
            "user": "ada", "uid": "7", "groups": ["people"], "extra": { "k": ["v"] },
            "resourceAttributes": {
                "verb": "delete", "group": "galaxy.k8s.io", "resource": "pools",
                "namespace": "shop", "name": "web",
            },
        })
    );
    // A right that was taken away ends within ten seconds, and one that was given
    // counts within five.
    registry.allow(&[]);
    advance(Duration::from_secs(10)).await;
    let refused = reviewer.may(&ada, &pool).await.unwrap_err();
    assert_eq!((refused.reason(), refused.status()), ("Forbidden", 403));
    let told = refused.to_string();
    assert_eq!(
        told,
        r#"ada may not delete pools.galaxy.k8s.io "web" in namespace "shop""#
    );
    registry.allow(&["delete pools"]);
    reviewer.may(&ada, &pool).await.unwrap_err();
    advance(Duration::from_secs(5)).await;
    reviewer.may(&ada, &pool).await.unwrap();
}

#[tokio::test]
async fn the_rights_of_one_are_not_those_of_another() {
    let registry = Registry::allowing(&["list floatingips"]);
    let reviewer = Reviewer::new(registry.client());
    for (token, allowed) in [("ada-token", true), ("bob-token", false)] {
        let caller = Caller::with_token(token, reviewer.clone()).await.unwrap();
        assert_eq!(caller.may(&Access::ips("list")).await.is_ok(), allowed);
        assert!(caller.may(&Access::ips("delete")).await.is_err());
    }
    assert_eq!(registry.asked(), (2, 4));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_decides_nothing() {
    let registry = Registry::default();
    let reviewer = Reviewer::new(registry.client());
    let ada = reviewer.who("ada-token").await.unwrap();
    registry.book().broken = true;
    let refused = reviewer.who("bob-token").await.unwrap_err();
    assert_eq!(
        (refused.reason(), refused.status()),
        ("AccessUndecided", 503)
    );
    registry.silence();
    let begin = Instant::now();
    let refused = reviewer.may(&ada, &Access::ips("list")).await.unwrap_err();
    assert_eq!(refused.reason(), "AccessUndecided");
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    // It is no refusal that is remembered.
    registry.book().silent = false;
    registry.book().broken = false;
    assert_eq!(reviewer.who("bob-token").await.unwrap().name(), "bob");
}

#[tokio::test]
async fn tokens_are_in_no_message() {
    let registry = Registry::default();
    let reviewer = Reviewer::new(registry.client());
    let ada = reviewer.who("ada-token").await.unwrap();
    registry.book().broken = true;
    let refused = reviewer.who("secret-token").await.unwrap_err();
    let told = format!("{ada:?} {refused:?} {refused}");
    assert!(
        !told.contains("token\"") && !told.contains("secret"),
        "{told}"
    );
}
