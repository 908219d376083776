//! What is in the Secret: certificates and their keys.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use floe_core::certificates::{Held, Validity};
use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::transport::tls::{Secrets, provider};

/// Certificates and their keys, in PEM. It cannot be printed, because keys do not
/// belong into logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// The certificate.
    pub cert: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
    /// All authorities that clients shall trust; the first one signs next.
    pub authorities: Vec<u8>,
    /// The key of the first.
    pub authority_key: Vec<u8>,
}

/// Why the content of a Secret is of no use.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// Some of it is missing.
    #[error("it has no {0}")]
    Lacks(&'static str),
    /// Some of it is no PEM of its kind.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// A key is not that of its certificate.
    #[error("{0} does not belong to its certificate")]
    Mismatched(&'static str),
    /// TLS cannot be served with it.
    #[error("TLS cannot be served with it")]
    Unusable(#[source] rustls::Error),
    /// Clients would not trust it.
    #[error("none of its authorities has signed its certificate for floe")]
    Untrusted(#[source] rustls::Error),
}

impl MaterialError {
    /// The stable reason for logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Lacks(_) => "CertificateSecretIncomplete",
            Self::Malformed(_) => "CertificateSecretMalformed",
            Self::Mismatched(_) => "CertificateKeyMismatched",
            Self::Unusable(_) => "CertificateUnusable",
            Self::Untrusted(_) => "CertificateUntrusted",
        }
    }
}

impl Material {
    /// What decisions are made on.
    pub fn held(&self) -> Result<Held, MaterialError> {
        let (chain, authorities) = (self.chain()?, self.authorities()?);
        let authority = parsed(&authorities[0], "ca.crt")?;
        let signs = self.authority_key()?.subject_public_key_info();
        if signs != authority.tbs_certificate.subject_pki.raw {
            return Err(MaterialError::Mismatched("ca.key"));
        }
        let certificate = parsed(&chain[0], "tls.crt")?;
        Ok(Held {
            authority: validity(&authority, "ca.crt")?,
            certificate: validity(&certificate, "tls.crt")?,
            names: names(&certificate)?,
        })
    }

    /// The settings of TLS. Clients that trust the authorities must trust the
    /// certificate too, as long as it is valid.
    pub fn secrets(
        &self,
        peer: ServerName<'static>,
        now: Timestamp,
    ) -> Result<Secrets, MaterialError> {
        let chain = self.chain()?;
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|_| MaterialError::Malformed("tls.key"))?;
        let mut roots = RootCertStore::empty();
        for authority in self.authorities()? {
            roots.add(authority).map_err(MaterialError::Unusable)?;
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots.clone()), provider())
                .build()
                .map_err(|_| MaterialError::Malformed("ca.crt"))?;
        // Dates are not judged here: they decide when it is renewed.
        let valid = validity(&parsed(&chain[0], "tls.crt")?, "tls.crt")?;
        let moment = now.max(valid.begin).min(valid.end);
        let moment = u64::try_from(moment.as_second()).unwrap_or_default();
        let moment = UnixTime::since_unix_epoch(Duration::from_secs(moment));
        verifier
            .verify_server_cert(&chain[0], &chain[1..], &peer, &[], moment)
            .map_err(MaterialError::Untrusted)?;
        Secrets::signed(chain, key, roots, peer).map_err(MaterialError::Unusable)
    }

    /// All authorities, of which the first signs next; one at least.
    pub fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
        certificates(&self.authorities, "ca.crt")
    }

    /// The key that signs next.
    pub fn authority_key(&self) -> Result<KeyPair, MaterialError> {
        let text = std::str::from_utf8(&self.authority_key).ok();
        let key = text.and_then(|text| KeyPair::from_pem(text).ok());
        key.ok_or(MaterialError::Malformed("ca.key"))
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
        certificates(&self.cert, "tls.crt")
    }
}

/// When a certificate is valid.
pub fn valid(certificate: &CertificateDer<'_>) -> Result<Validity, MaterialError> {
    validity(&parsed(certificate, "ca.crt")?, "ca.crt")
}

/// One at least.
fn certificates(
    pem: &[u8],
    name: &'static str,
) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.ok_or(MaterialError::Malformed(name))
}

fn parsed<'a>(
    der: &'a CertificateDer<'_>,
    name: &'static str,
) -> Result<X509Certificate<'a>, MaterialError> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) | Err(_) => Err(MaterialError::Malformed(name)),
    }
}

fn validity(
    certificate: &X509Certificate<'_>,
    name: &'static str,
) -> Result<Validity, MaterialError> {
    let dates = certificate.validity();
    let moment = |time: x509_parser::time::ASN1Time| {
        Timestamp::from_second(time.timestamp()).map_err(|_| MaterialError::Malformed(name))
    };
    Ok(Validity {
        begin: moment(dates.not_before)?,
        end: moment(dates.not_after)?,
    })
}

fn names(certificate: &X509Certificate<'_>) -> Result<BTreeSet<String>, MaterialError> {
    let found = certificate.subject_alternative_name();
    let found = found.map_err(|_| MaterialError::Malformed("tls.crt"))?;
    let found = found.iter().flat_map(|found| &found.value.general_names);
    // floe asks for no other kinds.
    let name = |name: &GeneralName<'_>| {
        if let GeneralName::DNSName(name) = name {
            return Some((*name).to_owned());
        }
        let GeneralName::IPAddress(bytes) = name else {
            return None;
        };
        ip(bytes).map(|ip| ip.to_string())
    };
    Ok(found.filter_map(name).collect())
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}
