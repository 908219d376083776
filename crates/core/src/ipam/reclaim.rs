//! What becomes of the records that a pod or a workload has left: [`slot`] for
//! all of them at once, with the groups counted.
//!
//! How many addresses each pod of a group asks for is told from the records: it
//! is the most that one pod holds of the family now. Pods may differ while a
//! workload changes, and too high a number only keeps spares for longer. While no
//! pod of the group holds anything nobody can tell, and nothing is too much,
//! unless nothing is wanted at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU32,
};

use super::{
    families::Family,
    key::HolderKey,
    ledger::{Ledger, Record},
    owner::App,
    policy::ReleasePolicy,
    slot::{self, Cause, Departure, Fate, Group, Slot, Spare, Verdict},
    workload::Workload,
};

/// A record whose pod is gone.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// The record.
    pub record: &'a Record,
    /// How the pod went.
    pub departure: Departure,
    /// The workload of the pod.
    pub workload: &'a Workload,
}

/// What to do with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The record as it was judged.
    pub record: Record,
    /// What becomes of it, and why.
    pub verdict: Verdict,
    /// What to write.
    pub step: Step,
}

/// What to write to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it says already what it has to say.
    Leave,
    /// Delete it.
    Free,
    /// Store this key, and that nobody runs with the address.
    Rest(HolderKey),
}

/// Addresses that wait for a workload which does not need them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Spares to free.
    pub spares: Vec<(Record, Cause)>,
    /// The names of pods whose kept addresses are not needed, if there are no such
    /// pods.
    pub pods: BTreeSet<String>,
}

impl Leftovers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spares.is_empty() && self.pods.is_empty()
    }
}

/// Whether what becomes of a record depends on what its workload wants.
pub fn asks_the_workload(ledger: &Ledger, record: &Record) -> bool {
    let pooled = record.key.parts().is_some_and(|parts| parts.pool.is_some());
    record.policy == ReleasePolicy::Immutable && !pooled && !goes_with_its_pod(ledger, record)
}

/// Whether an address is free as soon as its pod goes, because it was taken out of
/// the configuration. What waits without a pod stays as its policy says: a mistake
/// in the configuration that is mended soon must not cost anybody an address.
fn goes_with_its_pod(ledger: &Ledger, record: &Record) -> bool {
    !record.is_idle() && ledger.is_taken_out(record.ip)
}

/// Decides about records that one pod has left. Reserved ones, and those whose
/// keys name no pod, are not among the result.
///
/// # Assumptions
/// Nobody else decides about the same group until the result is written.
pub fn settle(ledger: &Ledger, left: &[Left<'_>]) -> Vec<Settlement> {
    let mut groups: BTreeMap<(HolderKey, Family), Group> = BTreeMap::new();
    let mut result = Vec::new();
    for &Left {
        record,
        departure,
        workload,
    } in left
    {
        let Some(parts) = record.key.parts() else {
            continue;
        };
        let Some(key) = record.key.group_key() else {
            continue;
        };
        if record.reserved || parts.pod.is_empty() {
            continue;
        }
        let verdict = if goes_with_its_pod(ledger, record) {
            Verdict {
                departure,
                fate: Fate::Free,
                cause: Cause::OutsideConfiguration,
            }
        } else {
            let mut uncounted = UNCOUNTED;
            let counts = workload.app.kind.shares_spares() && asks_the_workload(ledger, record);
            let group = if counts {
                let family = family(record.ip);
                groups
                    .entry((key.clone(), family))
                    .or_insert_with(|| standing(ledger, &key, family))
            } else {
                &mut uncounted
            };
            let verdict = slot::judge(&Slot {
                departure,
                policy: record.policy,
                pooled: parts.pool.is_some(),
                workload,
                pod: parts.pod,
                group: *group,
            });
            if verdict.fate == Fate::Free {
                group.records = group.records.saturating_sub(1);
            }
            verdict
        };
        let step = match verdict.fate {
            Fate::Free => Step::Free,
            Fate::Keep if record.is_idle() => Step::Leave,
            Fate::Keep => Step::Rest(record.key.clone()),
            Fate::Spare => Step::Rest(key),
        };
        result.push(Settlement {
            record: record.clone(),
            verdict,
            step,
        });
    }
    result
}

/// What waits for a workload and is not needed: spares above what it wants, and
/// kept addresses of pods that it will not make again. Spares that are promised
/// to a pod are left to it.
pub fn leftovers(ledger: &Ledger, workload: &Workload) -> Leftovers {
    let mut result = Leftovers::default();
    let app = &workload.app;
    let Ok(key) = app.holder(None, "").key() else {
        return result;
    };
    let passes_on = app.kind.shares_spares();
    let mut spares: BTreeMap<(Family, bool), Vec<Spare>> = BTreeMap::new();
    let idle = ledger
        .under(&key)
        .filter(|record| record.is_idle() && !record.reserved && is_of(record, app));
    for record in idle {
        let pod = record.key.parts().map_or("", |parts| parts.pod);
        if !pod.is_empty() {
            let left = Left {
                record,
                departure: Departure::Missing,
                workload,
            };
            if record.policy == ReleasePolicy::Immutable {
                let settled = settle(ledger, &[left]);
                if settled.iter().any(|it| it.step != Step::Leave) {
                    result.pods.insert(pod.to_owned());
                }
            }
        } else if passes_on && ledger.promised_to(record.ip).is_none() {
            let kin = (family(record.ip), ledger.is_taken_out(record.ip));
            spares.entry(kin).or_default().push(Spare {
                ip: record.ip,
                policy: record.policy,
                updated: record.updated,
            });
        }
    }
    for ((family, outside), spares) in spares {
        let group = if outside {
            // Nobody can get them, so only a workload that wants nothing ends them.
            Group {
                records: spares.len(),
                per_pod: NonZeroU32::MAX,
            }
        } else {
            standing(ledger, &key, family)
        };
        for (ip, cause) in slot::surplus(workload, false, group, &spares) {
            let record = ledger.record(ip);
            result.spares.extend(record.cloned().map(|it| (it, cause)));
        }
    }
    result
}

/// How many addresses of a family a group has, and how many each pod asks for.
/// Reserved ones and those outside of the configuration do not count: no pod of
/// the group can get them.
pub fn standing(ledger: &Ledger, group: &HolderKey, family: Family) -> Group {
    let mut records = 0;
    let mut someone_holds = false;
    let mut per_key: BTreeMap<&HolderKey, u32> = BTreeMap::new();
    for record in ledger.under(group) {
        let holds = record.key != *group;
        someone_holds |= holds;
        if self::family(record.ip) != family || record.reserved || ledger.is_taken_out(record.ip) {
            continue;
        }
        records += 1;
        if holds {
            *per_key.entry(&record.key).or_default() += 1;
        }
    }
    let most = per_key.values().copied().max().and_then(NonZeroU32::new);
    let per_pod = if someone_holds {
        most.unwrap_or(NonZeroU32::MIN)
    } else {
        NonZeroU32::MAX
    };
    Group { records, per_pod }
}

/// For those whose group is not looked at.
const UNCOUNTED: Group = Group {
    records: 0,
    per_pod: NonZeroU32::MIN,
};

/// Whether a record under the key of an app is of that app, and not of another
/// kind that has the same name. Without a note nobody can tell, and it is.
fn is_of(record: &Record, app: &App) -> bool {
    record.workload_note.is_none()
        || record
            .key
            .parts()
            .and_then(|parts| App::of_key(&parts, record.workload_note.as_deref()))
            .is_none_or(|noted| noted == *app)
}

fn family(ip: IpAddr) -> Family {
    if ip.is_ipv4() { Family::V4 } else { Family::V6 }
}

#[cfg(test)]
mod tests;
