//! When certificates are made anew: decided from what there is, what is wanted and
//! the time.
//!
//! A certificate is signed by an authority of our own, of which clients hold the
//! certificate. An authority that gets old is followed by another one: the old
//! signs once more, and the new one is shown to clients beside it from then on. So
//! every client that looks again within [`RENEWED`] trusts each certificate in
//! turn.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// How long an authority lives.
pub const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(24 * 3_650);

/// How long a certificate lives.
pub const LIFE: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The age at which a certificate is renewed: two thirds of its life.
pub const RENEWED: SignedDuration = SignedDuration::from_hours(24 * 365 * 2 / 3);

/// How long before its end an authority is followed by another one: long enough to
/// sign a last certificate, and for that one to be used up.
const SUCCEEDED: SignedDuration = SignedDuration::from_hours(24 * 365 * 2);

/// By how much certificates begin before they are made, for clients whose clocks
/// are late.
pub const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// When something is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From when on.
    pub begin: Timestamp,
    /// Until when.
    pub end: Timestamp,
}

impl Validity {
    /// What begins now and lives this long.
    pub fn starting(now: Timestamp, life: SignedDuration) -> Self {
        Self {
            begin: now.saturating_sub(BACKDATED).unwrap_or(now),
            end: now.saturating_add(life).unwrap_or(Timestamp::MAX),
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.end <= now
    }

    /// Whether it has begun.
    fn has_begun(&self, now: Timestamp) -> bool {
        self.begin <= now
    }

    fn left(&self, now: Timestamp) -> SignedDuration {
        self.end.duration_since(now)
    }

    /// When two thirds of it are over.
    fn renewal(&self) -> Timestamp {
        let life = self.end.duration_since(self.begin);
        let age = life / 3 * 2;
        self.begin.saturating_add(age).unwrap_or(self.end)
    }
}

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The authority that signs the next certificate.
    pub authority: Validity,
    /// The certificate.
    pub certificate: Validity,
    /// The names of the certificate.
    pub names: BTreeSet<String>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing, until then.
    Keep {
        /// When to decide again.
        until: Timestamp,
    },
    /// Make a certificate.
    Issue(Issue),
}

/// What is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Why.
    pub why: Why,
    /// Who signs it.
    pub signer: Signer,
    /// Whether the signer is followed by another one, which signs the next.
    pub successor: bool,
    /// What the certificate is for.
    pub names: BTreeSet<String>,
}

/// Who signs a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The authority that there is.
    Present,
    /// A new one, because there is none, or it has ended or not begun.
    New,
}

/// Why a certificate is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is none.
    Missing,
    /// Its signer has ended.
    AuthorityEnded,
    /// It, or its signer, has not begun: somebody's clock is or was ahead. Nobody could
    /// trust it, maybe for years.
    NotBegun,
    /// Most of its life is over.
    Ageing,
    /// It lacks names.
    NamesMissing,
}

impl Why {
    /// The stable reason for logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "CertificateMissing",
            Self::AuthorityEnded => "AuthorityEnded",
            Self::NotBegun => "CertificateNotBegun",
            Self::Ageing => "CertificateAgeing",
            Self::NamesMissing => "CertificateNamesMissing",
        }
    }
}

/// Decides whether what there is will do.
pub fn decide(held: Option<&Held>, names: &BTreeSet<String>, now: Timestamp) -> Decision {
    let Some(held) = held else {
        return Decision::Issue(Issue {
            why: Why::Missing,
            signer: Signer::New,
            successor: false,
            names: names.clone(),
        });
    };
    if held.authority.is_over(now) {
        return Decision::Issue(Issue {
            why: Why::AuthorityEnded,
            signer: Signer::New,
            successor: false,
            names: names.clone(),
        });
    }
    if !held.authority.has_begun(now) {
        return Decision::Issue(Issue {
            why: Why::NotBegun,
            signer: Signer::New,
            successor: false,
            names: names | &held.names,
        });
    }
    let renewal = held.certificate.renewal();
    let (why, names) = if !held.certificate.has_begun(now) {
        (Why::NotBegun, names | &held.names)
    } else if renewal <= now {
        (Why::Ageing, names.clone())
    } else if !names.is_subset(&held.names) {
        // Another replica may want the other names, and would take ours away again.
        (Why::NamesMissing, names | &held.names)
    } else {
        return Decision::Keep {
            until: renewal.min(held.authority.end),
        };
    };
    Decision::Issue(Issue {
        why,
        signer: Signer::Present,
        successor: held.authority.left(now) < SUCCEEDED,
        names,
    })
}

/// When a certificate is valid that this authority signs now: no longer than the
/// authority.
pub fn signed_now(authority: Validity, now: Timestamp) -> Validity {
    let own = Validity::starting(now, LIFE);
    Validity {
        begin: own.begin.max(authority.begin),
        end: own.end.min(authority.end),
    }
}

#[cfg(test)]
mod tests;
