//! Who of the clouds and name servers has credentials in this process.

use std::{collections::BTreeMap, sync::Arc};

use crate::{floating::FloatingIps, names::Dns};

/// A provider, under the name that specifications use.
#[derive(Clone, Default)]
pub struct Provider {
    /// It has addresses.
    pub ips: Option<Arc<dyn FloatingIps>>,
    /// It has zones.
    pub dns: Option<Arc<dyn Dns>>,
}

/// All that are known to this process.
#[derive(Clone, Default)]
pub struct Registry {
    providers: BTreeMap<String, Provider>,
}

impl Registry {
    /// Adds a provider, or replaces it.
    pub fn insert(&mut self, name: impl Into<String>, provider: Provider) {
        self.providers.insert(name.into(), provider);
    }

    /// The provider of that name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.providers.get(name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }
}
