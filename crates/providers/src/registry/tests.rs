use super::*;
use crate::{conformance::proxy::Proxy, fake::digitalocean::FakeDigitalOcean};

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
