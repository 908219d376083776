//! Hetzner Cloud: the client on the fake, and the fake on Hetzner's own client.

use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;

use floe_providers::cloud::hetzner::Hetzner;
use floe_providers::conformance::ips::{self, Scene};
use floe_providers::conformance::proxy::Proxy;
use floe_providers::conformance::{Deed, faults};
use floe_providers::fake::hetzner::{FakeHetzner, Order, READ_ONLY_TOKEN, TOKEN};
use floe_providers::floating::FloatingIps;
use floe_providers::http::{Http, Request, Secret};
use floe_testbed::python::Tool;
use http::{Method, header::AUTHORIZATION};
use serde_json::{Value, json};

const SDK: Tool = Tool {
    name: "hcloud",
    version: "2.27.0",
    requirements: include_str!("hetzner/requirements.txt"),
    builds: false,
};

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
        let client = Hetzner::new(&endpoint, &Secret::new(TOKEN)).unwrap();
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
        let stranger = Hetzner::new(&endpoint, &Secret::new(&secret)).unwrap();
        Some((Arc::new(stranger), secret))
    }
}

/// Lists do not say that an order is under way; `locked` is tested with the client.
const WITHOUT: [&str; 1] = ["says that an address is busy"];

#[tokio::test]
#[ignore = "one of the clouds: cargo xtask test --only clouds"]
async fn hetzner_passes_the_suite() {
    let project = Project::new().await;
    let report = ips::every_cloud(&project).await;
    println!("{}", report.conclude_without(&WITHOUT));
}

#[tokio::test]
#[ignore = "one of the clouds: cargo xtask test --only clouds"]
async fn hetzner_passes_the_suite_of_faults() {
    let project = Project::new().await;
    println!(
        "{}",
        faults::every_cloud(&project).await.conclude_without(&[])
    );
}

/// The fake is ours, and could be wrong in the same way as the client. Hetzner's own client
/// is somebody else's reading of the same documents.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "gets a client from PyPI: cargo xtask test --only clouds"]
async fn the_fake_of_hetzner_agrees_with_hetzners_own_client() {
    let environment = SDK.ensure().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("check.py");
    std::fs::write(&script, include_str!("hetzner/check.py")).unwrap();
    let fake = FakeHetzner::start().await.unwrap();
    let server = fake.tell(Order::AddServer("one".to_owned())).unwrap();
    let mut command = Command::new(environment.join("bin/python"));
    command
        .arg(script)
        .args([&fake.endpoint(), TOKEN, READ_ONLY_TOKEN])
        .arg(server.to_string())
        .env("NO_PROXY", "*");
    let run = tokio::task::spawn_blocking(move || command.output());
    let output = run.await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.trim(), "agreed", "{complained}");
    assert_eq!(fake.floating_ips(), 0);
}
