//! `kubectl floe ip release`.

use std::net::IpAddr;

use floe_api::rest::v2::{Outcome, Release, ReleaseAnswer, Released};
use floe_core::addr::name;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    args,
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    ip::{self, KIND},
    record::Record,
    remote::{self, Connect, Remote},
    render::harmless,
};

/// How many records are read at once.
const AT_ONCE: usize = 16;

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    args: &args::Release,
) -> Result<(), Failure> {
    let ips = ip::expand(&args.ips)?;
    let mut remote = remote::find(cluster, &args.api).await?;
    release(cluster, console, &mut remote, ips, args).await
}

/// An address, with who had it when the user was asked.
struct Candidate {
    ip: IpAddr,
    /// The key of its record, if it had one.
    key: Option<String>,
    /// The same for people.
    holder: String,
    /// What follows its release, as the dry run says it.
    note: Option<String>,
}

/// First without doing it, to tell what would become of each; then, if that is what the
/// user wants, in earnest, and only those that still have the same holder.
async fn release<C: Connect>(
    cluster: &Cluster,
    console: &mut Console,
    remote: &mut Remote<C>,
    ips: Vec<IpAddr>,
    args: &args::Release,
) -> Result<(), Failure> {
    let total = ips.len();
    let looks = stream::iter(ips).map(|ip| look(cluster, ip));
    let candidates: Vec<_> = looks.buffered(AT_ONCE).try_collect().await?;

    let trial = post(console, remote, &candidates, true).await?;
    let mut failed = 0;
    let mut going = Vec::new();
    for (candidate, outcome) in candidates.into_iter().zip(trial) {
        if outcome.done && outcome.reason == "Released" {
            if candidate.key.is_none() {
                // It had no holder a moment ago, so nobody could be shown to the user.
                failed += 1;
                let record = format!("the record of {}", candidate.ip);
                console.error(&Failure::Conflict(record).to_string());
                continue;
            }
            going.push(Candidate {
                note: note(&outcome),
                ..candidate
            });
        } else {
            failed += usize::from(!outcome.done);
            tell(console, candidate.ip, &outcome, false)?;
        }
    }
    if args.dry_run {
        for Candidate {
            ip, holder, note, ..
        } in going
        {
            let name = name::name(ip);
            let note = note.map_or_else(String::new, |note| format!("; {note}"));
            console.done(&format!(
                "{KIND}/{name} released (server dry run): {holder}{note}"
            ))?;
        }
    } else if !going.is_empty() {
        console.confirm(&question(&going), args.consent.yes)?;
        let outcomes = post(console, remote, &going, false).await?;
        for (candidate, outcome) in going.iter().zip(outcomes) {
            failed += usize::from(!outcome.done);
            tell(console, candidate.ip, &outcome, true)?;
        }
    }
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::Some { failed, total })
}

async fn look(cluster: &Cluster, ip: IpAddr) -> Result<Candidate, Failure> {
    let found = find(&cluster.records(), &name::name(ip)).await;
    let found = found.map_err(|error| cluster.failure(&error, Access::records("get")))?;
    // What cannot be read is the controller's to judge, by whatever key it has.
    let record = found.and_then(|object| Record::read(object).ok());
    Ok(Candidate {
        ip,
        key: record.as_ref().map(|it| it.key.as_str().to_owned()),
        holder: record.map_or_else(String::new, |it| {
            format!("{} ({})", harmless(&it.holder()), it.state)
        }),
        note: None,
    })
}

/// Asks the controller, which answers for each address in their order.
async fn post<C: Connect>(
    console: &mut Console,
    remote: &mut Remote<C>,
    candidates: &[Candidate],
    dry_run: bool,
) -> Result<Vec<Outcome>, Failure> {
    let wanted = candidates.iter().map(|it| Released {
        ip: it.ip.to_string(),
        key: it.key.clone(),
    });
    let wanted = Release {
        ips: wanted.collect(),
        dry_run,
    };
    let answer: ReleaseAnswer = remote.post(console, "/v2/ips/release", &wanted).await?;
    let ReleaseAnswer { results, dry_run } = answer;
    if results.len() != candidates.len() || dry_run != wanted.dry_run {
        return Err(Failure::other_answer());
    }
    Ok(results)
}

fn tell(
    console: &mut Console,
    ip: IpAddr,
    outcome: &Outcome,
    in_earnest: bool,
) -> Result<(), Failure> {
    let Outcome {
        reason, message, ..
    } = outcome;
    let message = harmless(message);
    if !outcome.done {
        console.error(&format!("{ip} is not released: {message} ({reason})"));
        return Ok(());
    }
    let name = name::name(ip);
    if in_earnest && reason == "Released" {
        console.done(&format!("{KIND}/{name} released"))?;
        if let Some(note) = note(outcome) {
            console.warn(&format!("{ip}: {note}"));
        }
        return Ok(());
    }
    console.done(&format!("{KIND}/{name} not released: {message}"))
}

/// What follows a release, as the controller says it after the word.
fn note(outcome: &Outcome) -> Option<String> {
    let note = outcome.message.strip_prefix("released; ")?;
    Some(harmless(note))
}

fn question(going: &[Candidate]) -> String {
    let told = "Others can get these addresses when they are released:";
    let mut question = vec![told.to_owned()];
    for Candidate {
        ip, holder, note, ..
    } in going
    {
        let note = note.as_ref();
        let note = note.map_or_else(String::new, |note| format!("; {note}"));
        question.push(format!("  {ip}  {holder}{note}"));
    }
    question.push("Go on?".into());
    question.join("\n")
}

#[cfg(test)]
mod tests;
