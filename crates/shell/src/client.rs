//! How to reach the API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _, retry::RetryPolicy},
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use rustls::pki_types::ServerName;
use tower::{ServiceBuilder, retry::RetryLayer};

/// How long nothing may come over a connection before the other side is asked whether it is
/// still there, how often it is asked again, and how many times. A watch of what hardly ever
/// changes is silent for a minute at a time, so that a way which forgot the connection (a
/// gateway, a load balancer) would not be noticed before the watch ends by itself.
const ASKED_AFTER: Duration = Duration::from_secs(10);
const ASKED_EVERY: Duration = Duration::from_secs(2);
const ASKED_TIMES: u32 = 3;
/// The same for a shared connection, on which the server's program is asked and not its
/// kernel. Sooner, since everything waits for it.
const PULSE: Pulse = Pulse {
    after: Duration::from_secs(2),
    within: Duration::from_secs(8),
};
/// How much a shared connection may bring that nobody has taken yet, for one request and for
/// all of them. As many watches as there are do not take their news for a while, and still
/// leave room for the answers that they may wait for.
const UNTAKEN: u32 = 512 * 1024;
const UNTAKEN_OF_ALL: u32 = 64 * UNTAKEN;
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

/// How requests get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// Each over a connection that it has for itself, which is used again afterwards. When
    /// a connection goes bad, that of the next request is another one.
    Apart,
    /// All over one connection (HTTP/2), if the server can do that: as many at a time as it
    /// allows, which is 100 by default, and the others wait for their turn. With many at a
    /// time that is less work for both; but when the connection goes bad, all of them wait
    /// until that is noticed.
    Shared,
}

/// When a shared connection is taken for dead.
#[derive(Clone, Copy)]
struct Pulse {
    /// How long nothing may come before the server is asked.
    after: Duration,
    /// How long its answer may take.
    within: Duration,
}

/// Makes a client whose requests do not depend on each other, and tells the server's
/// address; does not connect yet.
pub async fn make(kubeconfig: Option<PathBuf>) -> Result<(Client, Uri), ClientError> {
    let config = config(kubeconfig).await?;
    let server = config.cluster_url.clone();
    let client = connected(config, Lines::Apart, PULSE).map_err(ClientError::Client)?;
    Ok((client, server))
}

/// Makes a client for many requests at a time, which may all wait for a moment.
pub async fn shared(kubeconfig: Option<PathBuf>) -> Result<Client, ClientError> {
    let config = config(kubeconfig).await?;
    connected(config, Lines::Shared, PULSE).map_err(ClientError::Client)
}

/// Makes a client that tells at once what the server refuses for now (429, 503, 504), where
/// the others try again by themselves.
pub async fn direct(kubeconfig: Option<PathBuf>) -> Result<Client, ClientError> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    connected(config, Lines::Apart, PULSE).map_err(ClientError::Client)
}

/// A client whose connections notice when the other side is gone. The library's own has no
/// setting for that, so the parts of which it is made are put together here; without its spans
/// for each request, and without an end for identities that a plugin gives, which no pod has.
fn connected(config: Config, lines: Lines, pulse: Pulse) -> Result<Client, kube::Error> {
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
    // A small request must not wait until the one before it has arrived.
    connector.set_nodelay(lines == Lines::Shared);
    let mut connector = TimeoutConnector::new(secured(&config, connector, lines)?);
    connector.set_connect_timeout(config.connect_timeout);
    let http = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(pulse.after)
        .http2_keep_alive_timeout(pulse.within)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(UNTAKEN)
        .http2_initial_connection_window_size(UNTAKEN_OF_ALL)
        .build::<_, Body>(connector);
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

/// Adds TLS as the configuration wants it, and agrees on the version of HTTP.
fn secured(
    config: &Config,
    connector: HttpConnector,
    lines: Lines,
) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone());
        let name = name.map_err(|error| kube::Error::Service(error.into()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(match lines {
        Lines::Apart => builder.enable_http1().wrap_connector(connector),
        Lines::Shared => builder.enable_all_versions().wrap_connector(connector),
    })
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
    use std::{convert::Infallible, future::pending, pin::pin, sync::Arc};

    use hyper::{body::Incoming, server::conn::http2, service::service_fn};
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = format!("http://127.0.0.1:{port}").parse().unwrap();
        let client = connected(Config::new(server), Lines::Apart, PULSE).unwrap();
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

    /// A server that can do both versions of HTTP, and the configuration of its clients.
    async fn server(tls_server_name: Option<&str>) -> (TcpListener, TlsAcceptor, Config) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let name = tls_server_name.unwrap_or("127.0.0.1");
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let key = made.signing_key.serialize_der().try_into().unwrap();
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let mut config = Config::new(url.parse().unwrap());
        config.root_cert = Some(vec![made.cert.der().to_vec()]);
        config.tls_server_name = tls_server_name.map(str::to_owned);
        (listener, TlsAcceptor::from(Arc::new(tls)), config)
    }

    /// The version of HTTP that such a client agrees on with a server which can do both.
    async fn agreed(lines: Lines, tls_server_name: Option<&str>) -> Option<Vec<u8>> {
        let (listener, tls, config) = server(tls_server_name).await;
        let client = connected(config, lines, PULSE).unwrap();
        let question = tokio::spawn(async move { client.apiserver_version().await });
        let (heard, _) = listener.accept().await.unwrap();
        let heard = tls.accept(heard).await.unwrap();
        question.abort();
        heard.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
    }

    #[tokio::test]
    async fn many_requests_share_a_connection_and_those_in_time_do_not() {
        let shared = Some(b"h2".to_vec());
        assert_eq!(agreed(Lines::Shared, None).await, shared);
        assert_eq!(agreed(Lines::Shared, Some("kubernetes")).await, shared);
        assert_eq!(agreed(Lines::Apart, None).await, None);
    }

    /// A watch has more to tell than anybody takes, and the version is 1.34.
    fn answer(path: &str) -> http::Response<Body> {
        let version = serde_json::json!({
            "major": "1", "minor": "34", "buildDate": "", "compiler": "", "gitCommit": "",
            "gitTreeState": "", "gitVersion": "", "goVersion": "", "platform": "",
        });
        let bytes = match path {
            "/watch" => vec![b' '; 4 * 1024 * 1024],
            _ => version.to_string().into_bytes(),
        };
        http::Response::new(Body::from(bytes))
    }

    /// Answers over the first connection until `silent`, and leaves it open then.
    async fn serve(listener: TcpListener, tls: TlsAcceptor, silent: impl Future) {
        let (heard, _) = listener.accept().await.unwrap();
        let heard = TokioIo::new(tls.accept(heard).await.unwrap());
        let service = service_fn(async |request: http::Request<Incoming>| {
            Ok::<_, Infallible>(answer(request.uri().path()))
        });
        let builder = http2::Builder::new(TokioExecutor::new());
        let mut connection = pin!(builder.serve_connection(heard, service));
        tokio::select! {
            _ = &mut connection => {}
            _ = silent => {}
        }
        pending::<()>().await;
    }

    #[tokio::test]
    async fn watches_whose_news_nobody_takes_leave_room_for_answers() {
        let (listener, tls, config) = server(None).await;
        let serving = tokio::spawn(serve(listener, tls, pending::<()>()));
        let client = connected(config, Lines::Shared, PULSE).unwrap();
        let mut watches = Vec::new();
        for _ in 0..40 {
            let request = http::Request::get("/watch").body(Body::empty()).unwrap();
            watches.push(client.send(request).await.unwrap());
        }
        let asked = tokio::time::timeout(Duration::from_secs(20), client.apiserver_version());
        assert_eq!(asked.await.unwrap().unwrap().minor, "34");
        serving.abort();
    }

    #[tokio::test]
    async fn a_shared_connection_whose_server_is_silent_is_given_up() {
        let (listener, tls, config) = server(None).await;
        let (silence, silent) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, tls, silent));
        let pulse = Pulse {
            after: Duration::from_millis(100),
            within: Duration::from_millis(100),
        };
        let client = connected(config, Lines::Shared, pulse).unwrap();
        client.apiserver_version().await.unwrap();
        silence.send(()).unwrap();
        let asked = tokio::time::timeout(Duration::from_secs(20), client.apiserver_version());
        assert!(asked.await.unwrap().is_err());
        serving.abort();
    }

    #[test]
    fn a_name_that_no_server_can_have_is_refused() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = Config::new("https://127.0.0.1:6443".parse().unwrap());
        config.tls_server_name = Some("not a name".to_owned());
        let refused = connected(config, Lines::Shared, PULSE).err().unwrap();
        assert!(refused.to_string().contains("name"), "{refused}");
    }
}
