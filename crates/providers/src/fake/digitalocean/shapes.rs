//! How things are written.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::state::{Action, Address};

pub(super) fn region(slug: &str) -> Value {
    json!({
        "name": slug.to_uppercase(),
        "slug": slug,
        "features": ["private_networking", "backups", "ipv6", "metadata", "install_agent", "storage", "image_transfer"],
        "available": true,
        "sizes": ["s-1vcpu-1gb", "s-1vcpu-2gb"],
    })
}

pub(super) fn droplet(id: u64, slug: &str) -> Value {
    json!({
        "id": id,
        "name": format!("node-{id}"),
        "memory": 1024,
        "vcpus": 1,
        "disk": 25,
        "locked": false,
        "status": "active",
        "kernel": null,
        "created_at": "2020-07-21T18:37:44Z",
        "features": ["private_networking", "ipv6"],
        "backup_ids": [],
        "next_backup_window": null,
        "snapshot_ids": [],
        "image": {
            "id": 63_663_980, "name": "20.04 (LTS) x64", "type": "base", "distribution": "Ubuntu",
            "slug": "ubuntu-20-04-x64", "public": true, "regions": [slug],
            "created_at": "2020-05-15T05:47:50Z", "min_disk_size": 20, "size_gigabytes": 2.36,
            "description": "", "tags": [], "status": "available", "error_message": "",
        },
        "volume_ids": [],
        "size": {
            "slug": "s-1vcpu-1gb", "memory": 1024, "vcpus": 1, "disk": 25, "transfer": 1.0,
            "price_monthly": 5.0, "price_hourly": 0.007_44, "regions": [slug], "available": true,
            "description": "Basic",
        },
        "size_slug": "s-1vcpu-1gb",
        "networks": {"v4": [], "v6": []},
        "region": region(slug),
        "tags": [],
        "vpc_uuid": "760e09ef-dc84-11e8-981e-3cfdfeaae000",
    })
}

/// An address of IPv4.
pub(super) fn reserved_ip(ip: IpAddr, address: &Address) -> Value {
    json!({
        "ip": ip,
        "region": region(&address.region),
        "droplet": address.droplet.map(|id| droplet(id, &address.region)),
        "locked": address.locked,
        "project_id": address.project,
    })
}

/// An address of IPv6, where nothing is written of a droplet that it is not on.
pub(super) fn reserved_ipv6(ip: IpAddr, address: &Address) -> Value {
    let mut written = json!({
        "ip": ip,
        "region_slug": address.region,
        "reserved_at": address.reserved_at.to_string(),
    });
    if let Some(id) = address.droplet {
        written["droplet"] = droplet(id, &address.region);
    }
    written
}

pub(super) fn action(id: u64, action: &Action, slug: &str) -> Value {
    let order = if action.droplet.is_some() {
        "assign_ip"
    } else {
        "unassign_ip"
    };
    let (kind, number) = match action.ip {
        IpAddr::V4(ip) => ("floating_ip", ip.to_bits()),
        IpAddr::V6(_) => ("reserved_ipv6", 758_604_968),
    };
    json!({
        "id": id,
        "status": action.status,
        "type": order,
        "started_at": action.started.to_string(),
        "completed_at": action.completed.map(|at| at.to_string()),
        "resource_id": number,
        "resource_type": kind,
        "region": region(slug),
        "region_slug": slug,
    })
}
