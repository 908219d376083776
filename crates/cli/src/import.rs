//! `kubectl floe import`: brings records and pools back from a backup.
//!
//! Only what is missing is created. What is there stays as it is, also where the
//! backup says something else: it is newer, and a pod may run with the address. Who is
//! sure deletes the object with kubectl and imports again.

use std::{
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
    render::harmless,
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
    let total = objects.len();
    let bar = bar(total);
    let mut tally = Tally::default();
    // Records are through before the first pool: see `backup`.
    let (records, pools): (Vec<_>, Vec<_>) = objects.iter().partition(|it| backup::is_record(it));
    for part in [records, pools] {
        let work = part.into_iter();
        let work = work.map(|object| one(cluster, object, command.dry_run));
        let mut results = stream::iter(work).buffered(PARALLEL);
        while let Some(outcome) = results.next().await {
            bar.inc(1);
            match outcome? {
                Outcome::Created => tally.created += 1,
                Outcome::Unchanged => tally.unchanged += 1,
                Outcome::Refused(told) => {
                    tally.refused += 1;
                    bar.suspend(|| console.error(&told));
                }
            }
        }
    }
    bar.finish_and_clear();
    let suffix = if command.dry_run {
        " (server dry run)"
    } else {
        ""
    };
    let Tally {
        created,
        unchanged,
        refused: failed,
    } = tally;
    console.print(&format!(
        "{created} created, {unchanged} unchanged, {failed} not imported{suffix}"
    ))?;
    if failed == 0 {
        return Ok(());
    }
    console.hint(
        "what is there is newer than the backup, and a pod may run with it, so nothing is \
         overwritten; who is sure deletes the object and imports again",
    );
    Err(Failure::Some { failed, total })
}

#[derive(Default)]
struct Tally {
    created: usize,
    unchanged: usize,
    refused: usize,
}

enum Outcome {
    Created,
    Unchanged,
    Refused(String),
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
    let told = |told: String| Outcome::Refused(harmless(&format!("{}: {told}", title(object))));
    match api.create(&params, object).await {
        Ok(_) => return Ok(Outcome::Created),
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        // One bad object does not stop the others.
        Err(kube::Error::Api(status)) if status.code == 422 || status.code == 400 => {
            return Ok(told(status.message.clone()));
        }
        Err(error) => return Err(cluster.failure(&error, access("create"))),
    }
    let there = find(&api, &object.name_any()).await;
    let there = there.map_err(|error| cluster.failure(&error, access("get")))?;
    Ok(match there {
        Some(there) if backup::says_the_same(object, &there) => Outcome::Unchanged,
        Some(there) => told(difference(object, &there)),
        None => told("it was there and is gone again; import once more".into()),
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
    let size = |object: &DynamicObject| object.data["size"].to_string();
    if !backup::is_record(object) {
        let (now, then) = (size(there), size(object));
        return format!("it differs: size {now} now, {then} in the backup");
    }
    match (holder(there), holder(object)) {
        (Some(now), Some(then)) if now != then => format!("{now} holds it now, not {then}"),
        (Some(now), Some(_)) => format!("{now} holds it now, under another policy, pool or uid"),
        _ => "what is there cannot be read".into(),
    }
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
