use serde_json::{Value, json};

use super::*;
use crate::{crds::tests::refusals, floe::tests::unknown};

fn spec(spec: Value) -> NodeDNSRecordSetSpec {
    serde_json::from_value(spec).unwrap()
}

#[test]
fn the_provider_may_stand_where_the_readme_has_it() {
    let readme = json!({
        "metadata": { "name": "n" },
        "spec": {
            "provider": "digitalocean",
            "dnsRecordSet": { "recordName": "nodes", "zone": "example.com", "ttl": 30 },
            "match": { "nodeLabel": "pool=ingress" },
        },
    });
    assert_eq!(refusals(&definition(), &readme), [""; 0]);
    assert_eq!(spec(readme["spec"].clone()).provider(), "digitalocean");
    let both = spec(json!({
        "provider": "digitalocean", "dnsRecordSet": { "provider": "cloudflare" },
    }));
    assert_eq!(both.provider(), "cloudflare");
}

#[test]
fn addresses_are_external_and_of_ipv4_unless_somebody_says_more() {
    let plain = spec(json!({}));
    assert_eq!(
        plain.address_type(),
        AddressType::Status("ExternalIP".into())
    );
    assert!(plain.wants(AddressFamily::IPv4) && !plain.wants(AddressFamily::IPv6));
    let more = spec(json!({
        "addressType": "flipop.digitalocean.com/ipv4-reserved-ip", "addressFamilies": ["IPv6"],
    }));
    assert_eq!(more.address_type(), AddressType::Annotation);
    assert!(!more.wants(AddressFamily::IPv4) && more.wants(AddressFamily::IPv6));
    let inner = spec(json!({ "addressType": "InternalIP" }));
    assert_eq!(
        inner.address_type(),
        AddressType::Status("InternalIP".into())
    );
}

#[test]
fn the_schema_takes_what_floe_writes_and_names_every_member() {
    let time = || Time("2026-07-01T08:00:00Z".parse().unwrap());
    let object = NodeDNSRecordSet {
        metadata: ObjectMeta::default(),
        spec: NodeDNSRecordSetSpec {
            provider: "digitalocean".into(),
            address_families: vec![AddressFamily::IPv4],
            address_type: "InternalIP".into(),
            dns_record_set: DnsRecordSet {
                provider: "cloudflare".into(),
                zone: "z".into(),
                record_name: "n".into(),
                ttl: 30,
                allow_empty: true,
            },
            rule: Match::default(),
        },
        status: Some(NodeDNSRecordSetStatus {
            state: "active".into(),
            error: "e".into(),
            observed_generation: Some(1),
            addresses: vec!["10.0.0.1".into()],
            records: 1,
            last_update: Some(time()),
            conditions: vec![Condition {
                type_: super::super::PUBLISHED.into(),
                status: "True".into(),
                reason: "Published".into(),
                message: "m".into(),
                last_transition_time: time(),
                observed_generation: None,
            }],
        }),
    };
    let value = serde_json::to_value(&object).unwrap();
    assert_eq!(refusals(&definition(), &value), [""; 0]);
    let schema = &definition().spec.versions[0].schema;
    let schema = serde_json::to_value(schema).unwrap()["openAPIV3Schema"].take();
    assert_eq!(
        unknown(&schema, &value, ""),
        ["/apiVersion", "/kind", "/metadata"]
    );
    let read: NodeDNSRecordSet = serde_json::from_value(value).unwrap();
    assert_eq!(read, object);
}
