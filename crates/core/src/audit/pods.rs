//! What is found at pods.

use super::{Finding, Life, Sight};
use crate::addr::canonical;

impl Sight<'_> {
    /// Addresses that agents miss in pods. A report may be a minute old, so it counts only as
    /// long as the record still gives the address to the pod.
    pub(super) fn missing(&self, findings: &mut Vec<Finding>) {
        for missing in self.world.missing.unwrap_or_default() {
            let (namespace, name) = &missing.pod;
            let record = self.ledger.record(missing.ip);
            let is_held = record.is_some_and(|it| it.key.names_pod(namespace, name));
            let pod = self.pods.get(&(namespace.as_str(), name.as_str()));
            let runs = pod.is_some_and(|pod| {
                pod.life != Life::Finished && pod.node.as_ref() == Some(&missing.node)
            });
            if is_held && runs {
                findings.push(Finding::AddressMissing {
                    ip: missing.ip,
                    pod: missing.pod.clone(),
                    node: missing.node.clone(),
                });
            }
        }
    }

    pub(super) fn pods(&self, findings: &mut Vec<Finding>) {
        for (name, pod) in &self.pods {
            let own = (name.0.to_owned(), name.1.to_owned());
            if pod.life == Life::Finished {
                continue;
            }
            let Some(claimed) = &pod.claimed else {
                let shown = pod.shown.iter().map(|ip| canonical(*ip));
                let mut configured = shown.filter(|ip| !self.ledger.is_outside(*ip));
                findings.push(Finding::UnreadableAnnotation {
                    pod: own,
                    unrecorded: configured.any(|ip| {
                        let record = self.ledger.record(ip);
                        !record.is_some_and(|it| it.key.names_pod(name.0, name.1))
                    }),
                });
                continue;
            };
            for ip in claimed {
                let ip = &canonical(*ip);
                let claimants = self.claims.get(ip);
                let record = self.ledger.record(*ip);
                if let Some(all) = claimants.filter(|all| all.len() > 1) {
                    // With a record, that was told there.
                    if record.is_none() && all.first() == Some(name) {
                        findings.extend(self.claimed_twice(*ip));
                    }
                    continue;
                }
                match record {
                    // Before it is bound, the annotation can be anything.
                    None if pod.node.is_none() => {}
                    None => findings.push(Finding::RecordMissing {
                        ip: *ip,
                        pod: own.clone(),
                    }),
                    Some(record) if record.key.names_pod(name.0, name.1) => {}
                    Some(record) => findings.push(Finding::AddressConflict {
                        ip: *ip,
                        pod: own.clone(),
                        holder: record.key.clone(),
                        node: record.node.clone(),
                    }),
                }
            }
        }
    }
}
