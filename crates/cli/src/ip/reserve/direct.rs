//! Reservations that are written without the controller.

use std::{collections::BTreeMap, net::IpAddr};

use floe_api::{
    galaxy::{FloatingIP, FloatingIPSpec},
    labels,
};
use floe_core::{
    addr::name,
    ipam::{attribute::Attribute, key::HolderKey, policy::ReleasePolicy, state::State},
};
use jiff::Timestamp;
use kube::{Api, api::PostParams};

use crate::{
    cluster::{Access, Cluster, find},
    failure::Failure,
    record::Record,
};

/// What became of one address.
pub enum Written {
    /// It was free.
    Reserved,
    /// It was reserved before, for this.
    Unchanged(String),
    /// Somebody has it.
    Held(Box<Record>),
    /// Somebody has it, and nobody can tell who.
    Taken,
    /// Somebody had it a moment ago.
    Gone,
}

/// Reserves an address that nobody has.
pub async fn create(
    cluster: &Cluster,
    ip: IpAddr,
    key: &HolderKey,
    dry_run: bool,
) -> Result<Written, Failure> {
    let api: Api<FloatingIP> = Api::all(cluster.client.clone());
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    // The name is unique, so nobody can lose an address by this.
    match api.create(&params, &object(ip, key)).await {
        Ok(_) => Ok(Written::Reserved),
        Err(kube::Error::Api(status)) if status.code == 409 => holder(cluster, ip).await,
        Err(error) => Err(cluster.failure(&error, Access::records("create"))),
    }
}

/// Who has an address that could not be reserved.
pub async fn holder(cluster: &Cluster, ip: IpAddr) -> Result<Written, Failure> {
    let holder = find(&cluster.records(), &name::name(ip)).await;
    let holder = holder.map_err(|error| cluster.failure(&error, Access::records("get")))?;
    Ok(match holder.map(Record::read) {
        Some(Ok(record)) if record.state == State::Reserved => Written::Unchanged(record.holder()),
        Some(Ok(record)) => Written::Held(Box::new(record)),
        Some(Err(_)) => Written::Taken,
        None => Written::Gone,
    })
}

/// A reservation, as galaxy documents it.
fn object(ip: IpAddr, key: &HolderKey) -> FloatingIP {
    // Compat: galaxy stores whole seconds.
    let now = Timestamp::now();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let spec = FloatingIPSpec::of(key, &Attribute::default(), ReleasePolicy::Never, now);
    let mut object = FloatingIP::new(ip, spec);
    object.metadata.labels = Some(BTreeMap::from([(
        labels::RESERVED.to_owned(),
        "true".to_owned(),
    )]));
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::STATE.to_owned(), State::Reserved.text().to_owned());
    object
}
