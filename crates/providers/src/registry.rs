//! Who of the clouds and name servers has credentials in this process.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    cloud::{self, query::Environment},
    floating::FloatingIps,
    names::Dns,
    zone,
};

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

/// How a provider is made of what the environment says, if it says anything of it.
type Make = fn(Environment<'_>) -> Result<Option<Provider>, String>;

/// All providers with the names they have in specifications.
const ALL: &[(&str, Make)] = &[
    ("aws", |environment| {
        let ips = cloud::aws::from_environment(environment)?;
        let dns = zone::route53::from_environment(environment)?;
        let names = dns.map(Provider::names).unwrap_or_default();
        Ok(ips.map(|ips| Provider::addresses(ips).with(names)))
    }),
    ("cloudflare", |environment| {
        let dns = zone::cloudflare::from_environment(environment)?;
        Ok(dns.map(Provider::names))
    }),
    ("digitalocean", |environment| {
        let ips = cloud::digitalocean::from_environment(environment)?;
        let dns = zone::digitalocean::from_environment(environment)?;
        let names = dns.map(Provider::names).unwrap_or_default();
        Ok(ips.map(|ips| Provider::addresses(ips).with(names)))
    }),
    // For tests: what DigitalOcean can do, with no account and under no vendor's name.
    ("fake", |environment| {
        let Some(http) = cloud::digitalocean::fake(environment)? else {
            return Ok(None);
        };
        let options = cloud::digitalocean::Options {
            ipv6: true,
            project_per_address: true,
            ..cloud::digitalocean::Options::default()
        };
        let ips = cloud::digitalocean::DigitalOcean::new(http.clone(), options);
        let names = Provider::names(zone::digitalocean::DigitalOceanDns::new(http));
        Ok(Some(Provider::addresses(ips).with(names)))
    }),
    ("hetzner", |environment| {
        let ips = cloud::hetzner::from_environment(environment)?;
        Ok(ips.map(Provider::addresses))
    }),
    ("openstack", |environment| {
        let ips = cloud::neutron::from_environment(environment)?;
        Ok(ips.map(Provider::addresses))
    }),
    ("rfc2136", |environment| {
        let dns = zone::rfc2136::from_environment(environment)?;
        Ok(dns.map(Provider::names))
    }),
];

impl Provider {
    /// One that has addresses.
    fn addresses(ips: impl FloatingIps + 'static) -> Self {
        Self {
            ips: Some(Arc::new(ips)),
            dns: None,
        }
    }

    /// One that has zones.
    fn names(dns: impl Dns + 'static) -> Self {
        Self {
            ips: None,
            dns: Some(Arc::new(dns)),
        }
    }

    /// One that has what both have.
    fn with(self, other: Self) -> Self {
        Self {
            ips: self.ips.or(other.ips),
            dns: self.dns.or(other.dns),
        }
    }
}

impl Registry {
    /// All providers that the environment has credentials for, and what is wrong with the
    /// settings of those that are therefore missing. A fault of one keeps no other out.
    ///
    /// Each secret may also be in a file: `DIGITALOCEAN_ACCESS_TOKEN_FILE` names it.
    pub fn from_environment(environment: Environment<'_>) -> (Self, Vec<String>) {
        let mut registry = Self::default();
        let mut problems = Vec::new();
        for (name, make) in ALL {
            match make(environment) {
                Ok(Some(provider)) => registry.insert(*name, provider),
                Ok(None) => {}
                Err(words) => problems.push(format!("provider {name}: {words}")),
            }
        }
        (registry, problems)
    }

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
