//! Rules that say which table a packet is routed by.

use ipnet::IpNet;
use nix::libc;

use super::{
    Netlink, NetlinkError, done_unless,
    wire::{Request, attributes, body, family_of, ip_of, u32_of, unspecified},
};

const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_PREFIX_LENGTH: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PAD: u16 = 18;
const FRA_PROTOCOL: u16 = 21;
const TO_TABLE: u8 = 1;
/// The kernel's word for "not set".
const NOTHING: u32 = u32::MAX;

/// A rule that leads to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Its priority.
    pub priority: u32,
    /// What it applies to: packets from here.
    pub from: IpNet,
    /// The table.
    pub table: u32,
}

impl Netlink {
    /// All rules of both families that look only at where a packet comes from.
    pub fn rules(&mut self) -> Result<Vec<Rule>, NetlinkError> {
        let request = || Request::new(libc::RTM_GETRULE, 0, &[0; 12]);
        self.socket.list(request, "rules", read)
    }

    /// Adds a rule; whether it was not there already.
    pub fn add_rule(&mut self, rule: &Rule) -> Result<bool, NetlinkError> {
        let exclusive = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = message(libc::RTM_NEWRULE, exclusive, rule);
        let what = || format!("add the rule from {} to table {}", rule.from, rule.table);
        done_unless(self.socket.tell(request, what), &[libc::EEXIST])
    }

    /// Removes a rule; whether it was there.
    pub fn remove_rule(&mut self, rule: &Rule) -> Result<bool, NetlinkError> {
        let request = message(libc::RTM_DELRULE, 0, rule);
        let what = || format!("remove the rule from {} to table {}", rule.from, rule.table);
        done_unless(self.socket.tell(request, what), &[libc::ENOENT])
    }
}

fn message(kind: u16, flags: i32, rule: &Rule) -> Request {
    let from = rule.from.trunc();
    let mut header = [0; 12];
    (header[0], header[2]) = (family_of(from.addr()), from.prefix_len());
    header[4] = u8::try_from(rule.table).unwrap_or(libc::RT_TABLE_UNSPEC);
    header[7] = TO_TABLE;
    Request::new(kind, flags, &header)
        .put_u32(FRA_PRIORITY, rule.priority)
        .put_u32(FRA_TABLE, rule.table)
        .with(
            (from.prefix_len() > 0).then_some(from.addr()),
            |request, from| request.put_ip(FRA_SRC, from),
        )
}

/// A rule, if it has no condition but the source.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Rule>, NetlinkError> {
    let (header, rest) = body::<12>(bytes)?;
    let [family, to, from, tos, table, _, _, action, flags @ ..] = header;
    let Some(mut source) = unspecified(*family) else {
        return Ok(None);
    };
    let mut is_plain =
        *to == 0 && *tos == 0 && *action == TO_TABLE && u32_of(flags)? & INVERTED == 0;
    let (mut priority, mut table) = (0, u32::from(*table));
    attributes(rest, |kind, value| {
        match kind {
            FRA_SRC => source = ip_of(value)?,
            FRA_PRIORITY => priority = u32_of(value)?,
            FRA_TABLE => table = u32_of(value)?,
            FRA_SUPPRESS_PREFIX_LENGTH => is_plain &= u32_of(value)? == NOTHING,
            FRA_PROTOCOL | FRA_PAD => {}
            // Whatever it is, known or not, it makes the rule a different one.
            _ => is_plain = false,
        }
        Ok(())
    })?;
    let from = IpNet::new(source, *from)
        .map_err(|error| NetlinkError::Malformed(format!("rule from {source}/{from}: {error}")))?;
    Ok(is_plain.then_some(Rule {
        priority,
        from,
        table,
    }))
}

/// "not from", in the flags of a rule.
const INVERTED: u32 = 2;
