//! `kubectl floe import`: brings records and pools back from a backup.
//!
//! Only what is missing is created. What is there stays as it is, also where the
//! backup says something else: it is newer, and a pod may run with the address. Who is
//! sure deletes the object with kubectl and imports again.

use std::{
    cell::Cell,
    fs,
    io::{self, Read as _},
    path::Path,
};

use futures::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use kube::{
    ResourceExt as _,
    api::{DynamicObject, PostParams},
};

use crate::{
    args, backup,
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    record::Record,
};

/// How many objects are worked on at a time.
const PARALLEL: usize = 16;

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    command: &args::Import,
) -> Result<(), Failure> {
    let text = text(&command.file)?;
    let place = command.file.display();
    let objects = backup::read(&text)
        .map_err(|error| Failure::Usage(format!("{place} is no backup: {error}")))?;
    for object in objects.iter().filter(|it| !backup::is_understood(it)) {
        let title = title(object);
        console.warn(&format!("{title} makes no sense; the server decides on it"));
    }
    let tally = all(cluster, console, &objects, command.dry_run).await;
    let suffix = if command.dry_run {
        " (server dry run)"
    } else {
        ""
    };
    let failed = tally.differing + tally.refused;
    let Tally {
        created, unchanged, ..
    } = tally;
    let left = match tally.left {
        0 => String::new(),
        left => format!(", {left} not tried"),
    };
    console.done(&format!(
        "{created} created, {unchanged} unchanged, {failed} not imported{left}{suffix}"
    ))?;
    if tally.differing > 0 {
        console.hint(
            "what is there is newer than the backup, and a pod may run with it, so nothing is \
             overwritten; who is sure deletes the object and imports again",
        );
    }
    let total = objects.len();
    match tally.stopped {
        Some(failure) => Err(failure),
        None if failed > 0 => Err(Failure::Some { failed, total }),
        None => Ok(()),
    }
}

/// What became of the objects, by number.
#[derive(Default)]
struct Tally {
    created: usize,
    unchanged: usize,
    /// They are there and say something else.
    differing: usize,
    refused: usize,
    /// Nobody has tried them, because of this.
    left: usize,
    stopped: Option<Failure>,
}

enum Outcome {
    Created,
    Unchanged,
    Differs(String),
    Refused(String),
}

/// Brings back one after the other. What concerns one object does not stop the others;
/// what concerns all of them does, and what was begun is finished.
async fn all(
    cluster: &Cluster,
    console: &mut Console,
    objects: &[DynamicObject],
    dry_run: bool,
) -> Tally {
    let bar = bar(objects.len());
    let mut tally = Tally::default();
    let stops = &Cell::new(false);
    // Records are through before the first pool: see `backup`.
    let (records, pools): (Vec<_>, Vec<_>) = objects.iter().partition(|it| backup::is_record(it));
    for part in [records, pools] {
        let work = part.into_iter().map(|object| async move {
            if stops.get() {
                return None;
            }
            let outcome = one(cluster, object, dry_run).await;
            stops.set(stops.get() || outcome.is_err());
            Some(outcome)
        });
        let mut results = stream::iter(work).buffered(PARALLEL);
        while let Some(outcome) = results.next().await {
            bar.inc(1);
            let told = match outcome {
                Some(Ok(Outcome::Created)) => {
                    tally.created += 1;
                    continue;
                }
                Some(Ok(Outcome::Unchanged)) => {
                    tally.unchanged += 1;
                    continue;
                }
                Some(Ok(Outcome::Differs(told))) => {
                    tally.differing += 1;
                    told
                }
                Some(Ok(Outcome::Refused(told))) => {
                    tally.refused += 1;
                    told
                }
                Some(Err(failure)) => {
                    tally.refused += 1;
                    tally.stopped.get_or_insert(failure);
                    continue;
                }
                None => {
                    tally.left += 1;
                    continue;
                }
            };
            bar.suspend(|| console.error(&told));
        }
    }
    bar.finish_and_clear();
    tally
}

/// Creates an object unless there is one of its name, which no two writers can.
async fn one(cluster: &Cluster, object: &DynamicObject, dry_run: bool) -> Result<Outcome, Failure> {
    let namespace = object.namespace();
    let is_record = backup::is_record(object);
    let api = if is_record {
        cluster.records()
    } else {
        cluster.pools(namespace.as_deref())
    };
    let access = |verb| {
        if is_record {
            Access::records(verb)
        } else {
            Access::pools(verb, namespace.as_deref())
        }
    };
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    let titled = |told: String| format!("{}: {told}", title(object));
    // What the server says about one object, or what it would say about all.
    let refused = |error: &kube::Error, verb| match (cluster.failure(error, access(verb)), error) {
        (Failure::Refused { told, .. }, kube::Error::Api(_)) => Ok(Outcome::Refused(titled(told))),
        (failure @ Failure::Forbidden { .. }, _) if !is_record => {
            Ok(Outcome::Refused(titled(failure.to_string())))
        }
        (failure, _) => Err(failure),
    };
    match api.create(&params, object).await {
        Ok(_) => return Ok(Outcome::Created),
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return refused(&error, "create"),
    }
    Ok(match find(&api, &object.name_any()).await {
        Ok(Some(there)) if backup::says_the_same(object, &there) => Outcome::Unchanged,
        Ok(Some(there)) => Outcome::Differs(titled(difference(object, &there))),
        Ok(None) => Outcome::Refused(titled("it was there and is gone again".into())),
        Err(error) => return refused(&error, "get"),
    })
}

fn title(object: &DynamicObject) -> String {
    match object.namespace() {
        Some(namespace) => format!("pool {namespace}/{}", object.name_any()),
        None => format!("record {}", object.name_any()),
    }
}

fn difference(object: &DynamicObject, there: &DynamicObject) -> String {
    let holder = |object: &DynamicObject| {
        let record = Record::read(object.clone()).ok()?;
        let (holder, state) = (record.holder(), record.state);
        let node = if record.node.is_empty() {
            String::new()
        } else {
            format!(" on {}", record.node)
        };
        Some(format!("{holder} ({state}{node})"))
    };
    if !backup::is_record(object) {
        let (now, then) = (limit(there), limit(object));
        return format!("it differs: {now} now, {then} in the backup");
    }
    match (holder(there), holder(object)) {
        (Some(now), Some(then)) if now != then => format!("{now} holds it now, not {then}"),
        (Some(now), Some(_)) => format!("{now} holds it now, under another policy, pool or uid"),
        _ => "what is there cannot be read".into(),
    }
}

/// What a pool says; what is not there is as good as false.
fn limit(pool: &DynamicObject) -> String {
    let ahead = pool.data["preAllocateIP"].as_bool().unwrap_or_default();
    let ahead = if ahead { " with preallocation" } else { "" };
    format!("size {}{ahead}", pool.data["size"])
}

fn text(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    read.map_err(|source| Failure::Io {
        what: format!("cannot read {}", file.display()),
        source,
    })
}

/// A bar on standard error, which shows itself only on a terminal.
fn bar(total: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
    match ProgressStyle::with_template("importing {wide_bar} {pos}/{len}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests;
