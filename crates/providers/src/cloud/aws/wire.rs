//! What EC2 says, in its own words.

use std::net::IpAddr;

use floe_core::nodepool::cloud::Mark;
use serde::Deserialize;

/// The keys of the tags that say who bought an address.
const CLUSTER: &str = "floe.dev/cluster";
const POOL: &str = "floe.dev/pool";
const PURCHASE: &str = "floe.dev/purchase";

/// A list, as EC2 writes all of them.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Set<T> {
    #[serde(rename = "item", default = "Vec::new")]
    pub(super) items: Vec<T>,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

/// The answer to `DescribeAddresses`.
#[derive(Debug, Deserialize)]
pub(super) struct Addresses {
    #[serde(rename = "addressesSet")]
    pub(super) set: Set<Address>,
}

/// An Elastic IP. Texts are empty for what it has not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Address {
    pub(super) public_ip: String,
    pub(super) allocation_id: String,
    pub(super) association_id: String,
    pub(super) instance_id: String,
    #[serde(rename = "networkInterfaceId")]
    pub(super) interface_id: String,
    #[serde(rename = "privateIpAddress")]
    pub(super) private_ip: String,
    pub(super) tag_set: Set<Tag>,
}

/// A tag.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tag {
    key: String,
    value: String,
}

impl Address {
    /// None for what is no address of the internet, as those of mobile networks.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.public_ip.parse().ok()
    }

    pub(super) fn mark(&self) -> Option<Mark> {
        let value = |key: &str| {
            let tag = self.tag_set.items.iter().find(|tag| tag.key == key)?;
            (!tag.value.is_empty()).then(|| tag.value.clone())
        };
        Some(Mark {
            cluster: value(CLUSTER)?,
            pool: value(POOL)?,
            purchase: value(PURCHASE)?,
        })
    }
}

/// A mark as parameters of an order.
pub(super) fn tags(mark: &Mark) -> Vec<(String, String)> {
    let words = [
        (CLUSTER, &mark.cluster),
        (POOL, &mark.pool),
        (PURCHASE, &mark.purchase),
    ];
    let mut pairs = Vec::new();
    for (number, (key, value)) in (1..).zip(words) {
        let tag = format!("TagSpecification.1.Tag.{number}");
        pairs.push((format!("{tag}.Key"), key.to_owned()));
        pairs.push((format!("{tag}.Value"), value.clone()));
    }
    pairs
}

/// The answer to `DescribeInstances`.
#[derive(Debug, Deserialize)]
pub(super) struct Instances {
    #[serde(rename = "reservationSet")]
    reservations: Set<Reservation>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reservation {
    #[serde(default)]
    instances_set: Set<Described>,
}

impl Instances {
    pub(super) fn all(&self) -> impl Iterator<Item = &Described> {
        let reservations = self.reservations.items.iter();
        reservations.flat_map(|reservation| &reservation.instances_set.items)
    }
}

/// An instance.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Described {
    #[serde(rename = "instanceId")]
    pub(super) id: String,
    instance_state: InstanceState,
    pub(super) placement: Placement,
    network_interface_set: Set<Interface>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InstanceState {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Placement {
    #[serde(rename = "availabilityZone")]
    pub(super) zone: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Interface {
    network_interface_id: String,
    private_ip_address: String,
    attachment: Attachment,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Attachment {
    device_index: u32,
}

/// Where on an instance an address goes: the first address of its first interface.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) interface: String,
    private_ip: String,
    /// There is no other interface, so that EC2 finds it by itself.
    pub(super) alone: bool,
    instance: String,
}

impl Described {
    /// It will never run again.
    pub(super) fn is_gone(&self) -> bool {
        matches!(
            self.instance_state.name.as_str(),
            "terminated" | "shutting-down"
        )
    }

    pub(super) fn place(&self) -> Place {
        let interfaces = &self.network_interface_set.items;
        let first = interfaces
            .iter()
            .min_by_key(|interface| interface.attachment.device_index);
        let text = |of: fn(&Interface) -> &String| first.map(of).cloned().unwrap_or_default();
        Place {
            interface: text(|first| &first.network_interface_id),
            private_ip: text(|first| &first.private_ip_address),
            alone: interfaces.len() <= 1,
            instance: self.id.clone(),
        }
    }
}

impl Place {
    /// Whether this address is there, so that another one would push it off.
    pub(super) fn has(&self, address: &Address) -> bool {
        let on_instance = self.alone && address.instance_id == self.instance;
        let on_interface = !self.interface.is_empty() && address.interface_id == self.interface;
        let private = &address.private_ip;
        let first = private.is_empty() || *private == self.private_ip;
        (on_instance || on_interface) && first
    }
}

/// The answer to `AllocateAddress`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Allocated {
    pub(super) public_ip: String,
}

/// The answer to `AssociateAddress`. Without an id, nothing was associated.
#[derive(Debug, Deserialize)]
pub(super) struct Associated {
    #[serde(rename = "associationId")]
    _id: String,
}

/// The answer to orders that give nothing back.
#[derive(Debug, Deserialize)]
pub(super) struct Returned {
    #[serde(rename = "requestId", alias = "RequestId")]
    _request: String,
}
