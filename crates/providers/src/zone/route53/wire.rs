//! What Route 53 says and is told.

use std::{collections::BTreeSet, fmt::Write as _, net::IpAddr};

use quick_xml::escape::escape;
use serde::Deserialize;

/// A page of a zone's sets.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Page {
    #[serde(rename = "ResourceRecordSets")]
    pub(super) sets: Sets,
    #[serde(default)]
    pub(super) is_truncated: bool,
    #[serde(rename = "NextRecordName", default)]
    pub(super) next_name: String,
    #[serde(rename = "NextRecordType", default)]
    pub(super) next_kind: String,
    #[serde(rename = "NextRecordIdentifier", default)]
    pub(super) next_identifier: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Sets {
    #[serde(rename = "ResourceRecordSet", default)]
    pub(super) all: Vec<Set>,
}

/// The records of one name and type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Set {
    pub(super) name: String,
    #[serde(rename = "Type")]
    pub(super) kind: String,
    #[serde(rename = "TTL")]
    pub(super) ttl: u32,
    #[serde(rename = "ResourceRecords")]
    records: Records,
    #[serde(rename = "SetIdentifier")]
    one_of_several: Option<String>,
    alias_target: Option<Alias>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Records {
    #[serde(rename = "ResourceRecord")]
    all: Vec<Record>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Record {
    #[serde(rename = "Value")]
    value: String,
}

/// That there is one is all that matters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Alias {}

impl Set {
    pub(super) fn new(
        name: &str,
        kind: &str,
        ttl: u32,
        values: impl IntoIterator<Item = String>,
    ) -> Self {
        let records = values.into_iter().map(|value| Record { value });
        Self {
            name: format!("{name}."),
            kind: kind.to_owned(),
            ttl,
            records: Records {
                all: records.collect(),
            },
            one_of_several: None,
            alias_target: None,
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.records.all.iter().map(|record| record.value.as_str())
    }

    /// Its answers depend on who asks, or it has none of its own.
    pub(super) fn is_special(&self) -> bool {
        self.one_of_several.is_some() || self.alias_target.is_some()
    }

    /// Whether it says exactly this.
    pub(super) fn says(&self, addresses: &BTreeSet<IpAddr>) -> bool {
        let values: Option<BTreeSet<IpAddr>> =
            self.values().map(|value| value.parse().ok()).collect();
        values.as_ref() == Some(addresses)
    }
}

/// What is done to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It must not be there yet.
    Create,
    /// It must be there, exactly so.
    Delete,
    /// Whatever is there is replaced.
    Upsert,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Delete => "DELETE",
            Self::Upsert => "UPSERT",
        }
    }
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) action: Action,
    pub(super) set: Set,
}

impl Change {
    pub(super) fn new(action: Action, set: Set) -> Self {
        Self { action, set }
    }
}

/// The answer to a batch.
#[derive(Debug, Deserialize)]
pub(super) struct Changed {
    #[serde(rename = "ChangeInfo")]
    _info: Info,
}

#[derive(Debug, Deserialize)]
struct Info {
    #[serde(rename = "Id")]
    _id: String,
}

/// A batch, as it is sent.
pub(super) fn batch(version: &str, changes: &[Change]) -> String {
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/{version}/\">\
         <ChangeBatch><Comment>floe</Comment><Changes>"
    );
    for Change { action, set } in changes {
        let (action, name, kind) = (action.word(), escape(&set.name), escape(&set.kind));
        // A string takes everything.
        let mut write = |text: &dyn std::fmt::Display| {
            let _ = write!(xml, "{text}");
        };
        write(&format_args!(
            "<Change><Action>{action}</Action><ResourceRecordSet><Name>{name}</Name>\
             <Type>{kind}</Type><TTL>{}</TTL><ResourceRecords>",
            set.ttl
        ));
        for value in set.values() {
            let value = escape(value);
            write(&format_args!(
                "<ResourceRecord><Value>{value}</Value></ResourceRecord>"
            ));
        }
        write(&"</ResourceRecords></ResourceRecordSet></Change>");
    }
    xml.push_str("</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>");
    xml
}
