use floe_shell::mock::{Fault, Server};
use futures::stream;
use http::Method;
use serde_json::Value;

use super::*;
use crate::{
    args::Selection,
    console::script,
    fixture::{self, RECORDS, record},
};

fn view(selection: &Selection) -> View {
    View {
        filter: Filter::of(selection, "default"),
        seen: BTreeMap::new(),
        listed: None,
        began: false,
        shows_first: true,
        format: None,
    }
}

fn object(name: &str, key: &str, node: &str, version: &str) -> DynamicObject {
    let mut object = record(name, key, node);
    object["metadata"]["resourceVersion"] = Value::from(version);
    serde_json::from_value(object).unwrap()
}

/// The lines without their times, and how it ended.
async fn lines(
    view: &mut View,
    events: Vec<Result<Event<DynamicObject>, watcher::Error>>,
) -> (Vec<String>, String, Result<(), Failure>) {
    let (mut console, out, err) = script::console(None);
    let cluster = fixture::cluster(&Server::default());
    let result = follow(&cluster, &mut console, view, stream::iter(events)).await;
    let out = out.text();
    let lines = out.lines().map(|line| {
        let words: Vec<_> = line.split_whitespace().skip(1).collect();
        words.join(" ")
    });
    (lines.collect(), err.text(), result)
}

fn broken() -> watcher::Error {
    let status = kube::core::Status {
        code: 403,
        reason: "Forbidden".into(),
        ..Default::default()
    };
    watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
}

#[tokio::test]
async fn changes_are_told_once_and_gaps_are_filled() {
    let mut view = view(&Selection::default());
    let (a, b) = ("10.0.70.2", "10.0.70.3");
    let key = "sts_default_pg_pg-0";
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(object(
            b,
            "sts_default_pg_pg-1",
            "n1",
            "1",
        ))),
        Ok(Event::InitApply(object(a, key, "n1", "2"))),
        Ok(Event::InitApply(object(
            "10.0.70.4",
            "sts_web_a_a-0",
            "n1",
            "3",
        ))),
        Ok(Event::InitDone),
        // Only a label: nothing that the line says.
        Ok(Event::Apply(object(a, key, "n1", "4"))),
        Ok(Event::Apply(object(a, key, "", "5"))),
        Err(broken()),
        // The other record went while nobody looked.
        Ok(Event::Init),
        Ok(Event::InitApply(object(a, key, "n2", "7"))),
        Ok(Event::InitDone),
        Ok(Event::Delete(object(a, key, "n2", "8"))),
    ];
    let (lines, told, result) = lines(&mut view, events).await;
    result.unwrap();
    assert_eq!(
        lines,
        [
            "10.0.70.2 Bound default/pg-0 n1",
            "10.0.70.3 Bound default/pg-1 n1",
            "10.0.70.2 Kept default/pg-0 <none>",
            "10.0.70.3 Free was default/pg-1 <none>",
            "10.0.70.2 Bound default/pg-0 n2",
            "10.0.70.2 Free was default/pg-0 <none>",
        ]
    );
    assert_eq!(
        told,
        "warning: you may not list floatingips.galaxy.k8s.io; trying again\n"
    );
}

#[tokio::test]
async fn only_changes_leaves_the_first_list_out() {
    let mut view = view(&Selection::default());
    view.shows_first = false;
    let key = "sts_default_pg_pg-0";
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(object("10.0.70.2", key, "n1", "1"))),
        Ok(Event::InitDone),
        Ok(Event::Apply(object("10.0.70.2", key, "", "2"))),
    ];
    let (lines, _, _) = lines(&mut view, events).await;
    assert_eq!(lines, ["10.0.70.2 Kept default/pg-0 <none>"]);
}

#[tokio::test]
async fn a_record_that_goes_to_somebody_else_is_shown_once_more() {
    let mut view = view(&Selection::default());
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitDone),
        Ok(Event::Apply(object(
            "10.0.70.2",
            "sts_default_pg_pg-0",
            "n1",
            "1",
        ))),
        Ok(Event::Apply(object(
            "10.0.70.2",
            "sts_web_a_a-0",
            "n1",
            "2",
        ))),
        Ok(Event::Apply(object(
            "10.0.70.2",
            "sts_web_a_a-0",
            "n2",
            "3",
        ))),
    ];
    let (lines, _, _) = lines(&mut view, events).await;
    assert_eq!(
        lines,
        [
            "10.0.70.2 Bound default/pg-0 n1",
            "10.0.70.2 Bound web/a-0 n1"
        ]
    );
}

#[tokio::test]
async fn a_failure_at_the_start_ends_it() {
    let (lines, _, result) = lines(&mut view(&Selection::default()), vec![Err(broken())]).await;
    assert!(lines.is_empty());
    assert_eq!(result.unwrap_err().reason(), "Forbidden");
}

#[tokio::test]
async fn the_server_is_followed() {
    let server = Server::default();
    server.put(RECORDS, record("10.0.70.2", "sts_default_pg_pg-0", "n1"));
    let (mut console, out, _) = script::console(None);
    let cluster = fixture::cluster(&server);
    let args = Watch {
        selection: Selection {
            all_namespaces: true,
            ..Selection::default()
        },
        only_changes: false,
        output: Some(WatchFormat::Json),
    };
    let act = async {
        server.until(|_| out.text().lines().count() == 1).await;
        server.put(RECORDS, record("10.0.70.3", "sts_web_a_a-0", "n1"));
        server.until(|_| out.text().lines().count() == 2).await;
        server.delete(RECORDS, "10.0.70.2");
        server.until(|_| out.text().lines().count() == 3).await;
    };
    tokio::select! {
        result = run(&cluster, &mut console, &args) => panic!("it ended: {result:?}"),
        () = act => {}
    }
    let events: Vec<Value> = out
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> = events
        .iter()
        .map(|it| {
            (
                it["type"].as_str().unwrap(),
                it["object"]["metadata"]["name"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("ADDED", "10.0.70.2"),
            ("ADDED", "10.0.70.3"),
            ("DELETED", "10.0.70.2")
        ]
    );
}

#[tokio::test]
async fn a_server_that_refuses_ends_it_too() {
    let server = Server::default();
    server.always(Method::GET, "floatingips", Fault::Refuse(403));
    let (mut console, ..) = script::console(None);
    let args = Watch {
        selection: Selection::default(),
        only_changes: false,
        output: None,
    };
    let result = run(&fixture::cluster(&server), &mut console, &args).await;
    assert_eq!(result.unwrap_err().reason(), "Forbidden");
}
