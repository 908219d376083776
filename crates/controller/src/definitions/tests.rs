use axum::http::Method;
use floe_shell::{
    mock::{Fault, Server},
    stop::{self, Stopper},
};
use serde_json::{Value, json};

use super::*;
use crate::events;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const EVENTS: &str = "/apis/events.k8s.io/v1/events";

/// A definition as the API server has it once it was applied.
fn applied(definition: &CustomResourceDefinition) -> Value {
    let mut value = serde_json::to_value(definition).unwrap();
    value["status"] = json!({
        "acceptedNames": { "kind": "", "plural": "" }, "storedVersions": ["v1alpha1"],
        "conditions": [{ "type": "Established", "status": "True" }],
    });
    value
}

fn decoded(value: Value) -> CustomResourceDefinition {
    serde_json::from_value(value).unwrap()
}

#[test]
fn states_are_told_apart() {
    for ours in crds::all() {
        let good = applied(&ours);
        let mut old = good.clone();
        old["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({ "type": "object" });
        let mut newer = good.clone();
        newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("newer");
        let mut columns = good.clone();
        columns["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
        let mut young = good.clone();
        young["status"]["conditions"][0]["status"] = json!("False");
        let mut other = good.clone();
        other["spec"]["versions"][0]["name"] = json!("v1");
        let mut off = good.clone();
        off["spec"]["versions"][0]["served"] = json!(false);
        let cases = [
            (good, State::Served),
            (columns, State::Served),
            (old, State::Lacks),
            (newer, State::Differs),
            (young, State::NotServed),
            (other, State::NotServed),
            (off, State::NotServed),
        ];
        for (served, want) in cases {
            let served = decoded(served);
            assert_eq!(compare(&ours, Some(&served)).0, want, "{}", ours.name_any());
        }
        assert_eq!(compare(&ours, None).0, State::Missing);
    }
}

#[test]
fn the_remedy_names_a_file_that_exists() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    for Group { file, .. } in [Group::pod_ips(), Group::own(), Group::node_pools()] {
        assert!(std::path::Path::new(root).join(file).exists(), "{file}");
    }
}

fn start(server: &Server) -> (watch::Receiver<bool>, Stopper) {
    let (sender, defined) = watch::channel(false);
    let (stopper, stop) = stop::channel();
    let report = Report {
        metrics: Metrics::default(),
        events: events::channel().0,
        defined: sender,
        changes: watch::Sender::new(0),
    };
    let groups = vec![Group::pod_ips()];
    tokio::spawn(check(server.client(), groups, report, stop));
    (defined, stopper)
}

/// A cluster whose CRD of pools lacks fields.
struct Outdated {
    server: Server,
    metrics: Metrics,
    changes: watch::Receiver<u64>,
    _stopper: Stopper,
}

impl Outdated {
    fn start() -> Self {
        let server = Server::default();
        let ours = crds::node_pools();
        let mut old = applied(&ours[0]);
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let status = old.pointer_mut(status).unwrap().as_object_mut().unwrap();
        status.retain(|name, _| ["error", "ips"].contains(&name.as_str()));
        let ip = &mut status["ips"]["additionalProperties"]["properties"];
        ip.as_object_mut().unwrap().remove("reason");
        server.put(DEFINITIONS, old);
        server.put(DEFINITIONS, applied(&ours[1]));

        let metrics = Metrics::default();
        let (events, inbox) = events::channel();
        let (stopper, stop) = stop::channel();
        tokio::spawn(inbox.write(server.client(), "pod".into(), stop.clone()));
        let (sender, changes) = watch::channel(0);
        let report = Report {
            metrics: metrics.clone(),
            events,
            defined: watch::Sender::new(false),
            changes: sender,
        };
        let groups = vec![Group::node_pools()];
        tokio::spawn(check(server.client(), groups, report, stop));
        Self {
            server,
            metrics,
            changes,
            _stopper: stopper,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_no_change_and_fixes_no_problem() {
    let it = Outdated::start();
    let (server, problems) = (&it.server, || it.metrics.installation().problems());
    server.until(|_| problems().len() == 1).await;
    let reported = problems();
    let fail = |fault| server.always(Method::GET, DEFINITIONS, fault);
    for fault in [Fault::Refuse(500), Fault::Hang, Fault::Refuse(403)] {
        fail(fault);
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(problems(), reported);
        server.heal();
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(problems(), reported);
    }
    assert_eq!(*it.changes.borrow(), 0, "the CRD has not changed");
    assert_eq!(server.objects(EVENTS).len(), 1);

    // A change during failed reads is reported once the CRD can be read again.
    fail(Fault::Refuse(500));
    tokio::time::sleep(Duration::from_mins(1)).await;
    server.put(DEFINITIONS, applied(&crds::node_pools()[0]));
    server.heal();
    tokio::time::sleep(LATER).await;
    server.until(|_| problems().is_empty()).await;
    assert_eq!(*it.changes.borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_crd_that_can_be_read_may_be_another_than_the_one_that_writers_met() {
    let it = Outdated::start();
    let fault = Fault::Refuse(403);
    it.server.always(Method::GET, DEFINITIONS, fault);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(*it.changes.borrow(), 0);
    it.server.heal();
    tokio::time::sleep(LATER).await;
    it.server.until(|_| *it.changes.borrow() == 1).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(*it.changes.borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn fields_that_a_crd_lacks_are_reported_until_it_is_applied() {
    let it = Outdated::start();
    let (server, metrics, changes) = (&it.server, &it.metrics, &it.changes);
    let ours = crds::node_pools();
    let problems = || metrics.installation().problems();
    server.until(|_| problems().len() == 1).await;
    let [problem] = &problems()[..] else {
        unreachable!()
    };
    assert_eq!(problem.reason, "SchemaOutdated");
    assert_eq!(problem.subject, "floatingippools.flipop.digitalocean.com");
    for part in [
        "status.ips.*.reason",
        "status.purchase",
        "-f deploy/crds/flipop.yaml",
    ] {
        assert!(
            problem.message.contains(part),
            "{part}: {}",
            problem.message
        );
    }
    server.until(|it| it.objects(EVENTS).len() == 1).await;
    assert_eq!(server.objects(EVENTS)[0]["reason"], "SchemaOutdated");
    assert_eq!(*changes.borrow(), 0);

    server.put(DEFINITIONS, applied(&ours[0]));
    tokio::time::sleep(LATER).await;
    server.until(|_| problems().is_empty()).await;
    assert_eq!(*changes.borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn missing_definitions_are_waited_for() {
    let server = Server::default();
    server.state().down = true;
    let (mut defined, _stopper) = start(&server);
    tokio::time::sleep(Duration::from_mins(1)).await;
    server.state().down = false;
    let both = crds::all();
    server.put(DEFINITIONS, applied(&both[0]));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!*defined.borrow(), "one of two is missing");
    server.put(DEFINITIONS, applied(&both[1]));
    tokio::time::sleep(SOON).await;
    assert!(*defined.borrow_and_update());

    server.state().calls.clear();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(server.state().calls.len(), 20, "two looks every 30 s");
    for call in &server.state().calls {
        assert!(call.starts_with(&format!("GET {DEFINITIONS}/")), "{call}");
    }
    server.state().down = true;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(*defined.borrow(), "a watch that works goes on");
}

#[tokio::test(start_paused = true)]
async fn an_old_schema_is_no_reason_to_wait() {
    let server = Server::default();
    for ours in crds::all() {
        let mut old = applied(&ours);
        old["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({ "type": "object" });
        server.put(DEFINITIONS, old);
    }
    let (mut defined, _stopper) = start(&server);
    tokio::time::timeout(SOON, defined.wait_for(|it| *it))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_to_look_is_no_reason_to_wait() {
    let server = Server::default();
    server.state().refuse_reads = Some(403);
    let (mut defined, _stopper) = start(&server);
    tokio::time::timeout(SOON, defined.wait_for(|it| *it))
        .await
        .unwrap()
        .unwrap();
    server.state().refuse_reads = Some(500);
    let (defined, _stopper) = start(&server);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!*defined.borrow(), "an answer is waited for");
}
