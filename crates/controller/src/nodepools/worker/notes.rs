//! What nodes say about the addresses that they were given.

use std::collections::BTreeMap;

use floe_core::nodepool::pool::{Server, Unfit};

use super::super::{facts::Notes, sight::Judged};

/// What annotations of nodes say about addresses of pools.
#[derive(Default)]
pub(super) struct Noted {
    /// Of those nodes that have any, by server, with the name of the node.
    pub present: BTreeMap<Server, (String, Notes)>,
    /// What has changed since it was told, also to nothing, by the name of the node.
    pub news: BTreeMap<String, Notes>,
}

impl Noted {
    /// All nodes say this.
    pub fn all(&mut self, judged: &BTreeMap<Server, Judged>) {
        self.present.retain(|server, _| judged.contains_key(server));
        for (server, it) in judged {
            self.put(server, Some(it));
        }
    }

    /// This node says this, or is gone.
    pub fn put(&mut self, server: &Server, judged: Option<&Judged>) {
        let old = self.present.remove(server);
        let Some(Judged { node, seen }) = judged else {
            return;
        };
        // A node that has lost the label is no longer watched: what it says may be old.
        if seen.unfit == Some(Unfit::Unlabelled) {
            return;
        }
        let (name, notes) = (&seen.name, &node.notes);
        let nothing = Notes::default();
        let old = old.filter(|(of, _)| of == name);
        if old.map_or(*notes != nothing, |(_, old)| old != *notes) {
            self.news.insert(name.clone(), notes.clone());
        }
        if *notes != nothing {
            let told = (name.clone(), notes.clone());
            self.present.insert(server.clone(), told);
        }
    }
}
