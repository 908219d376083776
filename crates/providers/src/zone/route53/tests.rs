use super::*;

const OWNER: &str = "floe/cluster/pool";

fn wanted(addresses: &[&str], ttl: u32) -> RecordSet {
    RecordSet {
        zone: "Z1".into(),
        name: "www.example.com".into(),
        addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
        ttl,
        owner: OWNER.into(),
        families: [Family::V4, Family::V6].into(),
    }
}

fn set(name: &str, kind: &str, values: &[&str]) -> Set {
    Set::new(name, kind, 60, values.iter().map(|value| (*value).into()))
}

fn planned(now: &Now, wanted: &RecordSet) -> Vec<(Action, String)> {
    let changes = changes("www.example.com", now, wanted);
    let kinds = changes
        .iter()
        .map(|change| (change.action, change.set.kind.clone()));
    kinds.collect()
}

fn note() -> Set {
    set("_floe.www.example.com", "TXT", &["\"floe/cluster/pool\""])
}

#[test]
fn a_new_name_gets_its_sets_and_a_note_that_must_not_be_there() {
    let wanted = wanted(&["192.0.2.1", "2001:db8::1"], 60);
    assert_eq!(
        planned(&Now::default(), &wanted),
        [
            (Action::Upsert, "A".into()),
            (Action::Upsert, "AAAA".into()),
            (Action::Create, "TXT".into()),
        ]
    );
}

#[test]
fn what_goes_is_deleted_as_it_was_read() {
    let now = Now {
        a: Some(set("www.example.com", "A", &["192.0.2.1"])),
        aaaa: Some(set("www.example.com", "AAAA", &["2001:db8::1"])),
        note: Some(note()),
        otherwise: None,
    };
    let wanted = wanted(&["192.0.2.2"], 60);
    assert_eq!(
        planned(&now, &wanted),
        [
            (Action::Upsert, "A".into()),
            (Action::Delete, "AAAA".into()),
            (Action::Upsert, "TXT".into()),
        ]
    );
    let changes = changes("www.example.com", &now, &wanted);
    assert_eq!(Some(&changes[1].set), now.aaaa.as_ref());
}

#[test]
fn a_set_of_a_family_that_is_not_its_own_stays() {
    let now = Now {
        a: Some(set("www.example.com", "A", &["192.0.2.1"])),
        aaaa: Some(set("www.example.com", "AAAA", &["2001:db8::1"])),
        note: Some(note()),
        otherwise: None,
    };
    let mut wanted = wanted(&["192.0.2.2"], 60);
    wanted.families = [Family::V4].into();
    let note = (Action::Upsert, "TXT".to_owned());
    let moved = [(Action::Upsert, "A".to_owned()), note.clone()];
    assert_eq!(planned(&now, &wanted), moved);
    wanted.addresses.clear();
    let emptied = [(Action::Delete, "A".to_owned()), note];
    assert_eq!(planned(&now, &wanted), emptied);
}

#[test]
fn nothing_is_written_when_it_is_so_already() {
    let now = Now {
        a: Some(set("www.example.com", "A", &["192.0.2.2", "192.0.2.1"])),
        aaaa: Some(set("www.example.com", "AAAA", &["2001:DB8:0::1"])),
        note: Some(note()),
        otherwise: None,
    };
    let addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
    assert_eq!(planned(&now, &wanted(&addresses, 60)), []);
    assert_eq!(planned(&now, &wanted(&addresses, 61)).len(), 3);
    assert_eq!(planned(&Now::default(), &wanted(&[], 60)), []);
    // Without a note it has to be taken over.
    let now = Now { note: None, ..now };
    assert_eq!(
        planned(&now, &wanted(&addresses, 60)),
        [(Action::Create, "TXT".into())]
    );
}

#[test]
fn names_of_others_are_refused() {
    let now = Now {
        note: Some(note()),
        ..Now::default()
    };
    now.check("www.example.com", OWNER).unwrap();
    let refusal = now.check("www.example.com", "another").unwrap_err();
    assert_eq!(refusal.class, Class::HeldElsewhere);
}

#[test]
fn texts_survive_the_way_there_and_back() {
    let long = "x".repeat(300);
    for text in ["plain", "with \"quotes\" and \\", "späce  and tab\t", &long] {
        assert_eq!(text::unquoted(&text::quoted(text)), text);
    }
    assert_eq!(text::quoted(&long).matches('"').count(), 4);
    assert_eq!(text::unquoted("\"a\\040b\" \"c\""), "a bc");
    assert_eq!(text::unquoted("\"a\\"), "a\\");
}

#[test]
fn names_are_the_same_however_they_are_written() {
    assert!(text::same_name("\\052.Example.com.", "*.example.com"));
    assert!(!text::same_name("a.example.com", "b.example.com"));
}

#[test]
fn only_ids_make_a_path() {
    let expected = "/2013-04-01/hostedzone/Z1D/rrset";
    assert_eq!(path("Z1D").unwrap(), expected);
    assert_eq!(path("/hostedzone/Z1D").unwrap(), expected);
    for zone in ["", "example.com", "../Z1", "Z1/rrset"] {
        assert_eq!(path(zone).unwrap_err().class, Class::ZoneUnknown, "{zone}");
    }
}

#[test]
fn a_page_is_read_with_all_that_makes_a_set_special() {
    let page: Page = quick_xml::de::from_str(
        "<ListResourceRecordSetsResponse xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">\
         <ResourceRecordSets><ResourceRecordSet><Name>a.</Name><Type>A</Type><TTL>60</TTL>\
         <ResourceRecords><ResourceRecord><Value>192.0.2.1</Value></ResourceRecord>\
         <ResourceRecord><Value>192.0.2.2</Value></ResourceRecord></ResourceRecords>\
         </ResourceRecordSet><ResourceRecordSet><Name>b.</Name><Type>A</Type><AliasTarget>\
         <HostedZoneId>Z2</HostedZoneId><DNSName>c.</DNSName></AliasTarget></ResourceRecordSet>\
         <ResourceRecordSet><Name>c.</Name><Type>A</Type><SetIdentifier>1</SetIdentifier>\
         <Weight>1</Weight><TTL>60</TTL><ResourceRecords><ResourceRecord><Value>192.0.2.3</Value>\
         </ResourceRecord></ResourceRecords></ResourceRecordSet></ResourceRecordSets>\
         <IsTruncated>true</IsTruncated><NextRecordName>d.</NextRecordName>\
         <NextRecordType>A</NextRecordType><MaxItems>3</MaxItems></ListResourceRecordSetsResponse>",
    )
    .unwrap();
    let special: Vec<bool> = page.sets.all.iter().map(Set::is_special).collect();
    assert_eq!(special, [false, true, true]);
    assert_eq!(page.sets.all[0].values().count(), 2);
    assert!(page.is_truncated);
    assert_eq!(
        (page.next_name.as_str(), page.next_kind.as_str()),
        ("d.", "A")
    );
}

#[test]
fn a_batch_is_well_formed_whatever_is_in_it() {
    let change = Change::new(Action::Create, set("a&b", "TXT", &["\"<x>\""]));
    let xml = wire::batch(VERSION, &[change]);
    assert!(xml.contains("<Name>a&amp;b.</Name>"), "{xml}");
    assert!(
        xml.contains("<Value>&quot;&lt;x&gt;&quot;</Value>"),
        "{xml}"
    );
}
