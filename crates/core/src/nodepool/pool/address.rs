//! One address of a pool: where it is, and what is being done to it.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;

use super::{spec::Server, view::Trouble};
use crate::{
    ipam::families::Family,
    nodepool::{cloud::Refusal, retry::Tries},
};

/// What is known of one address.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub place: Place,
    pub order: Option<Order>,
    /// Orders in a row that have failed by the address, or by nobody's fault.
    pub tries: Tries,
    pub trouble: Option<Shown>,
    /// How many lists in a row did not have it.
    pub missed: u32,
    /// Somebody else is doing something to it.
    pub busy: bool,
    /// Another cluster has bought it: it is not touched.
    pub foreign: bool,
    /// Lists that were begun before this know nothing of the last order.
    pub changed: Tick,
    /// What it is good for, and since which step.
    pub standing: Standing,
    pub step: u64,
    /// The servers for which the cloud has refused it without a cause that can be seen. Others
    /// may get it.
    pub refused_by: BTreeMap<Server, Tries>,
    /// Where it was taken from, on its way to somebody else.
    pub origin: Option<Origin>,
    pub assignments: u64,
    pub assignment_errors: u64,
}

/// A moment, and how many things had happened before: of two things at the same moment one
/// still comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    pub at: Timestamp,
    /// None when nobody has counted.
    pub step: Option<u64>,
}

/// Where an address is, as far as one knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No list has been seen yet.
    Unknown,
    /// The account does not have it.
    Missing,
    /// On no server.
    Nowhere,
    /// On this server.
    On(Server),
}

/// What an address can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing, for now.
    Unusable,
    /// It is on no server.
    Free,
    /// It is on a server that does not fit.
    Parked,
    /// It is on a node that fits.
    Placed,
}

/// Something that was asked of the cloud.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Where the address shall be; none when it shall be nowhere.
    pub target: Option<Server>,
    pub stage: Stage,
    pub origin: Origin,
    /// Since when its end is not known, also when it was given again meanwhile.
    pub unclear_since: Option<Timestamp>,
}

/// How far an order is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Given out, not answered.
    Called,
    /// Under way at the cloud.
    Pending {
        handle: String,
        /// None right after a restart.
        since: Option<Timestamp>,
        checking: bool,
        looks: Tries,
    },
    /// There was no answer, or one that it failed: lists will tell.
    Unclear {
        since: Timestamp,
        /// The cloud has answered that it failed, so the same order may be given again.
        answer: Option<Refusal>,
        /// A list that was begun after the answer shows that it is not done.
        undone: bool,
    },
    /// The cloud says that it is done. Its lists may need a moment to say the same.
    Settling { since: Timestamp, doubted: bool },
}

/// Where an address comes from, and why it leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub from: String,
    pub reason: &'static str,
}

/// A trouble, and until when it is worth showing.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub trouble: Trouble,
    pub until: Timestamp,
}

impl Address {
    /// One of which nothing is known.
    pub fn new(place: Place, changed: Tick) -> Self {
        Self {
            place,
            order: None,
            tries: Tries::default(),
            trouble: None,
            missed: 0,
            busy: false,
            foreign: false,
            changed,
            standing: Standing::Unusable,
            step: 0,
            refused_by: BTreeMap::new(),
            origin: None,
            assignments: 0,
            assignment_errors: 0,
        }
    }

    /// The order whose end is not known.
    pub fn under_way(&self) -> Option<&Order> {
        self.order.as_ref().filter(|it| it.is_under_way())
    }

    /// Where it is or is about to be.
    pub fn seat(&self) -> Option<&Server> {
        match self.under_way() {
            Some(order) => order.target.as_ref(),
            None => self.place.server(),
        }
    }

    /// The server that has it, and keeps it as far as one knows.
    pub fn held_by(&self) -> Option<&Server> {
        match self.under_way() {
            Some(_) => None,
            None => self.place.server(),
        }
    }

    /// Whether it uses up room on a server, now or soon.
    pub fn weighs_on(&self, server: &str) -> bool {
        let is = |it: Option<&Server>| it.is_some_and(|it| it == server);
        is(self.place.server()) || is(self.seat())
    }

    /// Whether the cloud has to be asked again where it is.
    pub fn wants_look(&self) -> bool {
        let unsure = self.order.as_ref().is_some_and(|it| match it.stage {
            Stage::Called | Stage::Pending { .. } => false,
            Stage::Unclear { .. } | Stage::Settling { .. } => true,
        });
        unsure || self.missed == 1 || (self.busy && self.order.is_none())
    }

    /// Whether another order could be given, but for those that have failed just now.
    pub fn is_quiet(&self) -> bool {
        let settled = match self.order.as_ref().map(|it| &it.stage) {
            None | Some(Stage::Settling { doubted: false, .. }) => true,
            Some(
                Stage::Called
                | Stage::Pending { .. }
                | Stage::Unclear { .. }
                | Stage::Settling { doubted: true, .. },
            ) => false,
        };
        settled && !self.busy
    }
}

impl Tick {
    /// Before everything else.
    pub const START: Self = Self {
        at: Timestamp::MIN,
        step: Some(0),
    };

    /// Whether this is surely not before the other one.
    pub fn is_since(self, other: Self) -> bool {
        match (self.step, other.step) {
            (Some(this), Some(other)) => this >= other,
            (None, _) | (_, None) => self.at > other.at,
        }
    }
}

impl Place {
    pub fn server(&self) -> Option<&Server> {
        match self {
            Self::On(server) => Some(server),
            Self::Unknown | Self::Missing | Self::Nowhere => None,
        }
    }

    pub fn of(server: Option<&Server>) -> Self {
        server.cloned().map_or(Self::Nowhere, Self::On)
    }
}

impl Order {
    pub fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Settling { .. })
    }

    /// Whether the cloud has taken it.
    pub fn is_accepted(&self) -> bool {
        matches!(self.stage, Stage::Pending { .. } | Stage::Settling { .. })
    }

    /// Whether a list has contradicted it.
    pub fn is_doubted(&self) -> bool {
        matches!(self.stage, Stage::Settling { doubted: true, .. })
    }

    pub fn is_called(&self) -> bool {
        matches!(self.stage, Stage::Called)
    }
}

/// The family of an address. A node may have one of each.
pub(super) fn family(ip: IpAddr) -> Family {
    if ip.is_ipv4() { Family::V4 } else { Family::V6 }
}
