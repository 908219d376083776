//! Settings, tokens, and the catalogue.

use std::collections::BTreeMap;

use serde_json::json;

use super::fake::Fake;
use crate::{
    cloud::neutron::{Neutron, from_environment},
    floating::FloatingIps,
};
use floe_core::nodepool::cloud::Class;

fn password(url: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("OS_AUTH_URL", format!("{url}/identity/v3/")),
        ("OS_USERNAME", "floe".to_owned()),
        ("OS_USER_DOMAIN_NAME", "Default".to_owned()),
        ("OS_PASSWORD", "pass-w0rd".to_owned()),
        ("OS_PROJECT_NAME", "demo".to_owned()),
        ("OS_PROJECT_DOMAIN_ID", "default".to_owned()),
        ("OS_REGION_NAME", "one".to_owned()),
    ])
}

fn client(variables: &BTreeMap<&'static str, String>) -> Result<Option<Neutron>, String> {
    from_environment(&|name| variables.get(name).cloned())
}

#[tokio::test]
async fn a_password_gets_a_token_and_the_token_is_used_again() {
    let fake = Fake::start().await;
    let client = client(&password(&fake.url)).unwrap().unwrap();
    client.list().await.unwrap();
    client.list().await.unwrap();
    let book = fake.book.lock().unwrap();
    let wanted = json!({ "auth": {
        "identity": { "methods": ["password"], "password": { "user": {
            "name": "floe", "domain": { "name": "Default" }, "password": "pass-w0rd" } } },
        "scope": { "project": { "name": "demo", "domain": { "id": "default" } } },
    }});
    assert_eq!(book.asked, [wanted]);
    // Only what belongs to the token's project, from where the catalogue says.
    let call = "GET /network/v2.0/floatingips?project_id=project-1&limit=500";
    assert_eq!(book.seen, [call, call]);
    assert!(!format!("{client:?}").contains("pass-w0rd"));
    assert!(!format!("{client:?}").contains("token-1"));
}

#[tokio::test]
async fn an_application_credential_needs_no_project() {
    let fake = Fake::start().await;
    let secret = std::env::temp_dir().join(format!("floe-keystone-{}", std::process::id()));
    std::fs::write(&secret, "app-s3cret\n").unwrap();
    let mut variables = BTreeMap::from([
        ("OS_AUTH_URL", format!("{}/identity", fake.url)),
        ("OS_APPLICATION_CREDENTIAL_ID", "abc".to_owned()),
        (
            "OS_APPLICATION_CREDENTIAL_SECRET_FILE",
            secret.display().to_string(),
        ),
        ("OS_REGION_NAME", "one".to_owned()),
    ]);
    let by_id = client(&variables).unwrap().unwrap();
    by_id.list().await.unwrap();
    variables.remove("OS_APPLICATION_CREDENTIAL_ID");
    variables.insert("OS_APPLICATION_CREDENTIAL_NAME", "floe".to_owned());
    let words = client(&variables).unwrap_err();
    assert!(words.contains("OS_USER_ID"), "{words}");
    variables.insert("OS_USER_ID", "me".to_owned());
    let by_name = client(&variables).unwrap().unwrap();
    by_name.list().await.unwrap();
    std::fs::remove_file(&secret).unwrap();
    let wanted = |proven: serde_json::Value| {
        json!({ "auth": { "identity": {
            "methods": ["application_credential"], "application_credential": proven } } })
    };
    let book = fake.book.lock().unwrap();
    assert_eq!(
        book.asked,
        [
            wanted(json!({ "id": "abc", "secret": "app-s3cret" })),
            wanted(json!({ "name": "floe", "user": { "id": "me" }, "secret": "app-s3cret" })),
        ]
    );
}

#[tokio::test]
async fn a_token_that_ends_soon_is_not_used() {
    let fake = Fake::start().await;
    fake.book.lock().unwrap().life = 0;
    let client = client(&password(&fake.url)).unwrap().unwrap();
    client.list().await.unwrap();
    let before = fake.tokens();
    client.list().await.unwrap();
    assert!(fake.tokens() > before);
}

#[tokio::test]
async fn a_token_that_is_not_believed_is_replaced_once() {
    let fake = Fake::start().await;
    let client = client(&password(&fake.url)).unwrap().unwrap();
    client.list().await.unwrap();
    "revoked".clone_into(&mut fake.book.lock().unwrap().good);
    client.list().await.unwrap();
    assert_eq!(fake.tokens(), 2);
}

#[tokio::test]
async fn the_catalogue_is_read_by_region_and_interface() {
    let fake = Fake::start().await;
    let mut variables = password(&fake.url);
    variables.remove("OS_REGION_NAME");
    let refusal = client(&variables).unwrap().unwrap().list().await;
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.class, Class::Invalid);
    assert!(refusal.message.contains("OS_REGION_NAME"), "{refusal}");
    variables.insert("OS_INTERFACE", "adminURL".to_owned());
    let refusal = client(&variables).unwrap().unwrap().list().await;
    let refusal = refusal.unwrap_err();
    assert!(refusal.message.contains("interface admin"), "{refusal}");
}

#[tokio::test]
async fn an_open_neutron_is_told_whose_things_are_meant() {
    let fake = Fake::start().await;
    let variables = BTreeMap::from([
        ("OS_AUTH_TYPE", "none".to_owned()),
        ("OS_ENDPOINT", format!("{}/network/v2.0", fake.url)),
        ("OS_PROJECT_ID", "mine".to_owned()),
    ]);
    let client = client(&variables).unwrap().unwrap();
    client.list().await.unwrap();
    let book = fake.book.lock().unwrap();
    let call = "GET /network/v2.0/floatingips?project_id=mine&limit=500";
    assert_eq!(book.seen, [call]);
    assert!(book.asked.is_empty());
}

#[test]
fn what_is_missing_is_named() {
    let variables = password("http://keystone");
    assert!(client(&BTreeMap::new()).unwrap().is_none());
    for (missing, named) in [
        ("OS_USERNAME", "OS_USERNAME"),
        ("OS_PASSWORD", "OS_PASSWORD_FILE"),
        ("OS_PROJECT_NAME", "OS_PROJECT_ID"),
        ("OS_USER_DOMAIN_NAME", "OS_USER_DOMAIN_ID"),
    ] {
        let mut some = variables.clone();
        some.remove(missing);
        let words = client(&some).unwrap_err();
        assert!(words.contains(named), "{words}");
    }
    for (name, value) in [("OS_AUTH_TYPE", "v3kerberos"), ("OS_CACERT", "/ca.pem")] {
        let mut more = variables.clone();
        more.insert(name, value.to_owned());
        let words = client(&more).unwrap_err();
        assert!(words.contains(name), "{words}");
    }
}
