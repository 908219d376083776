//! From the JSON text to entries whose members are parsed, each by itself.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{
    json::{Object, decode},
    problem::{Fault, LeftOut, Problem},
};
use crate::addr::{self, IpRange};

/// An entry with all its members parsed and nothing compared yet.
#[derive(Debug)]
pub(super) struct Draft {
    pub index: usize,
    pub node_subnets: BTreeSet<IpNet>,
    pub ranges: Vec<IpRange>,
    /// In any order; `None` when it cannot be told who may have which.
    pub shared: Option<SharedDraft>,
    /// Only the length of the mask counts, and the family it is for.
    pub subnet: IpNet,
    pub gateway: IpAddr,
    pub vlan: u16,
}

/// What is set aside for addresses that several pods share.
#[derive(Debug, Default)]
pub(super) struct SharedDraft {
    pub ranges: Vec<IpRange>,
    pub namespaces: Option<BTreeSet<String>>,
}

/// The entries of a text that could be parsed, in the order of the text.
pub(super) fn drafts(text: &str, problems: &mut Vec<Problem>) -> Vec<Draft> {
    let whole = |fault, left_out| Problem {
        entry: None,
        field: None,
        fault,
        left_out,
    };
    match decode::<Option<Vec<&RawValue>>>(text) {
        Ok(Some(entries)) => {
            let entries = entries.into_iter().enumerate();
            entries
                .filter_map(|(index, raw)| draft(index, raw, problems))
                .collect()
        }
        Ok(None) => {
            problems.push(whole(Fault::Null, Some(LeftOut::Null)));
            Vec::new()
        }
        Err(error) => {
            problems.push(whole(Fault::InvalidJson(error.to_string()), None));
            Vec::new()
        }
    }
}

fn draft(index: usize, raw: &RawValue, problems: &mut Vec<Problem>) -> Option<Draft> {
    let mut report = |fault, left_out| {
        problems.push(Problem {
            entry: Some(index),
            field: None,
            fault,
            left_out,
        });
    };
    let object = match decode::<Option<Object<'_>>>(raw.get()) {
        Ok(Some(object)) => object,
        Ok(None) => {
            report(Fault::Null, Some(LeftOut::Entry));
            return None;
        }
        Err(error) => {
            report(Fault::InvalidJson(error.to_string()), None);
            return None;
        }
    };
    let mut members = Members {
        index,
        object,
        problems,
    };
    // All of them are read before any failure counts: a person wants to see
    // every mistake at once.
    let node_subnets = members.node_subnets();
    let ranges = members.ranges();
    let subnet = members.subnet();
    let gateway = members.gateway();
    let vlan = members.decode("vlan");
    let shared = members.shared();
    Some(Draft {
        index,
        node_subnets: node_subnets.ok()?,
        ranges: ranges.ok()?,
        shared,
        subnet: subnet.ok()?,
        gateway: gateway.ok()?,
        vlan: vlan.ok()?.unwrap_or_default(),
    })
}

/// The entry, or what it shares, cannot be used, and the problem has been reported.
struct Unusable;

/// The members of one entry.
struct Members<'a, 'p> {
    index: usize,
    object: Object<'a>,
    problems: &'p mut Vec<Problem>,
}

impl Members<'_, '_> {
    fn node_subnets(&mut self) -> Result<BTreeSet<IpNet>, Unusable> {
        // Compat: when `routableSubnet` is there, `nodeSubnets` is not looked at.
        if let Some(text) = self.decode::<String>("routableSubnet")? {
            return Ok(BTreeSet::from([self.net("routableSubnet", &text)?]));
        }
        let members = self.list("nodeSubnets")?;
        if members.is_empty() {
            return Err(self.refuse("nodeSubnets", Fault::NodeSubnetEmpty));
        }
        // An entry that is left without any node subnet is of no use to a node.
        let only_nulls = members.iter().all(Option::is_none);
        let left_out = if only_nulls {
            LeftOut::Entry
        } else {
            LeftOut::Null
        };
        let texts = self.not_null("nodeSubnets", members, &left_out);
        if only_nulls {
            return Err(Unusable);
        }
        let nets = texts.iter().map(|text| self.net("nodeSubnets", text));
        all(nets)
    }

    fn ranges(&mut self) -> Result<Vec<IpRange>, Unusable> {
        let members = self.list("ips")?;
        let texts = self.not_null("ips", members, &LeftOut::Null);
        let mut range = |text: &String| {
            let range = text.parse();
            range.map_err(|error| self.refuse("ips", Fault::InvalidRange(error)))
        };
        all(texts.iter().map(&mut range))
    }

    /// galaxy ignores both members, so no mistake in them costs the entry. But none
    /// may let somebody have an address who is not meant to, either.
    fn shared(&mut self) -> Option<SharedDraft> {
        let ranges = self.shared_ranges();
        let namespaces = self.namespaces();
        Some(SharedDraft {
            ranges: ranges.ok()?,
            namespaces: namespaces.ok()?,
        })
    }

    fn shared_ranges(&mut self) -> Result<Vec<IpRange>, Unusable> {
        let texts = self.own_list("shared")?.unwrap_or_default();
        let mut range = |text: &String| {
            let range = text.parse();
            range.map_err(|error| self.without_shared("shared", Fault::InvalidRange(error)))
        };
        all(texts.iter().map(&mut range))
    }

    fn namespaces(&mut self) -> Result<Option<BTreeSet<String>>, Unusable> {
        let field = "allowedNamespaces";
        let Some(names) = self.own_list(field)? else {
            return Ok(None);
        };
        let mut checked = |name: String| {
            if is_namespace(&name) {
                return Ok(name);
            }
            Err(self.without_shared(field, Fault::InvalidNamespace(name)))
        };
        all(names.into_iter().map(&mut checked)).map(Some)
    }

    /// A list that galaxy does not know.
    fn own_list(&mut self, field: &'static str) -> Result<Option<Vec<String>>, Unusable> {
        match self.object.get::<Vec<Option<String>>>(field) {
            Ok(members) => Ok(members.map(|it| self.not_null(field, it, &LeftOut::Null))),
            Err(error) => {
                let fault = Fault::InvalidJson(error.to_string());
                Err(self.without_shared(field, fault))
            }
        }
    }

    /// What the entry shares cannot be used; the rest of it can.
    fn without_shared(&mut self, field: &'static str, fault: Fault) -> Unusable {
        self.report(field, fault, Some(LeftOut::Shared));
        Unusable
    }

    fn subnet(&mut self) -> Result<IpNet, Unusable> {
        match self.decode::<String>("subnet")? {
            Some(text) => self.net("subnet", &text),
            None => Err(self.refuse("subnet", Fault::SubnetEmpty)),
        }
    }

    fn gateway(&mut self) -> Result<IpAddr, Unusable> {
        let text = self.decode::<String>("gateway")?.unwrap_or_default();
        if text.is_empty() {
            return Err(self.refuse("gateway", Fault::GatewayEmpty));
        }
        let gateway = addr::parse(&text);
        gateway.ok_or_else(|| self.refuse("gateway", Fault::InvalidGateway(text)))
    }

    fn net(&mut self, field: &'static str, text: &str) -> Result<IpNet, Unusable> {
        let net = addr::parse_net(text);
        net.ok_or_else(|| self.refuse(field, Fault::InvalidSubnet(text.into())))
    }

    fn list(&mut self, field: &'static str) -> Result<Vec<Option<String>>, Unusable> {
        Ok(self.decode(field)?.unwrap_or_default())
    }

    fn not_null(
        &mut self,
        field: &'static str,
        members: Vec<Option<String>>,
        left_out: &LeftOut,
    ) -> Vec<String> {
        let mut texts = Vec::with_capacity(members.len());
        for (place, member) in members.into_iter().enumerate() {
            match member {
                Some(text) => texts.push(text),
                None => self.report(field, Fault::NullMember(place), Some(left_out.clone())),
            }
        }
        texts
    }

    fn decode<T: DeserializeOwned>(&mut self, field: &'static str) -> Result<Option<T>, Unusable> {
        let member = self.object.get(field);
        member.map_err(|error| self.refuse(field, Fault::InvalidJson(error.to_string())))
    }

    fn refuse(&mut self, field: &'static str, fault: Fault) -> Unusable {
        self.report(field, fault, None);
        Unusable
    }

    fn report(&mut self, field: &'static str, fault: Fault, left_out: Option<LeftOut>) {
        self.problems
            .push(Problem::in_field(self.index, field, fault, left_out));
    }
}

/// Whether Kubernetes would have a namespace of that name (RFC 1123).
fn is_namespace(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [name.bytes().next(), name.bytes().last()];
    name.len() <= 63
        && ends.into_iter().all(|end| end.is_some_and(plain))
        && name.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// Collects after a look at every item, while `collect` alone would stop at the
/// first failure and leave later ones unreported.
fn all<T, C: FromIterator<T>>(
    items: impl Iterator<Item = Result<T, Unusable>>,
) -> Result<C, Unusable> {
    let items: Vec<_> = items.collect();
    items.into_iter().collect()
}
