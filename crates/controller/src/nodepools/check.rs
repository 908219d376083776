//! Whether a specification can be followed, in FLIPOP's words and order.

use std::sync::Arc;

use floe_api::flipop::{
    DnsRecordSet, Match,
    pool::{DEFAULT_TTL, FloatingIPPoolSpec},
    records::NodeDNSRecordSetSpec,
};
use floe_core::nodepool::{
    matching::{Rule, Selector, Toleration},
    records::RecordSet,
    rivals::Rival,
};
use floe_providers::{floating::FloatingIps, names::Dns, registry::Registry};

use super::objects::Id;

/// Why a specification cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The stable reason.
    pub reason: &'static str,
    /// Compat: FLIPOP's words.
    pub message: String,
}

/// A pool that can be followed.
#[derive(Clone)]
pub struct PoolPlan {
    /// The name of its cloud.
    pub provider: String,
    /// The cloud.
    pub ips: Arc<dyn FloatingIps>,
    /// Which nodes are meant.
    pub rule: Rule,
    /// What is watched.
    pub selection: Selection,
    /// The name that says its addresses.
    pub dns: Option<DnsPlan>,
}

/// A record set that can be followed.
#[derive(Clone)]
pub struct RecordsPlan {
    /// Which nodes are meant.
    pub rule: Rule,
    /// What is watched.
    pub selection: Selection,
    /// The name.
    pub dns: DnsPlan,
}

/// What is watched, as texts for the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The selector of nodes.
    pub nodes: String,
    /// Namespace and selector of pods; none when they do not matter.
    pub pods: Option<(String, String)>,
}

/// A name in DNS.
#[derive(Clone)]
pub struct DnsPlan {
    /// The name of its provider.
    pub provider: String,
    /// Who keeps the zone.
    pub dns: Arc<dyn Dns>,
    /// The zone.
    pub zone: String,
    /// The name.
    pub name: String,
    /// How long others may remember it.
    pub ttl: u32,
    /// Whether it may say nothing.
    pub empties: bool,
}

impl DnsPlan {
    fn new(provider: &str, dns: &Arc<dyn Dns>, set: &DnsRecordSet, ttl: u32) -> Self {
        Self {
            provider: provider.to_owned(),
            dns: Arc::clone(dns),
            zone: set.zone.clone(),
            name: set.record_name.clone(),
            ttl: set.ttl_or(ttl),
            empties: set.allow_empty,
        }
    }

    /// The name in full.
    pub fn full_name(&self) -> String {
        self.dns.full_name(&self.zone, &self.name)
    }

    /// Whether it is the same name at the same provider.
    pub fn is_same_place(&self, other: &Self) -> bool {
        (&self.provider, &self.zone, &self.name) == (&other.provider, &other.zone, &other.name)
    }

    /// Whether this set, written at that provider, is about this name.
    pub fn is_at(&self, provider: &str, set: &RecordSet) -> bool {
        self.provider == provider && (&self.zone, &self.name) == (&set.zone, &set.name)
    }
}

/// Whether a pool can be followed.
pub fn pool(spec: &FloatingIPPoolSpec, registry: &Registry) -> Result<PoolPlan, Fault> {
    let name = &spec.provider;
    let Some(provider) = registry.get(name) else {
        return Err(unknown(name));
    };
    let Some(ips) = &provider.ips else {
        let message = format!("provider {name:?} does not provide floating IPs");
        return Err(fault("NoFloatingIPs", message));
    };
    if spec.ips.is_empty() && spec.desired_ips == 0 {
        let message = "ips or desiredIPs must be provided".to_owned();
        return Err(fault("NothingAsked", message));
    }
    let rule = rule(&spec.rule)?;
    let mut dns = None;
    if let Some(set) = &spec.dns_record_set {
        let chosen = match set.provider.as_str() {
            "" => name,
            own => own,
        };
        let able = registry.get(chosen).and_then(|it| it.dns.as_ref());
        // A provider that nobody knows can do no DNS either.
        let Some(able) = able else {
            let message =
                "FloatingIPPool dns referenced provider without dns capability".to_owned();
            return Err(fault("NoDNS", message));
        };
        // Compat: half a name is none.
        if set.is_named() {
            dns = Some(DnsPlan::new(chosen, able, set, DEFAULT_TTL));
        }
    }
    if let Some(text) = spec.unreadable() {
        let message = format!("ips: {text:?} is not an address");
        return Err(fault("InvalidAddress", message));
    }
    Ok(PoolPlan {
        provider: name.clone(),
        ips: Arc::clone(ips),
        rule,
        selection: selection(&spec.rule),
        dns,
    })
}

/// Another pool keeps an address of this one.
pub fn rival(rival: &Rival<Id>) -> Fault {
    let Rival { ip, keeper } = rival;
    let Id { namespace, name } = keeper;
    let message = format!("ips: {ip} belongs to FloatingIPPool {namespace}/{name}");
    fault("AddressInOtherPool", message)
}

/// Whether a record set can be followed.
pub fn records(spec: &NodeDNSRecordSetSpec, registry: &Registry) -> Result<RecordsPlan, Fault> {
    let name = spec.provider();
    let Some(provider) = registry.get(name) else {
        return Err(unknown(name));
    };
    let Some(dns) = &provider.dns else {
        let message = format!("provider {name:?} does not provide DNS");
        return Err(fault("NoDNS", message));
    };
    if !spec.dns_record_set.is_named() {
        let message = "invalid dnsRecordSet specification".to_owned();
        return Err(fault("InvalidRecordSet", message));
    }
    Ok(RecordsPlan {
        rule: rule(&spec.rule)?,
        selection: selection(&spec.rule),
        // Compat: without a lifetime it is left to the provider.
        dns: DnsPlan::new(name, dns, &spec.dns_record_set, 0),
    })
}

fn rule(rule: &Match) -> Result<Rule, Fault> {
    let parse = |what: &str, text: &str| {
        Selector::parse(text).map_err(|error| {
            let message = format!("Error parsing {what} selector: {error}");
            fault("InvalidSelector", message)
        })
    };
    let node_selector = parse("node", &rule.node_label)?;
    let pod_selector = parse("pod", &rule.pod_label)?;
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let tolerations = rule.tolerations.iter().map(|it| Toleration {
        key: it.key.clone(),
        operator: it.operator.clone(),
        value: it.value.clone(),
        effect: it.effect.clone(),
    });
    Ok(Rule {
        node_selector,
        pod_selector: (!rule.pod_label.is_empty()).then_some(pod_selector),
        pod_namespace: some(&rule.pod_namespace),
        tolerations: tolerations.collect(),
    })
}

fn selection(rule: &Match) -> Selection {
    let with_pods = !rule.pod_label.is_empty() || !rule.pod_namespace.is_empty();
    let pods = || (rule.pod_namespace.clone(), rule.pod_label.clone());
    Selection {
        nodes: rule.node_label.clone(),
        pods: with_pods.then(pods),
    }
}

fn unknown(name: &str) -> Fault {
    fault("UnknownProvider", format!("unknown provider {name:?}"))
}

fn fault(reason: &'static str, message: String) -> Fault {
    Fault { reason, message }
}
