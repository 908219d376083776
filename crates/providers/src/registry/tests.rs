use floe_core::nodepool::cloud::Class;

use super::*;
use crate::{
    conformance::proxy::Proxy,
    fake::digitalocean::{FakeDigitalOcean, Script},
};

fn registry(pairs: &[(&str, &str)]) -> (Registry, Vec<String>) {
    let get = |name: &str| {
        let mut pairs = pairs.iter();
        pairs
            .find(|pair| pair.0 == name)
            .map(|pair| pair.1.to_owned())
    };
    Registry::from_environment(&get)
}

#[test]
fn without_credentials_there_is_nobody() {
    for pairs in [
        &[][..],
        &[("DIGITALOCEAN_ACCESS_TOKEN", " "), ("CLOUDFLARE_TOKEN", "")],
        &[("DIGITALOCEAN_API_URL", "http://127.0.0.1:1")],
    ] {
        let (registry, problems) = registry(pairs);
        assert_eq!(registry.names().count(), 0, "{pairs:?}");
        assert!(problems.is_empty(), "{problems:?}");
    }
}

#[test]
fn a_token_is_enough() {
    let (registry, problems) = registry(&[
        ("DIGITALOCEAN_ACCESS_TOKEN", "a"),
        ("CLOUDFLARE_TOKEN", "b"),
    ]);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(
        registry.names().collect::<Vec<_>>(),
        ["cloudflare", "digitalocean"]
    );
    let digitalocean = registry.get("digitalocean").unwrap();
    assert!(digitalocean.ips.is_some() && digitalocean.dns.is_some());
    let cloudflare = registry.get("cloudflare").unwrap();
    assert!(cloudflare.ips.is_none() && cloudflare.dns.is_some());
    assert!(registry.get("gcp").is_none());
}

/// A test needs no account: where the fake is says enough.
#[tokio::test]
async fn the_fake_is_a_provider_of_its_own() {
    let cloud = FakeDigitalOcean::start("fake").await.unwrap();
    let ip = "192.0.2.1".parse().unwrap();
    let region = "here".to_owned();
    for script in [
        Script::Droplet {
            id: 7,
            region: region.clone(),
        },
        Script::Address { ip, region },
        Script::Domain {
            name: "example.com".to_owned(),
        },
        Script::Hold { hold: false },
    ] {
        cloud.script(script).unwrap();
    }
    let url = cloud.server().url();
    let (registry, problems) = registry(&[("FLOE_FAKE_CLOUD_URL", &url)]);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(registry.names().collect::<Vec<_>>(), ["fake"]);
    let fake = registry.get("fake").unwrap();
    let (ips, dns) = (fake.ips.clone().unwrap(), fake.dns.clone().unwrap());
    assert!(ips.capabilities().marks);
    assert!(ips.assign(ip, "digitalocean://7").await.is_ok());
    let listed = ips.list().await.unwrap();
    assert_eq!(listed[0].server.as_deref(), Some("digitalocean://7"));
    assert!(dns.read("example.com", "www").await.is_ok());
    // It fails as it is told, by whoever can send a request.
    let client = reqwest::Client::new();
    let tell = async |script: &str| {
        let request = client.post(format!("{url}/_fake/script"));
        let answer = request.body(script.to_owned()).send().await.unwrap();
        answer.status().as_u16()
    };
    let busy = r#"{"do": "fail", "calls": 1, "status": 429, "retry_after": 7}"#;
    assert_eq!(tell(busy).await, 200);
    let refusal = ips.list().await.unwrap_err();
    let wait = Some(std::time::Duration::from_secs(7));
    assert_eq!(
        (refusal.class, refusal.retry_after),
        (Class::RateLimited, wait)
    );
    let lost = r#"{"do": "fail", "calls": 1, "status": 502, "done": true}"#;
    assert_eq!(tell(lost).await, 200);
    let refusal = ips.detach(ip).await.unwrap_err();
    assert_eq!(refusal.class, Class::Unclear, "{refusal}");
    assert_eq!(ips.list().await.unwrap()[0].server, None);
    assert_eq!(tell(r#"{"do": "nothing"}"#).await, 400);
}

#[test]
fn a_fault_of_one_keeps_no_other_out_and_tells_no_secret() {
    for (name, value) in [
        ("DIGITALOCEAN_API_URL", "https://me:s3cr3t@host"),
        ("DIGITALOCEAN_API_URL", "nowhere"),
        ("DIGITALOCEAN_RESERVED_IPV6", "perhaps"),
        ("DIGITALOCEAN_ACCESS_TOKEN", "s3cr3t\nof two lines"),
    ] {
        let (registry, problems) = registry(&[
            (name, value),
            ("DIGITALOCEAN_ACCESS_TOKEN", "s3cr3t"),
            ("CLOUDFLARE_TOKEN", "b"),
        ]);
        assert_eq!(registry.names().collect::<Vec<_>>(), ["cloudflare"]);
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert!(problem.starts_with("provider digitalocean: "), "{problem}");
        assert!(!problem.contains("s3cr3t"), "{problem}");
    }
}

/// The token of a file, the address and the name of FLIPOP's variables reach the server.
#[tokio::test]
async fn what_the_environment_says_is_used() {
    let folder = std::env::temp_dir().join(format!("floe-token-{}", std::process::id()));
    std::fs::write(&folder, "of-a-file\n").unwrap();
    let fake = FakeDigitalOcean::start("of-a-file").await.unwrap();
    let proxy = Proxy::start(fake.server().address()).await.unwrap();
    let url = proxy.url();
    let (registry, problems) = registry(&[
        ("DIGITALOCEAN_ACCESS_TOKEN_FILE", folder.to_str().unwrap()),
        ("DIGITALOCEAN_API_URL", &url),
        ("DIGITALOCEAN_USER_AGENT", "somebody/1"),
    ]);
    assert!(problems.is_empty(), "{problems:?}");
    let ips = registry.get("digitalocean").unwrap().ips.clone().unwrap();
    let listed = ips.list().await;
    std::fs::remove_file(&folder).unwrap();
    assert_eq!(listed, Ok(vec![]));
    assert_eq!(proxy.seen().len(), 1);

    let get = |name: &str| {
        (name == "DIGITALOCEAN_ACCESS_TOKEN_FILE").then(|| folder.to_str().unwrap().to_owned())
    };
    let (registry, problems) = Registry::from_environment(&get);
    assert_eq!(registry.names().count(), 0);
    assert!(problems[0].contains("cannot read"), "{problems:?}");
}
