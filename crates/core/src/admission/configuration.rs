//! The `ConfigMap` with the address configuration: whether its text can be used, and whom
//! a change would hurt.
//!
//! Addresses that are taken out are taken from nobody, but whoever runs with one gets
//! another at his next start. That is seldom meant, so it has to be said twice: a change
//! that hurts is refused with the list of the hurt, and taken when the annotation
//! [`ACCEPT`] has the mark of exactly this text.

use serde_json::Value;

use super::{Finding, Verdict, Write, resource::holder};
use crate::{
    config::{AddressConfig, Change, Mode},
    fingerprint::fingerprint,
    ipam::ledger::{Ledger, Record},
};

/// The annotation by which somebody says that a change shall hurt.
pub const ACCEPT: &str = "floe.dev/accept-harm";

/// The most holders that are named in one text.
const MOST: usize = 20;

/// The same in a warning, of which clients see 256 characters.
const MOST_WARNED: usize = 4;

/// A text that can be used, to be compared with what is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Where the text is.
    place: String,
    config: AddressConfig,
    /// What [`ACCEPT`] has to say.
    mark: String,
    accepted: bool,
}

/// Reads what somebody writes under a key of the data. Where that can be judged by itself,
/// the verdict is the error.
pub fn read(key: &str, write: Write<'_>) -> Result<Draft, Verdict> {
    let warning = |reason, told: &str| {
        Err(Verdict {
            warnings: vec![Finding::at("", reason, told)],
            ..Verdict::default()
        })
    };
    let Some(object) = write.wanted() else {
        let told = "the configuration stays in force until floe starts anew, and then there is \
                    none: no pod gets an address";
        return warning("ConfigMapMissing", told);
    };
    let Some(written) = content(key, object) else {
        let told = "the key is not there: the configuration before stays in force until \
                    floe starts anew";
        return warning("ConfigurationKeyMissing", told);
    };
    let before = match write {
        Write::Update { old, .. } => content(key, old),
        Write::Create(_) | Write::Delete(_) => None,
    };
    match AddressConfig::parse(written, Mode::Strict) {
        Ok(_) if before == Some(written) => Err(Verdict::default()),
        Ok(loaded) => {
            let mark = mark(written);
            let accepts = object
                .pointer("/metadata/annotations")
                .and_then(|it| it.get(ACCEPT)?.as_str());
            Ok(Draft {
                place: format!("data.{key}"),
                config: loaded.config,
                accepted: accepts == Some(&mark),
                mark,
            })
        }
        Err(refused) => {
            let place = format!("data.{key}");
            let all = refused.problems.iter();
            let all = all
                .map(|it| Finding::at(&*place, it.reason(), it))
                .collect();
            let mut verdict = Verdict {
                refusals: all,
                ..Verdict::default()
            };
            // What only floe minds may wait in an old text until somebody changes it.
            if before == Some(written) {
                std::mem::swap(&mut verdict.refusals, &mut verdict.warnings);
            }
            Err(verdict)
        }
    }
}

impl Draft {
    /// Judges the change from what is in force.
    pub fn judge(&self, ledger: &Ledger) -> Verdict {
        let change = Change::between(ledger.topology().config(), &self.config);
        let mut verdict = Verdict::default();
        let (mut losing, mut altered, mut kept) = (Vec::new(), Vec::new(), 0_usize);
        let taken = |record: &Record| {
            if record.key.is_vip() {
                return change.shared_removed.contains(record.ip);
            }
            change.removed.contains(record.ip)
        };
        for record in ledger.records() {
            let in_use = record.key.is_vip() || !record.is_idle();
            if taken(record) && in_use {
                losing.push(record);
            } else if taken(record) {
                kept += 1;
            } else if in_use && change.altered.contains(record.ip) {
                altered.push(record);
            }
        }
        let place = &*self.place;
        if self.config.addresses().is_empty() && !change.removed.is_empty() {
            let told = "no address is left: no pod gets one until some are configured again";
            verdict.warn(Finding::at(place, "ConfigurationEmpty", told));
        }
        if !losing.is_empty() {
            let told = |most| {
                format!(
                    "addresses are taken out that are in use, and whoever has one loses it at the \
                     next start: {}",
                    listed(&losing, most)
                )
            };
            if self.accepted {
                let told = told(MOST_WARNED);
                verdict.warn(Finding::at(place, "ConfigurationHarms", told));
            } else {
                let told = format!(
                    "{}. If this is meant, annotate the ConfigMap with {ACCEPT}={} and write it again",
                    told(MOST),
                    self.mark
                );
                verdict.refuse(Finding::at(place, "ConfigurationHarms", told));
            }
        }
        if !altered.is_empty() {
            let told = format!(
                "gateway, mask, VLAN or node subnets change for pods that run; they go on as they \
                 were started: {}",
                listed(&altered, MOST_WARNED)
            );
            verdict.warn(Finding::at(place, "NetworkAltered", told));
        }
        if kept > 0 {
            let told = format!("{kept} kept addresses and spares are in no entry any more");
            verdict.warn(Finding::at(place, "OutsideConfiguration", told));
        }
        verdict
    }
}

fn content<'a>(key: &str, object: &'a Value) -> Option<&'a str> {
    object.pointer("/data")?.get(key)?.as_str()
}

/// What stands for a text. Short enough to be typed.
fn mark(written: &str) -> String {
    format!("{:08x}", fingerprint(written.as_bytes()) >> 32)
}

fn listed(records: &[&Record], most: usize) -> String {
    let named = records.iter().take(most);
    let named: Vec<String> = named
        .map(|record| format!("{} of {}", record.ip, holder(&record.key)))
        .collect();
    let more = match records.len().saturating_sub(most) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests;
