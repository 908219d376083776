//! A management API in memory: what it answers is known, and what it was asked is kept.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, Once},
    time::Duration,
};

use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use super::{Bearer, Connect, Line, Remote, Stream, Trust};
use crate::failure::Failure;

/// The name in its certificate.
pub const NAME: &str = "galaxy-ipam.kube-system.svc";

/// What was asked: method and path, headers, body.
#[derive(Clone, Debug)]
pub struct Asked {
    pub what: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// The API, with answers in their order; the last one is given again and again.
#[derive(Clone)]
pub struct Stage {
    answers: Arc<Mutex<Vec<(u16, Value)>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    tls: Option<TlsAcceptor>,
    authority: String,
}

impl Stage {
    /// With TLS, and a certificate of its own authority.
    pub fn secure(answers: Vec<(u16, Value)>) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        Self {
            tls: Some(TlsAcceptor::from(Arc::new(config))),
            authority: authority.pem(),
            ..Self::open(answers)
        }
    }

    /// Without TLS.
    pub fn open(mut answers: Vec<(u16, Value)>) -> Self {
        answers.reverse();
        Self {
            answers: Arc::new(Mutex::new(answers)),
            asked: Arc::default(),
            tls: None,
            authority: String::new(),
        }
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The authority of its certificate.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A client of it that trusts its authority and has a token.
    pub fn remote(&self) -> Remote<Self> {
        self.remote_trusting(&self.authority)
    }

    /// The same, but it trusts another authority.
    pub fn remote_trusting(&self, authority: &str) -> Remote<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Remote {
            connect: self.clone(),
            trust: Trust::of(authority.as_bytes(), NAME).unwrap(),
            bearer: Bearer::Token(HeaderValue::from_static("Bearer secret")),
            is_open: false,
            patience: Some(Duration::from_secs(20)),
            tries: (Duration::from_secs(5), Duration::from_millis(1)),
        }
    }

    /// Serves one connection.
    pub async fn serve(self, stream: Box<dyn Stream>) {
        match self.tls.clone() {
            // Who does not like the certificate hangs up.
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    self.answer(stream).await;
                }
            }
            None => self.answer(stream).await,
        }
    }

    async fn answer(self, stream: impl Stream + 'static) {
        let service = service_fn(move |request: Request<Incoming>| {
            let stage = self.clone();
            async move { Ok::<_, Infallible>(stage.reply(request).await) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // Bytes that are no HTTP are answered by hyper itself.
        let _ = connection.await;
    }

    async fn reply(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = super::call::collect(body).await.unwrap();
        self.asked.lock().unwrap().push(Asked {
            what: format!("{} {}", head.method, head.uri),
            headers: head.headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        });
        let mut answers = self.answers.lock().unwrap();
        let (status, answer) = match answers.as_slice() {
            [last] => last.clone(),
            _ => answers.pop().unwrap(),
        };
        let body = Body::from(answer.to_string().into_bytes());
        Response::builder().status(status).body(body).unwrap()
    }
}

impl Remote<Stage> {
    /// The same, but it soon has enough.
    pub fn impatient(mut self) -> Self {
        self.tries = (Duration::from_millis(20), Duration::from_millis(1));
        self
    }
}

impl Connect for Stage {
    async fn connect(&self) -> Result<Line, Failure> {
        let (here, there) = tokio::io::duplex(1 << 16);
        tokio::spawn(self.clone().serve(Box::new(there)));
        Ok(Line {
            stream: Box::new(here),
            trouble: async { None }.boxed(),
        })
    }
}

/// A refusal as the API says it.
pub fn problem(status: u16, reason: &str, message: &str) -> (u16, Value) {
    let problem = json!({ "status": status, "reason": reason, "message": message });
    (status, problem)
}
