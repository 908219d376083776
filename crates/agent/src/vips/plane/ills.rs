//! What is wrong often enough to be told.

use std::collections::BTreeMap;

use floe_core::vip::{VipId, keeper::Role};

use super::{AGAIN, Findings, LOOK, is_ours};
use crate::vips::plan::{Finding, Order, Trouble, Unreachable};

/// How often in a row something must be wrong before it is told.
const TWICE: u32 = 2;

/// What was wrong the last times.
#[derive(Debug, Default)]
pub struct Ills {
    counts: BTreeMap<VipId, u32>,
    /// What was told last of each object that is not well.
    told: BTreeMap<VipId, Ill>,
    failures: u32,
}

/// What is to be told of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which.
    pub id: VipId,
    /// What is wrong with it.
    pub ill: Ill,
    /// Whether something else was told of it before, or nothing.
    pub is_new: bool,
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ill {
    /// It cannot be served.
    Unable(Trouble),
    /// It is not reached from outside here, though it should be.
    Unreachable(Unreachable),
}

impl Ills {
    /// Those that were wrong often enough to be told. Who is only prepared says so at once:
    /// nobody must wait for it.
    pub fn judge(&mut self, findings: &Findings, order: &Order, look: bool) -> Vec<Told> {
        self.failures = 0;
        self.counts.retain(|id, _| findings.contains_key(id));
        self.told.retain(|id, _| findings.contains_key(id));
        let mut told = Vec::new();
        for (id, finding) in findings {
            let Some(ill) = ill(finding) else {
                // A renewal does not look, so it finds nothing well either.
                if look {
                    self.counts.remove(id);
                    self.told.remove(id);
                }
                continue;
            };
            let count = self.counts.entry(id.clone()).or_default();
            // A renewal alone is no look.
            *count += u32::from(look || *count == 0);
            if *count >= TWICE || !is_held(order, id) {
                *count = 0;
                let before = self.told.insert(id.clone(), ill.clone());
                let is_new = before.as_ref() != Some(&ill);
                let id = id.clone();
                told.push(Told { id, ill, is_new });
            }
        }
        told
    }

    /// All that this node holds or is prepared for, once orders could not be done for about
    /// two looks.
    pub fn fail(&mut self, order: &Order) -> Vec<VipId> {
        self.failures += 1;
        let limit = LOOK.as_millis() * u128::from(TWICE) / AGAIN.as_millis();
        if u128::from(self.failures) < limit {
            return Vec::new();
        }
        self.failures = 0;
        let all = order.serving.roles.keys();
        all.filter(|id| is_ours(order, id)).cloned().collect()
    }
}

fn ill(finding: &Finding) -> Option<Ill> {
    let unable = finding.trouble.clone().map(Ill::Unable);
    let faulty = finding.unreachable.clone().filter(Unreachable::is_fault);
    unable.or(faulty.map(Ill::Unreachable))
}

fn is_held(order: &Order, id: &VipId) -> bool {
    let role = order.serving.roles.get(id).map(|it| &it.role);
    matches!(role, Some(Role::Holder(_)))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::IpAddr};

    use floe_core::vip::{
        Candidate, Mode,
        keeper::{Served, Serving},
    };

    use super::*;

    fn id() -> VipId {
        VipId {
            namespace: "shop".into(),
            name: "web".into(),
        }
    }

    fn order() -> Order {
        let pod = Candidate {
            pod: "a".into(),
            uid: "u".into(),
            node: "n1".into(),
            node_address: IpAddr::from([10, 9, 0, 2]),
            addresses: Vec::new(),
            mode: Mode::Nat,
            ready_since: 0,
        };
        let served = Served {
            addresses: Vec::new(),
            role: Role::Holder(pod),
        };
        Order {
            serving: Serving {
                number: 1,
                deadline: None,
                roles: [(id(), served)].into(),
            },
            details: BTreeMap::new(),
            known: BTreeSet::new(),
            nodes: BTreeSet::new(),
        }
    }

    fn judged(ills: &mut Ills, finding: &Finding, look: bool) -> Vec<Ill> {
        let findings = [(id(), finding.clone())].into();
        let told = ills.judge(&findings, &order(), look);
        told.into_iter().map(|it| it.ill).collect()
    }

    #[test]
    fn two_looks_tell_it_whatever_renewals_find_in_between() {
        let well = Finding::default();
        let deaf = Trouble::Deaf("no carrier".into());
        let lost = Finding {
            unreachable: Some(Unreachable::LinkLost),
            ..Finding::default()
        };
        let ill = Finding {
            trouble: Some(deaf.clone()),
            ..lost.clone()
        };
        for (finding, told) in [
            (&ill, Ill::Unable(deaf)),
            (&lost, Ill::Unreachable(Unreachable::LinkLost)),
        ] {
            let mut ills = Ills::default();
            assert_eq!(judged(&mut ills, finding, true), []);
            assert_eq!(judged(&mut ills, &well, false), []);
            assert_eq!(judged(&mut ills, finding, true), [told]);
            // A look that finds it well counts.
            assert_eq!(judged(&mut ills, finding, true), []);
            assert_eq!(judged(&mut ills, &well, true), []);
            assert_eq!(judged(&mut ills, finding, true), []);
        }
        // That nobody was ever told outside is no fault.
        let inside = Finding {
            unreachable: Some(Unreachable::NoInterface),
            ..Finding::default()
        };
        let mut ills = Ills::default();
        assert_eq!(judged(&mut ills, &inside, true), []);
        assert_eq!(judged(&mut ills, &inside, true), []);
    }
}
