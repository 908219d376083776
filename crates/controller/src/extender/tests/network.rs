//! Replicas that reach each other over the loopback interface.

use std::{net::SocketAddr, path::Path};

use floe_shell::stop::{self, Stopper};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::*;
use crate::{config::TlsFiles, transport::tls::Reloader};

/// Long enough for anything that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// A replica that listens.
struct Replica {
    addr: SocketAddr,
    stopper: Stopper,
    task: JoinHandle<()>,
}

impl Replica {
    async fn start(setup: &Setup, tls: Option<&Reloader>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stopper, stop) = stop::channel();
        let (router, entry) = (setup.router.clone(), setup.entry.clone());
        let secrets = tls.map(Reloader::secrets);
        Self {
            addr,
            stopper,
            task: tokio::spawn(async move {
                serve(listener, router, secrets, LIMITS, entry.empty(), stop).await;
            }),
        }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.addr)
    }

    async fn stop(self) {
        self.stopper.stop();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_follower_has_the_leader_answer() {
    let leader = setup(Clerk::new(), Standing::Leading);
    let replica = Replica::start(&leader, None).await;
    let follower = setup(Clerk::new(), follower_of(Some(&replica.url("http"))));
    for (path, body) in [
        ("/v1/filter", names()),
        ("/v1/filter", objects()),
        ("/v1/priority", names()),
        ("/v1/bind", binding("full")),
        ("/v1/preempt", victims()),
    ] {
        let request = |router: &Router| {
            let (router, request) = (router.clone(), post_of(path, body.to_string()));
            async move { router.oneshot(request).await.unwrap() }
        };
        let (direct, passed) = (request(&leader.router), request(&follower.router));
        let (direct, passed) = (direct.await, passed.await);
        assert_eq!(passed.status(), direct.status());
        assert_eq!(
            passed.headers()["content-type"],
            direct.headers()["content-type"]
        );
        let bytes = async |answer: Response| to_bytes(answer.into_body(), usize::MAX).await;
        assert_eq!(bytes(passed).await.unwrap(), bytes(direct).await.unwrap());
    }
    // What the leader cannot read is told as it would tell it.
    let (status, told) = text(&follower.router, post_of("/v1/bind", "{}")).await;
    assert_eq!(status, 500);
    assert!(told.starts_with("MalformedBody: "), "{told}");
    assert_eq!(follower.clerk.asked(), [""; 0]);
    replica.stop().await;
}

#[tokio::test]
async fn a_call_is_forwarded_once() {
    // Each takes the other one for the leader.
    let first = setup(Clerk::new(), Standing::Unknown);
    let replica = Replica::start(&first, None).await;
    let second = setup(Clerk::new(), follower_of(Some(&replica.url("http"))));
    let back = Replica::start(&second, None).await;
    first
        .standing
        .send_replace(follower_of(Some(&back.url("http"))));
    assert_excuses(&second.router, "NoLeader").await;
    // A forwarded call that has reached the leader is answered.
    first.standing.send_replace(Standing::Leading);
    let answer = ask(&second.router, "/v1/filter", &names()).await;
    assert_eq!(answer["nodenames"], json!(["best"]));
    replica.stop().await;
    back.stop().await;
}

#[tokio::test]
async fn a_leader_that_is_gone_is_told_and_one_that_comes_back_is_used() {
    let leader = setup(Clerk::new(), Standing::Leading);
    let replica = Replica::start(&leader, None).await;
    let follower = setup(Clerk::new(), follower_of(Some(&replica.url("http"))));
    ask(&follower.router, "/v1/filter", &names()).await;
    replica.stop().await;
    assert_excuses(&follower.router, "LeaderUnreachable").await;

    let replica = Replica::start(&leader, None).await;
    let there = follower_of(Some(&replica.url("http")));
    follower.standing.send_replace(there);
    let answer = ask(&follower.router, "/v1/filter", &names()).await;
    assert_eq!(answer["nodenames"], json!(["best"]));
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_never_answers_is_not_waited_for() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let follower = setup(Clerk::new(), follower_of(Some(&url)));
    let begin = Instant::now();
    let answer = ask(&follower.router, "/v1/filter", &names()).await;
    let told = answer["error"].as_str().unwrap();
    assert!(told.starts_with("LeaderUnreachable: "), "{told}");
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_leader_with_another_page_at_its_address_is_no_leader() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_stopper, stop) = stop::channel();
    let other = Router::new();
    tokio::spawn(serve(listener, other, None, LIMITS, async {}, stop));
    let follower = setup(Clerk::new(), follower_of(Some(&url)));
    let answer = ask(&follower.router, "/v1/bind", &binding("best")).await;
    let told = answer["Error"].as_str().unwrap();
    assert!(told.contains("unexpected status 404"), "{told}");
}

#[tokio::test]
async fn a_stop_waits_for_the_calls_that_are_under_way() {
    let leader = setup(Clerk::with(0), Standing::Leading);
    let replica = Replica::start(&leader, None).await;
    let follower = setup(Clerk::new(), follower_of(Some(&replica.url("http"))));
    let call = tokio::spawn(async move { ask(&follower.router, "/v1/filter", &names()).await });
    let asked = async {
        while leader.clerk.asked().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, asked).await.unwrap();
    replica.stopper.stop();
    leader.clerk.leave.add_permits(1);
    let answer = timeout(PATIENCE, call).await.unwrap().unwrap();
    assert_eq!(answer["nodenames"], json!(["best"]));
    let addr = replica.addr;
    replica.stop().await;
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn replicas_with_the_same_certificate_trust_each_other() {
    for client_ca in [false, true] {
        let pki = Pki::new(client_ca);
        let tls = Reloader::new(pki.files.clone(), "test").await.unwrap();
        let leader = setup(Clerk::new(), Standing::Leading);
        let replica = Replica::start(&leader, Some(&tls)).await;
        let way = forwarder(Some(tls.secrets()));
        let there = follower_of(Some(&replica.url("https")));
        let follower = setup_with(Clerk::new(), there, way);
        let answer = ask(&follower.router, "/v1/filter", &names()).await;
        assert_eq!(answer["nodenames"], json!(["best"]), "{client_ca}");

        // One with another certificate neither trusts nor is trusted.
        let other = Pki::new(client_ca);
        let other = Reloader::new(other.files.clone(), "test").await.unwrap();
        let way = forwarder(Some(other.secrets()));
        let there = follower.standing.borrow().clone();
        let stranger = setup_with(Clerk::new(), there.clone(), way);
        assert_excuses(&stranger.router, "LeaderUnreachable").await;
        // Nor does one without.
        let plain = setup(Clerk::new(), there);
        assert_excuses(&plain.router, "LeaderUnreachable").await;
        replica.stop().await;
    }
}

#[tokio::test]
async fn a_replica_with_tls_sends_nothing_without() {
    let leader = setup(Clerk::new(), Standing::Leading);
    let replica = Replica::start(&leader, None).await;
    let pki = Pki::new(false);
    let tls = Reloader::new(pki.files.clone(), "test").await.unwrap();
    let there = follower_of(Some(&replica.url("http")));
    let follower = setup_with(Clerk::new(), there, forwarder(Some(tls.secrets())));
    assert_excuses(&follower.router, "LeaderUnreachable").await;
    assert_eq!(leader.clerk.asked(), [""; 0]);
    replica.stop().await;
}

#[tokio::test]
async fn clients_need_a_certificate_if_one_says_by_whom() {
    let pki = Pki::new(true);
    let tls = Reloader::new(pki.files.clone(), "test").await.unwrap();
    let leader = setup(Clerk::new(), Standing::Leading);
    let replica = Replica::start(&leader, Some(&tls)).await;
    let (ours, key) = pki.client();
    let healthy = get_healthy(replica.addr, &pki, Some((ours, key))).await;
    assert!(healthy.unwrap().ends_with("ok"));
    assert!(get_healthy(replica.addr, &pki, None).await.is_err());
    let foreign = Pki::new(true).client();
    let refused = get_healthy(replica.addr, &pki, Some(foreign)).await;
    assert!(refused.is_err());
    replica.stop().await;

    let open = Pki::new(false);
    let tls = Reloader::new(open.files.clone(), "test").await.unwrap();
    let replica = Replica::start(&leader, Some(&tls)).await;
    let healthy = get_healthy(replica.addr, &open, None).await;
    assert!(healthy.unwrap().ends_with("ok"));
    replica.stop().await;
}

#[tokio::test]
async fn a_client_that_never_shakes_hands_keeps_nobody_waiting() {
    let pki = Pki::new(false);
    let tls = Reloader::new(pki.files.clone(), "test").await.unwrap();
    let leader = setup(Clerk::new(), Standing::Leading);
    let replica = Replica::start(&leader, Some(&tls)).await;
    let silent = TcpStream::connect(replica.addr).await.unwrap();
    let healthy = get_healthy(replica.addr, &pki, None).await;
    assert!(healthy.unwrap().ends_with("ok"));
    // Nor does it hold up the stop.
    replica.stop().await;
    drop(silent);
}

#[tokio::test]
async fn new_certificates_are_used_for_new_connections() {
    let pki = Pki::new(false);
    let mut tls = Reloader::new(pki.files.clone(), "test").await.unwrap();
    let leader = setup(Clerk::new(), Standing::Leading);
    let replica = Replica::start(&leader, Some(&tls)).await;
    let there = follower_of(Some(&replica.url("https")));
    let follower = setup_with(Clerk::new(), there, forwarder(Some(tls.secrets())));
    ask(&follower.router, "/v1/filter", &names()).await;

    let newer = Pki::new(false);
    std::fs::copy(&newer.files.cert, &pki.files.cert).unwrap();
    std::fs::copy(&newer.files.key, &pki.files.key).unwrap();
    tls.look().await;
    let answer = ask(&follower.router, "/v1/filter", &names()).await;
    assert_eq!(answer["nodenames"], json!(["best"]));
    // Who trusts the old one only is out.
    assert!(get_healthy(replica.addr, &pki, None).await.is_err());
    let healthy = get_healthy(replica.addr, &newer, None).await;
    assert!(healthy.unwrap().ends_with("ok"));
    replica.stop().await;
}

/// A certificate for replicas, and those who sign.
struct Pki {
    files: TlsFiles,
    /// The certificate that clients trust.
    served: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    _folder: TempDir,
}

impl Pki {
    fn new(client_ca: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, pem: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, pem).unwrap();
            path
        };
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let cert = params.self_signed(&key).unwrap();

        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
        Self {
            files: TlsFiles {
                cert: write("tls.crt", &cert.pem()),
                key: write("tls.key", &key.serialize_pem()),
                client_ca: client_ca.then(|| write("ca.crt", &ca_pem)),
            },
            served: cert.der().clone(),
            issuer: Issuer::new(ca, ca_key),
            _folder: folder,
        }
    }

    /// A certificate for a client.
    fn client(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["scheduler".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        (cert.der().clone(), key)
    }
}

/// Asks as a client that is no replica, and trusts what is served.
async fn get_healthy(
    addr: SocketAddr,
    trusted: &Pki,
    own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.served.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        Some((cert, key)) => config.with_client_auth_cert(vec![cert], key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(addr).await?;
    let name = ServerName::from(addr.ip());
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await?;
    stream
        .write_all(b"GET /healthy HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn bad_files_leave_the_old_ones_in_force() {
    let pki = Pki::new(true);
    let mut tls = Reloader::new(pki.files.clone(), "test").await.unwrap();
    let secrets = tls.secrets();
    let first = secrets.borrow().clone();
    let unchanged = |what: &str| {
        assert!(Arc::ptr_eq(&first, &secrets.borrow()), "{what}");
    };
    tls.look().await;
    unchanged("nothing has changed");

    let other = Pki::new(true);
    let spoil = |path: &Path, contents: &[u8]| std::fs::write(path, contents).unwrap();
    let (cert, ca) = (&pki.files.cert, pki.files.client_ca.as_ref().unwrap());
    let good = std::fs::read(cert).unwrap();
    spoil(cert, b"");
    tls.look().await;
    unchanged("no certificate");
    spoil(cert, &std::fs::read(&other.files.cert).unwrap());
    tls.look().await;
    unchanged("a certificate of another key");
    spoil(cert, &good);
    spoil(
        ca,
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    tls.look().await;
    unchanged("no certificate that signs");
    std::fs::remove_file(ca).unwrap();
    tls.look().await;
    unchanged("no file");

    spoil(
        ca,
        &std::fs::read(other.files.client_ca.as_ref().unwrap()).unwrap(),
    );
    tls.look().await;
    assert!(!Arc::ptr_eq(&first, &secrets.borrow()), "good files");
}

#[tokio::test]
async fn a_start_with_bad_files_fails_with_a_reason() {
    let pki = Pki::new(false);
    let reason = async |files: TlsFiles| match Reloader::new(files, "test").await {
        Ok(_) => "",
        Err(error) => error.reason(),
    };
    let absent = TlsFiles {
        key: "/nowhere/key".into(),
        ..pki.files.clone()
    };
    assert_eq!(reason(absent).await, "TlsFileUnreadable");
    let swapped = TlsFiles {
        cert: pki.files.key.clone(),
        ..pki.files.clone()
    };
    assert_eq!(reason(swapped).await, "TlsFileMalformed");
    let other = Pki::new(false);
    let mixed = TlsFiles {
        key: other.files.key.clone(),
        ..pki.files.clone()
    };
    assert_eq!(reason(mixed).await, "TlsCertificateUnusable");
}
