//! Holder keys: the stored text that says who holds an address.
//!
//! ```text
//! [pool__<pool>_]<kind>_<namespace>_<app>_<pod>     a pod
//! <kind>_<namespace>_<app>_                         the spares of an app
//! pool__<pool>_                                     the spares of an IP pool
//! vip__<namespace>_<name>_                          a shared address
//! ```
//!
//! `_` separates because no Kubernetes name has it. Where a part can have it
//! all the same (pool annotations, names in owner references) the part is
//! refused before a key is made of it. A stored key is never refused: one that
//! has no such form is *opaque*, kept as it is and equal only to itself.

use std::{borrow::Borrow, fmt, sync::Arc};

pub use kind::KindPrefix;
pub use pool::{PoolName, PoolNameError};

mod kind;
mod pool;
mod vip;

/// The start of keys that belong to an IP pool.
const POOL: &str = "pool__";

/// A holder key as it is stored, ordered by its text.
///
/// # Guarantees
/// The text comes back unchanged, whatever it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderKey(Arc<str>);

/// The parts of a key. All but the pool are empty in the key of a pool's spares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyParts<'a> {
    /// The IP pool.
    pub pool: Option<&'a str>,
    /// The kind prefix without its `_`.
    pub kind: &'a str,
    /// The namespace of app and pod.
    pub namespace: &'a str,
    /// The name of the workload.
    pub app: &'a str,
    /// The name of the pod; empty in keys of spares.
    pub pod: &'a str,
}

/// Who holds an address, or shall hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The IP pool.
    pub pool: Option<PoolName>,
    /// The kind of the workload.
    pub kind: KindPrefix,
    /// The namespace of app and pod.
    pub namespace: String,
    /// The name of the workload.
    pub app: String,
    /// The name of the pod; empty for spares.
    pub pod: String,
}

/// Why a key cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part} {}", fault(.text))]
pub struct KeyError {
    /// Which part it is.
    pub part: &'static str,
    /// Its text.
    pub text: String,
}

impl KeyError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        "InvalidHolder"
    }
}

impl Holder {
    /// The key of this holder.
    pub fn key(&self) -> Result<HolderKey, KeyError> {
        let parts = [
            ("workload kind", self.kind.as_str()),
            ("namespace", &self.namespace),
            ("workload name", &self.app),
            ("pod name", &self.pod),
        ];
        if let Some((part, text)) = parts.into_iter().find(|(_, text)| text.contains('_')) {
            return Err(KeyError {
                part,
                text: text.into(),
            });
        }
        Ok(HolderKey::lookup(&KeyParts {
            pool: self.pool.as_ref().map(PoolName::as_str),
            kind: self.kind.as_str(),
            namespace: &self.namespace,
            app: &self.app,
            pod: &self.pod,
        }))
    }
}

impl<'a> KeyParts<'a> {
    /// The parts of the text of a key, or `None` when it is empty or opaque.
    pub fn of(text: &'a str) -> Option<Self> {
        let Some(rest) = text.strip_prefix(POOL) else {
            return own_parts(text);
        };
        let (pool, own) = rest.split_once('_')?;
        if pool.is_empty() {
            return None;
        }
        let parts = if own.is_empty() {
            KeyParts::default()
        } else {
            own_parts(own)?
        };
        Some(KeyParts {
            pool: Some(pool),
            ..parts
        })
    }
}

impl HolderKey {
    /// A key as it was stored.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The key to look records up with, built from whatever parts are given and
    /// never refused. To store a key, make it with [`Holder::key`].
    ///
    /// Compat: a pool without an app gives the key of the pool's spares; without
    /// pool, app and namespace the key is empty, which
    /// [selects](HolderKey::is_selected_by) everything; otherwise the parts that
    /// are not given stay empty.
    pub fn lookup(parts: &KeyParts<'_>) -> Self {
        let pool = parts.pool.filter(|pool| !pool.is_empty());
        let text = match pool {
            Some(pool) if parts.app.is_empty() => format!("{POOL}{pool}_"),
            None if parts.app.is_empty() && parts.namespace.is_empty() => String::new(),
            _ => {
                let KeyParts {
                    kind,
                    namespace,
                    app,
                    pod,
                    ..
                } = parts;
                let own = format!("{kind}_{namespace}_{app}_{pod}");
                pool.map_or_else(|| own.clone(), |pool| format!("{POOL}{pool}_{own}"))
            }
        };
        Self::new(text)
    }

    /// The stored text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts, or `None` when the key is empty or opaque.
    pub fn parts(&self) -> Option<KeyParts<'_>> {
        KeyParts::of(&self.0)
    }

    /// The key under which unused addresses of the app or of its pool wait.
    pub fn group_key(&self) -> Option<Self> {
        let parts = self.parts()?;
        Some(Self::lookup(&match parts.pool {
            Some(_) => KeyParts {
                pool: parts.pool,
                ..KeyParts::default()
            },
            None => KeyParts { pod: "", ..parts },
        }))
    }

    /// What the keys of all pods of the app start with. The key of a pool's
    /// spares names no app; its prefix is itself.
    pub fn app_prefix(&self) -> Option<Self> {
        let parts = self.parts()?;
        Some(Self::lookup(&KeyParts { pod: "", ..parts }))
    }

    /// Whether this is the key of spares: it has the usual form and no pod.
    pub fn is_group(&self) -> bool {
        self.group_key().is_some_and(|group| group == *self)
    }

    /// Whether the key names neither pod, workload nor pool. Such a one is of a
    /// [shared address](HolderKey::vip), or has no form that floe or galaxy would give it.
    pub fn is_opaque(&self) -> bool {
        !self.0.is_empty() && self.parts().is_none()
    }

    /// Whether this key is `prefix` or lies under it, where `prefix` is a
    /// [group key](HolderKey::group_key) or an [app prefix](HolderKey::app_prefix).
    ///
    /// # Guarantees
    /// Never crosses pools: `pool__a_` has nothing of a pool `a_b` that older
    /// records may have. An opaque key lies under nothing but itself.
    pub fn is_under(&self, prefix: &Self) -> bool {
        self == prefix
            || (prefix.0.ends_with('_')
                && prefix.parts().is_some()
                && self.parts().is_some()
                && self.0.starts_with(&*prefix.0))
    }

    /// Whether a list that asks for `selector` shows this key.
    ///
    /// Compat: the selector is a prefix, so `…_sts-1` also selects `…_sts-10`, and
    /// the empty one selects everything. Like [`HolderKey::is_under`] it never
    /// crosses pools, unless the selector itself is opaque.
    pub fn is_selected_by(&self, selector: &Self) -> bool {
        self.0.starts_with(&*selector.0)
            && (selector.0.is_empty() || selector.is_opaque() || self.parts().is_some())
    }

    /// Whether this is a key of the pod of that name, whatever its pool and
    /// workload were when the key was stored.
    pub fn names_pod(&self, namespace: &str, pod: &str) -> bool {
        !pod.is_empty()
            && self
                .parts()
                .is_some_and(|parts| parts.namespace == namespace && parts.pod == pod)
    }
}

/// The number of a pod in its workload: the text after the last `-` of its name.
///
/// Compat: a name that is all digits and has no `-` counts as a number too. galaxy
/// says so when it admits such a pod but cannot release it, because there it
/// looks at the whole key; floe looks at the name in both cases.
pub fn pod_index(pod: &str) -> Option<u64> {
    let digits = pod.rsplit('-').next()?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// What is wrong with a part.
fn fault(text: &str) -> String {
    if text.is_empty() {
        return "is empty".into();
    }
    format!("{text:?} contains \"_\", which separates the parts of a holder key")
}

/// A key without an app is opaque: its parts would build another key.
fn own_parts(text: &str) -> Option<KeyParts<'_>> {
    let (kind, rest) = cut(text)?;
    let (namespace, rest) = cut(rest)?;
    let (app, pod) = cut(rest)?;
    let parts = KeyParts {
        pool: None,
        kind,
        namespace,
        app,
        pod,
    };
    (cut(pod).is_none() && !app.is_empty()).then_some(parts)
}

/// What is before and after the first separator. Every change of the books asks
/// for it, and in short texts this is quicker than a general search.
fn cut(text: &str) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == b'_')?;
    Some((&text[..at], &text[at + 1..]))
}

impl From<&str> for HolderKey {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for HolderKey {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

// Sound because equality and order of keys are those of their texts.
impl Borrow<str> for HolderKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for HolderKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HolderKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

impl fmt::Debug for HolderKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}

#[cfg(test)]
mod tests;
