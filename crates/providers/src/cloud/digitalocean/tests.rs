mod liars;

use std::time::Duration;

use super::*;
use crate::{
    conformance::{
        Deed, faults, ips,
        proxy::{Fault, On, Proxy},
    },
    fake::digitalocean::{FakeDigitalOcean, Names, Script},
    http::Secret,
};

use liars::Lie;

const TOKEN: &str = "dop_v1_of_the_test";

/// An account on a fake, behind a proxy.
struct Scene {
    fake: FakeDigitalOcean,
    proxy: Proxy,
    client: DigitalOcean,
    /// In what the client is not what it should be.
    lie: Option<Lie>,
}

fn http(url: &str, token: &str) -> Http {
    let bearer = format!("Bearer {}", Secret::new(token).expose());
    Http::new(url, "floe-test")
        .unwrap()
        .with_secret(http::header::AUTHORIZATION, &bearer)
        .unwrap()
        .with_limit(Duration::from_secs(2))
}

impl Scene {
    async fn new(options: Options) -> Self {
        let fake = FakeDigitalOcean::start(TOKEN).await.unwrap();
        for id in [1, 2, 3] {
            let region = "nyc3".to_owned();
            fake.script(Script::Droplet { id, region }).unwrap();
        }
        let mut addresses = vec!["198.51.100.1", "198.51.100.2", "198.51.100.3"];
        if options.ipv6 {
            addresses.extend(["2001:db8:1::1", "2001:db8:1::2"]);
        }
        for ip in addresses {
            let (ip, region) = (ip.parse().unwrap(), "nyc3".to_owned());
            fake.script(Script::Address { ip, region }).unwrap();
        }
        let proxy = Proxy::start(fake.server().address()).await.unwrap();
        let client = DigitalOcean::new(http(&proxy.url(), TOKEN), options);
        Self {
            fake,
            proxy,
            client,
            lie: None,
        }
    }

    fn tell(&self, script: Script) {
        self.fake.script(script).unwrap();
    }
}

impl ips::Scene for Scene {
    fn title(&self) -> String {
        format!("DigitalOcean on its fake, {:?}", self.client.options)
    }

    fn ips(&self) -> &dyn FloatingIps {
        match self.lie {
            None => &self.client,
            Some(_) => self,
        }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let planted: Vec<IpAddr> = self
            .fake
            .look(|state| state.addresses.keys().copied().collect());
        let first = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => ip.octets()[0] == 198,
            IpAddr::V6(ip) => ip.segments()[2] == 1,
        };
        planted.into_iter().filter(first).collect()
    }

    fn unknown_address(&self) -> IpAddr {
        "192.0.2.1".parse().unwrap()
    }

    fn servers(&self) -> Vec<String> {
        [1, 2, 3].map(|id| format!("{SCHEME}{id}")).into()
    }

    fn unknown_server(&self) -> String {
        format!("{SCHEME}99")
    }

    fn region(&self) -> String {
        "nyc3".to_owned()
    }

    fn sells_v6(&self) -> bool {
        !self.client.options.project_per_address
    }

    fn calls_to_buy(&self) -> usize {
        2
    }

    fn discard(&self, ip: IpAddr) -> Option<Deed<'_, ()>> {
        Some(Box::pin(async move {
            let kind = if ip.is_ipv6() { Kind::V6 } else { Kind::V4 };
            let deleted = self.client.account.delete(kind, ip).await;
            deleted.map_err(|refusal| refusal.message)
        }))
    }

    fn settle(&self) -> Deed<'_, ()> {
        Box::pin(async { self.fake.script(Script::Settle { failed: false }) })
    }

    fn vanish<'a>(&'a self, server: &'a str) -> Option<Deed<'a, ()>> {
        Some(Box::pin(async {
            let id = droplet(server).map_err(|refusal| refusal.message)?;
            self.fake.script(Script::Vanish { id })
        }))
    }

    fn limit(&self, full: bool) -> Option<Deed<'_, ()>> {
        let most = if full { 0 } else { 100 };
        Some(Box::pin(
            async move { self.fake.script(Script::Limit { most }) },
        ))
    }

    fn occupy(&self, ip: IpAddr, locked: bool) -> Option<Deed<'_, ()>> {
        Some(Box::pin(async move {
            self.fake.script(Script::Lock { ip, locked })
        }))
    }

    fn stranger(&self) -> Option<(Arc<dyn FloatingIps>, String)> {
        let token = "dop_v1_of_nobody";
        let client = DigitalOcean::new(http(&self.proxy.url(), token), self.client.options.clone());
        Some((Arc::new(client), token.to_owned()))
    }
}

fn marking() -> Options {
    Options {
        ipv6: true,
        project_per_address: true,
        ..Options::default()
    }
}

#[tokio::test]
async fn it_is_a_cloud_like_every_other() {
    let scene = Scene::new(marking()).await;
    ips::every_cloud(&scene).await.conclude_without(&[]);
    assert_eq!(
        scene.fake.look(|state| state.projects.len()),
        1,
        "none is left over"
    );
}

#[tokio::test]
async fn on_a_bad_way_too() {
    let scene = Scene::new(marking()).await;
    faults::every_cloud(&scene).await.conclude_without(&[]);
    assert_eq!(
        scene.fake.look(|state| state.projects.len()),
        1,
        "none is left over"
    );
}

#[tokio::test]
async fn without_projects_nothing_is_proven_and_nothing_released() {
    let scene = Scene::new(Options::default()).await;
    ips::every_cloud(&scene)
        .await
        .conclude_without(&["has both families on one server", "releases twice"]);
    let v6 = Options {
        ipv6: true,
        ..Options::default()
    };
    let scene = Scene::new(v6).await;
    ips::every_cloud(&scene)
        .await
        .conclude_without(&["releases twice"]);
}

#[tokio::test]
async fn orders_that_are_done_at_once_are_done() {
    let scene = Scene::new(marking()).await;
    scene.tell(Script::Hold { hold: false });
    ips::every_cloud(&scene).await.conclude_without(&[]);
}

#[tokio::test]
async fn the_old_names_are_used_where_there_are_no_others() {
    for (names, options) in [
        (Names::Floating, Options::default()),
        (
            Names::Both,
            Options {
                floating_ip_names: true,
                ..Options::default()
            },
        ),
        (Names::Reserved, Options::default()),
    ] {
        let scene = Scene::new(options.clone()).await;
        scene.tell(Script::Names { names });
        let report = ips::every_cloud(&scene).await;
        report.conclude_without(&["has both families on one server", "releases twice"]);
        let old = names == Names::Floating || options.floating_ip_names;
        let paths: Vec<String> = scene
            .proxy
            .seen()
            .into_iter()
            .map(|seen| seen.path)
            .collect();
        let asked = |word: &str| paths.iter().filter(|path| path.contains(word)).count();
        assert_eq!(asked("/floating_ips") > 0, old, "{names:?}");
        // It is found out once by each of the two clients, with one order and one list.
        let new = if options.floating_ip_names { 0 } else { 4 };
        assert!(
            !old || asked("/reserved_ips") <= new,
            "{names:?}: {}",
            asked("/reserved_ips")
        );
    }
}

/// An order that comes before any list finds the names out too.
#[tokio::test]
async fn the_old_names_are_found_by_an_order() {
    let scene = Scene::new(Options::default()).await;
    scene.tell(Script::Names {
        names: Names::Floating,
    });
    let ip = "198.51.100.1".parse().unwrap();
    let taken = scene.client.assign(ip, "digitalocean://1").await.unwrap();
    assert!(matches!(taken, Taken::Pending(_)), "{taken:?}");
    let refusal = scene
        .client
        .assign("192.0.2.1".parse().unwrap(), "digitalocean://1")
        .await
        .unwrap_err();
    assert_eq!(refusal.class, Class::AddressUnknown);
}

#[tokio::test]
async fn all_pages_are_read() {
    let scene = Scene::new(Options::default()).await;
    for number in 0..450_u16 {
        let [a, b] = number.to_be_bytes();
        let ip = IpAddr::from([100, 64, a, b]);
        scene.tell(Script::Address {
            ip,
            region: "nyc3".to_owned(),
        });
    }
    let listed = scene.client.list().await.unwrap();
    assert_eq!(listed.len(), 453);
    assert_eq!(scene.proxy.seen().len(), 3);
}

#[tokio::test]
async fn an_order_is_one_call_and_a_list_is_one() {
    let scene = Scene::new(Options::default()).await;
    scene.client.list().await.unwrap();
    let ip = "198.51.100.1".parse().unwrap();
    scene.client.assign(ip, "digitalocean://1").await.unwrap();
    assert_eq!(scene.proxy.count(On::Reads), 1);
    assert_eq!(scene.proxy.count(On::Writes), 1);
}

/// Where each address has a project, an idle pool still costs one call a minute.
#[tokio::test]
async fn projects_are_listed_again_only_when_there_is_a_new_one() {
    let options = Options {
        project_per_address: true,
        ..Options::default()
    };
    let scene = Scene::new(options).await;
    let client = &scene.client;
    let listed = async || {
        let before = scene.proxy.seen().len();
        let listed = client.list().await.unwrap();
        let marks = listed.into_iter().filter_map(|it| it.mark).count();
        (marks, scene.proxy.seen().len() - before)
    };
    assert_eq!(listed().await, (0, 2));
    assert_eq!(listed().await, (0, 1));
    let mark = Mark {
        cluster: "c".into(),
        pool: "p".into(),
        purchase: "1".into(),
    };
    let ip = client.buy("nyc3", false, &mark).await.unwrap();
    assert_eq!(listed().await, (1, 2));
    assert_eq!(listed().await, (1, 1));
    client.release(ip, &mark).await.unwrap();
    assert_eq!(listed().await, (0, 1));
}

#[tokio::test]
async fn a_failed_action_has_failed_and_a_forgotten_one_too() {
    let scene = Scene::new(marking()).await;
    for ip in ["198.51.100.1", "2001:db8:1::1"] {
        let ip: IpAddr = ip.parse().unwrap();
        let taken = scene.client.assign(ip, "digitalocean://1").await.unwrap();
        let Taken::Pending(handle) = taken else {
            panic!("{taken:?}");
        };
        assert_eq!(scene.client.check(ip, &handle).await, Ok(Progress::Pending));
        scene.tell(Script::Settle { failed: true });
        for handle in [handle.as_str(), "1", "none", "", "1/../2"] {
            let progress = scene.client.check(ip, handle).await.unwrap();
            assert!(matches!(progress, Progress::Failed(_)), "{progress:?}");
        }
    }
}

#[tokio::test]
async fn another_region_is_refused_in_its_own_words() {
    let scene = Scene::new(Options::default()).await;
    scene.tell(Script::Droplet {
        id: 7,
        region: "ams3".to_owned(),
    });
    let ip = "198.51.100.1".parse().unwrap();
    let refusal = scene
        .client
        .assign(ip, "digitalocean://7")
        .await
        .unwrap_err();
    assert_eq!(refusal.class, Class::Invalid);
    assert!(refusal.message.contains("another region"), "{refusal:?}");
}

/// The limit of the hour comes without `Retry-After`.
#[tokio::test]
async fn the_limit_of_the_hour_says_when_it_ends() {
    let scene = Scene::new(Options::default()).await;
    scene.tell(Script::Calls {
        left: 0,
        reset: 120,
    });
    let refusal = scene.client.list().await.unwrap_err();
    assert_eq!(refusal.class, Class::RateLimited);
    let wait = refusal.retry_after.unwrap();
    assert!(
        wait > Duration::from_secs(100) && wait <= Duration::from_mins(2),
        "{wait:?}"
    );
}

#[tokio::test]
async fn what_is_bought_goes_to_the_project_that_was_chosen() {
    let scene = Scene::new(Options::default()).await;
    let project = scene
        .fake
        .look(|state| state.projects.keys().next().cloned())
        .unwrap();
    let options = Options {
        project: Some(project),
        ipv6: true,
        ..Options::default()
    };
    let client = DigitalOcean::new(http(&scene.proxy.url(), TOKEN), options);
    assert!(!client.capabilities().marks);
    let mark = Mark {
        cluster: "c".into(),
        pool: "p".into(),
        purchase: "1".into(),
    };
    client.buy("nyc3", false, &mark).await.unwrap();
    let sent = scene.proxy.seen().pop().unwrap();
    let sent: serde_json::Value = serde_json::from_slice(&sent.body).unwrap();
    assert!(sent["project_id"].is_string(), "{sent}");
    let refusal = client.buy("nyc3", true, &mark).await.unwrap_err();
    assert_eq!(refusal.class, Class::Invalid);
}

#[test]
fn an_address_that_may_be_in_use_is_never_taken_for_free() {
    let read = |text: &str| {
        let found: wire::One = serde_json::from_str(text).unwrap();
        found.address()
    };
    let free = read(r#"{"reserved_ip":{"ip":"192.0.2.1","droplet":null,"locked":false}}"#).unwrap();
    assert_eq!(free.droplet, None);
    let held = read(r#"{"floating_ip":{"ip":"192.0.2.1","droplet":{"id":5}}}"#).unwrap();
    assert_eq!(held.droplet, Some(5));
    let refusal = read(r#"{"reserved_ip":{"ip":"192.0.2.1","locked":false}}"#).unwrap_err();
    assert_eq!(refusal.class, Class::Unauthorized);
}

#[tokio::test]
async fn addresses_of_ipv6_are_left_alone_unless_asked_for() {
    let scene = Scene::new(Options::default()).await;
    let ip = "2001:db8:1::1".parse().unwrap();
    let refusal = scene
        .client
        .assign(ip, "digitalocean://1")
        .await
        .unwrap_err();
    assert_eq!(refusal.class, Class::Invalid);
    scene.proxy.fail_next(On::Reads, Fault::Status(200, None));
    assert!(scene.client.list().await.is_err(), "this is no list");
}
