//! The annotation `k8s.v1.cni.galaxy.io/args`: wished ranges in, addresses out.
//!
//! ```json
//! {"request_ip_range":[["10.0.0.2~10.0.0.9"],["10.0.1.2"]],
//!  "common":{"ipinfos":[{"ip":"10.0.0.2/24","vlan":2,"gateway":"10.0.0.1"}]}}
//! ```
//!
//! One address is wanted for each inner list, from any of its ranges. The result
//! is written at bind, in the order of the lists.
//!
//! Members that floe does not know survive, at the top and inside `common`, with
//! their values untouched; galaxy loses them. An `ipinfos` that is already there
//! is only a claim of whoever wrote the pod: the result replaces it.
//!
//! Compat: galaxy's reader matches the names of members in any case, and so does
//! this one. It matters for `common` and `ipinfos` too: a `COMMON` that survived
//! would be read back by galaxy's node daemon instead of the result. Members in
//! such spellings are joined to the usual one.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize, de};
use serde_json::value::RawValue;

use crate::{
    addr::{self, range::IpRange},
    json::{self, Names},
};

/// The most addresses that one pod can ask for.
pub const MAX_LISTS: usize = 8;

/// The most ranges that one address can be chosen from.
pub const MAX_RANGES: usize = 64;

/// What each part of the annotation must be.
const ANNOTATION: &str = "the annotation must be a JSON object";
const COMMON: &str = "common must be an object";
const IPINFOS: &str = "common.ipinfos must be a list of objects with ip, vlan and gateway";
const RANGES: &str = "request_ip_range must be a list of lists of addresses and ranges, such as \
                      [[\"10.0.0.2~10.0.0.9\"]]";

/// The annotation of a pod.
#[derive(Clone, Debug, Default)]
pub struct Args {
    ranges: Vec<Vec<IpRange>>,
    /// Members of `common` other than `ipinfos`.
    common: Members,
    /// Members of the top other than the two that are known.
    foreign: Members,
    claimed: Option<Box<RawValue>>,
}

/// One address of a pod, with what its node needs to set it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpInfo {
    /// The address with the length of its network.
    pub ip: IpNet,
    /// The VLAN; 0 is untagged.
    pub vlan: u16,
    /// The gateway.
    pub gateway: IpAddr,
}

/// Why an annotation is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// It is not JSON, or not of the form that is expected.
    #[error("unmarshal pod cni args: {why}")]
    Malformed {
        /// What the reader says.
        why: String,
    },
    /// A range cannot be read.
    #[error("unmarshal pod cni args: invalid ip range {text}")]
    InvalidRange {
        /// The range, shortened.
        text: String,
    },
    /// A list has no ranges, so no address could ever be found for it.
    #[error("unmarshal pod cni args: list {list} of request_ip_range is empty")]
    EmptyList {
        /// The number of the list, from 1.
        list: usize,
    },
    /// There are too many lists.
    #[error(
        "unmarshal pod cni args: request_ip_range has {count} lists, at most {MAX_LISTS} are allowed"
    )]
    TooManyLists {
        /// How many there are.
        count: usize,
    },
    /// A list has too many ranges.
    #[error(
        "unmarshal pod cni args: list {list} of request_ip_range has {count} ranges, at most \
         {MAX_RANGES} are allowed"
    )]
    TooManyRanges {
        /// The number of the list, from 1.
        list: usize,
        /// How many there are.
        count: usize,
    },
}

impl ArgsError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "InvalidArgs",
            Self::InvalidRange { .. } => "InvalidRange",
            Self::EmptyList { .. } => "EmptyRangeList",
            Self::TooManyLists { .. } | Self::TooManyRanges { .. } => "TooManyRanges",
        }
    }
}

impl Args {
    /// Reads the annotation of a pod; an absent or empty one asks for nothing.
    pub fn parse(value: Option<&str>) -> Result<Self, ArgsError> {
        let mut args = Self::default();
        let text = value.unwrap_or("");
        if text.is_empty() {
            return Ok(args);
        }
        let members = decode::<Option<Members>>(text, ANNOTATION)?.unwrap_or_default();
        for (name, value) in members.0 {
            match folded(&name).as_str() {
                "request_ip_range" => args.ranges = ranges(&value)?,
                "common" => {
                    let members = decode::<Option<Members>>(value.get(), COMMON)?;
                    args.join(members.unwrap_or_default());
                }
                _ => args.foreign.set(name, value),
            }
        }
        Ok(args)
    }

    /// The wished ranges: one list for each address, none for any address.
    pub fn ranges(&self) -> &[Vec<IpRange>] {
        &self.ranges
    }

    /// The addresses that the annotation claims. They prove nothing before they
    /// are compared with the records and with the status of a running pod.
    pub fn claimed(&self) -> Result<Vec<IpInfo>, ArgsError> {
        let Some(claimed) = &self.claimed else {
            return Ok(Vec::new());
        };
        Ok(decode::<Option<Vec<IpInfo>>>(claimed.get(), IPINFOS)?.unwrap_or_default())
    }

    /// Whether the annotation claims addresses, be it none.
    pub fn has_claim(&self) -> bool {
        self.claimed.is_some()
    }

    /// What it claims, as it was written.
    pub fn claim(&self) -> Option<&str> {
        self.claimed.as_ref().map(|claimed| claimed.get())
    }

    /// The members of `common` other than `ipinfos`, with their values as they were
    /// written: what the pod's author tells the network plugins.
    pub fn common(&self) -> impl Iterator<Item = (&str, &str)> {
        self.common
            .0
            .iter()
            .map(|(name, value)| (&**name, value.get()))
    }

    /// The annotation with these addresses as the result, in galaxy's form.
    pub fn with_result(&self, infos: &[IpInfo]) -> String {
        let mut common = Vec::new();
        if !infos.is_empty() {
            common.push(member("ipinfos", &json(infos)));
        }
        common.extend(self.common.texts());
        let mut top = Vec::new();
        if !self.ranges.is_empty() {
            top.push(member("request_ip_range", &json(&self.ranges)));
        }
        top.push(member("common", &object(&common)));
        top.extend(self.foreign.texts());
        object(&top)
    }

    fn join(&mut self, common: Members) {
        for (name, value) in common.0 {
            if folded(&name) == "ipinfos" {
                self.claimed = Some(value);
            } else {
                self.common.set(name, value);
            }
        }
    }
}

impl Serialize for IpInfo {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire {
            ip: self.ip.to_string(),
            vlan: self.vlan,
            gateway: self.gateway.to_string(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for IpInfo {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = IpInfo;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an address with gateway")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<IpInfo, A::Error> {
                let (mut ip, mut vlan, mut gateway) = (None, None, None);
                while let Some(name) = map.next_key::<String>()? {
                    // As for Go's reader, null leaves what is there.
                    match folded(&name).as_str() {
                        "ip" => ip = map.next_value::<Option<String>>()?.or(ip),
                        "vlan" => vlan = map.next_value::<Option<u16>>()?.or(vlan),
                        "gateway" => gateway = map.next_value::<Option<String>>()?.or(gateway),
                        _ => _ = map.next_value::<de::IgnoredAny>()?,
                    }
                }
                ip.as_deref()
                    .and_then(addr::parse_with_length)
                    .zip(gateway.as_deref().and_then(addr::parse))
                    .map(|(ip, gateway)| IpInfo {
                        ip,
                        vlan: vlan.unwrap_or_default(),
                        gateway,
                    })
                    .ok_or_else(|| {
                        de::Error::custom("an element of ipinfos is not an address with gateway")
                    })
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

/// An [`IpInfo`] as it is written.
#[derive(Serialize)]
struct Wire {
    ip: String,
    vlan: u16,
    gateway: String,
}

/// The members of an object in their order, values as they were written.
#[derive(Clone, Debug, Default)]
struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Adds a member. As in every JSON reader of Go, the last of several with one
    /// name counts.
    fn set(&mut self, name: String, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(name, value)| member(name, value.get()))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Members;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

fn ranges(value: &RawValue) -> Result<Vec<Vec<IpRange>>, ArgsError> {
    let lists = decode::<Option<Vec<Option<Vec<String>>>>>(value.get(), RANGES)?;
    let lists = lists.unwrap_or_default();
    if lists.len() > MAX_LISTS {
        return Err(ArgsError::TooManyLists { count: lists.len() });
    }
    let mut result = Vec::new();
    for (number, texts) in (1..).zip(lists) {
        let texts = texts.unwrap_or_default();
        match texts.len() {
            0 => return Err(ArgsError::EmptyList { list: number }),
            1..=MAX_RANGES => {}
            count => {
                return Err(ArgsError::TooManyRanges {
                    list: number,
                    count,
                });
            }
        }
        let ranges: Result<Vec<IpRange>, ArgsError> =
            texts.iter().map(|text| range(text)).collect();
        result.push(ranges?);
    }
    Ok(result)
}

fn range(text: &str) -> Result<IpRange, ArgsError> {
    text.parse().map_err(|_| ArgsError::InvalidRange {
        text: shortened(text),
    })
}

/// Reads a text, or says which form it must have.
fn decode<'a, T: Deserialize<'a>>(text: &'a str, form: &str) -> Result<T, ArgsError> {
    json::decode(text.as_bytes(), Names::Go).map_err(|error| {
        let why = if error.is_syntax() {
            error.to_string()
        } else {
            form.to_owned()
        };
        ArgsError::Malformed { why }
    })
}

/// What somebody else wrote goes into events and logs: not all of it.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A name as Go's JSON reader compares it: without case, and with the two letters
/// outside of ASCII that are another case of a letter inside.
pub(crate) fn folded(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            'ſ' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

fn object(members: &[String]) -> String {
    format!("{{{}}}", members.join(","))
}

fn member(name: &str, value: &str) -> String {
    format!("{}:{value}", json(name))
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists of them always have a JSON form")
}

#[cfg(test)]
mod tests;
