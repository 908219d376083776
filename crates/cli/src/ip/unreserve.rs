//! `kubectl floe ip unreserve`.

use std::net::IpAddr;

use floe_core::{addr::name, ipam::state::State};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};

use super::KIND;
use crate::{
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    record::Record,
    render::harmless,
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    ips: &[String],
    yes: bool,
) -> Result<(), Failure> {
    let ips = super::expand(ips)?;
    let mut reservations = Vec::new();
    let mut failed = 0;
    for &ip in &ips {
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
    }
    for (ip, record) in reservations {
        if free(cluster, &record).await? {
            console.done(&format!("{KIND}/{} unreserved", name::name(ip)))?;
        } else {
            failed += 1;
            console.error(&Failure::Conflict(format!("the record of {ip}")).to_string());
        }
    }
    if failed == 0 {
        return Ok(());
    }
    let total = ips.len();
    Err(Failure::Some { failed, total })
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
