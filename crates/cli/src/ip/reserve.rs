//! `kubectl floe ip reserve`.

use std::{collections::BTreeMap, net::IpAddr};

use floe_api::{
    galaxy::{FloatingIP, FloatingIPSpec},
    labels,
};
use floe_core::{
    addr::{IpSet, name},
    ipam::{
        attribute::Attribute, key::HolderKey, policy::ReleasePolicy, reservation, state::State,
    },
};
use jiff::Timestamp;
use kube::{Api, api::PostParams};

use super::KIND;
use crate::{
    args::CONFIG_MAP,
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    record::Record,
    subnet::settings,
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    ips: &[String],
    purpose: Option<&str>,
    dry_run: bool,
) -> Result<(), Failure> {
    let key = reservation::key(purpose).map_err(|error| Failure::Usage(error.to_string()))?;
    let ips = super::expand(ips)?;
    mind_ranges(cluster, console, &ips).await;
    let mut failed = 0;
    for &ip in &ips {
        let suffix = if dry_run { " (server dry run)" } else { "" };
        match one(cluster, ip, &key, dry_run).await? {
            Outcome::Reserved => {
                console.print(&format!("{KIND}/{} reserved{suffix}", name::name(ip)))?;
            }
            Outcome::Unchanged(purpose) => {
                console.print(&format!(
                    "{KIND}/{} is reserved already: {purpose}",
                    name::name(ip)
                ))?;
            }
            Outcome::Held(record) => {
                failed += 1;
                let (state, holder) = (record.state.text(), record.holder());
                console.error(&format!("{ip} is held by {holder} ({state})"));
            }
            Outcome::Taken => {
                failed += 1;
                console.error(&format!("{ip} has a record that cannot be read"));
            }
        }
    }
    if failed == 0 {
        return Ok(());
    }
    let total = ips.len();
    Err(Failure::Some { failed, total })
}

/// Warns of addresses that no pod could get anyway: somebody may have mistyped them.
async fn mind_ranges(cluster: &Cluster, console: &mut Console, ips: &[IpAddr]) {
    let topology = match settings::read_quietly(cluster, CONFIG_MAP).await {
        Ok(topology) => topology,
        Err(failure) => {
            console.warn(&format!(
                "whether these addresses are configured is not known: {failure}"
            ));
            return;
        }
    };
    let strange = ips.iter().filter(|ip| topology.entry_of(**ip).is_none());
    let strange: IpSet = strange.copied().collect();
    for range in strange.ranges() {
        let are = if range.first() == range.last() {
            "is"
        } else {
            "are"
        };
        console.warn(&format!("{range} {are} in no configured range"));
    }
}

/// What became of one address.
enum Outcome {
    Reserved,
    Unchanged(String),
    Held(Box<Record>),
    /// Somebody has it, and nobody can tell who.
    Taken,
}

async fn one(
    cluster: &Cluster,
    ip: IpAddr,
    key: &HolderKey,
    dry_run: bool,
) -> Result<Outcome, Failure> {
    let api: Api<FloatingIP> = Api::all(cluster.client.clone());
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    // The name is unique, so nobody can lose an address by this.
    match api.create(&params, &object(ip, key)).await {
        Ok(_) => return Ok(Outcome::Reserved),
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(cluster.failure(&error, Access::records("create"))),
    }
    let holder = find(&cluster.records(), &name::name(ip)).await;
    let holder = holder.map_err(|error| cluster.failure(&error, Access::records("get")))?;
    let Some(holder) = holder else {
        // Somebody gave it back between the two calls.
        return Err(Failure::Conflict(format!("the record of {ip}")));
    };
    Ok(match Record::read(holder) {
        Ok(record) if record.state == State::Reserved => Outcome::Unchanged(record.holder()),
        Ok(record) => Outcome::Held(Box::new(record)),
        Err(_) => Outcome::Taken,
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
