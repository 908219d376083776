//! Makes certificates.

use floe_core::certificates::{AUTHORITY_LIFE, Issue, Signer, Validity, signed_now};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::time::ASN1Time;

use super::material::{Material, MaterialError, valid};

/// Why no certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The authority cannot be used.
    #[error("the authority cannot sign")]
    Authority(#[from] MaterialError),
    /// A certificate cannot be signed.
    #[error("signing has failed")]
    Sign(#[from] rcgen::Error),
    /// No certificate can be valid at such a time.
    #[error("the clock shows a time that no certificate can have")]
    Clock,
}

/// Makes what was decided, from what there is.
pub fn issue(
    held: Option<&Material>,
    wanted: &Issue,
    now: Timestamp,
) -> Result<Material, IssueError> {
    let mut known = match held {
        Some(held) => known(held)?,
        None => Vec::new(),
    };
    let (signer, signing) = match (wanted.signer, held) {
        (Signer::Present, Some(held)) if !known.is_empty() => {
            (known.remove(0), held.authority_key()?)
        }
        _ => authority(now)?,
    };
    let key = KeyPair::generate()?;
    let issuer = Issuer::from_ca_cert_pem(&signer.pem, &signing)?;
    let params = certificate(wanted, signed_now(signer.validity, now))?;
    let cert = params.signed_by(&key, &issuer)?.pem();

    // The one that signs next comes first. Those that have ended help nobody.
    known.insert(0, signer);
    let mut signs_next = signing;
    if wanted.successor {
        let (next, key) = authority(now)?;
        known.insert(0, next);
        signs_next = key;
    }
    known.retain(|known| !known.validity.is_over(now));
    let shown = known.into_iter().map(|known| known.pem);
    Ok(Material {
        cert: cert.into_bytes(),
        key: key.serialize_pem().into_bytes(),
        authorities: shown.collect::<String>().into_bytes(),
        authority_key: signs_next.serialize_pem().into_bytes(),
    })
}

/// An authority that clients know.
struct Known {
    pem: String,
    validity: Validity,
}

/// All that there are, in their order.
fn known(held: &Material) -> Result<Vec<Known>, IssueError> {
    let text = String::from_utf8_lossy(&held.authorities);
    let end = "-----END CERTIFICATE-----";
    let mut known = Vec::new();
    for part in text.split_inclusive(end).filter(|part| part.ends_with(end)) {
        let start = part.find("-----BEGIN CERTIFICATE-----").unwrap_or(0);
        let pem = format!("{}\n", &part[start..]);
        let der = CertificateDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| MaterialError::Malformed("ca.crt"))?;
        known.push(Known {
            validity: valid(&der)?,
            pem,
        });
    }
    Ok(known)
}

/// A new authority with its key.
fn authority(now: Timestamp) -> Result<(Known, KeyPair), IssueError> {
    let key = KeyPair::generate()?;
    let validity = Validity::starting(now, AUTHORITY_LIFE);
    // Each has its own name, so that clients with two of them know which to try.
    let name = format!("floe authority {}", now.strftime("%Y-%m-%dT%H:%M:%SZ"));
    let mut params = params(&name, validity)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let pem = params.self_signed(&key)?.pem();
    Ok((Known { pem, validity }, key))
}

fn certificate(wanted: &Issue, validity: Validity) -> Result<CertificateParams, IssueError> {
    let mut params = params("floe", validity)?;
    let names: Vec<_> = wanted.names.iter().cloned().collect();
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(name: &str, validity: Validity) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let date = |moment: Timestamp| {
        let date = ASN1Time::from_timestamp(moment.as_second());
        date.map(|date| date.to_datetime())
            .map_err(|_| IssueError::Clock)
    };
    params.not_before = date(validity.begin)?;
    params.not_after = date(validity.end)?;
    Ok(params)
}
