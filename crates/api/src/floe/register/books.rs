//! All `VirtualIP` objects and registers, put together: an object is what its register says
//! of it, whatever its status shows.

use std::{collections::BTreeMap, sync::Arc};

use floe_core::vip::VipId;

use super::{Entry, VirtualIPRegister, name_for};
use crate::floe::virtualip::VirtualIP;

/// What is known.
#[derive(Debug, Default)]
pub struct Books {
    /// As the API server has them.
    shown: BTreeMap<VipId, Arc<VirtualIP>>,
    /// As they are.
    vips: BTreeMap<VipId, Arc<VirtualIP>>,
    registers: BTreeMap<String, VirtualIPRegister>,
    /// The objects by their uid.
    ids: BTreeMap<String, VipId>,
}

/// What a register concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The objects that are in it or were.
    pub all: Vec<VipId>,
    /// Those of them that are different now.
    pub changed: Vec<VipId>,
}

/// Where the entry of an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the register.
    pub register: String,
    /// The uid of the object.
    pub uid: String,
}

impl Books {
    /// All objects as they are.
    pub fn vips(&self) -> &BTreeMap<VipId, Arc<VirtualIP>> {
        &self.vips
    }

    /// An object as it is.
    pub fn vip(&self, id: &VipId) -> Option<&Arc<VirtualIP>> {
        self.vips.get(id)
    }

    /// An object as the API server has it.
    pub fn shown(&self, id: &VipId) -> Option<&Arc<VirtualIP>> {
        self.shown.get(id)
    }

    /// A register.
    pub fn register(&self, name: &str) -> Option<&VirtualIPRegister> {
        self.registers.get(name)
    }

    /// The objects of which a register has an entry.
    pub fn within(&self, register: &str) -> Vec<VipId> {
        let register = self.registers.get(register).into_iter();
        let uids = register.flat_map(|it| it.entries.keys());
        uids.filter_map(|uid| self.ids.get(uid).cloned()).collect()
    }

    /// Where the entry of an object is, if it has one.
    pub fn place(&self, id: &VipId) -> Option<Place> {
        let uid = uid(self.shown.get(id)?);
        let register = name_for(uid);
        let entries = &self.registers.get(&register)?.entries;
        let uid = uid.to_owned();
        entries
            .contains_key(&uid)
            .then_some(Place { register, uid })
    }

    /// All entries, by the uid of their object.
    pub fn entries(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.registers.values().flat_map(|it| &it.entries)
    }

    /// The object of a uid.
    pub fn id_of_uid(&self, uid: &str) -> Option<&VipId> {
        self.ids.get(uid)
    }

    /// The entry of an object.
    pub fn entry(&self, id: &VipId) -> Option<&Entry> {
        let place = self.place(id)?;
        self.registers.get(&place.register)?.entries.get(&place.uid)
    }

    /// All registers.
    pub fn registers(&self) -> impl Iterator<Item = &VirtualIPRegister> {
        self.registers.values()
    }

    /// The register that an object belongs into, if there is one.
    pub fn register_of(&self, vip: &VirtualIP) -> Option<&VirtualIPRegister> {
        self.registers.get(&name_for(uid(vip)))
    }

    /// An object as it is by a register that may be older than the known one.
    pub fn vip_by(&self, id: &VipId, register: &VirtualIPRegister) -> Option<VirtualIP> {
        let shown = self.shown.get(id)?;
        Some(Entry::applied(register.entries.get(uid(shown)), shown))
    }

    /// Takes in an object.
    pub fn put_vip(&mut self, object: Arc<VirtualIP>) {
        let id = object.id();
        self.remove_vip(&id);
        self.ids.insert(uid(&object).to_owned(), id.clone());
        self.shown.insert(id.clone(), object);
        self.put_together(&id);
    }

    /// Takes in that an object is gone.
    pub fn remove_vip(&mut self, id: &VipId) {
        self.vips.remove(id);
        if let Some(object) = self.shown.remove(id) {
            self.ids.remove(uid(&object));
        }
    }

    /// Takes in a register, or that it is gone.
    pub fn put_register(&mut self, name: &str, register: Option<VirtualIPRegister>) -> Touched {
        let old = self.registers.remove(name).unwrap_or_default().entries;
        let none = BTreeMap::new();
        let new = register.as_ref().map_or(&none, |it| &it.entries);
        let mut touched = Touched::default();
        let gone = old.keys().filter(|it| !new.contains_key(*it));
        for uid in new.keys().chain(gone) {
            if let Some(id) = self.ids.get(uid) {
                touched.all.push(id.clone());
                if old.get(uid) != new.get(uid) {
                    touched.changed.push(id.clone());
                }
            }
        }
        if let Some(register) = register {
            self.registers.insert(name.to_owned(), register);
        }
        for id in &touched.changed {
            self.put_together(id);
        }
        touched
    }

    fn put_together(&mut self, id: &VipId) {
        let Some(shown) = self.shown.get(id) else {
            return;
        };
        let vip = Entry::applied(self.entry(id), shown);
        let vip = if vip == **shown {
            Arc::clone(shown)
        } else {
            Arc::new(vip)
        };
        self.vips.insert(id.clone(), vip);
    }
}

fn uid(object: &VirtualIP) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}
