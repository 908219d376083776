//! What clouds say of addresses, in the same words for all of them.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use thiserror::Error;

/// An address of the account, as a cloud lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The address.
    pub ip: IpAddr,
    /// The server that has it, in the form of a node's `spec.providerID`.
    pub server: Option<String>,
    /// Something is being done to it, so that other orders would be refused.
    pub busy: bool,
    /// Who bought it, if that stands on it and is floe's writing.
    pub mark: Option<Mark>,
}

/// All addresses of an account. It is made once, and all pools of the account share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    all: BTreeMap<IpAddr, Listed>,
    by_server: BTreeMap<String, Vec<IpAddr>>,
}

impl FromIterator<Listed> for Listing {
    fn from_iter<I: IntoIterator<Item = Listed>>(listed: I) -> Self {
        let mut by_server: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        let all: BTreeMap<IpAddr, Listed> = listed.into_iter().map(|it| (it.ip, it)).collect();
        for it in all.values() {
            if let Some(server) = &it.server {
                by_server.entry(server.clone()).or_default().push(it.ip);
            }
        }
        Self { all, by_server }
    }
}

impl Listing {
    /// What it says of an address.
    pub fn get(&self, ip: &IpAddr) -> Option<&Listed> {
        self.all.get(ip)
    }

    /// The addresses of a server.
    pub fn on(&self, server: &str) -> &[IpAddr] {
        self.by_server.get(server).map_or(&[], Vec::as_slice)
    }

    /// Everything.
    pub fn values(&self) -> impl Iterator<Item = &Listed> {
        self.all.values()
    }

    /// All addresses.
    pub fn keys(&self) -> impl Iterator<Item = &IpAddr> {
        self.all.keys()
    }

    /// Without this one.
    #[must_use]
    pub fn without(&self, ip: IpAddr) -> Self {
        let others = self.values().filter(|it| it.ip != ip);
        others.cloned().collect()
    }
}

/// Who bought an address, as it stands on the address itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The uid of the cluster: that of its namespace `kube-system`.
    pub cluster: String,
    /// The uid of the pool.
    pub pool: String,
    /// Which purchase of that pool.
    pub purchase: String,
}

/// An order that a cloud has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is done.
    Done,
    /// It is under way; the cloud knows it by this name, also after a restart.
    Pending(String),
}

/// How far an order is that was under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not yet done.
    Pending,
    /// Done.
    Done,
    /// It has failed, in the words of the cloud.
    Failed(String),
}

/// What a cloud can do, and how it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "clouds have each of these or not, independently"
)]
pub struct Capabilities {
    /// How many addresses a server can have; none when there is no limit.
    pub per_server: Option<usize>,
    /// An order to assign takes the address from another server by itself.
    pub steals: bool,
    /// A second address pushes the first off a server without a word.
    pub displaces: bool,
    /// The server has to configure the address itself.
    pub configured_by_node: bool,
    /// It has addresses of IPv4.
    pub v4: bool,
    /// It has addresses of IPv6.
    pub v6: bool,
    /// Addresses can be bought.
    pub buys: bool,
    /// What is written on an address when it is bought proves who bought it.
    pub marks: bool,
}

/// Why a cloud or a name server did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind.
    pub class: Class,
    /// In its own words, without secrets, at most 1000 characters.
    pub message: String,
    /// It said when to come back.
    pub retry_after: Option<Duration>,
    /// The server itself has answered that it failed. With [`Class::Unclear`] that means: it does
    /// no more about it, though part of it may be done.
    pub answered: bool,
}

/// The kinds of refusals that make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The server already has as many addresses as it can.
    ServerTaken,
    /// The address is on another server and is not taken from it, or belongs to others.
    HeldElsewhere,
    /// There is no such address.
    AddressUnknown,
    /// There is no such server.
    ServerUnknown,
    /// The zone or the record does not exist.
    ZoneUnknown,
    /// No more can be bought.
    Quota,
    /// Too many calls.
    RateLimited,
    /// Another order is under way.
    Busy,
    /// The credentials are not good for this.
    Unauthorized,
    /// The order makes no sense to it.
    Invalid,
    /// It failed, and nothing was done.
    Unavailable,
    /// No answer: it may have been done or not.
    Unclear,
    /// The API server does not store what has to be remembered before something is bought: the
    /// CRD lacks the field.
    NotStored,
    /// floe lacks the permission to remember what is bought.
    NotPermitted,
}

impl Class {
    /// The stable reason in status, Events, metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ServerTaken => "ServerTaken",
            Self::HeldElsewhere => "HeldElsewhere",
            Self::AddressUnknown => "AddressUnknown",
            Self::ServerUnknown => "ServerUnknown",
            Self::ZoneUnknown => "ZoneUnknown",
            Self::Quota => "QuotaExceeded",
            Self::RateLimited => "RateLimited",
            Self::Busy => "ProviderBusy",
            Self::Unauthorized => "ProviderUnauthorized",
            Self::Invalid => "ProviderRejected",
            Self::Unavailable => "ProviderUnavailable",
            Self::Unclear => "ProviderTimeout",
            Self::NotStored => "SchemaOutdated",
            Self::NotPermitted => "PermissionMissing",
        }
    }
}

impl Refusal {
    /// The longest text that is kept of what a cloud says.
    pub const LONGEST: usize = 1000;

    /// A refusal; too long a text is cut.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if let Some((end, _)) = message.char_indices().nth(Self::LONGEST) {
            message.truncate(end);
        }
        Self {
            class,
            message,
            retry_after: None,
            answered: false,
        }
    }

    /// The same, with the time that was asked for.
    #[must_use]
    pub fn after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}

impl Mark {
    /// As one text, for clouds that have room for one; others keep the three words apart.
    pub fn text(&self) -> String {
        format!("floe.{}.{}.{}", self.cluster, self.pool, self.purchase)
    }

    /// Reads such a text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix("floe.")?.split('.');
        let mut word = || {
            words
                .next()
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
        };
        let mark = Self {
            cluster: word()?,
            pool: word()?,
            purchase: word()?,
        };
        words.next().is_none().then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_nothing_else_is_one() {
        let mark = Mark {
            cluster: "0a-1".into(),
            pool: "b2".into(),
            purchase: "7".into(),
        };
        assert_eq!(Mark::parse(&mark.text()), Some(mark));
        for text in [
            "",
            "floe",
            "floe.a.b",
            "floe.a.b.c.d",
            "floe.a..c",
            "other.a.b.c",
        ] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        let refusal = Refusal::new(Class::Invalid, "é".repeat(2000));
        assert_eq!(refusal.message.chars().count(), Refusal::LONGEST);
    }
}
