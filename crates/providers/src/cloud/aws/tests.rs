use std::sync::Arc;

use super::*;
use crate::{aws_request::credentials::Credentials, http::Secret};

fn client() -> ElasticIps {
    let credentials = Credentials::fixed("id", Secret::new("secret"), None);
    let endpoint = "http://127.0.0.1:1";
    let ec2 = Service::new("ec2", "us-west-2", endpoint, Arc::new(credentials));
    ElasticIps::new(ec2.unwrap())
}

#[test]
fn instances_are_read_as_nodes_name_them() {
    let id = |server| Instance::named(server).map(|instance| instance.id().to_owned());
    assert_eq!(id("aws:///us-east-1a/i-0ab1").as_deref(), Some("i-0ab1"));
    // As old cloud providers write it.
    assert_eq!(id("aws:////i-0ab1").as_deref(), Some("i-0ab1"));
    for server in [
        "",
        "1",
        "i-0ab1",
        "aws://us-east-1a/i-0ab1",
        "aws:///i-0ab1",
        "aws:///us-east-1a/",
        "aws:///us-east-1a/i-",
        "aws:///us-east-1a/i-1&Action=x",
        "aws:///us-east-1a/fargate-ip-10-0-0-1",
        "gce:///us-east-1a/i-0ab1",
    ] {
        assert_eq!(id(server), None, "{server}");
    }
}

/// Two interfaces, the second listed first, as EC2 may do it.
const INSTANCE: &str = "<DescribeInstancesResponse><reservationSet><item><instancesSet><item>\
    <instanceId>i-1</instanceId><instanceState><name>running</name></instanceState>\
    <placement><availabilityZone>us-west-2b</availabilityZone></placement>\
    <networkInterfaceSet>\
    <item><networkInterfaceId>eni-2</networkInterfaceId>\
    <privateIpAddress>10.0.0.2</privateIpAddress><attachment><deviceIndex>1</deviceIndex>\
    </attachment></item>\
    <item><networkInterfaceId>eni-1</networkInterfaceId>\
    <privateIpAddress>10.0.0.1</privateIpAddress><attachment><deviceIndex>0</deviceIndex>\
    </attachment></item>\
    </networkInterfaceSet></item></instancesSet></item></reservationSet>\
    </DescribeInstancesResponse>";

#[test]
fn an_address_goes_on_the_first_interface() {
    let instances: Instances = quick_xml::de::from_str(INSTANCE).unwrap();
    let place = instances.all().next().unwrap().place();
    assert_eq!(place.interface, "eni-1");
    assert!(!place.alone);
    let on = |interface: &str, private: &str| {
        place.has(&Address {
            instance_id: "i-1".into(),
            interface_id: interface.into(),
            private_ip: private.into(),
            ..Address::default()
        })
    };
    assert!(on("eni-1", "10.0.0.1"));
    assert!(on("eni-1", ""));
    // Nothing is pushed off there.
    assert!(!on("eni-2", "10.0.0.2"));
    assert!(!on("eni-1", "10.0.0.9"));
    assert!(!on("", ""));
}

#[test]
fn names_of_servers_come_from_nodes_or_from_ec2() {
    let servers = Servers::default();
    let address = |instance: &str, interface: &str| Address {
        instance_id: instance.into(),
        interface_id: interface.into(),
        ..Address::default()
    };
    let (nowhere, on_1, on_2) = (
        address("", ""),
        address("i-1", "e-1"),
        address("i-2", "e-2"),
    );
    let gateway = address("", "eni-9");
    let all = [nowhere.clone(), on_1.clone(), on_2.clone(), gateway.clone()];
    assert_eq!(servers.unknown(&all), ["i-1", "i-2"]);
    let instances: Instances = quick_xml::de::from_str(INSTANCE).unwrap();
    servers.learn(instances.all().next().unwrap());
    servers.remember("i-2", "aws:////i-2");
    assert!(servers.unknown(&all).is_empty());
    assert_eq!(servers.of(&nowhere), None);
    assert_eq!(servers.of(&on_1).as_deref(), Some("aws:///us-west-2b/i-1"));
    assert_eq!(servers.of(&on_2).as_deref(), Some("aws:////i-2"));
    assert_eq!(servers.of(&gateway).as_deref(), Some("aws:////eni-9"));
    servers.forget_all_but(std::slice::from_ref(&on_1));
    assert_eq!(servers.unknown(&all), ["i-2"]);
}

#[test]
fn a_mark_is_three_tags_and_less_is_none() {
    let mark = Mark {
        cluster: "c".into(),
        pool: "p".into(),
        purchase: "1".into(),
    };
    let pairs = wire::tags(&mark);
    let tag = |number: usize| {
        let [key, value] = &pairs[2 * number..2 * number + 2] else {
            panic!("a tag is a key and a value: {pairs:?}");
        };
        format!(
            "<item><key>{}</key><value>{}</value></item>",
            key.1, value.1
        )
    };
    let read = |tags: &str| {
        let text = format!(
            "<R><addressesSet><item><publicIp>1.2.3.4</publicIp>\
             <tagSet>{tags}<item><key>Name</key><value/></item></tagSet></item></addressesSet></R>"
        );
        let all: Addresses = quick_xml::de::from_str(&text).unwrap();
        all.set.items[0].mark()
    };
    let all: String = (0..3).map(tag).collect();
    assert_eq!(read(&all), Some(mark));
    assert_eq!(read(&tag(0)), None);
    assert_eq!(read(&format!("{}{}", tag(0), tag(2))), None);
    assert_eq!(read(""), None);
}

#[test]
fn regions_of_pools_are_that_of_the_client_or_lie_in_it() {
    let client = client();
    assert_eq!(client.border_group(""), Ok(None));
    assert_eq!(client.border_group("us-west-2"), Ok(None));
    let local = "us-west-2-lax-1";
    assert_eq!(client.border_group(local), Ok(Some(local)));
    for elsewhere in ["us-west-1", "us-west-2a", "us-west-22"] {
        let refusal = client.border_group(elsewhere).unwrap_err();
        assert_eq!(refusal.class, Class::Invalid, "{elsewhere}");
    }
}

#[test]
fn an_empty_list_is_a_list() {
    for text in [
        "<R><addressesSet/><requestId>1</requestId></R>",
        "<R><requestId>1</requestId><addressesSet></addressesSet></R>",
    ] {
        let all: Addresses = quick_xml::de::from_str(text).unwrap();
        assert!(all.set.items.is_empty());
    }
    // And what is none is not taken for an empty one.
    quick_xml::de::from_str::<Addresses>("<R><requestId>1</requestId></R>").unwrap_err();
}

#[test]
fn addresses_go_to_an_instance_one_at_a_time() {
    let servers = Servers::default();
    let turn = servers.turn("i-1").unwrap();
    assert!(servers.turn("i-1").is_none());
    assert!(servers.turn("i-2").is_some());
    drop(turn);
    assert!(servers.turn("i-1").is_some());
}
