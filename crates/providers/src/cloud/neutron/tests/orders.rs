//! What is made of answers that a real Neutron gives rarely.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::fake::Fake;
use crate::{
    cloud::neutron::{Neutron, from_environment},
    floating::FloatingIps,
};
use floe_core::nodepool::cloud::{Class, Taken};

const IP: &str = "203.0.113.7";

fn ip() -> IpAddr {
    IP.parse().unwrap()
}

fn client(fake: &Fake) -> Neutron {
    let environment = |name: &str| match name {
        "OS_AUTH_TYPE" => Some("none".to_owned()),
        "OS_ENDPOINT" => Some(format!("{}/network", fake.url)),
        "OS_PROJECT_ID" => Some("mine".to_owned()),
        _ => None,
    };
    from_environment(&environment).unwrap().unwrap()
}

fn floating_ip(port: Option<&str>, details: &Value) -> Value {
    json!({
        "id": "f", "floating_ip_address": IP, "floating_network_id": "net",
        "port_id": port, "fixed_ip_address": port.map(|_| "10.0.0.4"),
        "description": "", "port_details": details,
    })
}

fn port(id: &str, device: &str, owner: &str, ip: &str) -> Value {
    json!({ "id": id, "device_id": device, "device_owner": owner,
        "fixed_ips": [{ "subnet_id": "in", "ip_address": ip }] })
}

/// The address is on server `s`.
async fn on_a_server() -> (Fake, Neutron) {
    let fake = Fake::start().await;
    let client = client(&fake);
    let details = json!({ "device_id": "s", "device_owner": "compute:nova" });
    let mut book = fake.book.lock().unwrap();
    book.floating_ips = vec![floating_ip(Some("p"), &details)];
    book.ports = vec![port("p", "s", "compute:nova", "10.0.0.4")];
    drop(book);
    (fake, client)
}

#[tokio::test]
async fn refusals_are_told_apart_by_their_type() {
    let fake = Fake::start().await;
    let client = client(&fake);
    {
        let mut book = fake.book.lock().unwrap();
        book.floating_ips = vec![floating_ip(None, &Value::Null)];
        book.ports = vec![port("p", "s", "compute:nova", "10.0.0.4")];
    }
    let fault =
        |kind: &str| json!({ "NeutronError": { "type": kind, "message": "words", "detail": "" } });
    for (status, body, class) in [
        (
            409,
            fault("FloatingIPPortAlreadyAssociated"),
            Class::ServerTaken,
        ),
        (404, fault("FloatingIPNotFound"), Class::AddressUnknown),
        (404, fault("PortNotFound"), Class::ServerUnknown),
        (
            404,
            fault("ExternalGatewayForFloatingIPNotFound"),
            Class::Invalid,
        ),
        (404, fault("SomethingNew"), Class::Invalid),
        (409, fault("SomethingNew"), Class::Busy),
        (409, fault("OverQuota"), Class::Quota),
        (403, fault("PolicyNotAuthorized"), Class::Unauthorized),
        (400, json!({ "NeutronError": "only words" }), Class::Invalid),
        (500, fault("HTTPInternalServerError"), Class::Unclear),
        (503, json!({}), Class::Unavailable),
        (429, json!({}), Class::RateLimited),
    ] {
        fake.book.lock().unwrap().answer = Some((status, body.clone()));
        let refusal = client.assign(ip(), "openstack:///s").await.unwrap_err();
        assert_eq!(refusal.class, class, "{status} {body}: {refusal}");
    }
}

#[tokio::test]
async fn a_list_without_details_asks_for_the_ports_once() {
    let fake = Fake::start().await;
    let client = client(&fake);
    {
        let mut book = fake.book.lock().unwrap();
        let mut other = floating_ip(Some("lb"), &Value::Null);
        other["floating_ip_address"] = json!("203.0.113.8");
        book.floating_ips = vec![floating_ip(Some("p"), &Value::Null), other];
        book.ports = vec![
            port("p", "s", "compute:nova", "10.0.0.4"),
            port("lb", "balancer", "Octavia", "10.0.0.9"),
        ];
    }
    let listed = client.list().await.unwrap();
    assert_eq!(listed[0].server.as_deref(), Some("openstack:///s"));
    // Held by something that is no server, so it is not free.
    assert_eq!(listed[1].server.as_deref(), Some("openstack:///port/lb"));
    assert_eq!(fake.book.lock().unwrap().seen.len(), 2);
}

#[tokio::test]
async fn a_server_is_listed_in_the_form_in_which_it_was_asked_for() {
    let (fake, client) = on_a_server().await;
    let server = "openstack://one/s";
    // It is there already, so that nothing is changed.
    assert_eq!(client.assign(ip(), server).await.unwrap(), Taken::Done);
    let listed = client.list().await.unwrap();
    assert_eq!(listed[0].server.as_deref(), Some(server));
    let seen = fake.book.lock().unwrap().seen.clone();
    assert!(seen.iter().all(|call| call.starts_with("GET ")), "{seen:?}");
}

#[tokio::test]
async fn a_server_is_listed_as_its_node_writes_it() {
    let (_fake, client) = on_a_server().await;
    for server in ["openstack://one/s", "openstack:///one/s", "openstack:///s"] {
        client.introduce(server, "n");
        client.introduce("hcloud://7", "m");
        let listed = client.list().await.unwrap();
        assert_eq!(listed[0].server.as_deref(), Some(server));
    }
}

#[tokio::test]
async fn of_several_ports_the_routed_one_is_asked_for() {
    let fake = Fake::start().await;
    let client = client(&fake);
    {
        let mut book = fake.book.lock().unwrap();
        book.floating_ips = vec![floating_ip(None, &Value::Null)];
        let mut storage = port("storage", "s", "compute:nova", "10.9.0.4");
        storage["fixed_ips"][0]["subnet_id"] = json!("storage");
        book.ports = vec![
            storage,
            port("p", "s", "compute:nova", "10.0.0.4"),
            port("r", "router", "network:router_interface", "10.0.0.1"),
            port("g", "router", "network:router_gateway", "203.0.113.1"),
        ];
        book.routers = vec![
            json!({ "id": "blind", "external_gateway_info": null }),
            json!({ "id": "router", "external_gateway_info": { "network_id": "net" } }),
        ];
        let done = json!({ "floatingip": floating_ip(Some("p"), &Value::Null) });
        book.answer = Some((200, done));
    }
    let taken = client.assign(ip(), "openstack:///s").await.unwrap();
    assert_eq!(taken, Taken::Done);
    let order = fake.book.lock().unwrap().seen.pop().unwrap();
    let body = r#"{"floatingip":{"fixed_ip_address":"10.0.0.4","port_id":"p"}}"#;
    assert_eq!(order, format!("PUT /network/v2.0/floatingips/f {body}"));
    // Without that router nobody knows.
    fake.book.lock().unwrap().routers.clear();
    let refusal = client.assign(ip(), "openstack:///s").await.unwrap_err();
    assert_eq!(refusal.class, Class::Invalid, "{refusal}");
}
