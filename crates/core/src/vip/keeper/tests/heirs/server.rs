//! The API server: a version for each object, and what watches have to show.

use super::{
    chain::{LeaseObject, Node, Vip, VipObject},
    flaw::Flaw,
};

pub struct Server {
    pub flaw: Option<Flaw>,
    version: u64,
    pub vips: Vec<VipObject>,
    pub leases: Vec<LeaseObject>,
    /// All that has happened to addresses, and when.
    pub vip_log: Vec<(u64, Vip, VipObject)>,
    /// All that has happened to leases, and when.
    pub lease_log: Vec<(u64, Node, LeaseObject)>,
    pub count: Count,
}

/// How often something was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Terms that others have ended.
    pub ends: u64,
    /// Deeds of those who held.
    pub deeds: u64,
    /// Deeds of those who ended a term.
    pub inherited: u64,
    /// Objects that followed more than one deed at once.
    pub chains: u64,
    pub lists: u64,
    /// Addresses that the controller took back.
    pub freed: u64,
}

#[derive(Clone, Debug)]
pub enum Request {
    /// A node writes its own lease, or ends the term of another one.
    PutLease { node: Node, lease: LeaseObject },
    GetLease { node: Node },
    PutVip { vip: Vip, object: VipObject },
    List,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Lease(LeaseObject),
    Vip(VipObject),
    List(Vec<VipObject>),
    Refused,
}

impl Server {
    pub fn new(nodes: usize, vips: usize, flaw: Option<Flaw>) -> Self {
        let lease = LeaseObject {
            version: 0,
            term: 0,
            ended: true,
            deeds: std::collections::BTreeMap::new(),
        };
        let vip = VipObject {
            version: 0,
            holder: None,
            number: 0,
            emptied: false,
        };
        Self {
            flaw,
            version: 0,
            vips: vec![vip; vips],
            leases: vec![lease; nodes],
            vip_log: Vec::new(),
            lease_log: Vec::new(),
            count: Count::default(),
        }
    }

    /// Does what is asked for. The version in an object is the one that it must have.
    pub fn ask(&mut self, from: Node, request: &Request, now: u64) -> Answer {
        match request {
            Request::PutLease { node, lease } => {
                let is_other = *node != from;
                let is_blind = is_other && self.flaw == Some(Flaw::EndUnguarded);
                if self.leases[*node].version != lease.version && !is_blind {
                    return Answer::Refused;
                }
                self.count.ends += u64::from(is_other);
                let known = &self.leases[*node].deeds;
                let new = lease.deeds.iter().filter(|(it, _)| !known.contains_key(*it));
                let new = u64::try_from(new.count()).unwrap();
                if is_other {
                    self.count.inherited += new;
                } else {
                    self.count.deeds += new;
                }
                self.version += 1;
                let mut lease = lease.clone();
                lease.version = self.version;
                self.leases[*node] = lease.clone();
                self.lease_log.push((now, *node, lease.clone()));
                Answer::Lease(lease)
            }
            Request::GetLease { node } => Answer::Lease(self.leases[*node].clone()),
            Request::PutVip { vip, object } => {
                let before = &self.vips[*vip];
                let is_blind = self.flaw == Some(Flaw::TakeUnguarded);
                if before.version != object.version && !is_blind {
                    return Answer::Refused;
                }
                self.count.chains += u64::from(object.number > before.number + 1);
                self.version += 1;
                let mut object = object.clone();
                object.version = self.version;
                self.vips[*vip] = object.clone();
                self.vip_log.push((now, *vip, object.clone()));
                Answer::Vip(object)
            }
            Request::List => {
                self.count.lists += 1;
                Answer::List(self.vips.clone())
            }
        }
    }
}
