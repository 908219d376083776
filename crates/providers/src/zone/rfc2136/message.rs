//! The messages of updates.

use std::net::IpAddr;

use floe_core::{ipam::families::Family, nodepool::records::RecordSet};
use hickory_proto::{
    op::{Message, OpCode, Query, UpdateMessage},
    rr::{DNSClass, Name, RData, Record, RecordType, rdata::TXT},
};

use super::{Now, Place};

/// The longest piece of a text in DNS.
const PIECE: usize = 255;

/// Makes a name say what it shall, if its note is still the one that was read.
pub(super) fn ensure(place: &Place, now: &Now, wanted: &RecordSet) -> Message {
    let mut update = begin(place, now);
    let ttl = wanted.ttl_or_usual();
    if !wanted.addresses.is_empty() {
        update.add_pre_requisite(absent(&place.name, RecordType::CNAME));
    }
    clear(&mut update, place, &kinds(|family| wanted.keeps(family)));
    for ip in &wanted.addresses {
        let data = match ip {
            IpAddr::V4(ip) => RData::A((*ip).into()),
            IpAddr::V6(ip) => RData::AAAA((*ip).into()),
        };
        update.add_update(Record::from_rdata(place.name.clone(), ttl, data));
    }
    let pieces = wanted.owner.as_bytes().chunks(PIECE).collect();
    let data = RData::TXT(TXT::from_bytes(pieces));
    update.add_update(Record::from_rdata(place.note.clone(), ttl, data));
    update
}

/// Removes addresses of these kinds and the note, if the note is still the one that was read.
pub(super) fn remove(place: &Place, now: &Now, kinds: &[RecordType]) -> Message {
    let mut update = begin(place, now);
    clear(&mut update, place, kinds);
    update
}

/// A question, which is for this server alone.
pub(super) fn question(name: &Name, kind: RecordType) -> Message {
    let mut question = Message::query();
    question.metadata.recursion_desired = false;
    question.add_query(Query::query(name.clone(), kind));
    question
}

fn begin(place: &Place, now: &Now) -> Message {
    let mut update = Message::query();
    update.metadata.op_code = OpCode::Update;
    update.metadata.recursion_desired = false;
    update.add_zone(Query::query(place.zone.clone(), RecordType::SOA));
    if now.note.is_empty() {
        update.add_pre_requisite(absent(&place.note, RecordType::TXT));
    }
    // All of them, exactly so (RFC 2136, 2.4.2).
    for record in &now.note {
        let condition = Record::from_rdata(place.note.clone(), 0, record.data.clone());
        update.add_pre_requisite(condition);
    }
    update
}

/// The records of the families that are meant.
pub(super) fn kinds(is_meant: impl Fn(Family) -> bool) -> Vec<RecordType> {
    let all = [(Family::V4, RecordType::A), (Family::V6, RecordType::AAAA)];
    let own = all.into_iter().filter(|(family, _)| is_meant(*family));
    own.map(|(_, kind)| kind).collect()
}

fn clear(update: &mut Message, place: &Place, kinds: &[RecordType]) {
    for kind in kinds {
        update.add_update(empty(&place.name, *kind, DNSClass::ANY));
    }
    update.add_update(empty(&place.note, RecordType::TXT, DNSClass::ANY));
}

/// There are no such records (RFC 2136, 2.4.3).
fn absent(name: &Name, kind: RecordType) -> Record {
    empty(name, kind, DNSClass::NONE)
}

fn empty(name: &Name, kind: RecordType, class: DNSClass) -> Record {
    let mut record = Record::update0(name.clone(), 0, kind);
    record.dns_class = class;
    record
}
