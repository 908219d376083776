//! Wiring of the admission webhook: its certificates, whom the API server trusts, and the
//! routes.

use std::{future::ready, sync::Arc};

use floe_core::config::FileConfig;
use kube::Client;
use rustls::pki_types::ServerName;

use super::{Tasks, doors::WebhookDoor};
use crate::{
    addresses::ConfigMapRef,
    admission::{self, Admission, FAREWELL, LIMITS, bundle},
    certificates::{Keeper, Settings},
    config::WebhookSettings,
    metrics::Metrics,
    store::Store,
    transport::{farewell, serve::serve},
};

/// Starts everything that answers the API server. `gates`: whether pods that ask for addresses
/// are held back from a scheduler that does not ask floe.
pub fn start(
    tasks: &mut Tasks,
    client: &Client,
    door: WebhookDoor,
    store: Store,
    metrics: Metrics,
    file: &FileConfig,
    gates: bool,
) {
    let WebhookDoor { listener, settings } = door;
    let keeper = Keeper::new(client.clone(), certificates(&settings)).noting(metrics.clone());
    let (secrets, authorities) = (keeper.secrets(), keeper.authorities());
    tasks.start(|stop| keeper.run(stop));
    let publisher = bundle::Publisher::new(client.clone(), authorities);
    tasks.start(|stop| publisher.run(stop));
    let admission = Admission {
        warmth: store.warmth(),
        store,
        metrics,
        own: Arc::new(admission::own_accounts(&settings.namespace)),
        map: file.floatingips.is_none().then(|| ConfigMapRef::from(file)),
        gates,
    };
    let router = admission::router(admission);
    tasks.start(|stop| {
        farewell::until_after(FAREWELL, router, stop, |router, stop| {
            // Nothing goes on without a caller.
            serve(listener, router, Some(secrets), LIMITS, ready(()), stop)
        })
    });
}

fn certificates(settings: &WebhookSettings) -> Settings {
    let WebhookSettings {
        namespace, secret, ..
    } = settings;
    let service = bundle::SERVICE;
    // The API server asks for the second.
    let names = ["", ".svc", ".svc.cluster.local"];
    let mut names: std::collections::BTreeSet<String> = names
        .map(|rest| format!("{service}.{namespace}{rest}"))
        .into();
    names.insert(service.to_owned());
    Settings {
        namespace: namespace.clone(),
        secret: secret.clone(),
        shown: None,
        names,
        peer: ServerName::try_from(service).expect("the name of a service is one of a host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_is_for_the_name_that_the_api_server_asks_for() {
        let settings = certificates(&WebhookSettings {
            addr: ([127, 0, 0, 1], 0).into(),
            namespace: "ns".into(),
            secret: "tls".into(),
        });
        assert!(settings.names.contains("floe-webhook.ns.svc"));
        assert_eq!(settings.names.len(), 4);
        assert_eq!(settings.shown, None);
    }
}
