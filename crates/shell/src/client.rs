//! How to reach the API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _, retry::RetryPolicy},
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tower::{ServiceBuilder, retry::RetryLayer};

/// How long nothing may come over a connection before the other side is asked whether it is
/// still there, how often it is asked again, and how many times. A watch of what hardly ever
/// changes is silent for a minute at a time, so that a way which forgot the connection (a
/// gateway, a load balancer) would not be noticed before the watch ends by itself.
const ASKED_AFTER: Duration = Duration::from_secs(10);
const ASKED_EVERY: Duration = Duration::from_secs(2);
const ASKED_TIMES: u32 = 3;
/// How long what was sent may stay without an acknowledgement.
const UNHEARD: Duration = Duration::from_secs(16);

/// Why no client for the API server could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file named by the flag is missing or wrong.
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KubeconfigError,
    },
    /// No flag, and nothing usable in the surroundings.
    #[error("found neither a kubeconfig nor a pod's service account; set --kubeconfig")]
    Surroundings(#[source] InferConfigError),
    /// The configuration was read but makes no client.
    #[error("cannot make a client from the kubeconfig")]
    Client(#[source] kube::Error),
}

/// Makes a client, and tells the server's address; does not connect yet.
pub async fn make(kubeconfig: Option<PathBuf>) -> Result<(Client, Uri), ClientError> {
    let config = config(kubeconfig).await?;
    let server = config.cluster_url.clone();
    let client = connected(config).map_err(ClientError::Client)?;
    Ok((client, server))
}

/// Makes a client that tells at once what the server refuses for now (429, 503, 504), where
/// the other one tries again by itself.
pub async fn direct(kubeconfig: Option<PathBuf>) -> Result<Client, ClientError> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    connected(config).map_err(ClientError::Client)
}

/// A client whose connections notice when the other side is gone. The library's own has no
/// setting for that, so the parts of which it is made are put together here; without its spans
/// for each request, and without an end for identities that a plugin gives, which no pod has.
fn connected(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // Refused by the library, which says what is missing.
        return Client::try_from(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_keepalive(Some(ASKED_AFTER));
    connector.set_keepalive_interval(Some(ASKED_EVERY));
    connector.set_keepalive_retries(Some(ASKED_TIMES));
    connector.set_tcp_user_timeout(Some(UNHEARD));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    let http = Builder::new(TokioExecutor::new()).build::<_, Body>(connector);
    let retries = config
        .default_retry
        .then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retries)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

async fn config(kubeconfig: Option<PathBuf>) -> Result<Config, ClientError> {
    match kubeconfig {
        Some(path) => from_file(&path)
            .await
            .map_err(|source| ClientError::Kubeconfig { path, source }),
        None => Config::infer().await.map_err(ClientError::Surroundings),
    }
}

async fn from_file(path: &Path) -> Result<Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let error = make(Some("/nowhere/kubeconfig".into()))
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains("/nowhere/kubeconfig"), "{error}");
    }

    /// The timer of the connection to that local port, as the kernel tells it: 2 is the one
    /// after which the other side is asked.
    fn timer(port: u16) -> Option<(u8, u64)> {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        table.lines().skip(1).find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (kind, when) = words[5].split_once(':')?;
            let ticks = u64::from_str_radix(when, 16).ok()?;
            // One of before may still be remembered, which is not established any more.
            let is_it = words[2] == format!("0100007F:{port:04X}") && words[3] == "01";
            is_it.then_some((kind.parse().ok()?, ticks))
        })
    }

    #[tokio::test]
    async fn a_silent_connection_asks_whether_the_server_is_still_there() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = format!("http://127.0.0.1:{port}").parse().unwrap();
        let client = connected(Config::new(server)).unwrap();
        let question = tokio::spawn(async move { client.apiserver_version().await });
        // Heard and never answered, as by a watch of what never changes.
        let (mut heard, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 16];
        tokio::io::AsyncReadExt::read_exact(&mut heard, &mut bytes)
            .await
            .unwrap();
        let asked = async {
            loop {
                match timer(port) {
                    Some((2, ticks)) => break ticks,
                    // What was sent is acknowledged in a moment, and that timer ends.
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        let ticks = tokio::time::timeout(Duration::from_secs(10), asked)
            .await
            .unwrap();
        assert!(ticks <= ASKED_AFTER.as_secs() * 100, "{ticks}");
        question.abort();
    }
}
