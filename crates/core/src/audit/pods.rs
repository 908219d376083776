//! What is found at pods.

use super::{Finding, Life, Sight};
use crate::addr::canonical;

impl Sight<'_> {
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
