//! Which of two statements about an object is the newer one.
//!
//! The books learn of an object from a watch and from the answers to this
//! process' own writes. A watch alone is in order; an answer overtakes it, and
//! what the watch tells later may be older. The API server numbers all states of
//! all objects of a kind in the order in which they came to be, so the larger
//! `resourceVersion` is the newer state. (Kubernetes long called that number
//! opaque; since 1.35 it promises what etcd always gave: decimal numbers that can
//! be compared. A version that is no number is believed, as the watch is in
//! order.)
//!
//! One thing breaks that order: etcd that is restored from a snapshot counts on from
//! an older number. So a list, which reads the latest state, is believed against all
//! that was known before it was asked for.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What is known about the age of each object of one kind.
#[derive(Debug)]
pub struct Order<K> {
    known: BTreeMap<K, Option<u64>>,
    /// The largest version that was ever said.
    newest: u64,
    /// Objects that are deleted, and of which something older may still be told: by the
    /// watch if this process has deleted them, and by the answer to an own write that the
    /// watch has overtaken if others have.
    deleted: BTreeMap<K, Stamp>,
    /// While a list comes in: what it had so far, and what this
    /// process wrote or deleted meanwhile.
    listing: Option<BTreeSet<K>>,
}

/// Which state of which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    uid: String,
    version: Option<u64>,
}

impl Stamp {
    /// The stamp of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let version = metadata.resource_version.as_deref();
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            version: version.and_then(|version| version.parse().ok()),
        }
    }
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            newest: 0,
            deleted: BTreeMap::new(),
            listing: None,
        }
    }
}

impl<K: Ord + Clone> Order<K> {
    /// The object is in this state, says a watch, a list or the answer to an own
    /// write. False when something newer is known already.
    pub fn exists(&mut self, key: &K, stamp: &Stamp) -> bool {
        self.newest = self.newest.max(stamp.version.unwrap_or_default());
        if let Some(deleted) = self.deleted.get(key) {
            if deleted.uid == stamp.uid || is_before(stamp.version, deleted.version) {
                self.mention(key);
                return false;
            }
            self.deleted.remove(key);
        }
        let first = self.mention(key);
        match self.known.get_mut(key) {
            Some(known) if !first && is_before(stamp.version, *known) => false,
            Some(known) => {
                *known = stamp.version;
                true
            }
            None => {
                self.known.insert(key.clone(), stamp.version);
                true
            }
        }
    }

    /// The version of the state that is known, if that is a number.
    pub fn version(&self, key: &K) -> Option<u64> {
        self.known.get(key).copied().flatten()
    }

    /// The largest version that was said about any object.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The server counts anew, from an older version.
    pub fn forget_newest(&mut self) {
        self.newest = 0;
    }

    /// The watch says that the object was deleted. False when it has come back
    /// since, or was not known.
    pub fn gone(&mut self, key: &K, stamp: &Stamp) -> bool {
        if let Some(known) = self.known.get(key)
            && is_before(stamp.version, *known)
        {
            return false;
        }
        let newer = self.deleted.get(key);
        if newer.is_none_or(|it| !is_before(stamp.version, it.version)) {
            self.deleted.insert(key.clone(), stamp.clone());
        }
        self.drop(key)
    }

    /// This process has deleted the object in this state. Whatever the watch
    /// still has to say about it is old. False when the watch was faster.
    pub fn deleted(&mut self, key: &K, stamp: Stamp) -> bool {
        match self.known.get(key) {
            Some(known) if !is_before(stamp.version, *known) => {
                self.drop(key);
                self.deleted.insert(key.clone(), stamp);
                self.mention(key);
                true
            }
            _ => false,
        }
    }

    /// A list is asked for. Whatever was written or deleted before this is in it, or
    /// was undone by a restore.
    pub fn begin_list(&mut self) {
        self.listing = Some(BTreeSet::new());
        self.deleted.clear();
    }

    /// The list is complete. Returns what must be forgotten: what is neither in
    /// it nor was written since it was asked for.
    pub fn end_list(&mut self) -> Vec<K> {
        let Some(listed) = self.listing.take() else {
            return Vec::new();
        };
        let mut forgotten = Vec::new();
        self.known.retain(|key, _| {
            let stays = listed.contains(key);
            if !stays {
                forgotten.push(key.clone());
            }
            stays
        });
        // The watch goes on from the list, and will not tell of these again.
        self.deleted.retain(|key, _| listed.contains(key));
        forgotten
    }

    /// Says whether a list comes in, and this is the first word about the object since
    /// it was asked for.
    fn mention(&mut self, key: &K) -> bool {
        let listing = self.listing.as_mut();
        listing.is_some_and(|listing| listing.insert(key.clone()))
    }

    fn drop(&mut self, key: &K) -> bool {
        if let Some(listing) = &mut self.listing {
            listing.remove(key);
        }
        self.known.remove(key).is_some()
    }
}

/// Whether a statement is older than what is known. The same one again is not:
/// lists repeat it, and entering it again changes nothing.
fn is_before(said: Option<u64>, known: Option<u64>) -> bool {
    said.zip(known).is_some_and(|(said, known)| said < known)
}

#[cfg(test)]
mod tests;
