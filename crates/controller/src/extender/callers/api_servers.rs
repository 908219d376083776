//! The addresses of API servers, as the `EndpointSlice` of the Service `kubernetes` has them:
//! schedulers run on the same hosts, also where these are no nodes of the cluster.
//!
//! API servers write that object themselves. An account that can change it can already
//! redirect every client of the API server, so trusting it adds no way in.

use std::{net::IpAddr, time::Duration};

use floe_shell::{logs, stop::Stop};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;

/// The addresses; `None` until they were asked for once.
pub type ApiServers = Option<Vec<IpAddr>>;

/// Namespace and name of the object.
const PLACE: (&str, &str) = ("default", "kubernetes");

/// How often it is read, and how soon again after a failure.
const PERIOD: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(5);

/// How long the API server may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Reads the addresses again and again until `stop`. After a failure the last ones stay.
pub async fn follow_api_servers(client: Client, found: watch::Sender<ApiServers>, mut stop: Stop) {
    let slices: Api<EndpointSlice> = Api::namespaced(client, PLACE.0);
    let mut logged = None;
    loop {
        let read = timeout(LIMIT, slices.get_opt(PLACE.1)).await;
        let pause = match read.map(|read| read.map_err(|error| logs::with_causes(&error))) {
            Ok(Ok(slice)) => {
                logged = None;
                found.send_replace(Some(slice.iter().flat_map(addresses).collect()));
                PERIOD
            }
            failed => {
                let error = match failed {
                    Ok(Err(error)) => error,
                    _ => format!("no answer within {LIMIT:?}"),
                };
                // Control-plane nodes are still known.
                found.send_if_modified(|known| {
                    let first = known.is_none();
                    known.get_or_insert_default();
                    first
                });
                if logged.replace(error.clone()).as_ref() != Some(&error) {
                    let reason = "ApiServersUnreadable";
                    let (namespace, name) = PLACE;
                    warn!(
                        reason,
                        namespace, name, error, "cannot read the EndpointSlice of API servers"
                    );
                }
                RETRY
            }
        };
        tokio::select! {
            () = stop.requested() => return,
            () = sleep(pause) => {}
        }
    }
}

fn addresses(slice: &EndpointSlice) -> Vec<IpAddr> {
    let all = slice.endpoints.iter().flat_map(|it| &it.addresses);
    all.filter_map(|text| text.parse::<IpAddr>().ok())
        .map(|ip| ip.to_canonical())
        .collect()
}
