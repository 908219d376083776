use std::{sync::Arc, time::Duration};

use floe_core::ipam::families::Family;

use super::*;
use crate::{
    conformance::{
        Deed, faults,
        names::{self, Record as Seen, Zones},
        proxy::{On, Proxy},
    },
    fake::digitalocean::{FakeDigitalOcean, Script},
};

const TOKEN: &str = "dop_v1_of_the_test";
const DOMAIN: &str = "example.com";

struct Scene {
    fake: FakeDigitalOcean,
    proxy: Proxy,
    client: DigitalOceanDns,
    beside: Api,
}

fn http(url: &str, token: &str) -> Http {
    Http::new(url, "floe-test")
        .unwrap()
        .with_secret(http::header::AUTHORIZATION, &format!("Bearer {token}"))
        .unwrap()
        .with_limit(Duration::from_secs(2))
}

impl Scene {
    async fn new() -> Self {
        let fake = FakeDigitalOcean::start(TOKEN).await.unwrap();
        let name = DOMAIN.to_owned();
        fake.script(Script::Domain { name }).unwrap();
        let proxy = Proxy::start(fake.server().address()).await.unwrap();
        let client = DigitalOceanDns::new(http(&proxy.url(), TOKEN));
        let beside = Api::new(http(&fake.server().url(), TOKEN));
        Self {
            fake,
            proxy,
            client,
            beside,
        }
    }
}

impl Zones for Scene {
    fn title(&self) -> String {
        "DigitalOcean's domains on the fake".to_owned()
    }

    fn dns(&self) -> &dyn Dns {
        &self.client
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    fn zone(&self) -> String {
        DOMAIN.to_owned()
    }

    fn unknown_zone(&self) -> String {
        "example.net".to_owned()
    }

    fn domain(&self) -> String {
        DOMAIN.to_owned()
    }

    fn name(&self, label: &str) -> String {
        label.to_owned()
    }

    fn records<'a>(&'a self, label: &'a str) -> Deed<'a, Vec<Seen>> {
        let all = self.fake.look(|state| state.domains[DOMAIN].clone());
        let of_label = all
            .into_iter()
            .filter(move |record| record["name"] == label);
        let seen = |record: Value| {
            let data = record["data"].as_str()?;
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
            "type": record.kind, "name": label, "data": record.data, "ttl": record.ttl,
        });
        if record.kind == "MX" {
            let (priority, host) = record.data.split_once(' ').unwrap();
            body["priority"] = priority.parse::<u64>().unwrap().into();
            body["data"] = format!("{host}.").into();
        }
        Box::pin(async move {
            let path = format!("/v2/domains/{DOMAIN}/records");
            let request = Request::new(Method::POST, path).json(&body);
            let answer = self.beside.send(request).await;
            let answer = answer.map_err(|refusal| refusal.message)?;
            let good = api::good(&answer, Class::ZoneUnknown);
            good.map(drop).map_err(|refusal| refusal.message)
        })
    }

    fn stranger(&self) -> Option<(Arc<dyn Dns>, String)> {
        let token = "dop_v1_of_nobody";
        let client = DigitalOceanDns::new(http(&self.proxy.url(), token));
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
async fn the_domain_itself_is_a_name_too() {
    let scene = Scene::new().await;
    for name in ["@", ""] {
        let wanted = RecordSet {
            zone: DOMAIN.into(),
            name: name.into(),
            addresses: ["192.0.2.1".parse().unwrap()].into(),
            ttl: 60,
            owner: "us".into(),
            families: [Family::V4, Family::V6].into(),
        };
        scene.client.ensure(&wanted).await.unwrap();
        assert_eq!(scene.client.full_name(DOMAIN, name), DOMAIN);
    }
    let names = scene.fake.look(|state| {
        let records = state.domains[DOMAIN].iter();
        let names = records.map(|record| record["name"].as_str().map(str::to_owned));
        names.collect::<Vec<_>>()
    });
    assert_eq!(names, [Some("_floe".to_owned()), Some("@".to_owned())]);
}

/// Surplus records are edited before any is made: a change costs one write.
#[tokio::test]
async fn a_change_of_one_address_is_one_write() {
    let scene = Scene::new().await;
    let mut wanted = RecordSet {
        zone: DOMAIN.into(),
        name: "www".into(),
        addresses: ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()].into(),
        ttl: 60,
        owner: "us".into(),
        families: [Family::V4, Family::V6].into(),
    };
    scene.client.ensure(&wanted).await.unwrap();
    let before = scene.proxy.count(On::Writes);
    wanted.addresses = ["192.0.2.1".parse().unwrap(), "192.0.2.3".parse().unwrap()].into();
    scene.client.ensure(&wanted).await.unwrap();
    assert_eq!(scene.proxy.count(On::Writes), before + 1);
}

/// Two who find no note both write one; the later one takes its own back.
#[tokio::test]
async fn of_two_who_come_at_once_the_first_has_the_name() {
    let scene = Scene::new().await;
    let theirs = Seen {
        kind: "TXT".into(),
        data: "them".into(),
        ttl: 300,
    };
    let place = Place::new(DOMAIN, "www");
    scene.plant("_floe.www", theirs.clone()).await.unwrap();
    // As if the note had not been there when it looked.
    let refusal = scene.client.claim(&place, "us").await.unwrap_err();
    assert_eq!(refusal.class, Class::HeldElsewhere);
    assert_eq!(scene.records("_floe.www").await.unwrap(), [theirs]);
}
