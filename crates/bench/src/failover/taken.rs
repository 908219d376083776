//! When the addresses of a node are taken by others, as registers tell it.

use std::{collections::BTreeSet, time::Instant};

use anyhow::{Result, bail};
use floe_api::floe::register::VirtualIPRegister;
use futures::TryStreamExt as _;
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
};
use tokio::task::JoinHandle;

/// Waits until the addresses of these objects, by their uid, are held by another node than
/// this one. Returns when it was told of the first and of the last.
pub async fn watch(
    client: Client,
    node: String,
    mut waiting: BTreeSet<String>,
) -> Result<JoinHandle<Result<(Instant, Instant)>>> {
    let registers: Api<VirtualIPRegister> = Api::all(client);
    let listed = registers.list_metadata(&ListParams::default()).await?;
    let version = listed.metadata.resource_version.unwrap_or_default();
    let events = registers.watch(&WatchParams::default(), &version).await?;
    let mut events = Box::pin(events);
    Ok(tokio::spawn(async move {
        let mut first = None;
        while let Some(event) = events.try_next().await? {
            let at = Instant::now();
            let register = match event {
                WatchEvent::Added(register) | WatchEvent::Modified(register) => register,
                WatchEvent::Deleted(_) => bail!("a register was deleted"),
                WatchEvent::Error(status) => bail!("the watch of registers ended: {status:?}"),
                WatchEvent::Bookmark(_) => continue,
            };
            for (uid, entry) in &register.entries {
                let holder = entry.holder.as_ref().filter(|it| it.node != node);
                if holder.is_some() && waiting.remove(uid) {
                    first.get_or_insert(at);
                }
            }
            if let Some(first) = first.filter(|_| waiting.is_empty()) {
                return Ok((first, at));
            }
        }
        bail!("the watch of registers ended")
    }))
}
