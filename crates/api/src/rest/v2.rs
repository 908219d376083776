//! floe's own bodies: what people and tools see of addresses and their holders.
//!
//! Times are RFC 3339 in UTC. Members that have nothing to say are left out.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub use self::{
    change::{
        Outcome, Release, ReleaseAnswer, Released, Reservation, ReservedAnswer, Unreservation,
    },
    explain::{ExplainQuery, Explanation, IpExplanation, PodExplanation, Refusal},
    ip::{Holder, Ip, IpList, IpQuery, Phase, State},
    pool::{HolderList, HolderQuery, HolderSummary, Pool, PoolList, PoolSettings},
    subnet::{NodeSubnet, Subnet, SubnetList},
    vip::{
        SharedExplanation, Vip, VipCondition, VipList, VipMove, VipPod, VipQuery, VipRefusal,
        VipState,
    },
    watch::{Change, ChangeKind, WatchQuery},
};

mod change;
mod explain;
mod ip;
mod pool;
mod subnet;
mod vip;
mod watch;

/// Why a call was refused: the one shape of all refusals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The status of HTTP again.
    pub status: u16,
    /// One stable word, see the list of reasons.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// The parameter or member that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// Which page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// The number of the page, from 0 on.
    #[param(default = 0, minimum = 0)]
    pub page: Option<u32>,
    /// How many a page has.
    #[param(default = 50, minimum = 1, maximum = 1000)]
    pub size: Option<u32>,
}
