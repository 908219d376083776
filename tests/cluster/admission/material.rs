//! Certificates as they get into the Secret of the webhook when nobody has looked after
//! them, or a clock was wrong.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

const DAY: Duration = Duration::from_hours(24);
const YEAR: Duration = Duration::from_hours(24 * 365);

/// Members of the Secret.
pub type Members = BTreeMap<&'static str, String>;

/// A certificate of the Secret's authority that has ended.
pub fn ended(secret: &Secret) -> Result<Members> {
    let member = |name| {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        let data = data.with_context(|| format!("{} has no {name}", secret.name_any()))?;
        anyhow::Ok(String::from_utf8(data.0.clone())?)
    };
    let (authority, key) = (member("ca.crt")?, KeyPair::from_pem(&member("ca.key")?)?);
    let now = SystemTime::now();
    let (cert, key) = signed(
        &Issuer::from_ca_cert_pem(&authority, &key)?,
        (now - YEAR, now - DAY),
    )?;
    Ok([("tls.crt", cert), ("tls.key", key)].into())
}

/// What a controller makes whose clock is a day ahead: nobody else can trust it.
pub fn ahead() -> Result<Members> {
    let tomorrow = SystemTime::now() + DAY;
    let valid = (tomorrow, tomorrow + YEAR);
    let (params, authority, signs) = authority("floe authority of tomorrow", valid)?;
    let (cert, key) = signed(&Issuer::from_params(&params, &signs), valid)?;
    let signs = signs.serialize_pem();
    Ok([
        ("ca.crt", authority),
        ("ca.key", signs),
        ("tls.crt", cert),
        ("tls.key", key),
    ]
    .into())
}

/// The certificate of an authority that has signed nothing here.
pub fn stranger() -> Result<String> {
    let now = SystemTime::now();
    let (_, authority, _) = authority("others", (now - DAY, now + YEAR))?;
    Ok(authority)
}

fn authority(
    name: &str,
    (begin, end): (SystemTime, SystemTime),
) -> Result<(CertificateParams, String, KeyPair)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    (params.not_before, params.not_after) = (begin.into(), end.into());
    let pem = params.self_signed(&key)?.pem();
    Ok((params, pem, key))
}

/// A certificate of the webhook, and its key.
fn signed(
    issuer: &Issuer<'_, &KeyPair>,
    (begin, end): (SystemTime, SystemTime),
) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let names = ["floe-webhook", "floe-webhook.kube-system.svc"].map(str::to_owned);
    let mut params = CertificateParams::new(names)?;
    (params.not_before, params.not_after) = (begin.into(), end.into());
    let cert = params.signed_by(&key, issuer)?.pem();
    Ok((cert, key.serialize_pem()))
}
