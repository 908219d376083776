//! `kubectl floe watch`: changes of addresses as they happen.

use std::{collections::BTreeMap, pin::pin};

use floe_core::ipam::state::State;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    api::DynamicObject,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use serde_json::json;

use crate::{
    args::{Watch, WatchFormat},
    cluster::{Access, Cluster},
    console::Console,
    failure::Failure,
    ip,
    record::{Filter, Record},
    render::{harmless, json, or_none},
};

/// Shows changes until somebody ends it.
pub async fn run(cluster: &Cluster, console: &mut Console, args: &Watch) -> Result<(), Failure> {
    let selector = args.selection.selector.as_deref();
    let config = selector.map_or_else(watcher::Config::default, |labels| {
        watcher::Config::default().labels(labels)
    });
    let events = watcher::watcher(cluster.records(), config).default_backoff();
    let mut view = View {
        filter: Filter::of(&args.selection, cluster.namespace()),
        seen: BTreeMap::new(),
        listed: None,
        began: false,
        shows_first: !args.only_changes,
        format: args.output,
    };
    follow(cluster, console, &mut view, events).await
}

/// Shows events as long as there are any. A failure before the first list ends it;
/// later ones are told, and the stream goes on by itself.
async fn follow(
    cluster: &Cluster,
    console: &mut Console,
    view: &mut View,
    events: impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>>,
) -> Result<(), Failure> {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                for change in view.take(event, console) {
                    console.print(&view.show(&change, Timestamp::now())?)?;
                }
            }
            Err(error) => {
                let failure = meaning(cluster, error);
                if !view.began {
                    return Err(failure);
                }
                console.warn(&format!("{failure}; trying again"));
            }
        }
    }
    Ok(())
}

fn meaning(cluster: &Cluster, error: watcher::Error) -> Failure {
    let access = Access::records;
    match error {
        watcher::Error::InitialListFailed(error) => cluster.failure(&error, access("list")),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            cluster.failure(&error, access("watch"))
        }
        watcher::Error::WatchError(status) => {
            cluster.failure(&kube::Error::Api(status), access("watch"))
        }
        watcher::Error::NoResourceVersion => Failure::Refused {
            verb: "watch",
            resource: crate::cluster::RECORDS,
            told: "there is no resource version".into(),
        },
    }
}

/// What somebody sees of the records.
struct View {
    filter: Filter,
    /// What was shown last, by the name of the record.
    seen: BTreeMap<String, Record>,
    /// A list that comes in.
    listed: Option<BTreeMap<String, Record>>,
    /// Whether the first list is complete.
    began: bool,
    shows_first: bool,
    format: Option<WatchFormat>,
}

/// One change that is to be shown.
struct Change {
    kind: &'static str,
    record: Record,
}

impl View {
    /// The changes that an event makes.
    fn take(&mut self, event: Event<DynamicObject>, console: &mut Console) -> Vec<Change> {
        match event {
            Event::Init => {
                self.listed = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                if let (Some(record), Some(listed)) = (read(object, console), &mut self.listed) {
                    listed.insert(record.raw.name_any(), record);
                }
                Vec::new()
            }
            Event::InitDone => self.replace(),
            Event::Apply(object) => read(object, console)
                .map_or_else(Vec::new, |record| self.apply(record).into_iter().collect()),
            Event::Delete(object) => self.drop(&object.name_any()).into_iter().collect(),
        }
    }

    /// A complete list: what it lacks is gone.
    fn replace(&mut self) -> Vec<Change> {
        let listed = self.listed.take().unwrap_or_default();
        let gone: Vec<_> = self
            .seen
            .keys()
            .filter(|name| !listed.contains_key(*name))
            .cloned()
            .collect();
        let mut changes: Vec<_> = gone.iter().filter_map(|name| self.drop(name)).collect();
        let mut records: Vec<_> = listed.into_values().collect();
        records.sort_by(Record::order);
        changes.extend(records.into_iter().filter_map(|record| self.apply(record)));
        if !self.began && !self.shows_first {
            changes.clear();
        }
        self.began = true;
        changes
    }

    /// A record as it is now. One that is no longer among those that somebody wants to
    /// see is shown once more, so that nobody takes the last line for the truth.
    fn apply(&mut self, record: Record) -> Option<Change> {
        let name = record.raw.name_any();
        let old = self.seen.get(&name);
        if !self.filter.admits(&record) {
            self.seen.remove(&name)?;
            return Some(Change {
                kind: "MODIFIED",
                record,
            });
        }
        let kind = match old {
            None => "ADDED",
            Some(old) if self.format.is_none() && looks_like(old, &record) => return None,
            Some(old) if old.raw.resource_version() == record.raw.resource_version() => {
                return None;
            }
            Some(_) => "MODIFIED",
        };
        self.seen.insert(name, record.clone());
        Some(Change { kind, record })
    }

    fn drop(&mut self, name: &str) -> Option<Change> {
        let record = self.seen.remove(name)?;
        let kind = "DELETED";
        Some(Change { kind, record })
    }

    /// The line that tells a change.
    fn show(&self, change: &Change, now: Timestamp) -> Result<String, Failure> {
        let Change { kind, record } = change;
        if self.format == Some(WatchFormat::Json) {
            let mut object = record.raw.clone();
            object.metadata.managed_fields = None;
            return json::line(&json!({ "type": kind, "object": object }));
        }
        let is_gone = *kind == "DELETED";
        let state = if is_gone { State::Free } else { record.state };
        let holder = if is_gone {
            format!("was {}", record.holder())
        } else {
            record.holder()
        };
        let node = if is_gone { "" } else { record.node.as_str() };
        let style = ip::list::style(state);
        Ok(format!(
            "{}  {:<15}  {style}{:<8}{style:#}  {}  {}",
            now.strftime("%H:%M:%SZ"),
            harmless(&record.address()),
            state.text(),
            harmless(or_none(&holder)),
            harmless(or_none(node)),
        ))
    }
}

/// Whether both records give the same line: marks and versions change more often.
fn looks_like(a: &Record, b: &Record) -> bool {
    (a.state, &a.key, &a.node) == (b.state, &b.key, &b.node)
}

fn read(object: DynamicObject, console: &mut Console) -> Option<Record> {
    let name = object.name_any();
    match Record::read(object) {
        Ok(record) => Some(record),
        Err(error) => {
            console.warn(&format!("record {name} cannot be read: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests;
