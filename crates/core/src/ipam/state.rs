//! What an address is to its holder.

use std::fmt;

use super::{key::HolderKey, ledger::Record};

/// What an address is to its holder, in one word that is the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nobody has it.
    Free,
    /// A pod is bound with it.
    Bound,
    /// It waits for a pod of the same name.
    Kept,
    /// It waits for any pod of its workload or pool.
    Spare,
    /// An administrator has reserved it.
    Reserved,
    /// It is shared by several pods: a `VirtualIP` has it.
    Shared,
    /// Its record has a key that neither floe nor galaxy would give it.
    Foreign,
}

impl State {
    /// The state that a record says.
    pub fn of(record: &Record) -> Self {
        if record.reserved {
            Self::Reserved
        } else {
            Self::of_holding(&record.key, record.is_idle())
        }
    }

    /// The state of an address that is not reserved.
    pub fn of_holding(key: &HolderKey, is_idle: bool) -> Self {
        if key.is_vip() {
            Self::Shared
        } else if !is_idle {
            Self::Bound
        } else if key.is_group() {
            Self::Spare
        } else if key.parts().is_none() {
            Self::Foreign
        } else {
            Self::Kept
        }
    }

    /// The word.
    pub fn text(self) -> &'static str {
        match self {
            Self::Free => "Free",
            Self::Bound => "Bound",
            Self::Kept => "Kept",
            Self::Spare => "Spare",
            Self::Reserved => "Reserved",
            Self::Shared => "Shared",
            Self::Foreign => "Foreign",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.text())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::ipam::policy::ReleasePolicy;

    fn record(key: &str, node: &str, uid: &str, reserved: bool) -> Record {
        Record {
            ip: [10, 0, 0, 1].into(),
            key: key.into(),
            policy: ReleasePolicy::Never,
            node: node.into(),
            uid: uid.into(),
            updated: Timestamp::UNIX_EPOCH,
            reserved,
            workload_note: None,
        }
    }

    #[test]
    fn a_record_says_what_its_address_is_to_its_holder() {
        let pod = "sts_ns_a_a-0";
        let table = [
            (record(pod, "node", "uid", false), State::Bound),
            (record(pod, "node", "", false), State::Bound),
            (record(pod, "", "uid", false), State::Bound),
            (record("?", "node", "uid", false), State::Bound),
            (record(pod, "", "", false), State::Kept),
            (record("pool__p_sts_ns_a_a-0", "", "", false), State::Kept),
            (record("sts_ns_a_", "", "", false), State::Spare),
            (record("pool__p_", "", "", false), State::Spare),
            (record("vip__shop_web_", "", "", false), State::Shared),
            (
                record("vip__shop_web_", "node", "uid", false),
                State::Shared,
            ),
            (record("vip__shop_web_", "", "", true), State::Reserved),
            (record("vip__shop_", "", "", false), State::Spare),
            (record("vip__shop_a_b_", "", "", false), State::Foreign),
            (record("?", "", "", false), State::Foreign),
            (record("", "", "", false), State::Foreign),
            (record(pod, "node", "uid", true), State::Reserved),
            (record("", "", "", true), State::Reserved),
        ];
        for (record, wanted) in table {
            assert_eq!(State::of(&record), wanted, "{record:?}");
        }
    }
}
