//! `kubectl floe ip show`.

use floe_core::ipam::policy::ReleasePolicy;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::KIND;
use crate::{
    args::{Format, Output},
    cluster::{Access, Cluster, find},
    console::Console,
    failure::Failure,
    record::{self, Record},
    render::{self, age, sheet::Sheet},
};

/// Runs the command.
pub async fn run(
    cluster: &Cluster,
    console: &mut Console,
    ips: &[String],
    output: Output,
) -> Result<(), Failure> {
    let mut names = Vec::new();
    for ip in ips {
        names.push((ip, record::name_of(ip)?));
    }
    let mut found = Vec::new();
    for (ip, name) in &names {
        found.push(one(cluster, ip, name).await?);
    }
    let text = match output.format {
        Some(format @ (Format::Json | Format::Yaml | Format::Name)) => {
            render::objects(format, KIND, found.iter().map(|it| &it.raw), false)?
        }
        Some(Format::Wide) | None => {
            let now = Timestamp::now();
            let sheets: Vec<_> = found
                .iter()
                .map(|record| sheet(record, now).text())
                .collect();
            sheets.join("\n")
        }
    };
    console.print(&text)
}

async fn one(cluster: &Cluster, ip: &str, name: &str) -> Result<Record, Failure> {
    let found = find(&cluster.records(), name).await;
    let found = found.map_err(|error| cluster.failure(&error, Access::records("get")))?;
    let object = found.ok_or_else(|| Failure::NoSuch {
        kind: "record",
        name: ip.to_owned(),
        namespace: None,
        hint: Some(
            "nobody holds this address: it is free or not configured \
             (kubectl floe subnet list -o wide shows the ranges)"
                .into(),
        ),
    })?;
    Record::read(object).map_err(|error| Failure::Unprintable(error.to_string()))
}

fn sheet(record: &Record, now: Timestamp) -> Sheet {
    let parts = record.parts();
    let since = record.since.map_or_else(String::new, |time| {
        format!("{time} ({} ago)", age::since(Some(time), now))
    });
    let labels = record.raw.labels().iter();
    let mut sheet = Sheet::default();
    sheet
        .line("Address", record.address())
        .line("State", record.state.text())
        .line("Holder", record.holder())
        .line("Pool", parts.pool.unwrap_or_default())
        .line("Namespace", parts.namespace)
        .line("Workload", record.workload())
        .line("Pod", parts.pod)
        .line("Pod UID", &record.uid)
        .line("Node", &record.node)
        .line(
            "Policy",
            format!("{} ({})", record.policy.text(), meaning(record.policy)),
        )
        .line("Since", since)
        .line("Configured", if record.is_outside { "no" } else { "yes" })
        .line("Key", record.key.as_str())
        .line("Object", format!("{KIND}/{}", record.raw.name_any()))
        .list(
            "Labels",
            labels.map(|(name, value)| format!("{name}={value}")),
        );
    sheet
}

fn meaning(policy: ReleasePolicy) -> &'static str {
    match policy {
        ReleasePolicy::OnDelete => "released when its pod is deleted or finished",
        ReleasePolicy::Immutable => "released when its workload no longer wants the pod",
        ReleasePolicy::Never => "released by hand only",
    }
}
