//! What is found at one record.

use std::net::IpAddr;

use super::{Content, Finding, Label, Life, Pod, Sight, StoredRecord};
use crate::{
    addr::name,
    ipam::{ledger::Record, policy::ReleasePolicy, state::State},
};

impl Sight<'_> {
    pub(super) fn record(&self, stored: &StoredRecord, findings: &mut Vec<Finding>) {
        let ip = match name::parse(&stored.name) {
            Ok(ip) => ip,
            Err(error) => return findings.push(Finding::StrangeName(error)),
        };
        let (Some(content), Some(record)) = (&stored.content, stored.entered()) else {
            return findings.push(Finding::UnreadableRecord { ip });
        };
        if content.place().malformed {
            findings.push(Finding::MalformedAttribute {
                ip,
                attribute: content.attribute.clone(),
            });
        } else {
            findings.extend(self.holder(&record));
            findings.extend(self.labels(&record, content));
        }
        findings.extend(self.claimed_twice(ip));
    }

    /// Whether the holder is who it should be. At most one thing is told: what is
    /// wrong with a key makes the rest meaningless.
    fn holder(&self, record: &Record) -> Option<Finding> {
        let (ip, key) = (record.ip, record.key.clone());
        if record.key.is_vip() {
            return self.vip_of(record);
        }
        let Some(parts) = record.key.parts() else {
            return (!record.reserved).then_some(Finding::ForeignKey { ip, key });
        };
        if parts.pod.is_empty() {
            return None;
        }
        let pod = self.pods.get(&(parts.namespace, parts.pod)).copied();
        if record.reserved {
            let runs = |pod: &Pod| pod.life == Life::Running && pod.node.is_some();
            return pod
                .is_some_and(runs)
                .then_some(Finding::ReservedInUse { ip, key });
        }
        let releases = record.policy == ReleasePolicy::OnDelete;
        match pod.filter(|pod| pod.life != Life::Finished) {
            None if releases => {
                let claimed = self.claims.contains_key(&ip) || self.shown.contains(&ip);
                Some(Finding::PodGone { ip, key, claimed })
            }
            // One that has finished still names itself, until the controller has looked.
            None if pod.is_none() && !record.is_idle() => Some(Finding::StaleBinding {
                ip,
                key,
                node: record.node.clone(),
                uid: record.uid.clone(),
            }),
            Some(pod) if !record.uid.is_empty() && record.uid != pod.uid => {
                Some(Finding::OtherUid {
                    ip,
                    key,
                    stored: record.uid.clone(),
                    uid: pod.uid.clone(),
                })
            }
            _ => None,
        }
    }

    fn labels(&self, record: &Record, content: &Content) -> Option<Finding> {
        let marks = &content.marks;
        let is_outside = self.ledger.is_taken_out_for(&record.key, record.ip);
        let differs = |note: &Option<String>, truth: &str| {
            // Records of galaxy have no annotations, which is fine.
            note.as_ref().is_some_and(|note| note != truth)
        };
        let node_label = (self.world.node_label)(&record.node);
        let checks = [
            (
                Label::Outside,
                marks.outside && !is_outside && self.is_configured(),
            ),
            (Label::Node, marks.node != node_label),
            (Label::NodeNote, differs(&marks.node_note, &record.node)),
            (
                Label::State,
                differs(&marks.state, State::of(record).text()),
            ),
        ];
        let wrong = checks.into_iter().filter(|(_, wrong)| *wrong);
        let wrong: Vec<Label> = wrong.map(|(label, _)| label).collect();
        if is_outside {
            return Some(Finding::OutsideConfiguration {
                ip: record.ip,
                key: record.key.clone(),
                labelled: marks.outside && wrong.is_empty(),
            });
        }
        (!wrong.is_empty()).then_some(Finding::LabelsNotTrue(wrong, record.ip))
    }

    /// Told once for each address: at its record, or else at one of the pods.
    pub(super) fn claimed_twice(&self, ip: IpAddr) -> Option<Finding> {
        let pods = self.claims.get(&ip).filter(|pods| pods.len() > 1)?;
        let owned = pods.iter().map(|(namespace, name)| {
            let (namespace, name): (&str, &str) = (namespace, name);
            (namespace.to_owned(), name.to_owned())
        });
        Some(Finding::ClaimedTwice {
            ip,
            pods: owned.collect(),
        })
    }
}
