//! `kubectl floe ip unreserve`.
//!
//! The records are deleted with the permissions of the user, which needs no controller: the
//! deletion is bound to the version that was shown. With `--as-service-account` the controller
//! deletes them, with the permissions of that account.

use std::net::IpAddr;

use floe_api::rest::v2::{Outcome, ReservedAnswer, Unreservation};
use floe_core::{addr::name, ipam::state::State};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};

use super::KIND;
use crate::{
    args::Unreserve,
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    record::Record,
    remote::{self, Connect, Remote, forward::Forward},
    render::harmless,
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    args: &Unreserve,
) -> Result<(), Failure> {
    let ips = super::expand(&args.ips)?;
    let mut remote: Option<Remote<Forward<'_>>> = match args.api.as_service_account {
        Some(_) => Some(remote::find(cluster, &args.api).await?),
        None => None,
    };
    unreserve(cluster, console, remote.as_mut(), &ips, args.consent.yes).await
}

/// Ends reservations: by the controller if there is a way to it, else directly.
async fn unreserve<C: Connect>(
    cluster: &Cluster,
    console: &mut Console,
    remote: Option<&mut Remote<C>>,
    ips: &[IpAddr],
    yes: bool,
) -> Result<(), Failure> {
    let mut reservations = Vec::new();
    let mut failed = 0;
    for &ip in ips {
        match look(cluster, ip).await? {
            Ok(Some(record)) => reservations.push((ip, record)),
            Ok(None) => console.done(&format!("{KIND}/{} is free already", name::name(ip)))?,
            Err(told) => {
                failed += 1;
                console.error(&told);
            }
        }
    }
    if !reservations.is_empty() {
        console.confirm(&question(&reservations), yes)?;
        failed += match remote {
            Some(remote) => ask(console, remote, &reservations).await?,
            None => delete(cluster, console, &reservations).await?,
        };
    }
    if failed == 0 {
        return Ok(());
    }
    let total = ips.len();
    Err(Failure::Some { failed, total })
}

/// Has the controller end reservations; how many it did not.
async fn ask<C: Connect>(
    console: &mut Console,
    remote: &mut Remote<C>,
    reservations: &[(IpAddr, Record)],
) -> Result<usize, Failure> {
    let wanted = Unreservation {
        ips: reservations.iter().map(|(ip, _)| ip.to_string()).collect(),
        dry_run: false,
    };
    let answer: ReservedAnswer = remote.post(console, "/v2/ips/unreserve", &wanted).await?;
    if answer.results.len() != reservations.len() || answer.dry_run {
        return Err(Failure::other_answer());
    }
    let mut failed = 0;
    for ((ip, _), outcome) in reservations.iter().zip(answer.results) {
        let Outcome {
            done,
            reason,
            message,
            ..
        } = outcome;
        if done {
            console.done(&format!("{KIND}/{} unreserved", name::name(*ip)))?;
        } else {
            failed += 1;
            let message = harmless(&message);
            console.error(&format!("{ip} is still reserved: {message} ({reason})"));
        }
    }
    Ok(failed)
}

/// Deletes reservations; how many were not as they were shown.
async fn delete(
    cluster: &Cluster,
    console: &mut Console,
    reservations: &[(IpAddr, Record)],
) -> Result<usize, Failure> {
    let mut failed = 0;
    for (ip, record) in reservations {
        if free(cluster, record).await? {
            console.done(&format!("{KIND}/{} unreserved", name::name(*ip)))?;
        } else {
            failed += 1;
            console.error(&Failure::Conflict(format!("the record of {ip}")).to_string());
        }
    }
    Ok(failed)
}

/// The reservation of an address, none if nobody has it, or why it is not to be touched.
async fn look(cluster: &Cluster, ip: IpAddr) -> Result<Result<Option<Record>, String>, Failure> {
    let found = find(&cluster.records(), &name::name(ip)).await;
    let found = found.map_err(|error| cluster.failure(&error, Access::records("get")))?;
    let Some(object) = found else {
        return Ok(Ok(None));
    };
    Ok(match Record::read(object) {
        Err(error) => Err(format!("the record of {ip} cannot be read: {error}")),
        Ok(record) if record.state != State::Reserved => Err(format!(
            "{ip} is not reserved but held by {} ({}); see kubectl floe ip release",
            record.holder(),
            record.state
        )),
        Ok(record) if record.key.is_vip() => Err(format!(
            "{ip} is reserved, but its record is that of VirtualIP {}",
            record.holder()
        )),
        Ok(record) if record.names_pod() || !record.uid.is_empty() || !record.node.is_empty() => {
            Err(format!(
                "{ip} is reserved, but its record is that of pod {}",
                record.holder()
            ))
        }
        Ok(record) => Ok(Some(record)),
    })
}

fn question(reservations: &[(IpAddr, Record)]) -> String {
    let told = "Pods can get these addresses when they are no longer reserved:";
    let mut question = vec![told.to_owned()];
    for (ip, record) in reservations {
        question.push(format!("  {ip}  {}", harmless(&record.holder())));
    }
    question.push("Go on?".into());
    question.join("\n")
}

/// Deletes the record if it is as it was seen; false if it is not.
async fn free(cluster: &Cluster, record: &Record) -> Result<bool, Failure> {
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: record.raw.uid(),
        resource_version: record.raw.resource_version(),
    });
    match cluster
        .records()
        .delete(&record.raw.name_any(), &params)
        .await
    {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        // Somebody else was quicker, with the same result.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(error) => Err(cluster.failure(&error, Access::records("delete"))),
    }
}

#[cfg(test)]
mod tests;
