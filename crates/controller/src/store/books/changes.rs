//! Which records have changed, for one reader that keeps a copy.

use std::{collections::BTreeSet, net::IpAddr};

/// What has changed since the reader last asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Whether another configuration is in force.
    pub configuration: bool,
    /// Which records.
    pub records: Changed,
}

/// Which records have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Those of these addresses are new, different or gone.
    These(BTreeSet<IpAddr>),
    /// So many that nobody counted them, or nobody has asked before.
    All,
}

/// What the reader will be told. Nothing is noted for a reader that never asks.
#[derive(Debug)]
pub(super) struct Log(Changes);

/// From how many changes on all records are read anew.
pub(super) const MOST: usize = 16_384;

impl Default for Log {
    fn default() -> Self {
        Self(Changes {
            configuration: true,
            records: Changed::All,
        })
    }
}

impl Log {
    pub fn changed(&mut self, ip: IpAddr) {
        if let Changed::These(addresses) = &mut self.0.records {
            addresses.insert(ip);
            if addresses.len() > MOST {
                self.0.records = Changed::All;
            }
        }
    }

    pub fn configured(&mut self) {
        self.0.configuration = true;
    }

    pub fn has_some(&self) -> bool {
        self.0 != Changes::none()
    }

    pub fn take(&mut self) -> Changes {
        std::mem::replace(&mut self.0, Changes::none())
    }
}

impl Changes {
    fn none() -> Self {
        Self {
            configuration: false,
            records: Changed::These(BTreeSet::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> IpAddr {
        IpAddr::from(u32::try_from(number).unwrap().to_be_bytes())
    }

    #[test]
    fn the_first_answer_is_everything_and_then_what_has_changed() {
        let mut log = Log::default();
        log.changed(address(1));
        assert!(log.has_some());
        assert_eq!(log.take(), Log::default().0);
        assert!(!log.has_some());
        assert_eq!(log.take(), Changes::none());

        log.changed(address(2));
        log.changed(address(2));
        assert!(log.has_some());
        let changes = log.take();
        assert_eq!(changes.records, Changed::These([address(2)].into()));
        assert!(!changes.configuration && !log.has_some());

        log.configured();
        assert!(log.has_some() && log.take().configuration);
    }

    #[test]
    fn too_many_changes_are_everything() {
        let mut log = Log::default();
        log.take();
        for number in 0..MOST {
            log.changed(address(number));
        }
        assert!(matches!(log.0.records, Changed::These(_)));
        log.changed(address(MOST));
        assert_eq!(log.take().records, Changed::All);
        log.changed(address(7));
        assert_eq!(log.take().records, Changed::These([address(7)].into()));
    }
}
