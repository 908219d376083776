mod suite;

use std::time::Duration;

use super::*;
use crate::fake::hetzner::{FakeHetzner, Order, READ_ONLY_TOKEN, TOKEN};

/// A project with two servers, and its client.
struct Scene {
    fake: FakeHetzner,
    client: Hetzner,
    first: String,
    second: String,
}

impl Scene {
    async fn new() -> Self {
        let fake = FakeHetzner::start().await.unwrap();
        let client = Hetzner::new(&fake.endpoint(), &Secret::new(TOKEN)).unwrap();
        let server = |name: &str| {
            let id = fake.tell(Order::AddServer(name.to_owned())).unwrap();
            format!("hcloud://{id}")
        };
        let (first, second) = (server("a"), server("b"));
        Self {
            fake,
            client,
            first,
            second,
        }
    }

    async fn bought(&self, purchase: &str) -> IpAddr {
        self.client
            .buy("fsn1", false, &mark(purchase))
            .await
            .unwrap()
    }

    async fn holder(&self, ip: IpAddr) -> Option<String> {
        let listed = self.client.list().await.unwrap();
        let one = listed.into_iter().find(|one| one.ip == ip).unwrap();
        one.server
    }

    async fn refused(&self, ip: IpAddr, server: &str) -> Refusal {
        self.client.assign(ip, server).await.unwrap_err()
    }
}

fn mark(purchase: &str) -> Mark {
    Mark {
        cluster: "1c0de8a6-0000-4000-8000-000000000001".to_owned(),
        pool: "1c0de8a6-0000-4000-8000-000000000002".to_owned(),
        purchase: purchase.to_owned(),
    }
}

#[tokio::test]
async fn an_order_under_way_is_followed_by_its_handle() {
    let scene = Scene::new().await;
    let ip = scene.bought("1").await;
    scene.fake.tell(Order::Hold(true));
    let taken = scene.client.assign(ip, &scene.first).await.unwrap();
    let Taken::Pending(handle) = taken else {
        panic!("{taken:?}")
    };
    let progress = scene.client.check(ip, &handle).await.unwrap();
    assert_eq!(progress, Progress::Pending);
    assert_eq!(scene.holder(ip).await, None);
    // While it runs, nothing else is done to the address.
    let refusal = scene.refused(ip, &scene.second).await;
    assert_eq!(refusal.class, Class::Busy, "{refusal}");
    scene.fake.tell(Order::Finish);
    let progress = scene.client.check(ip, &handle).await.unwrap();
    assert_eq!(progress, Progress::Done);
    assert_eq!(scene.holder(ip).await.as_ref(), Some(&scene.first));
}

#[tokio::test]
async fn an_order_that_failed_says_why() {
    let scene = Scene::new().await;
    let ip = scene.bought("1").await;
    scene.fake.tell(Order::Hold(true));
    let Taken::Pending(handle) = scene.client.assign(ip, &scene.first).await.unwrap() else {
        panic!("it cannot be done yet")
    };
    let fault = ("action_failed".to_owned(), "the host has failed".to_owned());
    scene.fake.tell(Order::Fail(fault.0, fault.1));
    let failed = Progress::Failed("the host has failed (action_failed)".to_owned());
    let progress = scene.client.check(ip, &handle).await;
    assert_eq!(progress.unwrap(), failed);
    for unknown in ["9999", "?"] {
        let progress = scene.client.check(ip, unknown).await.unwrap();
        assert!(matches!(progress, Progress::Failed(_)), "{progress:?}");
    }
}

#[tokio::test]
async fn addresses_move_directly_and_stay_where_they_are() {
    let scene = Scene::new().await;
    let ip = scene.bought("1").await;
    for server in [&scene.first, &scene.second] {
        let taken = scene.client.assign(ip, server).await.unwrap();
        assert!(matches!(taken, Taken::Pending(_)), "{taken:?}");
        assert_eq!(scene.holder(ip).await.as_ref(), Some(server));
        // Once more changes nothing, and is done at once.
        let taken = scene.client.assign(ip, server).await.unwrap();
        assert_eq!(taken, Taken::Done);
    }
    scene.client.detach(ip).await.unwrap();
    assert_eq!(scene.holder(ip).await, None);
    assert_eq!(scene.client.detach(ip).await.unwrap(), Taken::Done);
}

#[tokio::test]
async fn what_is_not_there_is_told_apart() {
    let scene = Scene::new().await;
    let ip = scene.bought("1").await;
    let unknown = "203.0.113.200".parse().unwrap();
    let refusal = scene.refused(unknown, &scene.first).await;
    assert_eq!(refusal.class, Class::AddressUnknown, "{refusal}");
    let refusal = scene.refused(ip, "hcloud://4711").await;
    assert_eq!(refusal.class, Class::ServerUnknown, "{refusal}");
    let refusal = scene.refused(ip, "digitalocean://4711").await;
    assert_eq!(refusal.class, Class::Invalid, "{refusal}");
    // An address that is gone while its id is still known.
    scene.client.release(ip, &mark("1")).await.unwrap();
    let refusal = scene.refused(ip, &scene.first).await;
    assert_eq!(refusal.class, Class::AddressUnknown, "{refusal}");
}

#[tokio::test]
async fn a_network_of_v6_is_known_by_its_first_address() {
    let scene = Scene::new().await;
    let ip = scene.client.buy("hel1", true, &mark("1")).await.unwrap();
    assert_eq!(ip, "2001:db8:1::1".parse::<IpAddr>().unwrap());
    scene.client.assign(ip, &scene.first).await.unwrap();
    assert_eq!(scene.holder(ip).await.as_ref(), Some(&scene.first));
    let other = "2001:db8:1::5".parse().unwrap();
    let refusal = scene.refused(other, &scene.first).await;
    assert_eq!(refusal.class, Class::AddressUnknown);
    assert!(refusal.message.contains("2001:db8:1::/64"), "{refusal}");
}

#[tokio::test]
async fn the_same_purchase_buys_once_and_another_one_buys_more() {
    let scene = Scene::new().await;
    let ip = scene.bought("1").await;
    assert_eq!(scene.bought("1").await, ip);
    assert_ne!(scene.bought("2").await, ip);
    assert_eq!(scene.fake.floating_ips(), 2);
    let listed = scene.client.list().await.unwrap();
    let one = listed.iter().find(|one| one.ip == ip).unwrap();
    assert_eq!(one.mark, Some(mark("1")));
}

#[tokio::test]
async fn only_what_bears_the_mark_is_given_back_and_from_its_server_first() {
    let scene = Scene::new().await;
    let ip = scene.bought("1").await;
    let refusal = scene.client.release(ip, &mark("2")).await.unwrap_err();
    assert_eq!(refusal.class, Class::HeldElsewhere, "{refusal}");
    scene.client.assign(ip, &scene.first).await.unwrap();
    let refusal = scene.client.release(ip, &mark("1")).await.unwrap_err();
    assert_eq!(refusal.class, Class::Busy, "{refusal}");
    scene.client.release(ip, &mark("1")).await.unwrap();
    scene.client.release(ip, &mark("1")).await.unwrap();
    assert_eq!(scene.fake.floating_ips(), 0);
}

#[tokio::test]
async fn limits_and_credentials_have_classes_of_their_own() {
    let scene = Scene::new().await;
    let ip = scene.bought("1").await;
    scene.fake.tell(Order::Quota(Some(1)));
    let refused = scene.client.buy("fsn1", false, &mark("2")).await;
    assert_eq!(refused.unwrap_err().class, Class::Quota);
    let refused = scene.client.buy("nowhere", false, &mark("2")).await;
    assert_eq!(refused.unwrap_err().class, Class::Invalid);
    scene.fake.tell(Order::Calls(Some(0)));
    let refusal = scene.client.list().await.unwrap_err();
    assert_eq!(refusal.class, Class::RateLimited);
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(10)));
    scene.fake.tell(Order::Calls(None));

    let endpoint = scene.fake.endpoint();
    let reader = Hetzner::new(&endpoint, &Secret::new(READ_ONLY_TOKEN)).unwrap();
    reader.list().await.unwrap();
    let refusal = reader.assign(ip, &scene.first).await.unwrap_err();
    assert_eq!(refusal.class, Class::Unauthorized);
    let stranger = Hetzner::new(&endpoint, &Secret::new("s3cret")).unwrap();
    let refusal = stranger.list().await.unwrap_err();
    assert_eq!(refusal.class, Class::Unauthorized);
    assert!(!format!("{refusal:?} {stranger:?}").contains("s3cret"));
}

#[tokio::test]
async fn all_pages_are_read() {
    let scene = Scene::new().await;
    for purchase in 0..120 {
        scene.bought(&purchase.to_string()).await;
    }
    assert_eq!(scene.client.list().await.unwrap().len(), 120);
}

#[tokio::test]
async fn a_server_that_is_no_api_says_nothing_of_addresses() {
    let scene = Scene::new().await;
    let wrong = format!("{}/other", scene.fake.endpoint());
    let client = Hetzner::new(&wrong, &Secret::new(TOKEN)).unwrap();
    let ip = "203.0.113.1".parse().unwrap();
    // It must not look as if the address were gone.
    let refusal = client.release(ip, &mark("1")).await.unwrap_err();
    assert_eq!(refusal.class, Class::Invalid, "{refusal}");
}

#[test]
fn the_environment_names_token_or_file() {
    let nothing = |_: &str| None;
    assert!(from_environment(&nothing).unwrap().is_none());
    let folder = std::env::temp_dir().join(format!("floe-hetzner-{}", std::process::id()));
    std::fs::write(&folder, "token\n").unwrap();
    let file = |name: &str| (name == "HCLOUD_TOKEN_FILE").then(|| folder.display().to_string());
    let client = from_environment(&file).unwrap().unwrap();
    assert_eq!(client.http.base(), ENDPOINT);
    std::fs::remove_file(&folder).unwrap();
    let words = from_environment(&file).unwrap_err();
    assert!(words.contains("HCLOUD_TOKEN_FILE"), "{words}");
}
