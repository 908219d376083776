//! Events of the control plane.
//!
//! An Event is about a state of an object: however many replicas see a change, and
//! however often they start again, it is told once. A later change of the object is
//! told again.
//!
//! About a pod there may be several things to tell although the pod does not
//! change: it waits for one thing, then for another, then for the first again.
//! So news about pods also has a turn: a number that the reporter counts up for
//! each pod. It begins anew with each process, so that a restart repeats at most
//! what is another story by then.

use floe_shell::events::{self, Manner, Sameness};
use prometheus_client::metrics::counter::Counter;

pub use floe_shell::events::{Events, Inbox, News};

const MANNER: Manner = Manner {
    reporter: "floe.dev/controller",
    sameness: Sameness::State,
    // A large Deployment starts at once.
    queue: 4096,
    writers: 8,
};

/// A way to tell, and the task's end of it.
#[cfg(test)]
pub fn channel() -> (Events, Inbox) {
    counting_channel(Counter::default())
}

/// A way to tell, and the task's end of it, with a counter for the Events that are
/// never written.
pub fn counting_channel(lost: Counter) -> (Events, Inbox) {
    events::channel(MANNER, move || {
        lost.inc();
    })
}

#[cfg(test)]
mod tests {
    use floe_shell::{mock::Server, stop};
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn news() -> News {
        News {
            about: ObjectReference {
                kind: Some("ConfigMap".into()),
                name: Some("c".into()),
                namespace: Some("ns".into()),
                uid: Some("u".into()),
                resource_version: Some("7".into()),
                ..ObjectReference::default()
            },
            warning: true,
            reason: "Refused",
            action: "Configure",
            note: "words".into(),
        }
    }

    #[tokio::test]
    async fn replicas_of_all_versions_give_the_same_name() {
        let server = Server::default();
        let (events, inbox) = channel();
        let (stopper, stop) = stop::channel();
        let task = tokio::spawn(inbox.write(server.client(), "pod".into(), stop));
        events.tell(news());
        let path = "/apis/events.k8s.io/v1/namespaces/ns/events";
        server
            .until(|server| !server.objects(path).is_empty())
            .await;
        let event = &server.objects(path)[0];
        assert_eq!(event["metadata"]["name"], "c.5f1c95f8a53bbc0f");
        assert_eq!(event["reportingController"], "floe.dev/controller");
        stopper.stop();
        task.await.unwrap();
    }

    #[test]
    fn what_is_dropped_is_counted() {
        let lost = Counter::default();
        let (events, _inbox) = counting_channel(lost.clone());
        for _ in 0..MANNER.queue + 5 {
            events.tell(news());
        }
        assert_eq!(lost.get(), 5);
    }
}
