//! What outlives the controller, as members of a pool's status.
//!
//! A text in it that makes no sense is left out: somebody has edited the status, and an
//! address whose order is not known is looked up at the cloud.

use std::{collections::BTreeMap, net::IpAddr};

use floe_core::nodepool::{cloud::Mark, pool};
use jiff::Timestamp;
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps,
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde::{Deserialize, Serialize};

use super::address;
use crate::crds::schema;

/// A purchase that is written down before it is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Purchase {
    /// The uid of the cluster.
    pub cluster: String,
    /// The uid of the pool.
    pub pool: String,
    /// Which purchase of the pool.
    pub id: String,
    /// Since when it is intended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The addresses of the account before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
}

/// An order that is under way at the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pending {
    /// Where the address shall be; empty for nowhere.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// The cloud's name of the order.
    pub handle: String,
}

/// The last move of an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// When it was done.
    pub at: Time,
    /// From where; empty for nowhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// To which node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// Why, in one CamelCase word.
    #[serde(default)]
    pub reason: String,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// What was about to be bought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purchase: Option<Purchase>,
    /// Orders under way, by address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pending: BTreeMap<String, Pending>,
    /// The last move of each address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub moves: BTreeMap<String, Move>,
    /// Since when a server that has an address does not fit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unfit_since: BTreeMap<String, Time>,
}

impl Memory {
    /// As the machine of a pool has it.
    pub fn to_core(&self) -> pool::Memory {
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        pool::Memory {
            purchase: self.purchase.as_ref().map(|it| pool::Purchase {
                mark: Mark {
                    cluster: it.cluster.clone(),
                    pool: it.pool.clone(),
                    purchase: it.id.clone(),
                },
                since: it.since.as_ref().map_or(Timestamp::UNIX_EPOCH, |it| it.0),
                before: it
                    .before
                    .iter()
                    .filter_map(|it| address::parse(it))
                    .collect(),
            }),
            pending: by_address(&self.pending, |it| pool::Pending {
                server: some(&it.provider_id),
                handle: it.handle.clone(),
            }),
            moves: by_address(&self.moves, |it| pool::Move {
                at: it.at.0,
                from: it.from.clone(),
                to: it.to.clone(),
                reason: it.reason.clone(),
            }),
            unfit_since: self
                .unfit_since
                .iter()
                .map(|(server, since)| (server.clone(), since.0))
                .collect(),
        }
    }
}

impl From<&pool::Memory> for Memory {
    fn from(memory: &pool::Memory) -> Self {
        Self {
            purchase: memory.purchase.as_ref().map(|it| Purchase {
                cluster: it.mark.cluster.clone(),
                pool: it.mark.pool.clone(),
                id: it.mark.purchase.clone(),
                since: Some(Time(it.since)),
                before: it.before.iter().map(ToString::to_string).collect(),
            }),
            pending: by_text(&memory.pending, |it| Pending {
                provider_id: it.server.clone().unwrap_or_default(),
                handle: it.handle.clone(),
            }),
            moves: by_text(&memory.moves, |it| Move {
                at: Time(it.at),
                from: it.from.clone(),
                to: it.to.clone(),
                reason: it.reason.clone(),
            }),
            unfit_since: memory
                .unfit_since
                .iter()
                .map(|(server, since)| (server.clone(), Time(*since)))
                .collect(),
        }
    }
}

fn by_address<T, U>(all: &BTreeMap<String, T>, make: impl Fn(&T) -> U) -> BTreeMap<IpAddr, U> {
    let known = all.iter().filter_map(|(text, it)| {
        let ip = address::parse(text)?;
        Some((ip, make(it)))
    });
    known.collect()
}

fn by_text<T, U>(all: &BTreeMap<IpAddr, T>, make: impl Fn(&T) -> U) -> BTreeMap<String, U> {
    all.iter()
        .map(|(ip, it)| (ip.to_string(), make(it)))
        .collect()
}

/// The members of the status.
pub(super) fn properties() -> [(&'static str, JSONSchemaProps); 4] {
    let purchase = schema::object(
        "What is about to be bought, written before it is.",
        [
            ("cluster", schema::text("The uid of the cluster.")),
            ("pool", schema::text("The uid of the pool.")),
            ("id", schema::text("Which purchase of the pool.")),
            ("since", schema::date("Since when it is intended.")),
            (
                "before",
                schema::list(
                    "The addresses of the account before it.",
                    schema::text("An address."),
                ),
            ),
        ],
        &[],
    );
    let pending = schema::object(
        "An order under way.",
        [
            (
                "providerID",
                schema::text("Where the address shall be; empty for nowhere."),
            ),
            ("handle", schema::text("The cloud's name of the order.")),
        ],
        &[],
    );
    let moved = schema::object(
        "A move.",
        [
            ("at", schema::date("When it was done.")),
            ("from", schema::text("From where.")),
            ("to", schema::text("To which node.")),
            ("reason", schema::text("Why, in one CamelCase word.")),
        ],
        &["at"],
    );
    [
        ("purchase", purchase),
        (
            "pending",
            schema::map("Orders under way at the cloud, by address.", pending),
        ),
        (
            "moves",
            schema::map("The last move of each address.", moved),
        ),
        (
            "unfitSince",
            schema::map(
                "Since when a server that has an address does not fit.",
                schema::date("A time."),
            ),
        ),
    ]
}
