//! Replicas and clients on the loopback interface, with certificates that floe makes.

use std::{net::SocketAddr, sync::Arc};

use floe_shell::mock::Server;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsConnector;

use super::*;
use crate::{
    certificates::{Keeper, Settings},
    transport::{serve::serve, tls::Secrets},
};

/// Long enough for anything that works.
const PATIENCE: Duration = Duration::from_secs(30);

const SECRETS: &str = "/api/v1/namespaces/ns/secrets";

/// Certificates in an API server, followed by as many replicas as there are.
struct Cluster {
    server: Server,
    stoppers: Vec<Stopper>,
}

impl Cluster {
    fn new() -> Self {
        Self {
            server: Server::default(),
            stoppers: Vec::new(),
        }
    }

    /// The certificates as one more replica has them.
    async fn secrets(&mut self) -> watch::Receiver<Arc<Secrets>> {
        let names = ["floe", "127.0.0.1"];
        let settings = Settings {
            namespace: "ns".into(),
            secret: "tls".into(),
            shown: Some("ca".into()),
            names: names.map(str::to_owned).into(),
            peer: ServerName::try_from("floe").unwrap(),
        };
        let keeper = Keeper::new(self.server.client(), settings);
        let mut secrets = keeper.secrets();
        let (stopper, stop) = stop::channel();
        self.stoppers.push(stopper);
        tokio::spawn(keeper.run(stop));
        let made = secrets.wait_for(|secrets| secrets.server().is_some());
        timeout(PATIENCE, made).await.unwrap().unwrap();
        secrets
    }

    /// What clients trust now.
    async fn trusted(&self) -> String {
        let path = "/api/v1/namespaces/ns/configmaps";
        self.server
            .until(|server| server.object(path, "ca").is_some())
            .await;
        let map = self.server.object(path, "ca").unwrap();
        map["data"]["ca.crt"].as_str().unwrap().to_owned()
    }
}

/// A replica that listens.
struct Replica {
    addr: SocketAddr,
    task: JoinHandle<()>,
    setup: Setup,
}

impl Replica {
    async fn start(setup: Setup, secrets: Option<watch::Receiver<Arc<Secrets>>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (router, front, stop) = (
            setup.router.clone(),
            setup.front.clone(),
            setup.front.stop.clone(),
        );
        let quiet = async move { front.empty().await };
        let task = tokio::spawn(serve(listener, router, secrets, LIMITS, quiet, stop));
        Self { addr, task, setup }
    }

    async fn stop(self) {
        self.setup.stopper.stop();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn connect(addr: SocketAddr, trusted: Option<&str>) -> std::io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(addr).await?;
    let Some(trusted) = trusted else {
        return Ok(Box::new(stream));
    };
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(root.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::from(addr.ip());
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// Sends what is given, and tells all that comes until the end.
async fn say(addr: SocketAddr, trusted: Option<&str>, words: &[u8]) -> std::io::Result<String> {
    let mut stream = connect(addr, trusted).await?;
    stream.write_all(words).await?;
    let mut answer = Vec::new();
    let heard = stream.read_to_end(&mut answer);
    timeout(PATIENCE, heard)
        .await
        .expect("an end of the answer")?;
    Ok(String::from_utf8(answer).unwrap())
}

fn words(first: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "{first} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

const ADA: &str = "authorization: Bearer ada-token\r\n";

#[tokio::test]
async fn a_follower_has_the_leader_answer_with_the_callers_token() {
    let registry = Registry::allowing(&["list floatingips"]);
    let mut cluster = Cluster::new();
    let (ours, theirs) = (cluster.secrets().await, cluster.secrets().await);
    let trusted = cluster.trusted().await;
    let leader = setup(Some(&registry), Standing::Leading);
    let leader = Replica::start(leader, Some(ours)).await;
    let there = format!("https://{}", leader.addr);
    let peers = Peers::new(Some(theirs.clone()), KEEP);
    let follower = setup_with(Some(&registry), follower_of(Some(&there)), peers);
    let follower = Replica::start(follower, Some(theirs)).await;
    for replica in [&leader, &follower] {
        let ask = async |first: &str, headers: &str, body: &str| {
            let words = words(first, headers, body);
            say(replica.addr, Some(&trusted), &words).await.unwrap()
        };
        let answer = ask("GET /v2/ips?page=1&q=a%20b", ADA, "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("ada page=1&q=a%20b"), "{answer}");
        let answer = ask("POST /v2/change/x", ADA, "12345").await;
        assert!(answer.ends_with("5 bytes"), "{answer}");
        let bob = "authorization: Bearer bob-token\r\n";
        let answer = ask("GET /v1/ip", bob, "").await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("bob may not list"), "{answer}");
        let answer = ask("GET /v1/ip", "", "").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    assert_eq!(*leader.setup.changes.borrow(), 2);
    assert_eq!(*follower.setup.changes.borrow(), 0);
    follower.stop().await;
    leader.stop().await;
}

#[tokio::test]
async fn a_follower_passes_on_a_stream_as_it_comes() {
    let leader = Replica::start(setup(None, Standing::Leading), None).await;
    let there = format!("http://{}", leader.addr);
    let follower = setup(None, follower_of(Some(&there)));
    let follower = Replica::start(follower, None).await;
    let mut stream = connect(follower.addr, None).await.unwrap();
    stream
        .write_all(&words("GET /v2/watch", "", ""))
        .await
        .unwrap();
    let mut heard = String::new();
    let first = async {
        while !heard.contains("data: 1") {
            let mut some = [0; 100];
            let count = stream.read(&mut some).await.unwrap();
            heard.push_str(std::str::from_utf8(&some[..count]).unwrap());
        }
    };
    timeout(PATIENCE, first).await.unwrap();
    // It ends with the leader.
    leader.stop().await;
    let rest = stream.read_to_string(&mut heard);
    let _ = timeout(PATIENCE, rest).await.unwrap();
    follower.stop().await;
}

#[tokio::test]
async fn a_token_is_sent_to_replicas_with_our_certificate_only() {
    let registry = Registry::allowing(&["list floatingips"]);
    let ours = Cluster::new().secrets().await;
    let mut others = Cluster::new();
    let imposter = setup(None, Standing::Leading);
    let imposter = Replica::start(imposter, Some(others.secrets().await)).await;
    let plain = Replica::start(setup(None, Standing::Leading), None).await;
    for there in [
        format!("https://{}", imposter.addr),
        format!("http://{}", plain.addr),
        format!("https://{}", plain.addr),
    ] {
        let peers = Peers::new(Some(ours.clone()), KEEP);
        let follower = setup_with(Some(&registry), follower_of(Some(&there)), peers);
        let answer = ask(&follower.router, get_of("/v2/ips", Some("ada-token"))).await;
        assert_eq!(answer.status(), 503, "{there}");
        assert!(text(answer).await.contains("LeaderUnreachable"), "{there}");
    }
    imposter.stop().await;
    plain.stop().await;
}

#[tokio::test]
async fn new_certificates_are_served_without_a_restart() {
    let registry = Registry::allowing(&["list floatingips"]);
    let mut cluster = Cluster::new();
    let secrets = cluster.secrets().await;
    let old = cluster.trusted().await;
    let replica = setup(Some(&registry), Standing::Leading);
    let replica = Replica::start(replica, Some(secrets.clone())).await;
    let mut open = connect(replica.addr, Some(&old)).await.unwrap();
    let get = words("GET /v2/ips", ADA, "");

    // Others with a new authority.
    let mut other = Cluster::new();
    other.secrets().await;
    let new = other.trusted().await;
    let mut changed = secrets.clone();
    changed.mark_unchanged();
    let object = other.server.object(SECRETS, "tls").unwrap();
    cluster.server.put(SECRETS, object);
    timeout(PATIENCE, changed.changed()).await.unwrap().unwrap();
    let answer = say(replica.addr, Some(&new), &get).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(say(replica.addr, Some(&old), &get).await.is_err());
    // Who was connected goes on.
    open.write_all(&get).await.unwrap();
    let mut answer = String::new();
    let _ = timeout(PATIENCE, open.read_to_string(&mut answer))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    replica.stop().await;
}

#[tokio::test]
async fn without_a_certificate_nobody_is_served() {
    let none = watch::Sender::new(Arc::new(Secrets::none()));
    let replica = setup(None, Standing::Leading);
    let replica = Replica::start(replica, Some(none.subscribe())).await;
    let get = words("GET /v2/ips", "", "");
    let hello = [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0];
    let heard = say(replica.addr, None, &hello).await.unwrap_or_default();
    assert_eq!(heard, "");
    let mut cluster = Cluster::new();
    let secrets = cluster.secrets().await.borrow().clone();
    none.send_replace(secrets);
    let trusted = cluster.trusted().await;
    let answer = say(replica.addr, Some(&trusted), &get).await.unwrap();
    assert!(answer.ends_with("anybody "), "{answer}");
    replica.stop().await;
}

#[tokio::test]
async fn plain_http_on_a_port_with_tls_is_answered_with_the_url_to_use() {
    let mut cluster = Cluster::new();
    let secrets = cluster.secrets().await;
    let replica = setup(None, Standing::Leading);
    let changes = replica.changes.clone();
    let replica = Replica::start(replica, Some(secrets)).await;
    let table = [
        ("GET /v2/ips?limit=1", ""),
        ("POST /v2/change/x", "{\"body\": true}"),
        ("delete /v1/pool/x", ""),
    ];
    for (first, body) in table {
        let asked = words(first, "", body);
        let answer = say(replica.addr, None, &asked).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{answer}"
        );
        let path = first.split_once(' ').unwrap().1;
        let text = format!("HttpsRequired: this port speaks TLS only. Use https://x{path}\n");
        let (_, heard) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(heard, text);
    }
    assert_eq!(*changes.borrow(), 0, "nothing of it reaches a route");
    replica.stop().await;
}

#[tokio::test]
async fn clients_that_end_their_side_are_answered_if_they_have_said_all() {
    let replica = Replica::start(setup(None, Standing::Leading), None).await;
    let half_closed = async |words: &[u8]| {
        let mut stream = TcpStream::connect(replica.addr).await.unwrap();
        stream.write_all(words).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        let heard = stream.read_to_string(&mut answer);
        let _ = timeout(PATIENCE, heard).await.unwrap();
        answer
    };
    let answer = half_closed(&words("GET /v2/ips", "", "")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let whole = words("POST /v2/change/x", "", "1234567890");
    let answer = half_closed(&whole[..whole.len() - 1]).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("BodyBroken"), "{answer}");
    assert_eq!(*replica.setup.changes.borrow(), 0);
    replica.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_is_told_to_clients_that_send_before_they_listen() {
    let replica = Replica::start(setup(None, Standing::Leading), None).await;
    let long = "x".repeat(3 * body::LARGEST);
    let answer = say(replica.addr, None, &words("POST /v2/change/x", "", &long)).await;
    let answer = answer.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(*replica.setup.changes.borrow(), 0);
    replica.stop().await;
}

#[tokio::test]
async fn a_stranger_reads_that_he_is_one_although_nobody_reads_his_body() {
    let registry = Registry::allowing(&[]);
    let replica = Replica::start(setup(Some(&registry), Standing::Leading), None).await;
    let long = "x".repeat(3 * body::LARGEST);
    for _ in 0..10 {
        let answer = say(replica.addr, None, &words("POST /v2/change/x", "", &long)).await;
        let answer = answer.unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    assert_eq!(*replica.setup.changes.borrow(), 0);
    replica.stop().await;
}
