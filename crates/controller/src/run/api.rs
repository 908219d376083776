//! Wiring of the management API: its certificates, and what stands before its routes.

use std::{collections::BTreeSet, sync::Arc};

use axum::Router;
use kube::Client;
use rustls::pki_types::ServerName;
use tokio::{net::TcpListener, sync::watch};
use tracing::warn;

use super::{Tasks, doors::ApiDoor};
use crate::{
    certificates::{Keeper, Settings},
    config::{Auth, Issued},
    rest::{
        access::Reviewer,
        front::{Front, KEEP, LIMITS, Replica},
    },
    transport::{peer::Peers, serve::serve, tls::Secrets},
};

/// The services that lead to the API: galaxy's name, and floe's own.
const SERVICES: [&str; 2] = ["galaxy-ipam", "floe-controller"];

/// Where clients find whom to trust.
const SHOWN: &str = "floe-api-ca";

/// Starts everything that answers people and tools with these routes.
pub fn start(tasks: &mut Tasks, client: &Client, door: ApiDoor, router: Router, replica: Replica) {
    let ApiDoor {
        listener,
        auth,
        tls,
    } = door;
    let secrets = match tls {
        None => None,
        Some(super::doors::ApiCertificate::Files(files)) => {
            let secrets = files.secrets();
            tasks.start(|stop| files.run(stop));
            Some(secrets)
        }
        Some(super::doors::ApiCertificate::Issued(issued)) => {
            let keeper =
                Keeper::new(client.clone(), settings(issued)).noting(replica.metrics.clone());
            let secrets = keeper.secrets();
            tasks.start(|stop| keeper.run(stop));
            Some(secrets)
        }
    };
    let reviewer = match auth {
        Auth::Kubernetes => Some(Reviewer::new(client.clone())),
        Auth::None => {
            warn!(
                reason = "ApiOpen",
                tls = secrets.is_some(),
                "the management API is open: everybody who reaches it may release \
                 addresses and change pools (--api-auth=none)",
            );
            None
        }
    };
    answer(tasks, listener, router, secrets, reviewer, replica);
}

fn answer(
    tasks: &mut Tasks,
    listener: TcpListener,
    router: Router,
    secrets: Option<watch::Receiver<Arc<Secrets>>>,
    reviewer: Option<Reviewer>,
    replica: Replica,
) {
    let peers = Peers::new(secrets.clone(), KEEP);
    tasks.start(|stop| {
        let front = Front::new(reviewer, replica, peers, stop.clone());
        let calls = front.clone();
        let quiet = async move { calls.empty().await };
        serve(listener, front.before(router), secrets, LIMITS, quiet, stop)
    });
}

fn settings(issued: Issued) -> Settings {
    let Issued {
        namespace,
        secret,
        names,
    } = issued;
    let peer = ServerName::try_from(SERVICES[1]).expect("the name of a service is one of a host");
    Settings {
        names: all_names(&namespace, names),
        shown: Some(SHOWN.to_owned()),
        namespace,
        secret,
        peer,
    }
}

/// The names under which the API is reached, and those that were asked for.
fn all_names(namespace: &str, asked: BTreeSet<String>) -> BTreeSet<String> {
    let mut names = asked;
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    for service in SERVICES {
        for rest in ["", ".svc", ".svc.cluster.local"] {
            names.insert(format!("{service}.{namespace}{rest}"));
        }
        names.insert(service.to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_named_in_all_their_forms() {
        let names = all_names("ns", ["10.0.0.1".to_owned()].into());
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "10.0.0.1",
                "127.0.0.1",
                "::1",
                "floe-controller",
                "floe-controller.ns",
                "floe-controller.ns.svc",
                "floe-controller.ns.svc.cluster.local",
                "galaxy-ipam",
                "galaxy-ipam.ns",
                "galaxy-ipam.ns.svc",
                "galaxy-ipam.ns.svc.cluster.local",
                "localhost",
            ]
        );
    }
}
