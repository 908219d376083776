//! TLS: the certificate that all replicas share, and whom they trust. Files are read
//! again when they change.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use floe_shell::{logs, stop::Stop};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{self, PemObject as _},
    },
    server::{VerifierBuilderError, WebPkiClientVerifier},
};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use crate::config::TlsFiles;

mod trust;

use trust::{OursOnly, OursOrSigned};

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_secs(20);

/// Why files make no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A file is no PEM file of its kind.
    #[error("{} has no usable {what}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// What is wrong.
        #[source]
        source: pem::Error,
    },
    /// The certificate cannot be served, or not with this key.
    #[error("cannot use the certificate with this key")]
    Certificate(#[source] rustls::Error),
    /// A certificate of the file cannot sign others.
    #[error("cannot use the certificates that sign those of clients")]
    ClientCa(#[source] VerifierBuilderError),
}

impl TlsError {
    /// The stable reason for logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "TlsFileUnreadable",
            Self::Pem { .. } => "TlsFileMalformed",
            Self::Certificate(_) => "TlsCertificateUnusable",
            Self::ClientCa(_) => "TlsClientCaUnusable",
        }
    }
}

/// The settings of TLS for both ends.
#[derive(Debug)]
pub struct Secrets {
    server: Option<Arc<ServerConfig>>,
    client: ClientConfig,
    name: Option<ServerName<'static>>,
}

impl Secrets {
    /// As long as there is no certificate: nobody is served, and nobody is trusted.
    pub fn none() -> Self {
        Self {
            server: None,
            client: trusting_nobody(),
            name: None,
        }
    }

    /// A certificate that one of the roots has signed. Other replicas are trusted if
    /// theirs is signed by one of them too, and has this name.
    pub fn signed(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        roots: RootCertStore,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        let server = server_builder()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let client = client_builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            server: Some(Arc::new(speaking_http1(server))),
            client,
            name: Some(name),
        })
    }

    /// For those who connect to this replica; none as long as it has no certificate.
    pub fn server(&self) -> Option<Arc<ServerConfig>> {
        self.server.clone()
    }

    /// For connections to other replicas.
    pub fn client(&self) -> ClientConfig {
        self.client.clone()
    }

    /// The name that other replicas prove to have, if it is not their address.
    pub fn name(&self) -> Option<ServerName<'static>> {
        self.name.clone()
    }
}

/// The settings of a client that trusts nobody.
pub fn trusting_nobody() -> ClientConfig {
    client_builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

/// Reads the files again when they change.
pub struct Reloader {
    files: TlsFiles,
    /// Who is served by them, for people.
    what: &'static str,
    /// What is in force.
    contents: Contents,
    /// What was refused last; the same is refused once.
    refused: Option<String>,
    secrets: watch::Sender<Arc<Secrets>>,
}

impl Reloader {
    /// Reads the files for the first time.
    pub async fn new(files: TlsFiles, what: &'static str) -> Result<Self, TlsError> {
        let contents = Contents::read(&files).await?;
        let secrets = Arc::new(contents.secrets(&files)?);
        Ok(Self {
            files,
            what,
            contents,
            refused: None,
            secrets: watch::Sender::new(secrets),
        })
    }

    /// What is in force.
    pub fn secrets(&self) -> watch::Receiver<Arc<Secrets>> {
        self.secrets.subscribe()
    }

    /// Looks at the files until `stop`.
    pub async fn run(mut self, mut stop: Stop) {
        loop {
            tokio::select! {
                () = stop.requested() => return,
                () = sleep(PERIOD) => {}
            }
            self.look().await;
        }
    }

    /// Puts changed files in force, unless they are of no use: then the old
    /// ones stay.
    pub async fn look(&mut self) {
        match self.renew().await {
            Ok(true) => {
                self.refused = None;
                info!(what = self.what, "the TLS files have changed");
            }
            Ok(false) => self.refused = None,
            Err(error) => {
                let told = logs::with_causes(&error);
                if self.refused.as_ref() != Some(&told) {
                    warn!(
                        reason = error.reason(),
                        error = told,
                        what = self.what,
                        "cannot use the TLS files, the old ones stay in force",
                    );
                }
                self.refused = Some(told);
            }
        }
    }

    async fn renew(&mut self) -> Result<bool, TlsError> {
        let contents = Contents::read(&self.files).await?;
        if contents == self.contents {
            return Ok(false);
        }
        let secrets = contents.secrets(&self.files)?;
        self.contents = contents;
        self.secrets.send_replace(Arc::new(secrets));
        Ok(true)
    }
}

/// What is in the files.
#[derive(PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Contents {
    async fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            cert: read(&files.cert).await?,
            key: read(&files.key).await?,
            client_ca: match &files.client_ca {
                Some(path) => Some(read(path).await?),
                None => None,
            },
        })
    }

    fn secrets(&self, files: &TlsFiles) -> Result<Secrets, TlsError> {
        let chain = certificates(&self.cert, &files.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|source| TlsError::Pem {
            path: files.key.clone(),
            what: "private key",
            source,
        })?;
        // `certificates` gives one at least.
        let ours = chain[0].clone();

        let server = server_builder().map_err(TlsError::Certificate)?;
        let server = match self.client_ca.as_deref().zip(files.client_ca.as_ref()) {
            None => server.with_no_client_auth(),
            Some((pem, path)) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(pem, path)? {
                    roots.add(root).map_err(TlsError::Certificate)?;
                }
                let signed =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                        .build()
                        .map_err(TlsError::ClientCa)?;
                let ours = ours.clone();
                server.with_client_cert_verifier(Arc::new(OursOrSigned { ours, signed }))
            }
        };
        let server = server
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(TlsError::Certificate)?;

        let client = client_builder()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OursOnly::new(ours, provider())))
            .with_client_auth_cert(chain, key)
            .map_err(TlsError::Certificate)?;
        Ok(Secrets {
            server: Some(Arc::new(speaking_http1(server))),
            client,
            name: None,
        })
    }
}

/// The only provider of cryptography.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn server_builder()
-> Result<rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>, rustls::Error> {
    ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
}

fn speaking_http1(mut server: ServerConfig) -> ServerConfig {
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    server
}

fn client_builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for both versions of TLS")
}

/// One at least.
fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.and_then(|found| {
        if found.is_empty() {
            return Err(pem::Error::NoItemsFound);
        }
        Ok(found)
    });
    found.map_err(|source| TlsError::Pem {
        path: path.to_path_buf(),
        what: "certificate",
        source,
    })
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let contents = tokio::fs::read(path).await;
    contents.map_err(|source| TlsError::Read {
        path: path.to_path_buf(),
        source,
    })
}
