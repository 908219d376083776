//! The suite of name servers.

mod desk;

use std::sync::Arc;

use floe_core::{
    ipam::families::Family,
    nodepool::{cloud::Class, records::RecordSet},
};

use super::{
    Deed,
    proxy::{On, Proxy},
    report::{Checked, Report, cannot, demand},
};
use crate::names::Dns;
pub use desk::Desk;

/// A record as the server itself has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Its type: `A`, `AAAA`, `TXT`, `MX`.
    pub kind: String,
    /// What it says, without quotes. An MX record says `10 mail.example.com`, without a dot
    /// at its end.
    pub data: String,
    /// How long it may be remembered, in seconds.
    pub ttl: u32,
}

/// A server with a zone to play with, which the suite has for itself.
pub trait Zones: Send + Sync {
    /// How it is called in reports: the client and what it talks to.
    fn title(&self) -> String;

    /// The client.
    fn dns(&self) -> &dyn Dns;

    /// The way to the server, if it speaks HTTP.
    fn proxy(&self) -> Option<&Proxy>;

    /// The zone, in the provider's way.
    fn zone(&self) -> String;

    /// A zone that could be there, and is not.
    fn unknown_zone(&self) -> String;

    /// The name of the zone: `example.com`.
    fn domain(&self) -> String;

    /// A name in the zone, in the provider's way, of a label such as `www`.
    fn name(&self, label: &str) -> String;

    /// All records of that label, asked of the server without the client under test.
    fn records<'a>(&'a self, label: &'a str) -> Deed<'a, Vec<Record>>;

    /// Writes a record, without the client under test.
    fn plant<'a>(&'a self, label: &'a str, record: Record) -> Deed<'a, ()>;

    /// Something that grows whenever the zone is written to.
    fn writes(&self) -> Deed<'_, u64> {
        Box::pin(async {
            let proxy = self.proxy().ok_or("nobody counts the writes")?;
            u64::try_from(proxy.count(On::Writes)).map_err(|error| error.to_string())
        })
    }

    /// The shortest time that records may be remembered here, if there is one.
    fn shortest(&self) -> u32 {
        1
    }

    /// A client with credentials that are not good, and the secret in them.
    fn stranger(&self) -> Option<(Arc<dyn Dns>, String)> {
        None
    }
}

macro_rules! checks {
    ($report:ident, $zones:expr, [$($check:ident),+ $(,)?]) => {
        $(
            // Each has a label of its own, so that none sees what another left.
            let desk = Desk::new($zones, &stringify!($check).replace('_', "-"));
            $report.add(stringify!($check), $check(&desk).await);
        )+
    };
}
pub(super) use checks;

/// What every name server passes.
pub async fn every_name_server(zones: &dyn Zones) -> Report {
    let mut report = Report::new(zones.title());
    checks!(
        report,
        zones,
        [
            creates_records_and_says_who_keeps_them,
            the_same_again_writes_nothing,
            changes_one_address,
            adds_an_address,
            removes_an_address,
            changes_how_long_they_are_remembered,
            leaves_to_the_server_how_long_when_nobody_says_it,
            has_both_families,
            leaves_one_family_alone,
            leaves_records_of_a_family_that_is_not_its_own,
            says_nothing_of_a_name_that_is_not_there,
            never_touches_other_types_and_names,
            refuses_a_name_that_another_keeps,
            takes_over_what_nobody_keeps,
            is_empty_only_when_asked,
            removes_what_it_keeps_and_no_more,
            removes_no_family_of_others,
            removes_twice,
            removes_nothing_of_another,
            has_many_addresses,
            refuses_an_unknown_zone,
            is_not_led_elsewhere_by_a_zone,
            refuses_strangers_without_telling_the_secret,
        ]
    );
    report
}

async fn creates_records_and_says_who_keeps_them(desk: &Desk<'_>) -> Checked {
    desk.ensure("us", &["192.0.2.1", "192.0.2.2"]).await?;
    desk.expect(&["192.0.2.1", "192.0.2.2"]).await?;
    desk.expect_found(Some("us"), &["192.0.2.1", "192.0.2.2"])
        .await?;
    let notes = desk.notes().await?;
    demand(notes == [desk.owner("us")], || {
        format!("the notes say {notes:?}")
    })?;
    let full = desk.full_name();
    let domain = desk.zones.domain();
    demand(full == format!("{}.{domain}", desk.label), || {
        format!("{full} is no full name")
    })
}

async fn the_same_again_writes_nothing(desk: &Desk<'_>) -> Checked {
    let addresses = ["192.0.2.1", "2001:db8::1"];
    desk.ensure("us", &addresses).await?;
    let before = desk.zones.writes().await?;
    desk.ensure("us", &addresses).await?;
    desk.ensure("us", &["2001:db8::1", "192.0.2.1"]).await?;
    let after = desk.zones.writes().await?;
    demand(before == after, || {
        format!("{} more writes", after.saturating_sub(before))
    })?;
    desk.ensure("us", &["192.0.2.1"]).await?;
    let last = desk.zones.writes().await?;
    demand(last > after, || "writes are not counted".to_owned())
}

async fn changes_one_address(desk: &Desk<'_>) -> Checked {
    desk.ensure("us", &["192.0.2.1", "192.0.2.2"]).await?;
    desk.ensure("us", &["192.0.2.1", "192.0.2.3"]).await?;
    desk.expect(&["192.0.2.1", "192.0.2.3"]).await
}

async fn adds_an_address(desk: &Desk<'_>) -> Checked {
    desk.ensure("us", &["192.0.2.1"]).await?;
    desk.ensure("us", &["192.0.2.1", "192.0.2.2", "192.0.2.3"])
        .await?;
    desk.expect(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]).await
}

async fn removes_an_address(desk: &Desk<'_>) -> Checked {
    desk.ensure("us", &["192.0.2.1", "192.0.2.2", "192.0.2.3"])
        .await?;
    desk.ensure("us", &["192.0.2.2"]).await?;
    desk.expect(&["192.0.2.2"]).await
}

async fn changes_how_long_they_are_remembered(desk: &Desk<'_>) -> Checked {
    let mut wanted = desk.wanted("us", &["192.0.2.1", "2001:db8::1"])?;
    desk.write(&wanted).await?;
    wanted.ttl += 60;
    desk.write(&wanted).await?;
    let records = desk.addresses().await?;
    demand(
        records.len() == 2 && records.iter().all(|record| record.ttl == wanted.ttl),
        || format!("not {} seconds: {records:?}", wanted.ttl),
    )
}

async fn leaves_to_the_server_how_long_when_nobody_says_it(desk: &Desk<'_>) -> Checked {
    let mut wanted = desk.wanted("us", &["192.0.2.1", "2001:db8::1"])?;
    wanted.ttl = 0;
    desk.write(&wanted).await?;
    let records = desk.addresses().await?;
    demand(
        records.len() == 2 && records.iter().all(|record| record.ttl > 0),
        || format!("{records:?} instead of two that may be remembered"),
    )?;
    let before = desk.zones.writes().await?;
    desk.write(&wanted).await?;
    let after = desk.zones.writes().await?;
    demand(before == after, || "the same again is written".to_owned())
}

async fn has_both_families(desk: &Desk<'_>) -> Checked {
    let addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"];
    desk.ensure("us", &addresses).await?;
    desk.expect(&addresses).await?;
    desk.ensure("us", &["192.0.2.2", "2001:db8::3"]).await?;
    desk.expect(&["192.0.2.2", "2001:db8::3"]).await?;
    desk.expect_found(Some("us"), &["192.0.2.2", "2001:db8::3"])
        .await
}

async fn leaves_one_family_alone(desk: &Desk<'_>) -> Checked {
    desk.ensure("us", &["192.0.2.1", "2001:db8::1"]).await?;
    desk.ensure("us", &["2001:db8::1"]).await?;
    desk.expect(&["2001:db8::1"]).await?;
    desk.ensure("us", &["192.0.2.9"]).await?;
    desk.expect(&["192.0.2.9"]).await
}

async fn leaves_records_of_a_family_that_is_not_its_own(desk: &Desk<'_>) -> Checked {
    let own = desk.record("AAAA", "2001:db8::7");
    desk.zones.plant(&desk.label, own).await?;
    let only_v4 = |addresses| {
        desk.wanted("us", addresses).map(|wanted| RecordSet {
            families: [Family::V4].into(),
            ..wanted
        })
    };
    for addresses in [&["192.0.2.1"][..], &["192.0.2.2"], &[], &["192.0.2.3"]] {
        desk.write(&only_v4(addresses)?).await?;
        let all: Vec<&str> = addresses.iter().copied().chain(["2001:db8::7"]).collect();
        desk.expect(&all).await?;
    }
    // Whoever writes both has both from then on.
    desk.ensure("us", &["192.0.2.3", "2001:db8::1"]).await?;
    desk.expect(&["192.0.2.3", "2001:db8::1"]).await
}

async fn says_nothing_of_a_name_that_is_not_there(desk: &Desk<'_>) -> Checked {
    desk.expect_found(None, &[]).await
}

async fn never_touches_other_types_and_names(desk: &Desk<'_>) -> Checked {
    let mail = desk.record("MX", &format!("10 mail.{}", desk.zones.domain()));
    let text = desk.record("TXT", "v=spf1 -all");
    for record in [&mail, &text] {
        desk.zones.plant(&desk.label, record.clone()).await?;
    }
    let beside = format!("beside-{}", desk.label);
    let under = format!("under.{}", desk.label);
    let other = desk.record("A", "198.51.100.1");
    for label in [&beside, &under] {
        desk.zones.plant(label, other.clone()).await?;
    }
    desk.ensure("us", &["192.0.2.1"]).await?;
    desk.ensure("us", &["192.0.2.2", "2001:db8::1"]).await?;
    desk.remove("us").await?;
    for label in [&beside, &under] {
        let records = desk.zones.records(label).await?;
        demand(records == std::slice::from_ref(&other), || {
            format!("{label} has {records:?} now")
        })?;
    }
    let mut records = desk.zones.records(&desk.label).await?;
    records.sort();
    demand(records == [mail, text], || format!("{records:?} are left"))
}

async fn refuses_a_name_that_another_keeps(desk: &Desk<'_>) -> Checked {
    desk.ensure("them", &["192.0.2.1"]).await?;
    let before = desk.zones.writes().await?;
    let answer = desk
        .zones
        .dns()
        .ensure(&desk.wanted("us", &["192.0.2.2"])?)
        .await;
    desk.expect_refusal(answer, Class::HeldElsewhere)?;
    let after = desk.zones.writes().await?;
    demand(before == after, || "it has written all the same".to_owned())?;
    desk.expect(&["192.0.2.1"]).await?;
    desk.expect_found(Some("them"), &["192.0.2.1"]).await
}

async fn takes_over_what_nobody_keeps(desk: &Desk<'_>) -> Checked {
    for address in ["192.0.2.1", "192.0.2.7"] {
        let record = desk.record("A", address);
        desk.zones.plant(&desk.label, record).await?;
    }
    desk.expect_found(None, &["192.0.2.1", "192.0.2.7"]).await?;
    desk.ensure("us", &["192.0.2.1", "2001:db8::1"]).await?;
    desk.expect(&["192.0.2.1", "2001:db8::1"]).await?;
    desk.expect_found(Some("us"), &["192.0.2.1", "2001:db8::1"])
        .await
}

async fn is_empty_only_when_asked(desk: &Desk<'_>) -> Checked {
    desk.ensure("us", &["192.0.2.1", "2001:db8::1"]).await?;
    desk.ensure("us", &[]).await?;
    desk.expect(&[]).await?;
    desk.ensure("us", &["192.0.2.1"]).await?;
    desk.expect(&["192.0.2.1"]).await
}

async fn removes_what_it_keeps_and_no_more(desk: &Desk<'_>) -> Checked {
    let text = desk.record("TXT", "somebody else's");
    desk.zones.plant(&desk.label, text.clone()).await?;
    desk.ensure("us", &["192.0.2.1", "2001:db8::1"]).await?;
    desk.remove("us").await?;
    desk.expect_found(None, &[]).await?;
    let notes = desk.notes().await?;
    demand(notes.is_empty(), || format!("{notes:?} are left"))?;
    let records = desk.zones.records(&desk.label).await?;
    demand(records == [text], || format!("{records:?} are left"))
}

async fn removes_no_family_of_others(desk: &Desk<'_>) -> Checked {
    let own = desk.record("AAAA", "2001:db8::5");
    desk.zones.plant(&desk.label, own).await?;
    desk.write(&RecordSet {
        families: [Family::V4].into(),
        ..desk.wanted("us", &["192.0.2.1"])?
    })
    .await?;
    let removed = desk.try_remove_of("us", &[Family::V4]).await;
    removed.map_err(|refusal| format!("not removed: {refusal:?}"))?;
    desk.expect_found(None, &["2001:db8::5"]).await
}

async fn removes_twice(desk: &Desk<'_>) -> Checked {
    desk.ensure("us", &["192.0.2.1"]).await?;
    desk.remove("us").await?;
    desk.remove("us").await?;
    desk.expect_found(None, &[]).await
}

async fn removes_nothing_of_another(desk: &Desk<'_>) -> Checked {
    desk.ensure("them", &["192.0.2.1"]).await?;
    let answer = desk.try_remove("us").await;
    desk.expect_refusal(answer, Class::HeldElsewhere)?;
    desk.expect_found(Some("them"), &["192.0.2.1"]).await?;
    // Nor what nobody keeps.
    let desk = Desk::new(desk.zones, "kept-by-nobody");
    let record = desk.record("A", "192.0.2.5");
    desk.zones.plant(&desk.label, record).await?;
    let answer = desk.try_remove("us").await;
    desk.expect_refusal(answer, Class::HeldElsewhere)?;
    desk.expect(&["192.0.2.5"]).await
}

async fn has_many_addresses(desk: &Desk<'_>) -> Checked {
    let addresses: Vec<String> = (1..=30).map(|last| format!("192.0.2.{last}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    desk.ensure("us", &addresses).await?;
    desk.expect(&addresses).await?;
    desk.ensure("us", &addresses[3..5]).await?;
    desk.expect(&addresses[3..5]).await
}

async fn refuses_an_unknown_zone(desk: &Desk<'_>) -> Checked {
    let mut wanted = desk.wanted("us", &["192.0.2.1"])?;
    wanted.zone = desk.zones.unknown_zone();
    let dns = desk.zones.dns();
    desk.expect_refusal(dns.ensure(&wanted).await, Class::ZoneUnknown)?;
    let read = dns.read(&wanted.zone, &wanted.name).await;
    desk.expect_refusal(read, Class::ZoneUnknown)
}

async fn is_not_led_elsewhere_by_a_zone(desk: &Desk<'_>) -> Checked {
    let calls = || {
        let proxy = desk.zones.proxy();
        proxy.map(|it| it.count(On::Reads) + it.count(On::Writes))
    };
    let mut wanted = desk.wanted("us", &["192.0.2.1"])?;
    wanted.zone = format!("../{}?x=", wanted.zone);
    let before = calls();
    let class = desk
        .zones
        .dns()
        .ensure(&wanted)
        .await
        .map_err(|it| it.class);
    let is_refused = matches!(class, Err(Class::ZoneUnknown | Class::Invalid));
    demand(is_refused && before == calls(), || {
        format!("{class:?} after {before:?} and then {:?} calls", calls())
    })
}

async fn refuses_strangers_without_telling_the_secret(desk: &Desk<'_>) -> Checked {
    let Some((stranger, secret)) = desk.zones.stranger() else {
        return Err(cannot("this server lets everybody in"));
    };
    let wanted = desk.wanted("us", &["192.0.2.1"])?;
    let Err(refusal) = stranger.ensure(&wanted).await else {
        return Err("a stranger was let in".to_owned().into());
    };
    demand(!format!("{refusal:?}").contains(&secret), || {
        "the secret stands in the refusal".to_owned()
    })?;
    demand(refusal.class == Class::Unauthorized, || {
        format!("{refusal:?} instead of Unauthorized")
    })?;
    desk.expect(&[]).await
}
