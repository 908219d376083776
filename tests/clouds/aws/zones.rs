//! Route 53.

use floe_core::ipam::families::Family;
use floe_core::nodepool::cloud::Class;
use floe_core::nodepool::records::RecordSet;
use floe_providers::conformance::names::{self, Record, Zones};
use floe_providers::conformance::proxy::{On, Proxy};
use floe_providers::conformance::{Deed, faults};
use floe_providers::names::Dns;
use floe_providers::zone::route53::Route53;
use floe_testbed::moto::{Aws, Keys, Software};
use serde_json::{Value, json};

use super::service;

const DOMAIN: &str = "example.com";

/// A hosted zone, behind a proxy.
struct Hosted {
    software: Software,
    aws: Aws,
    proxy: Proxy,
    client: Route53,
    zone: String,
}

impl Hosted {
    async fn new(software: Software) -> Self {
        let aws = Aws::start(software).unwrap();
        let wanted = json!({ "Name": DOMAIN, "CallerReference": "1" });
        let made = aws.call("route53", "create_hosted_zone", &wanted).unwrap();
        let id = made["HostedZone"]["Id"].as_str().unwrap();
        let zone = id.trim_start_matches("/hostedzone/").to_owned();
        let proxy = Proxy::start(aws.address()).await.unwrap();
        let client = client(&proxy, &aws.keys());
        Self {
            software,
            aws,
            proxy,
            client,
            zone,
        }
    }

    /// The sets of a label, as boto3 sees them.
    fn sets(&self, label: &str) -> Result<Vec<Value>, String> {
        let name = format!("{label}.{DOMAIN}.");
        let asked = json!({ "HostedZoneId": self.zone, "StartRecordName": name });
        let found = self
            .aws
            .call("route53", "list_resource_record_sets", &asked);
        let found = found.map_err(|error| format!("{error:#}"))?;
        let sets = found["ResourceRecordSets"].as_array().ok_or("no sets")?;
        let of_label = |set: &&Value| set["Name"] == json!(name);
        Ok(sets.iter().filter(of_label).cloned().collect())
    }

    fn upsert(&self, set: &Value) -> Result<(), String> {
        let batch = json!({
            "HostedZoneId": self.zone,
            "ChangeBatch": { "Changes": [{ "Action": "UPSERT", "ResourceRecordSet": set }] },
        });
        let changed = self
            .aws
            .call("route53", "change_resource_record_sets", &batch);
        changed.map(drop).map_err(|error| format!("{error:#}"))
    }

    fn wanted(&self, label: &str, owner: &str, ip: &str) -> RecordSet {
        RecordSet {
            zone: self.zone.clone(),
            name: format!("{label}.{DOMAIN}"),
            addresses: [ip.parse().unwrap()].into(),
            ttl: 60,
            owner: owner.to_owned(),
            families: [Family::V4, Family::V6].into(),
        }
    }
}

fn client(proxy: &Proxy, keys: &Keys) -> Route53 {
    Route53::new(service("route53", proxy, keys))
}

impl Zones for Hosted {
    fn title(&self) -> String {
        format!("Route 53 on {:?}", self.software)
    }

    fn dns(&self) -> &dyn Dns {
        &self.client
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    fn zone(&self) -> String {
        self.zone.clone()
    }

    fn unknown_zone(&self) -> String {
        "Z00000000000000000000".to_owned()
    }

    fn domain(&self) -> String {
        DOMAIN.to_owned()
    }

    fn name(&self, label: &str) -> String {
        format!("{label}.{DOMAIN}")
    }

    fn records<'a>(&'a self, label: &'a str) -> Deed<'a, Vec<Record>> {
        Box::pin(async move {
            let mut records = Vec::new();
            for set in self.sets(label)? {
                let kind = set["Type"].as_str().unwrap_or_default();
                let ttl = set["TTL"].as_u64().unwrap_or_default();
                for value in set["ResourceRecords"].as_array().into_iter().flatten() {
                    let data = value["Value"].as_str().unwrap_or_default();
                    records.push(Record {
                        kind: kind.to_owned(),
                        data: data.trim_matches('"').trim_end_matches('.').to_owned(),
                        ttl: u32::try_from(ttl).unwrap_or_default(),
                    });
                }
            }
            Ok(records)
        })
    }

    fn plant<'a>(&'a self, label: &'a str, record: Record) -> Deed<'a, ()> {
        Box::pin(async move {
            let value = match record.kind.as_str() {
                "TXT" => format!("\"{}\"", record.data),
                "MX" => format!("{}.", record.data),
                _ => record.data.clone(),
            };
            let mut sets = self.sets(label)?.into_iter();
            let same = sets.find(|set| set["Type"] == json!(record.kind));
            let mut values = same
                .and_then(|set| set["ResourceRecords"].as_array().cloned())
                .unwrap_or_default();
            values.push(json!({ "Value": value }));
            self.upsert(&json!({
                "Name": format!("{label}.{DOMAIN}"), "Type": record.kind, "TTL": record.ttl,
                "ResourceRecords": values,
            }))
        })
    }
}

/// What moto checks of signatures, it checks of EC2 only; `MiniStack` checks nothing.
const WITHOUT: [&str; 1] = ["refuses strangers without telling the secret"];

#[tokio::test]
#[ignore = "gets moto from PyPI: cargo xtask test --only clouds"]
async fn route53_passes_the_suites_on_moto() {
    let hosted = Hosted::new(Software::Moto).await;
    let report = names::every_name_server(&hosted).await;
    println!("{}", report.conclude_without(&WITHOUT));
    let report = faults::every_name_server(&hosted).await;
    println!("{report}");
    // moto never forgets a change: what was created, removed and is created again it takes
    // for a duplicate, if the zone has any record after it.
    let again = [
        "records without an answer are written again",
        "a removal without an answer is repeated",
    ];
    assert_eq!(report.failed(), again);
    let duplicates = report.to_string().matches("but it already exists").count();
    assert_eq!(duplicates, again.len());
    assert_eq!(report.left_out(), [""; 0]);
    other_meanings_of_a_name_are_left_alone(&hosted).await;
}

#[tokio::test]
#[ignore = "gets MiniStack from PyPI: cargo xtask test --only clouds"]
async fn route53_passes_the_suites_on_ministack() {
    let hosted = Hosted::new(Software::MiniStack).await;
    let report = names::every_name_server(&hosted).await;
    println!("{}", report.conclude_without(&WITHOUT));
    let report = faults::every_name_server(&hosted).await;
    println!("{}", report.conclude_without(&[]));
    of_two_at_once_one_has_the_name(&hosted).await;
}

async fn other_meanings_of_a_name_are_left_alone(hosted: &Hosted) {
    let weighted = json!({
        "Name": format!("weighted.{DOMAIN}"), "Type": "A", "TTL": 60, "SetIdentifier": "1",
        "Weight": 1, "ResourceRecords": [{ "Value": "198.51.100.1" }],
    });
    let alias = json!({
        "Name": format!("alias.{DOMAIN}"), "Type": "CNAME", "TTL": 60,
        "ResourceRecords": [{ "Value": "elsewhere.example.net" }],
    });
    for (label, set) in [("weighted", weighted), ("alias", alias)] {
        hosted.upsert(&set).unwrap();
        let before = hosted.proxy.count(On::Writes);
        let wanted = hosted.wanted(label, "us", "192.0.2.1");
        let refusal = hosted.client.ensure(&wanted).await.unwrap_err();
        assert_eq!(refusal.class, Class::HeldElsewhere, "{refusal}");
        assert_eq!(hosted.proxy.count(On::Writes), before);
    }
}

/// moto would let both write, so this is for `MiniStack` alone.
async fn of_two_at_once_one_has_the_name(hosted: &Hosted) {
    for round in 0..5 {
        let label = format!("wanted-by-two-{round}");
        let us = hosted.wanted(&label, "us", "192.0.2.1");
        let them = hosted.wanted(&label, "them", "192.0.2.2");
        let (ours, theirs) = tokio::join!(hosted.client.ensure(&us), hosted.client.ensure(&them));
        let (winner, refusal) = match (ours, theirs) {
            (Ok(()), Err(refusal)) => (us, refusal),
            (Err(refusal), Ok(())) => (them, refusal),
            both => panic!("one of two: {both:?}"),
        };
        let lost = matches!(refusal.class, Class::Busy | Class::HeldElsewhere);
        assert!(lost, "{refusal:?}");
        let found = hosted
            .client
            .read(&winner.zone, &winner.name)
            .await
            .unwrap();
        assert_eq!(found.owner, Some(winner.owner));
        assert_eq!(found.addresses, winner.addresses);
    }
}
