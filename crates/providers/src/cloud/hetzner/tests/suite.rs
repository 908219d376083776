//! The suites of all clouds, on the fake.

use std::{net::IpAddr, sync::Arc, time::Duration};

use http::{Method, header::AUTHORIZATION};
use serde_json::{Value, json};

use crate::{
    cloud::hetzner::Hetzner,
    conformance::{
        Deed, faults,
        ips::{self, Scene},
        proxy::Proxy,
    },
    fake::hetzner::{FakeHetzner, Order, TOKEN},
    floating::FloatingIps,
    http::{Http, Request, Secret},
};

/// A client that does not wait for long.
fn client(endpoint: &str, token: &str) -> Hetzner {
    let mut client = Hetzner::new(endpoint, &Secret::new(token)).unwrap();
    client.http = client.http.with_limit(Duration::from_secs(2));
    client
}

/// A project behind a proxy.
struct Project {
    fake: FakeHetzner,
    proxy: Proxy,
    client: Hetzner,
    addresses: Vec<IpAddr>,
    servers: Vec<String>,
}

impl Project {
    async fn new() -> Self {
        let fake = FakeHetzner::start().await.unwrap();
        let proxy = Proxy::start(fake.address()).await.unwrap();
        let endpoint = format!("{}/v1", proxy.url());
        let client = client(&endpoint, TOKEN);
        let server = |name: &str| {
            let id = fake.tell(Order::AddServer(name.to_owned())).unwrap();
            format!("hcloud://{id}")
        };
        let servers = ["a", "b", "c"].map(server).to_vec();
        for kind in ["ipv4", "ipv4", "ipv4", "ipv6"] {
            let body = json!({ "type": kind, "home_location": "fsn1" });
            raw(&fake, Method::POST, "/floating_ips", Some(&body)).await;
        }
        let listed = client.list().await.unwrap();
        let addresses = listed.into_iter().map(|one| one.ip).collect();
        // Orders stay under way until the suite lets them end.
        fake.tell(Order::Hold(true));
        Self {
            fake,
            proxy,
            client,
            addresses,
            servers,
        }
    }
}

/// Asks the fake directly.
async fn raw(fake: &FakeHetzner, method: Method, path: &str, body: Option<&Value>) -> Value {
    let http = Http::new(&fake.endpoint(), "test").unwrap();
    let http = http
        .with_secret(AUTHORIZATION, &format!("Bearer {TOKEN}"))
        .unwrap();
    let mut request = Request::new(method, path);
    if let Some(body) = body {
        request = request.json(body);
    }
    let answer = http.send(request).await.unwrap();
    assert!(answer.status.is_success(), "{answer:?}");
    answer.json().unwrap()
}

impl Scene for Project {
    fn title(&self) -> String {
        "Hetzner Cloud on its fake".to_owned()
    }

    fn ips(&self) -> &dyn FloatingIps {
        &self.client
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.clone()
    }

    fn unknown_address(&self) -> IpAddr {
        "203.0.113.250".parse().unwrap()
    }

    fn servers(&self) -> Vec<String> {
        self.servers.clone()
    }

    fn unknown_server(&self) -> String {
        "hcloud://999999".to_owned()
    }

    fn region(&self) -> String {
        "fsn1".to_owned()
    }

    fn settle(&self) -> Deed<'_, ()> {
        Box::pin(async {
            self.fake.tell(Order::Finish);
            Ok(())
        })
    }

    fn vanish<'a>(&'a self, server: &'a str) -> Option<Deed<'a, ()>> {
        Some(Box::pin(async move {
            let id = server
                .strip_prefix("hcloud://")
                .and_then(|id| id.parse().ok());
            self.fake.tell(Order::RemoveServer(id.ok_or("no id")?));
            Ok(())
        }))
    }

    fn limit(&self, full: bool) -> Option<Deed<'_, ()>> {
        Some(Box::pin(async move {
            let most = full.then(|| self.fake.floating_ips());
            self.fake.tell(Order::Quota(most));
            Ok(())
        }))
    }

    fn stranger(&self) -> Option<(Arc<dyn FloatingIps>, String)> {
        let secret = "token-of-nobody".to_owned();
        let endpoint = format!("{}/v1", self.proxy.url());
        let stranger = client(&endpoint, &secret);
        Some((Arc::new(stranger), secret))
    }
}

/// Lists do not say that an order is under way; a test of its own meets `locked`.
const WITHOUT: [&str; 1] = ["says that an address is busy"];

#[tokio::test]
async fn it_is_a_cloud_like_every_other() {
    let project = Project::new().await;
    let report = ips::every_cloud(&project).await;
    report.conclude_without(&WITHOUT);
}

#[tokio::test]
async fn it_is_a_cloud_like_every_other_on_a_bad_way() {
    let project = Project::new().await;
    faults::every_cloud(&project).await.conclude_without(&[]);
}
