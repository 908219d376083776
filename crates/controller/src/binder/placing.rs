//! Enters where a pod runs that a scheduler has bound, and tells the cloud.
//!
//! A pod that was let through its gate has records without a node. The node is entered
//! first: who gives the address back later has to know from where. Then the cloud brings
//! the address there, and only then the record says that the pod may set it up.

use floe_core::ipam::{attribute::Attribute, ledger::Record};

use super::{BindError, Binder};
use crate::{
    cluster::Pod,
    records::{Gift, Holding},
    store::Books,
};

impl Binder {
    /// Whether a bound pod has records that do not say where it runs, or whose address
    /// the cloud has not brought there.
    pub fn is_unplaced(&self, pod: &Pod) -> bool {
        self.store.read(|books| !unplaced(books, pod).is_empty())
    }

    /// Makes the records of a bound pod say where it runs. Whoever calls has the turn of
    /// its name.
    pub async fn place(&self, pod: &Pod) -> Result<(), BindError> {
        let Some(node) = &pod.node else {
            return Ok(());
        };
        for (record, assigning) in self.store.read(|books| unplaced(books, pod)) {
            let ip = record.ip;
            let placed = if record.node == *node {
                Some(record)
            } else {
                self.enter_node(&record, node).await?
            };
            let Some(placed) = placed.filter(|_| self.cloud.is_there() || assigning) else {
                continue;
            };
            let assigned = self.cloud.assign(node, ip).await;
            assigned.map_err(|why| BindError::Cloud {
                ip,
                node: node.clone(),
                why,
            })?;
            if assigning {
                self.records.assigned(&placed).await?;
            }
        }
        Ok(())
    }

    async fn enter_node(&self, record: &Record, node: &str) -> Result<Option<Record>, BindError> {
        if !record.node.is_empty() {
            // A node that is gone is no reason to leave the record wrong.
            let _ = self.cloud.unassign(&record.node, record.ip).await;
        }
        let holding = Holding {
            key: record.key.clone(),
            place: Attribute {
                node_name: node.to_owned(),
                uid: record.uid.clone(),
            },
            policy: record.policy,
            note: record.workload_note.clone(),
        };
        let ip = record.ip;
        let then = |books: &mut Books| books.ledger().record(ip).cloned();
        let written = self
            .records
            .give(Gift::Held(record), &holding, None, then)
            .await?;
        Ok(written.filter(|written| holding.is_of(written)))
    }
}

/// The records of a pod that lack something, and whether the cloud is waited for.
fn unplaced(books: &Books, pod: &Pod) -> Vec<(Record, bool)> {
    let Some(node) = &pod.node else {
        return Vec::new();
    };
    let records = books.of_pod(&pod.namespace, &pod.name);
    records
        .filter(|record| record.uid == pod.uid && !record.reserved)
        .map(|record| (record.clone(), books.is_assigning(record.ip)))
        .filter(|(record, assigning)| *assigning || record.node != *node)
        .collect()
}
