use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::crds::tests::{dropped, refusals};

/// As galaxy v1.0.8 stores an address that a pod uses.
fn bound() -> Value {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1",
        "kind": "FloatingIP",
        "metadata": {
            "name": "10.0.70.5",
            "uid": "0b0b5e0a-4f7e-4b43-9d4b-6a1d2f2c7a11",
            "resourceVersion": "4711",
            "generation": 2,
            "creationTimestamp": "2023-04-01T08:00:00Z",
        },
        "spec": {
            "key": "sts_shop_cart_cart-0",
            "attribute": r#"{"NodeName":"node-3","Uid":"5f1c2d3e-0000-4000-8000-00000000000a"}"#,
            "policy": 1,
            "updateTime": "2023-04-01T08:00:00Z",
        },
    })
}

/// As galaxy before v1.0.7 stored one: with label and subnet.
fn old() -> Value {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1",
        "kind": "FloatingIP",
        "metadata": {"name": "10.49.27.205", "labels": {"ipType": "internalIP"}},
        "spec": {
            "key": "dp_shop_web_web-6d4cf56db6-x7k2p",
            "attribute": "",
            "policy": 0,
            "subnet": "10.49.27.0/24",
            "updateTime": "2019-11-05T03:12:44Z",
        },
    })
}

/// As the galaxy documents reserve one by hand.
fn reservation() -> Value {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1",
        "kind": "FloatingIP",
        "metadata": {"name": "10.0.0.2", "labels": {"reserved": "this-is-not-for-pods"}},
        "spec": {"key": "pool__reserved-for-node_", "policy": 2},
    })
}

fn named(name: &str) -> Value {
    let mut object = bound();
    object["metadata"]["name"] = name.into();
    object
}

fn decode(object: Value) -> FloatingIP {
    serde_json::from_value(object).unwrap()
}

#[test]
fn decodes_what_galaxy_wrote() {
    let record = decode(bound());
    assert_eq!(record.address().unwrap().to_string(), "10.0.70.5");
    assert_eq!(record.spec.key, "sts_shop_cart_cart-0");
    assert!(record.spec.attribute.contains("node-3"));
    assert_eq!(record.spec.policy, 1);
    let updated = record.spec.update_time.as_ref().unwrap();
    assert_eq!(updated.0.to_string(), "2023-04-01T08:00:00Z");
    assert!(!record.is_reserved());

    let record = decode(old());
    assert_eq!(record.spec.key, "dp_shop_web_web-6d4cf56db6-x7k2p");
    assert_eq!(
        (record.spec.attribute.as_str(), record.spec.policy),
        ("", 0)
    );
}

#[test]
fn decodes_a_reservation_by_hand() {
    let record = decode(reservation());
    assert!(record.is_reserved());
    assert!(!record.is_outside_configuration());
    assert_eq!(record.spec.policy, 2);
    assert_eq!(
        (record.spec.attribute.as_str(), record.spec.update_time),
        ("", None)
    );
}

#[test]
fn a_missing_or_null_member_is_zero() {
    let nulls = json!({"metadata": {"name": "10.0.0.2"}, "spec": {"key": null, "attribute": null, "policy": null, "updateTime": null}});
    assert_eq!(decode(nulls).spec, FloatingIPSpec::default());
    assert_eq!(decode(json!({})), FloatingIP::default());
    assert_eq!(decode(json!({"spec": null})), FloatingIP::default());
}

#[test]
fn writes_what_it_read() {
    let object = bound();
    assert_eq!(
        serde_json::to_value(decode(object.clone())).unwrap(),
        object
    );
}

#[test]
fn the_core_reads_what_galaxy_wrote() {
    let spec = decode(bound()).spec;
    assert_eq!(spec.holder().parts().unwrap().pod, "cart-0");
    assert_eq!(spec.place().attribute.node_name, "node-3");
    assert_eq!(spec.release_policy(), ReleasePolicy::Immutable);
    assert_eq!(spec.updated().to_string(), "2023-04-01T08:00:00Z");

    let spec = decode(reservation()).spec;
    assert!(spec.place().attribute.is_empty() && !spec.place().malformed);
    assert_eq!(spec.release_policy(), ReleasePolicy::Never);
    assert_eq!(spec.updated(), Timestamp::UNIX_EPOCH);
}

#[test]
fn what_the_core_stores_it_reads_again() {
    let spec = decode(bound()).spec;
    let place = spec.place().attribute;
    let again = FloatingIPSpec::of(
        &spec.holder(),
        &place,
        spec.release_policy(),
        spec.updated(),
    );
    assert_eq!(again, spec);
}

/// galaxy's schema has a required text there, for which null would not do.
#[test]
fn writes_no_null() {
    let spec = serde_json::to_value(decode(reservation()).spec).unwrap();
    assert_eq!(
        spec,
        json!({"key": "pool__reserved-for-node_", "attribute": "", "policy": 2})
    );
}

#[test]
fn a_new_record_has_the_name_and_the_readable_form() {
    for (ip, name, readable) in [
        ("10.0.70.5", "10.0.70.5", "10.0.70.5"),
        ("::ffff:10.0.70.5", "10.0.70.5", "10.0.70.5"),
        (
            "fd00:0:0:1::a",
            "fd00-0000-0000-0001-0000-0000-0000-000a",
            "fd00:0:0:1::a",
        ),
    ] {
        let record = FloatingIP::new(ip.parse().unwrap(), FloatingIPSpec::default());
        assert_eq!(record.metadata.name.as_deref(), Some(name));
        assert_eq!(
            record.metadata.annotations.as_ref().unwrap()[labels::ADDRESS],
            readable
        );
        assert_eq!(record.address().unwrap().to_string(), readable);
    }
}

#[test]
fn the_server_accepts_and_keeps_what_galaxy_wrote_and_documents() {
    for object in [bound(), old(), reservation()] {
        assert_eq!(refusals(&definition(), &object), [] as [&str; 0]);
        assert_eq!(dropped(&definition(), &object), [] as [&str; 0]);
    }
}

#[test]
fn the_server_refuses_what_nobody_could_have_meant() {
    let with = |member: &str, value: Value| {
        let mut object = bound();
        object["spec"][member] = value;
        refusals(&definition(), &object)
    };
    assert_eq!(with("policy", json!(3)), [".spec.policy: above 2.0"]);
    assert_eq!(with("policy", json!(-1)), [".spec.policy: below 0.0"]);
    assert_eq!(
        with("policy", json!("never")),
        [r#".spec.policy: not of type "integer""#]
    );
    assert_eq!(
        with("updateTime", json!("yesterday")),
        [".spec.updateTime: not a time"]
    );
    assert_eq!(
        with("attribute", json!({})),
        [r#".spec.attribute: not of type "string""#]
    );
    assert_eq!(with("updateTime", Value::Null), [] as [&str; 0]);

    let mut keyless = bound();
    keyless["spec"].as_object_mut().unwrap().remove("key");
    assert_eq!(
        refusals(&definition(), &keyless),
        [r#".spec: "key" is missing"#]
    );
    keyless.as_object_mut().unwrap().remove("spec");
    assert_eq!(
        refusals(&definition(), &keyless),
        [r#": "spec" is missing"#]
    );

    let mut typo = reservation();
    typo["spec"]["polcy"] = json!(2);
    assert_eq!(dropped(&definition(), &typo), ["polcy"]);
}

#[test]
fn the_server_refuses_a_name_that_is_no_address() {
    for name in [
        "web",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.01",
        "10.0.0.1.",
        "10.0.0.1-32",
        "fd00--1",
        "fd00-0-0-1-0-0-0-a",
        "FD00-0000-0000-0001-0000-0000-0000-000A",
        "fd00-0000-0000-0001-0000-0000-0000",
        "10.0.0.1\n",
    ] {
        let refusals = refusals(&definition(), &named(name));
        assert_eq!(refusals.len(), 1, "{name}: {refusals:?}");
        assert!(refusals[0].contains("must be the address"), "{refusals:?}");
    }
    assert_eq!(
        refusals(
            &definition(),
            &named("0000-0000-0000-0000-0000-ffff-0a00-4605")
        ),
        [": the name of an IPv4 address is its dotted form"]
    );
}

/// Measured with the estimate of Kubernetes 1.34: 130 are too many.
#[test]
fn the_server_can_afford_the_rule() {
    assert!(NAME.len() <= 110, "{}", NAME.len());
}

proptest! {
    /// The server and the core agree on what the name of an address is.
    #[test]
    fn every_address_has_a_name_that_the_server_accepts(ip: IpAddr) {
        let record = FloatingIP::new(ip, FloatingIPSpec::default());
        let object = serde_json::to_value(&record).unwrap();
        prop_assert_eq!(refusals(&definition(), &object), [] as [&str; 0]);
    }

    #[test]
    fn the_server_accepts_no_other_name(
        name in prop_oneof![
            r"[0-9]{1,3}(\.[0-9]{1,3}){3}",
            "[0-9a-f]{3,5}(-[0-9a-f]{4}){6,7}",
            "0000(-0000){4}-ffff(-[0-9a-f]{4}){2}",
            "[0-9a-f.:-]{0,40}",
        ],
    ) {
        let accepted = refusals(&definition(), &named(&name)).is_empty();
        prop_assert_eq!(accepted, floe_core::addr::name::parse(&name).is_ok(), "{}", name);
    }
}
