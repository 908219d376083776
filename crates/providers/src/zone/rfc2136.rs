//! Any name server that takes updates as RFC 2136 has them, signed as RFC 8945 has it.
//!
//! A zone is named by its domain, a record by its name in it; `@` or nothing is the zone
//! itself, and a name that ends with the zone is taken as it is. Everything goes over TCP,
//! in one connection for each call.
//!
//! An update is one message, done as a whole or not at all. It begins with conditions: that
//! the note of who keeps the name is still the one that was read, and that the name is no
//! alias, beside which a server would drop addresses without a word.

mod answer;
mod exchange;
mod message;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, net::IpAddr};

use data_encoding::BASE64;
use floe_core::nodepool::{
    cloud::{Class, Refusal},
    records::{Found, RecordSet},
};
use hickory_proto::rr::{Name, RData, Record, RecordType, TSigner, rdata::tsig::TsigAlgorithm};

use crate::{
    cloud::query::{self, Environment},
    floating::Reply,
    http::Secret,
    names::{Dns, OWNER_PREFIX},
};
use exchange::Connection;

/// How far the clocks of both sides may be apart, in seconds.
const FUDGE: u16 = 300;

/// A primary name server.
#[derive(Clone)]
pub struct Rfc2136 {
    server: String,
    signer: TSigner,
}

impl fmt::Debug for Rfc2136 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rfc2136")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// A key that the server knows too.
#[derive(Clone, Debug)]
pub struct Key {
    /// The name under which the server knows it.
    pub name: String,
    /// The key, in base 64.
    pub secret: Secret,
    /// `hmac-sha256`, `hmac-sha384` or `hmac-sha512`.
    pub algorithm: String,
}

/// The client of the server that the environment names: `RFC2136_SERVER` as `host:port`,
/// `RFC2136_TSIG_NAME`, `RFC2136_TSIG_SECRET` or `RFC2136_TSIG_SECRET_FILE`, and
/// `RFC2136_TSIG_ALGORITHM`.
///
/// # Errors
/// When what is set cannot be used, in words for whoever set it.
pub fn from_environment(environment: Environment<'_>) -> Result<Option<Rfc2136>, String> {
    let Some(server) = query::option(environment, "RFC2136_SERVER") else {
        return Ok(None);
    };
    let name = query::option(environment, "RFC2136_TSIG_NAME");
    let secret = query::secret(environment, "RFC2136_TSIG_SECRET")?;
    let algorithm = query::option(environment, "RFC2136_TSIG_ALGORITHM");
    let key = Key {
        name: name.ok_or("RFC2136_TSIG_NAME: missing beside RFC2136_SERVER")?,
        secret: secret.ok_or("RFC2136_TSIG_SECRET: missing beside RFC2136_SERVER")?,
        algorithm: algorithm.unwrap_or_else(|| "hmac-sha256".to_owned()),
    };
    Rfc2136::new(&server, &key).map(Some)
}

impl Rfc2136 {
    /// A client of the server at `host:port`.
    ///
    /// # Errors
    /// When the address or the key cannot be used.
    pub fn new(server: &str, key: &Key) -> Result<Self, String> {
        let port = server.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            return Err(format!("RFC2136_SERVER: {server:?} is not host:port"));
        }
        let name = Name::from_ascii(&key.name)
            .map_err(|_| format!("RFC2136_TSIG_NAME: {:?} is no name", key.name))?;
        let bytes = BASE64
            .decode(key.secret.expose().as_bytes())
            .map_err(|_| "RFC2136_TSIG_SECRET: it is not in base 64")?;
        let algorithm = match key.algorithm.to_ascii_lowercase().trim_end_matches('.') {
            "hmac-sha256" => TsigAlgorithm::HmacSha256,
            "hmac-sha384" => TsigAlgorithm::HmacSha384,
            "hmac-sha512" => TsigAlgorithm::HmacSha512,
            other => {
                return Err(format!(
                    "RFC2136_TSIG_ALGORITHM: {other:?} is none of hmac-sha256, hmac-sha384 and \
                     hmac-sha512"
                ));
            }
        };
        let signer = TSigner::new(bytes, algorithm, name, FUDGE)
            .map_err(|_| "RFC2136_TSIG_SECRET: nothing can be signed with it")?;
        Ok(Self {
            server: server.to_owned(),
            signer,
        })
    }

    async fn connect(&self) -> Result<Connection<'_>, Refusal> {
        Connection::open(&self.server, &self.signer).await
    }

    async fn write(&self, wanted: &RecordSet) -> Result<(), Refusal> {
        let place = Place::new(&wanted.zone, &wanted.name)?;
        let mut connection = self.connect().await?;
        let kinds = message::kinds(|family| wanted.keeps(family));
        let now = Now::read(&mut connection, &place, &kinds).await?;
        now.check(&place, &wanted.owner)?;
        if now.is_alias && !wanted.addresses.is_empty() {
            let words = format!("{} is an alias of another name", place.shown());
            return Err(Refusal::new(Class::HeldElsewhere, words));
        }
        if now.says(wanted) {
            return Ok(());
        }
        let update = message::ensure(&place, &now, wanted);
        connection.update(update).await
    }

    async fn erase(&self, set: &RecordSet) -> Result<(), Refusal> {
        let place = Place::new(&set.zone, &set.name)?;
        let mut connection = self.connect().await?;
        let kinds = message::kinds(|family| set.keeps(family));
        let now = Now::read(&mut connection, &place, &kinds).await?;
        now.check(&place, &set.owner)?;
        if now.owner.is_none() {
            return if now.addresses.is_empty() {
                Ok(())
            } else {
                let shown = place.shown();
                let words = format!("{shown} has addresses, and no note says who keeps them");
                Err(Refusal::new(Class::HeldElsewhere, words))
            };
        }
        connection
            .update(message::remove(&place, &now, &kinds))
            .await
    }
}

/// Where records are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    zone: Name,
    name: Name,
    note: Name,
}

impl Place {
    fn new(zone: &str, name: &str) -> Result<Self, Refusal> {
        let full = full_name(zone, name);
        let read = |text: &str| {
            let name = Name::from_ascii(format!("{text}."));
            name.map_err(|_| Refusal::new(Class::Invalid, format!("{text:?} is no name of DNS")))
        };
        Ok(Self {
            zone: read(zone.trim_end_matches('.'))?,
            name: read(&full)?,
            note: read(&format!("{OWNER_PREFIX}.{full}"))?,
        })
    }

    fn shown(&self) -> String {
        self.name.to_ascii().trim_end_matches('.').to_owned()
    }
}

fn full_name(zone: &str, name: &str) -> String {
    let (zone, name) = (zone.trim_end_matches('.'), name.trim_end_matches('.'));
    let (lower, end) = (name.to_ascii_lowercase(), zone.to_ascii_lowercase());
    if name.is_empty() || name == "@" || lower == end {
        return zone.to_owned();
    }
    if lower.ends_with(&format!(".{end}")) {
        return name.to_owned();
    }
    format!("{name}.{zone}")
}

/// What a name says, with all that a server tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Now {
    addresses: BTreeSet<IpAddr>,
    ttls: BTreeSet<u32>,
    /// The records of the note, as they are.
    note: Vec<Record>,
    owner: Option<String>,
    is_alias: bool,
}

impl Now {
    /// What it says in records of these kinds.
    async fn read(
        connection: &mut Connection<'_>,
        place: &Place,
        kinds: &[RecordType],
    ) -> Result<Self, Refusal> {
        let mut now = Self::default();
        for kind in kinds {
            let records = connection.query(&place.name, *kind).await?;
            for record in records.iter().filter(|record| record.name == place.name) {
                now.is_alias |= record.record_type() == RecordType::CNAME;
                if let Some(ip) = record.data.ip_addr() {
                    now.addresses.insert(ip);
                    now.ttls.insert(record.ttl);
                }
            }
        }
        let records = connection.query(&place.note, RecordType::TXT).await?;
        let is_note =
            |record: &Record| record.name == place.note && record.record_type() == RecordType::TXT;
        now.note = records.into_iter().filter(is_note).collect();
        now.owner = now.note.first().map(|record| text(&record.data));
        Ok(now)
    }

    /// Refuses a name that somebody else keeps.
    fn check(&self, place: &Place, owner: &str) -> Result<(), Refusal> {
        match &self.owner {
            Some(other) if other != owner => {
                let words = format!("{} is kept by {other:?}", place.shown());
                Err(Refusal::new(Class::HeldElsewhere, words))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether nothing has to be written.
    fn says(&self, wanted: &RecordSet) -> bool {
        let noted = self.owner.is_some() || wanted.addresses.is_empty();
        noted
            && self.addresses == wanted.addresses
            && self.ttls.iter().all(|ttl| wanted.takes(*ttl))
    }
}

/// The text of a TXT record.
fn text(data: &RData) -> String {
    let RData::TXT(text) = data else {
        return String::new();
    };
    let bytes: Vec<u8> = text.txt_data.iter().flatten().copied().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Dns for Rfc2136 {
    fn read<'a>(&'a self, zone: &'a str, name: &'a str) -> Reply<'a, Found> {
        Box::pin(async move {
            let place = Place::new(zone, name)?;
            let kinds = message::kinds(|_| true);
            let now = Now::read(&mut self.connect().await?, &place, &kinds).await?;
            Ok(Found {
                addresses: now.addresses,
                owner: now.owner,
            })
        })
    }

    fn ensure<'a>(&'a self, wanted: &'a RecordSet) -> Reply<'a, ()> {
        Box::pin(self.write(wanted))
    }

    fn remove<'a>(&'a self, set: &'a RecordSet) -> Reply<'a, ()> {
        Box::pin(self.erase(set))
    }

    fn full_name(&self, zone: &str, name: &str) -> String {
        full_name(zone, name)
    }
}
