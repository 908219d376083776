//! `VirtualIPRegister`: who has shared addresses, of many `VirtualIP` objects in one.
//!
//! Kubernetes writes one object at a time. What has to move at once when a node dies is
//! therefore kept together: there are sixteen registers, and the first digit of a
//! `VirtualIP`'s uid says which one has its entry. So an entry has one place, whoever makes
//! it, and nobody ever has to look for a second one.
//!
//! A register decides; the status of the `VirtualIP` shows the same to people, a moment
//! later.

use std::{collections::BTreeMap, net::IpAddr};

use floe_core::vip::VipId;
use jiff::Timestamp;
use k8s_openapi::{
    ClusterResourceScope,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionNames,
    },
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time},
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct as _};
use serde_json::{Value, json};

use super::{
    API_VERSION, GROUP, VERSION,
    virtualip::{self, Holding, Move, SERVING, VirtualIP, VirtualIPStatus},
};
use crate::{
    crds::{Definition, schema},
    resource::resource,
};

mod books;
mod stored;

pub use self::books::{Books, Place, Touched};

/// The finalizer by which a register stays while it has entries: without them nobody could
/// tell who speaks for an address.
pub const FINALIZER: &str = "floe.dev/register";

/// What the names of registers begin with.
const PREFIX: &str = "floe-vips-";

/// Who has the addresses of some `VirtualIP` objects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct VirtualIPRegister {
    /// The name says which objects are in it.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// By the uid of the object.
    #[serde(default, deserialize_with = "stored::read_all")]
    pub entries: BTreeMap<String, Entry>,
}

/// Who has the addresses of one `VirtualIP`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Entry {
    /// Its namespace and name, for people.
    pub vip: String,
    /// The addresses that are granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// The addresses that were withdrawn because the object is gone. The node of the holder may
    /// still answer for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<IpAddr>,
    /// Who has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holding>,
    /// Who is to have them next, while they are handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<Holding>,
    /// How often they have moved. It never falls, and grows whenever a holder loses them.
    pub moves: i64,
    /// The last move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_move: Option<Move>,
}

/// How many registers there are.
pub const COUNT: usize = 16;

/// The name of a register by its number.
pub fn name_of(number: usize) -> String {
    format!("{PREFIX}{:x}", number % COUNT)
}

/// The name of the register that has the entry of a `VirtualIP` with this uid.
pub fn name_for(uid: &str) -> String {
    let digit = uid.chars().next().filter(char::is_ascii_hexdigit);
    format!("{PREFIX}{}", digit.unwrap_or('0').to_ascii_lowercase())
}

impl VirtualIPRegister {
    /// A new one of this name.
    pub fn named(name: &str) -> Self {
        Self {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                finalizers: Some(vec![FINALIZER.to_owned()]),
                ..ObjectMeta::default()
            },
            entries: BTreeMap::new(),
        }
    }
}

/// The write that gives entries to a register of this version, all of them or none; where
/// there is nothing to give, the entry goes.
pub fn patch<'a>(
    version: Option<&str>,
    entries: impl IntoIterator<Item = (&'a str, Option<&'a Entry>)>,
) -> Value {
    let entries = entries.into_iter();
    let entries = entries.map(|(uid, entry)| (uid.to_owned(), entry.map(stored::replacement)));
    let entries: BTreeMap<String, Option<Value>> = entries.collect();
    json!({ "metadata": { "resourceVersion": version }, "entries": entries })
}

impl Entry {
    /// The entry of an object that is as its entry says.
    pub fn of(vip: &VirtualIP) -> Self {
        let VipId { namespace, name } = vip.id();
        let status = vip.status.clone().unwrap_or_default();
        Self {
            vip: format!("{namespace}/{name}"),
            addresses: status.addresses,
            withheld: Vec::new(),
            holder: status.holder,
            successor: status.successor,
            moves: status.moves,
            last_move: status.last_move,
        }
    }

    /// The entry after which no agent can take the addresses; none if it is that already. The
    /// holder stays, because its node may still answer.
    pub fn withdrawn(&self) -> Option<Self> {
        let is_withdrawn = self.addresses.is_empty() && self.successor.is_none();
        (!is_withdrawn).then(|| Self {
            addresses: Vec::new(),
            successor: None,
            ..self.clone()
        })
    }

    /// The same for an object that is gone: nothing else may tell what its holder speaks for.
    pub fn orphaned(&self) -> Option<Self> {
        let next = self.withdrawn()?;
        let addresses = self.addresses.iter();
        let new = addresses.filter(|ip| !self.withheld.contains(ip));
        let withheld = self.withheld.iter().chain(new).copied().collect();
        Some(Self { withheld, ..next })
    }

    /// The object as it is by its entry, whatever its status shows. Without an entry nothing
    /// is granted, and nobody has anything.
    pub fn applied(entry: Option<&Self>, vip: &VirtualIP) -> VirtualIP {
        let mut vip = vip.clone();
        if entry.is_none() && vip.status.is_none() {
            return vip;
        }
        let status = vip.status.get_or_insert_default();
        let entry = entry.cloned().unwrap_or_else(|| Self {
            moves: status.moves,
            last_move: status.last_move.clone(),
            ..Self::default()
        });
        status.addresses = entry.addresses;
        status.holder = entry.holder;
        status.successor = entry.successor;
        status.moves = entry.moves;
        status.last_move = entry.last_move;
        vip
    }

    /// The changes after which the status of an object shows this; none if it does already.
    pub fn shown_on(&self, vip: &VirtualIP, now: Timestamp) -> Option<Value> {
        let nothing = VirtualIPStatus::default();
        let status = vip.status.as_ref().unwrap_or(&nothing);
        let mut patch = json!({});
        if status.addresses != self.addresses {
            // An empty list is left out, as everybody does who writes the whole.
            let some = (!self.addresses.is_empty()).then_some(&self.addresses);
            patch["addresses"] = json!(some);
            let summary = virtualip::Summary::of(&vip.spec, &self.addresses, &[]);
            patch["summary"] = json!({ "addresses": summary.addresses });
        }
        if status.holder != self.holder {
            patch["holder"] = whole(self.holder.as_ref());
        }
        if status.successor != self.successor {
            patch["successor"] = whole(self.successor.as_ref());
        }
        if status.moves != self.moves || vip.status.is_none() {
            patch["moves"] = json!(self.moves);
        }
        if status.last_move != self.last_move {
            let last = self.last_move.as_ref().map(
                |it| json!({ "at": it.at, "reason": it.reason, "from": it.from, "to": it.to }),
            );
            patch["lastMove"] = json!(last);
        }
        if let Some(conditions) = self.unserved(vip, now) {
            patch["conditions"] = json!(conditions);
        }
        (patch != json!({})).then_some(patch)
    }

    /// The conditions of an object that says that it is served, and has no holder.
    fn unserved(&self, vip: &VirtualIP, now: Timestamp) -> Option<Vec<Condition>> {
        let last = self.last_move.as_ref().filter(|_| self.holder.is_none())?;
        vip.condition(SERVING).filter(|it| it.status == "True")?;
        let conditions = vip.status.iter().flat_map(|it| &it.conditions);
        let others = conditions.filter(|it| it.type_ != SERVING).cloned();
        let condition = Condition {
            type_: SERVING.to_owned(),
            status: "False".to_owned(),
            reason: last.reason.clone(),
            message: "no pod has the addresses".to_owned(),
            observed_generation: vip.metadata.generation,
            last_transition_time: Time(now),
        };
        Some(others.chain([condition]).collect())
    }
}

/// What replaces a pod in a merge, in which only what is null goes.
fn whole(holding: Option<&Holding>) -> Value {
    let Some(holding) = holding else {
        return Value::Null;
    };
    let mut value = json!(holding);
    for member in ["since", "ready", "reason"] {
        if value.get(member).is_none() {
            value[member] = Value::Null;
        }
    }
    value
}

impl Serialize for VirtualIPRegister {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("VirtualIPRegister", 4)?;
        object.serialize_field("apiVersion", API_VERSION)?;
        object.serialize_field("kind", "VirtualIPRegister")?;
        object.serialize_field("metadata", &self.metadata)?;
        let entries = self.entries.iter();
        let entries = entries.map(|(uid, entry)| (uid, stored::stored(entry)));
        object.serialize_field("entries", &entries.collect::<BTreeMap<_, _>>())?;
        object.end()
    }
}

resource!(
    VirtualIPRegister,
    "virtualipregisters",
    ClusterResourceScope
);

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    let entries = schema::map("By the uid of the VirtualIP.", stored::definition());
    Definition {
        group: GROUP,
        version: VERSION,
        has_status: false,
        names: CustomResourceDefinitionNames {
            kind: "VirtualIPRegister".into(),
            list_kind: Some("VirtualIPRegisterList".into()),
            plural: "virtualipregisters".into(),
            singular: Some("virtualipregister".into()),
            ..CustomResourceDefinitionNames::default()
        },
        scope: "Cluster",
        columns: vec![crate::crds::column::age()],
        schema: schema::object(
            "Who has the shared addresses of some VirtualIPs. Agents and the controller write it; \
             people look at VirtualIPs.",
            [("entries", schema::untracked(entries))],
            &[],
        ),
    }
    .build()
}

#[cfg(test)]
mod tests;
