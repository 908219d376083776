//! The port for DNS.

use floe_core::nodepool::records::{Found, RecordSet};

use crate::floating::Reply;

/// Somebody who keeps zones.
///
/// Beside the addresses stands who keeps them, in a TXT record of its own
/// ([`OWNER_PREFIX`]); a name that somebody else keeps is refused
/// ([`floe_core::nodepool::cloud::Class::HeldElsewhere`]). Records without such a note are
/// taken over, and other types than A and AAAA are never touched.
pub trait Dns: Send + Sync {
    /// What a name says now.
    fn read<'a>(&'a self, zone: &'a str, name: &'a str) -> Reply<'a, Found>;

    /// Makes a name say exactly this, at once where the server can. Nothing is written when
    /// it does already. An empty set removes the addresses.
    fn ensure<'a>(&'a self, wanted: &'a RecordSet) -> Reply<'a, ()>;

    /// Removes the addresses of the families that are this set's own, and the note, if its
    /// owner keeps them. What it says does not matter.
    fn remove<'a>(&'a self, set: &'a RecordSet) -> Reply<'a, ()>;

    /// The name in full, for metrics and people.
    fn full_name(&self, zone: &str, name: &str) -> String;
}

/// What stands before a name in the name of its note: `_floe.www.example.com`.
pub const OWNER_PREFIX: &str = "_floe";
