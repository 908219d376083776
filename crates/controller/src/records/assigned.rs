//! The end of waiting for a cloud.

use floe_api::{
    galaxy::FloatingIP,
    labels::{self, Given},
};
use floe_core::ipam::ledger::Record;
use serde_json::json;

use super::{Records, WriteError, refused};
use crate::store::Seen;

impl Records {
    /// The cloud has brought an address to the node of its pod: its record says no longer
    /// that this has to be waited for. What the pod was told otherwise stays as it is.
    pub async fn assigned(&self, seen: &Record) -> Result<(), WriteError> {
        let ip = seen.ip;
        let object = self.look(ip).await;
        let object = object.map_err(|failure| refused(ip, failure))?;
        let Some(Seen::Whole(object)) = object else {
            return Err(self.conflict(ip));
        };
        let Some(given) = given(&object).filter(|given| given.uid == seen.uid) else {
            return Err(self.conflict(ip));
        };
        if !given.assigning {
            return Ok(());
        }
        let done = Given {
            assigning: false,
            ..given
        };
        let patch = |version: &str| {
            json!({ "metadata": {
                "resourceVersion": version, "annotations": { labels::NETWORK: done.value() },
            } })
        };
        let wanted = |object: &FloatingIP| self::given(object).as_ref() == Some(&done);
        let written = self.patch(seen, patch, wanted).await?;
        self.store.change(|books| books.record(&written));
        Ok(())
    }
}

fn given(object: &FloatingIP) -> Option<Given> {
    let annotations = object.metadata.annotations.as_ref()?;
    Given::parse(annotations.get(labels::NETWORK)?)
}
