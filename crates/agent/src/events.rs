//! Events on pods and on the node.
//!
//! A kubelet tries again and again, so each story is told once: what counts are the
//! reason and the words.

use floe_shell::events::{self, Manner, Sameness};
use k8s_openapi::api::core::v1::ObjectReference;
use prometheus_client::metrics::counter::Counter;

pub use floe_shell::events::{Events, Inbox, News};

const MANNER: Manner = Manner {
    reporter: "floe.dev/agent",
    sameness: Sameness::Words,
    queue: 256,
    writers: 2,
};

/// A way to tell, and the task's end of it.
#[cfg(test)]
pub fn channel() -> (Events, Inbox) {
    events::channel(MANNER, || {})
}

/// The same, which also counts what is lost.
pub fn counting_channel(lost: Counter) -> (Events, Inbox) {
    events::channel(MANNER, move || {
        lost.inc();
    })
}

/// The reference to a pod.
pub fn pod(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        namespace: Some(namespace.into()),
        name: Some(name.into()),
        uid: Some(uid.into()),
        ..ObjectReference::default()
    }
}

/// The reference to a node. Compat: the uid is the name, as the kubelet has it.
pub fn node(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Node".into()),
        name: Some(name.into()),
        uid: Some(name.into()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use floe_shell::{mock::Server, stop};

    use super::*;

    fn news(note: &str) -> News {
        News {
            about: pod("ns", "web-0", "uid-1"),
            warning: true,
            reason: "AddressConflict",
            action: "Attach",
            note: note.into(),
        }
    }

    #[tokio::test]
    async fn each_story_is_told_once_in_the_namespace_of_its_pod() {
        let server = Server::default();
        let (events, inbox) = channel();
        let (stopper, stop) = stop::channel();
        let task = tokio::spawn(inbox.write(server.client(), "n1".into(), stop));
        for note in ["told", "told", "another story"] {
            events.tell(news(note));
        }
        let path = "/apis/events.k8s.io/v1/namespaces/ns/events";
        server.until(|server| server.state().calls.len() == 3).await;
        let told = server.objects(path);
        assert_eq!(told.len(), 2);
        for event in told {
            assert_eq!(event["reportingController"], "floe.dev/agent");
            assert_eq!(event["reportingInstance"], "n1");
            assert_eq!(event["reason"], "AddressConflict");
            assert_eq!(event["type"], "Warning");
            assert_eq!(event["regarding"]["uid"], "uid-1");
        }
        stopper.stop();
        task.await.unwrap();
    }
}
