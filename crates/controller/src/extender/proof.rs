//! How the leader recognises calls that another replica has accepted and forwarded.
//!
//! The follower has checked its caller, and the leader cannot repeat that: it sees the
//! follower's address. So the follower signs what it forwards with a key that only
//! controllers can read: path, time and a digest of the body. The key never travels, which
//! matters on plain HTTP. A signed call that is captured can only be repeated as it is, and
//! only for a short time; repeating what the scheduler asked for changes nothing.

use std::fmt::Write as _;

use axum::http::{HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use ring::{
    digest::{SHA256, digest},
    hmac,
};

use super::call::Call;

/// The header with time, digest of the body and signature, each in its usual text, with a dot
/// between them.
pub const HEADER: &str = "floe-forwarded-proof";

/// By how much the clocks of two replicas may differ. A proof is good for as long.
pub const SKEW: SignedDuration = SignedDuration::from_mins(2);

/// What is signed begins with this, so that the key can never sign anything else by mistake.
const CONTEXT: &str = "floe-extender-forward-v1";

/// The SHA-256 of a body, in hexadecimal digits.
pub fn digest_of(body: &[u8]) -> String {
    hex(digest(&SHA256, body).as_ref())
}

/// The value of the header for a call that is forwarded now.
pub fn sign(key: &[u8], call: Call, body: &[u8], now: Timestamp) -> HeaderValue {
    let (time, body) = (now.as_millisecond(), digest_of(body));
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let tag = hmac::sign(&key, text(call, &time.to_string(), &body).as_bytes());
    let value = format!("{time}.{body}.{}", hex(tag.as_ref()));
    HeaderValue::from_str(&value).expect("digits and dots are good in a header")
}

/// The digest that the body must have, if the header is signed with the key and is of now.
pub fn verify(key: &[u8], call: Call, headers: &HeaderMap, now: Timestamp) -> Option<String> {
    let value = headers.get(HEADER)?.to_str().ok()?;
    let mut parts = value.split('.');
    let (time, body, tag) = (parts.next()?, parts.next()?, parts.next()?);
    let at = Timestamp::from_millisecond(time.parse().ok()?).ok()?;
    if parts.next().is_some() || now.duration_since(at).abs() > SKEW {
        return None;
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    // Compares in constant time.
    let verified = hmac::verify(&key, text(call, time, body).as_bytes(), &unhex(tag)?);
    verified.is_ok().then(|| body.to_owned())
}

fn text(call: Call, time: &str, body: &str) -> String {
    format!("{CONTEXT}\n{}\n{time}\n{body}", call.path())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    let digits = digits?;
    let bytes = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]);
    (digits.len() % 2 == 0).then(|| bytes.collect())
}
