//! What all decisions of one round look at.

use std::collections::BTreeMap;

use super::{
    entry::Entry,
    view::{PodView, View},
};
use crate::vip::{
    Candidate, Mode, Timing,
    elect::{Health, Load},
};

#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub me: &'a str,
    pub timing: Timing,
    /// The running term.
    pub term: Option<i64>,
    pub pods: &'a BTreeMap<String, PodView>,
    pub load: Load,
    /// Whether the agent is about to end.
    pub stopping: bool,
}

impl Scene<'_> {
    /// How a pod of this node is. The node itself is well if anybody asks here: how fit it
    /// is otherwise is the matter of those who name it.
    pub fn health(&self, candidate: &Candidate) -> Health {
        if candidate.mode == Mode::Node {
            return Health::Fit;
        }
        let pod = self.pods.get(&candidate.uid);
        let health = pod.map_or(Health::Gone, |pod| pod.health);
        if matches!(health, Health::Unclaimed | Health::CannotServe) {
            return Health::Fit;
        }
        health
    }

    /// Whether this node could serve for the candidate now.
    pub fn is_fit_here(&self, entry: &Entry, candidate: &Candidate) -> bool {
        candidate.node == self.me
            && candidate.is_electable()
            && !self.stopping
            && entry.unable.is_none()
            && entry.unheard.is_none()
            && self.health(candidate) == Health::Fit
    }

    /// Whether the candidate could serve, for all that is known here: of other nodes' pods
    /// only that they are candidates.
    pub fn may_be_fit(&self, entry: &Entry, candidate: &Candidate) -> bool {
        let is_elsewhere = candidate.node != self.me && candidate.is_electable();
        is_elsewhere || self.is_fit_here(entry, candidate)
    }

    /// Whether one of this node's pods could have the addresses.
    pub fn can_have(&self, entry: &Entry) -> bool {
        is_to_be_held(&entry.view)
            && entry
                .view
                .candidates
                .iter()
                .any(|it| self.is_fit_here(entry, it))
    }

    /// The candidate with the pod's addresses as they are known here.
    pub fn fresh(&self, candidate: &Candidate) -> Candidate {
        let mut fresh = candidate.clone();
        if let Some(pod) = self.pods.get(&candidate.uid)
            && !pod.addresses.is_empty()
        {
            fresh.addresses.clone_from(&pod.addresses);
        }
        fresh
    }
}

/// Whether anybody should have the addresses.
pub(super) fn is_to_be_held(view: &View) -> bool {
    !view.deleting && !view.addresses.is_empty()
}
