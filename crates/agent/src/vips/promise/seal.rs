//! The keys by which agents know each other: members of one Secret. The member `key` signs,
//! and all of them are believed, so a key can be changed in three steps: add the new one
//! under any name, make it `key` and keep the old one under any name, remove that.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use floe_shell::logs;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

/// Where the Secret is, its name, and the member that signs.
const PLACE: (&str, &str) = ("kube-system", "floe-agent-peers");
const SIGNS: &str = "key";

/// How many members are believed. Each is tried for each message.
const MOST: usize = 4;

/// Less than this is no key.
const SHORTEST: usize = 16;

/// How often the Secret is read, and how soon again while there is no key.
const PACE: Duration = Duration::from_mins(1);
const SOON: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the authentication in front of each message is.
const TAG: usize = 32;

/// The keys of the cluster's agents; at first none.
#[derive(Clone, Debug, Default)]
pub struct Keys(Arc<Ring>);

/// The values of keys are in no text: the type of `ring` does not tell them.
#[derive(Debug, Default)]
struct Ring {
    signs: Option<hmac::Key>,
    believed: Vec<hmac::Key>,
}

impl Keys {
    /// The keys in a Secret.
    pub fn of(secret: &Secret) -> Self {
        let data = secret.data.as_ref();
        let members = || data.into_iter().flatten();
        let usable = members().filter(|(_, value)| value.0.len() >= SHORTEST);
        let key = |value: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, value);
        let mut believed: Vec<(bool, hmac::Key)> = usable
            .map(|(name, value)| (name != SIGNS, key(&value.0)))
            .collect();
        believed.sort_by_key(|(is_other, _)| *is_other);
        believed.truncate(MOST);
        let signs = believed.first().filter(|(is_other, _)| !is_other);
        Self(Arc::new(Ring {
            signs: signs.map(|(_, key)| key.clone()),
            believed: believed.into_iter().map(|(_, key)| key).collect(),
        }))
    }

    /// Whether there is one to sign with.
    pub fn can_sign(&self) -> bool {
        self.0.signs.is_some()
    }

    /// A message with its authentication; none without a key.
    pub fn seal(&self, text: &[u8]) -> Option<Vec<u8>> {
        let tag = hmac::sign(self.0.signs.as_ref()?, text);
        let mut bytes = tag.as_ref().to_vec();
        bytes.extend_from_slice(text);
        Some(bytes)
    }

    /// The text of a message that somebody has written who knows a key. The comparison
    /// takes the same time wherever the bytes differ.
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (tag, text) = bytes.split_at_checked(TAG)?;
        let mut keys = self.0.believed.iter();
        keys.any(|key| hmac::verify(key, text, tag).is_ok())
            .then_some(text)
    }
}

/// Reads the Secret again and again, and nothing else.
pub async fn read_keys(client: Client, keys: watch::Sender<Keys>) {
    let api: Api<Secret> = Api::namespaced(client, PLACE.0);
    let mut told = None;
    loop {
        let read = timeout(PATIENCE, api.get_opt(PLACE.1)).await;
        let problem = match read {
            Ok(Ok(Some(secret))) => {
                let found = Keys::of(&secret);
                let can_sign = found.can_sign();
                keys.send_replace(found);
                (!can_sign).then(|| ("PeersKeyMissing", "it has no usable key".to_owned()))
            }
            Ok(Ok(None)) => {
                keys.send_replace(Keys::default());
                Some(("PeersKeyMissing", "there is none".to_owned()))
            }
            // What was known stays good: just now it may be needed.
            Ok(Err(error)) => Some(("PeersKeyUnreadable", logs::with_causes(&error))),
            Err(_) => Some((
                "PeersKeyUnreadable",
                format!("no answer within {PATIENCE:?}"),
            )),
        };
        match &problem {
            Some((reason, error)) if told != Some(Some(*reason)) => {
                let name = PLACE.1;
                warn!(reason, name, error, "cannot use the Secret of agents' keys");
            }
            None if told != Some(None) => info!("agents' keys are known"),
            _ => {}
        }
        told = Some(problem.as_ref().map(|it| it.0));
        sleep(if problem.is_some() { SOON } else { PACE }).await;
    }
}

/// A number that no other process has.
pub fn nonce() -> Option<String> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").ok()?;
    }
    Some(text)
}
