//! What the API server keeps, and how it says who holds an address.
//!
//! Holdings of an address are numbered. What comes after holding `m` of a node is decided
//! in that node's lease alone: by a deed, or by the end of the term without one. Then, and
//! only then, the object of the address itself decides.

use std::collections::BTreeMap;

pub type Node = usize;
pub type Vip = usize;

/// A node in one of its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenant {
    pub node: Node,
    pub term: u64,
}

/// A `VirtualIP`. Its holder may be one of the past: deeds lead on from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipObject {
    pub version: u64,
    pub holder: Option<Tenant>,
    /// The number of the holding that it shows, or of the last one.
    pub number: u64,
    /// The controller wants the address back.
    pub emptied: bool,
}

/// The lease of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseObject {
    pub version: u64,
    pub term: u64,
    /// Whether somebody else has ended the term. Nothing can be added then.
    pub ended: bool,
    pub deeds: BTreeMap<(Vip, u64), Deed>,
}

/// What comes after a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deed {
    /// The term of the node when this was written.
    pub term: u64,
    /// The next holder; nothing: nobody.
    pub to: Option<Tenant>,
}

/// Who holds an address, for all that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// Nobody, after so many holdings.
    Vacant(u64),
    Held {
        by: Tenant,
        number: u64,
        proof: Proof,
    },
}

/// How it is known that somebody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The object names it.
    Named,
    /// The holder before wrote it, and knew that it held.
    Given,
    /// Written by somebody else at the end of a term, on what that one knew.
    Inherited,
}

/// Follows the deeds from what an object shows.
pub fn resolve<'a>(
    vip: Vip,
    object: &VipObject,
    lease: impl Fn(Node) -> Option<&'a LeaseObject>,
    is_given: impl Fn(&Deed, &LeaseObject) -> bool,
) -> Truth {
    let mut number = object.number;
    let mut proof = Proof::Named;
    let Some(mut by) = object.holder else {
        return Truth::Vacant(number);
    };
    loop {
        let held = Truth::Held { by, number, proof };
        let Some(lease) = lease(by.node) else {
            return held;
        };
        let Some(deed) = lease.deeds.get(&(vip, number)) else {
            let is_over = by.term < lease.term || by.term == lease.term && lease.ended;
            return if is_over { Truth::Vacant(number) } else { held };
        };
        let Some(next) = deed.to else {
            return Truth::Vacant(number);
        };
        proof = if is_given(deed, lease) {
            Proof::Given
        } else {
            Proof::Inherited
        };
        by = next;
        number += 1;
    }
}

/// Whether the holder itself wrote a deed: nobody else writes into a term that goes on.
pub fn is_given(deed: &Deed, lease: &LeaseObject) -> bool {
    deed.term == lease.term && !lease.ended
}
