//! Long lists, fetched in pages.

use std::fmt::Debug;

use indicatif::{ProgressBar, ProgressStyle};
use kube::{Api, api::ListParams, core::response::reason};
use serde::de::DeserializeOwned;

/// How many objects a page has.
const PAGE: u32 = 500;

/// All objects of a list that a selector chooses. When there is more than one page,
/// the progress is shown on a terminal.
pub async fn all<K>(api: &Api<K>, selector: Option<&str>, what: &str) -> Result<Vec<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let plain = selector.map_or_else(ListParams::default, |labels| {
        ListParams::default().labels(labels)
    });
    let mut params = plain.clone().limit(PAGE);
    let mut found = Vec::new();
    let mut progress = None;
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            // What the token goes on from is forgotten by now: all at once, then.
            Err(kube::Error::Api(status))
                if params.continue_token.is_some()
                    && (status.code == 410 || status.reason == reason::EXPIRED) =>
            {
                found = api.list(&plain).await?.items;
                break;
            }
            Err(error) => return Err(error),
        };
        found.extend(page.items);
        let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
            break;
        };
        let left = page.metadata.remaining_item_count.unwrap_or_default();
        let bar = progress.get_or_insert_with(|| bar(what));
        let read = u64::try_from(found.len()).unwrap_or(u64::MAX);
        bar.set_length(read.saturating_add(u64::try_from(left).unwrap_or_default()));
        bar.set_position(read);
        params = plain.clone().limit(PAGE).continue_token(&token);
    }
    if let Some(bar) = progress {
        bar.finish_and_clear();
    }
    Ok(found)
}

/// A bar on standard error, which shows itself only on a terminal.
fn bar(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("reading {msg} {wide_bar} {pos}/{len}");
    let bar = ProgressBar::no_length().with_message(what.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Client, client::Body};
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// A server that gives these answers in turn, and what it was asked.
    fn server(answers: Vec<(u16, Value)>) -> (Api<ConfigMap>, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let log = asked.clone();
        let service = service_fn(move |request: http::Request<Body>| {
            log.lock()
                .unwrap()
                .push(request.uri().query().unwrap_or_default().to_owned());
            let (status, body) = answers.lock().unwrap().next().unwrap();
            let body = Body::from(body.to_string().into_bytes());
            let response = http::Response::builder().status(status).body(body).unwrap();
            async move { Ok::<_, std::io::Error>(response) }
        });
        (Api::all(Client::new(service, "default")), asked)
    }

    fn page(names: &[&str], token: &str) -> (u16, Value) {
        let items: Vec<_> = names
            .iter()
            .map(|name| json!({ "metadata": { "name": name } }))
            .collect();
        let list = json!({
            "apiVersion": "v1", "kind": "ConfigMapList", "items": items,
            "metadata": { "continue": token, "remainingItemCount": 1 },
        });
        (200, list)
    }

    fn names(found: &[ConfigMap]) -> Vec<&str> {
        found
            .iter()
            .filter_map(|it| it.metadata.name.as_deref())
            .collect()
    }

    #[tokio::test]
    async fn pages_are_fetched_until_there_is_none() {
        let (api, asked) = server(vec![page(&["a", "b"], "next"), page(&["c"], "")]);
        let found = all(&api, Some("x=y"), "things").await.unwrap();
        assert_eq!(names(&found), ["a", "b", "c"]);
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 2);
        assert!(
            asked[0].contains("limit=500") && asked[0].contains("labelSelector=x%3Dy"),
            "{asked:?}"
        );
        assert!(
            asked[1].contains("continue=next") && asked[1].contains("labelSelector"),
            "{asked:?}"
        );
    }

    #[tokio::test]
    async fn a_token_that_is_too_old_costs_one_long_list() {
        let gone = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": 410, "reason": "Expired", "message": "too old",
        });
        let (api, asked) = server(vec![
            page(&["a"], "next"),
            (410, gone),
            page(&["a", "b"], ""),
        ]);
        let found = all(&api, None, "things").await.unwrap();
        assert_eq!(names(&found), ["a", "b"]);
        assert!(!asked.lock().unwrap()[2].contains("limit"));
    }
}
