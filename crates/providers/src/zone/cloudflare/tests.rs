use std::{sync::Arc, time::Duration};

use floe_core::{ipam::families::Family, nodepool::cloud::Class};

use super::*;
use crate::{
    conformance::{
        Deed, faults,
        names::{self, Record as Seen, Zones},
        proxy::{On, Proxy},
    },
    fake::cloudflare::{FakeCloudflare, Script},
};

const TOKEN: &str = "token-of-the-test";
const ZONE: &str = "023e105f4ecef8ad9ca31a8372d0c353";
const DOMAIN: &str = "example.com";

struct Scene {
    fake: FakeCloudflare,
    proxy: Proxy,
    client: Cloudflare,
}

fn http(url: &str, token: &str) -> Http {
    Http::new(&format!("{url}/client/v4"), "floe-test")
        .unwrap()
        .with_secret(http::header::AUTHORIZATION, &format!("Bearer {token}"))
        .unwrap()
        .with_limit(Duration::from_secs(2))
}

impl Scene {
    async fn new() -> Self {
        let fake = FakeCloudflare::start(TOKEN).await.unwrap();
        fake.script(Script::Zone {
            id: ZONE.into(),
            name: DOMAIN.into(),
        });
        let proxy = Proxy::start(fake.server().address()).await.unwrap();
        let client = Cloudflare::new(http(&proxy.url(), TOKEN));
        Self {
            fake,
            proxy,
            client,
        }
    }

    fn wanted(&self, addresses: &[&str]) -> RecordSet {
        RecordSet {
            zone: ZONE.into(),
            name: self.name("www"),
            addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
            ttl: 60,
            owner: "us".into(),
            families: [Family::V4, Family::V6].into(),
        }
    }
}

impl Zones for Scene {
    fn title(&self) -> String {
        "Cloudflare on its fake".to_owned()
    }

    fn dns(&self) -> &dyn Dns {
        &self.client
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    fn zone(&self) -> String {
        ZONE.to_owned()
    }

    fn unknown_zone(&self) -> String {
        "f".repeat(32)
    }

    fn domain(&self) -> String {
        DOMAIN.to_owned()
    }

    fn name(&self, label: &str) -> String {
        format!("{label}.{DOMAIN}")
    }

    fn records<'a>(&'a self, label: &'a str) -> Deed<'a, Vec<Seen>> {
        let name = self.name(label);
        let all = self.fake.look(|state| state.zones[ZONE].records.clone());
        let of_label = all
            .into_iter()
            .filter(move |record| record["name"] == name.as_str());
        let seen = |record: Value| {
            let data = record["content"].as_str()?.trim_matches('"');
            let data = match record["priority"].as_u64() {
                Some(priority) => format!("{priority} {data}"),
                None => data.to_owned(),
            };
            Some(Seen {
                kind: record["type"].as_str()?.to_owned(),
                data,
                ttl: u32::try_from(record["ttl"].as_u64()?).ok()?,
            })
        };
        let records = of_label.map(seen).collect::<Option<Vec<_>>>();
        Box::pin(async { records.ok_or("a record is not complete".to_owned()) })
    }

    fn plant<'a>(&'a self, label: &'a str, record: Seen) -> Deed<'a, ()> {
        let mut body = json!({
            "type": record.kind, "name": self.name(label), "content": record.data, "ttl": record.ttl,
        });
        if record.kind == "MX" {
            let (priority, host) = record.data.split_once(' ').unwrap();
            body["priority"] = priority.parse::<u64>().unwrap().into();
            body["content"] = host.into();
        }
        let planted = self.fake.plant(ZONE, &body);
        Box::pin(async { planted })
    }

    fn stranger(&self) -> Option<(Arc<dyn Dns>, String)> {
        let token = "token-of-nobody";
        let client = Cloudflare::new(http(&self.proxy.url(), token));
        Some((Arc::new(client), token.to_owned()))
    }
}

#[tokio::test]
async fn it_is_a_name_server_like_every_other() {
    let scene = Scene::new().await;
    names::every_name_server(&scene).await.conclude_without(&[]);
}

#[tokio::test]
async fn on_a_bad_way_too() {
    let scene = Scene::new().await;
    faults::every_name_server(&scene)
        .await
        .conclude_without(&[]);
}

#[tokio::test]
async fn all_addresses_change_in_one_batch() {
    let scene = Scene::new().await;
    scene
        .client
        .ensure(&scene.wanted(&["192.0.2.1", "192.0.2.2"]))
        .await
        .unwrap();
    let before = scene.proxy.count(On::Writes);
    let wanted = scene.wanted(&["192.0.2.3", "2001:db8::1"]);
    scene.client.ensure(&wanted).await.unwrap();
    assert_eq!(scene.proxy.count(On::Writes), before + 1);
    let sent = scene.proxy.seen().pop().unwrap();
    assert!(sent.path.ends_with("/batch"), "{}", sent.path);
    let sent: Value = serde_json::from_slice(&sent.body).unwrap();
    let count = |kind: &str| sent[kind].as_array().unwrap().len();
    assert_eq!(
        (count("patches"), count("posts"), count("deletes")),
        (1, 1, 1)
    );
}

/// A record behind the proxy does not show the address, so it is taken from there, once.
#[tokio::test]
async fn what_is_proxied_is_so_no_longer() {
    let scene = Scene::new().await;
    let proxied = json!({
        "type": "A", "name": scene.name("www"), "content": "192.0.2.1", "proxied": true,
    });
    scene.fake.plant(ZONE, &proxied).unwrap();
    scene
        .client
        .ensure(&scene.wanted(&["192.0.2.1"]))
        .await
        .unwrap();
    let is_proxied = scene
        .fake
        .look(|state| state.zones[ZONE].records[0]["proxied"].clone());
    assert_eq!(is_proxied, false);
    let before = scene.proxy.count(On::Writes);
    scene
        .client
        .ensure(&scene.wanted(&["192.0.2.1"]))
        .await
        .unwrap();
    assert_eq!(scene.proxy.count(On::Writes), before);
}

#[tokio::test]
async fn more_than_a_batch_holds_is_written_too() {
    let scene = Scene::new().await;
    let addresses = |from: u8| {
        let all: Vec<String> = (0..250).map(|last| format!("10.0.{from}.{last}")).collect();
        all
    };
    for from in [0, 1] {
        let addresses = addresses(from);
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let wanted = scene.wanted(&addresses);
        scene.client.ensure(&wanted).await.unwrap();
        let found = scene.client.read(ZONE, &wanted.name).await.unwrap();
        assert_eq!(found.addresses, wanted.addresses);
    }
    scene
        .client
        .remove(&scene.wanted(&["192.0.2.1"]))
        .await
        .unwrap();
    assert_eq!(scene.fake.look(|state| state.zones[ZONE].records.len()), 0);
}

/// After the limit everything is refused, and the answer says for how long.
#[tokio::test]
async fn the_limit_says_when_it_ends() {
    let scene = Scene::new().await;
    scene.fake.script(Script::Calls { left: 0, wait: 300 });
    let refusal = scene
        .client
        .ensure(&scene.wanted(&["192.0.2.1"]))
        .await
        .unwrap_err();
    assert_eq!(refusal.class, Class::RateLimited);
    assert_eq!(refusal.retry_after, Some(Duration::from_mins(5)));
}

#[tokio::test]
async fn of_two_who_come_at_once_the_first_has_the_name() {
    let scene = Scene::new().await;
    let theirs = Seen {
        kind: "TXT".into(),
        data: "them".into(),
        ttl: 300,
    };
    scene.plant("_floe.www", theirs.clone()).await.unwrap();
    // As if the note had not been there when it looked.
    let refusal = scene
        .client
        .claim(ZONE, &scene.name("www"), "us")
        .await
        .unwrap_err();
    assert_eq!(refusal.class, Class::HeldElsewhere);
    assert_eq!(scene.records("_floe.www").await.unwrap(), [theirs]);
}

/// A record that came between reading and writing is no fault of anybody: it is tried again.
#[tokio::test]
async fn what_changed_in_between_is_busy() {
    let scene = Scene::new().await;
    let wanted = scene.wanted(&["192.0.2.1"]);
    let record = json!({"type": "A", "name": wanted.name, "content": "192.0.2.1", "ttl": 60});
    scene.fake.plant(ZONE, &record).unwrap();
    let plan = Plan {
        create: vec!["192.0.2.1".parse().unwrap()],
        ..Plan::default()
    };
    let refusal = scene.client.apply(&wanted, plan).await.unwrap_err();
    assert_eq!(refusal.class, Class::Busy);
}
