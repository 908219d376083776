use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use axum::http::Method;
use floe_providers::{Answer, IpProvider};
use floe_shell::mock::Fault;
use serde_json::{Value, json};

use super::*;
use crate::{
    claims::scene::PODS,
    reclaim::scene::{FIPS, POOLS, Scene, finish, fip, numbered, running, until},
};

const IP: &str = "10.0.70.2";
const KEY: &str = "sts_ns_a_a-0";

fn wish(ip: &str, key: Option<&str>) -> Wish {
    Wish {
        ip: ip.parse().unwrap(),
        key: key.map(HolderKey::from),
    }
}

/// The words of all results.
async fn reasons(scene: &Scene, wishes: &[Wish]) -> Vec<&'static str> {
    let results = scene.actions().release(wishes, false).await;
    let reason = |it: &Result<Freed, ReleaseError>| match it {
        Ok(freed) => freed.reason(),
        Err(error) => error.reason(),
    };
    results.iter().map(reason).collect()
}

async fn release(scene: &Scene, ip: &str, key: &str) -> Result<Freed, ReleaseError> {
    let wishes = [wish(ip, Some(key))];
    let mut results = scene.actions().release(&wishes, false).await;
    results.remove(0)
}

fn refusal(result: Result<Freed, ReleaseError>) -> String {
    result.unwrap_err().galaxy_text()
}

fn reserved(ip: &str, key: &str) -> Value {
    let mut object = fip(ip, key, 2, "");
    object["metadata"]["labels"] = json!({ "reserved": "x" });
    object
}

#[tokio::test(start_paused = true)]
async fn what_nobody_runs_with_is_released() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, KEY, 2, ""));
        server.put(FIPS, fip("10.0.70.3", "pool__p_", 2, ""));
        server.put(FIPS, fip("10.0.70.4", "dp_ns_web_web-1", 1, "u"));
        // Another pod has the name by now, and has another address.
        server.put(PODS, numbered("a-1", "new"));
        server.put(FIPS, fip("10.0.70.5", "sts_ns_a_a-1", 1, "old"));
        server.put(PODS, running("p", "u", ""));
        server.put(FIPS, fip("10.0.70.6", "NULL_ns_NULL_p", 0, "u"));
        server.put(FIPS, fip("10.0.70.7", "made by hand", 2, ""));
    })
    .await;
    finish(&scene.server, "p");
    let ips = [
        "10.0.70.3",
        IP,
        "10.0.70.4",
        "10.0.70.5",
        "10.0.70.6",
        "10.0.70.7",
    ];
    let wishes: Vec<Wish> = ips.iter().map(|ip| wish(ip, None)).collect();
    assert_eq!(reasons(&scene, &wishes).await, ["Released"; 6]);
    assert!(scene.server.objects(FIPS).is_empty());
    assert!(scene.known(IP).is_none(), "the books know it at once");
    assert_eq!(reasons(&scene, &wishes).await, ["AlreadyFree"; 6]);
}

#[tokio::test(start_paused = true)]
async fn what_a_pod_runs_with_stays() {
    let scene = Scene::start(|server| {
        server.put(PODS, numbered("a-0", "u"));
        server.put(FIPS, fip(IP, KEY, 2, "u"));
        // A record without uid belongs to whatever pod has the name.
        server.put(PODS, numbered("a-1", "v"));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-1", 2, ""));
        // The record is of another pod, but the address is shown.
        server.put(PODS, running("q", "new", "10.0.70.4"));
        server.put(FIPS, fip("10.0.70.4", "NULL_ns_NULL_q", 2, "old"));
        // The record is of nobody, but the address is shown.
        server.put(PODS, running("r", "w", "10.0.70.5"));
        server.put(FIPS, fip("10.0.70.5", "pool__p_", 2, ""));
        // Nobody knows where to look.
        server.put(FIPS, fip("10.0.70.6", "pool__a_b_dp_ns_web_web-1", 2, "u"));
    })
    .await;
    let before = scene.server.objects(FIPS);
    let running = |name: &str, uid: &str| format!("pod ns_{name} (uid {uid}) is running");
    let result = release(&scene, IP, KEY).await;
    assert_eq!(refusal(result), running("a-0", "u"));
    let result = release(&scene, "10.0.70.3", "sts_ns_a_a-1").await;
    assert_eq!(refusal(result), running("a-1", "v"));
    let result = release(&scene, "10.0.70.4", "NULL_ns_NULL_q").await;
    assert_eq!(refusal(result), running("q", "new"));
    let result = release(&scene, "10.0.70.5", "pool__p_").await;
    assert_eq!(refusal(result), running("r", "w"));
    assert_eq!(
        reasons(&scene, &[wish("10.0.70.6", None)]).await,
        ["HolderUnknown"]
    );
    assert_eq!(scene.server.objects(FIPS), before);
}

#[tokio::test(start_paused = true)]
async fn the_api_server_is_asked_for_the_pod_and_not_the_cache() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, KEY, 2, ""));
    })
    .await;
    let just_before = |state: &mut floe_shell::mock::State| {
        state.put(PODS, numbered("a-0", "u"));
    };
    let fault = Fault::Before(Box::new(just_before));
    let path = "/namespaces/ns/pods/a-0";
    scene.server.fault(Method::GET, path, fault);
    let result = release(&scene, IP, KEY).await;
    assert_eq!(refusal(result), "pod ns_a-0 (uid u) is running");

    scene.server.fault(Method::GET, path, Fault::Refuse(500));
    let error = release(&scene, IP, KEY).await.unwrap_err();
    assert_eq!(error.reason(), "PodUnreadable");
    assert_eq!(scene.held(IP), KEY);

    // The cache may still have it when it is gone.
    scene.server.delete(PODS, "a-0");
    assert_eq!(release(&scene, IP, KEY).await.unwrap(), Freed::Released);
}

#[tokio::test(start_paused = true)]
async fn what_another_one_has_or_nobody_or_an_administrator_is_told_apart() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, "dp_ns_web_web-1", 2, ""));
        server.put(FIPS, reserved("10.0.70.3", "pool__reserved-for-node_"));
        let mut broken = fip("10.0.70.4", KEY, 2, "");
        broken["spec"]["key"] = json!(5);
        server.put(FIPS, broken);
    })
    .await;
    let result = release(&scene, IP, KEY).await;
    assert_eq!(
        refusal(result),
        "ip allocated to another pod dp_ns_web_web-1"
    );
    let result = release(&scene, "10.0.70.3", "pool__reserved-for-node_").await;
    assert_eq!(refusal(result), "releasable is false, ip is reserved");
    let wishes = [
        wish("10.0.70.9", Some(KEY)),
        wish("192.0.2.1", Some(KEY)),
        wish("10.0.70.3", None),
        wish("10.0.70.3", Some(KEY)),
        wish("10.0.70.4", None),
        wish("::ffff:10.0.70.2", Some(KEY)),
    ];
    let wanted = [
        "AlreadyFree",
        "NotConfigured",
        "AddressReserved",
        "HeldByAnother",
        "AddressReserved",
        "HeldByAnother",
    ];
    assert_eq!(reasons(&scene, &wishes).await, wanted);
    assert_eq!(scene.server.objects(FIPS).len(), 3);
    assert_eq!(scene.server.count(&Method::DELETE, "floatingips"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shared_address_stays_whatever_is_wished() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, "vip__shop_web_", 2, ""));
        server.put(FIPS, reserved("10.0.70.3", "vip__shop_web_"));
    })
    .await;
    let wishes = [
        wish(IP, None),
        wish(IP, Some("vip__shop_web_")),
        wish(IP, Some(KEY)),
        wish("10.0.70.3", None),
    ];
    assert_eq!(reasons(&scene, &wishes).await, ["SharedAddress"; 4]);
    let result = release(&scene, IP, KEY).await;
    assert_eq!(
        refusal(result),
        "releasable is false, ip is shared by VirtualIP shop/web"
    );
    let ips = ["10.0.70.3".parse().unwrap()];
    let results = scene.actions().unreserve(&ips, false).await;
    assert_eq!(results[0].as_ref().unwrap_err().reason(), "SharedAddress");
    assert_eq!(scene.server.objects(FIPS).len(), 2);
    assert_eq!(scene.server.count(&Method::DELETE, "floatingips"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_somebody_changes_meanwhile_stays() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, KEY, 2, ""));
    })
    .await;
    let faster = |state: &mut floe_shell::mock::State| {
        state.put(FIPS, fip(IP, KEY, 2, "u"));
    };
    let fault = Fault::Before(Box::new(faster));
    scene.server.fault(Method::DELETE, "floatingips", fault);
    let result = release(&scene, IP, KEY).await;
    let text = "release ip: 10.0.70.2 was changed by somebody else meanwhile";
    assert_eq!(refusal(result), text);
    assert_eq!(scene.held(IP), format!("{KEY} u"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_deletion_is_made_up_for() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, KEY, 2, ""));
    })
    .await;
    scene
        .server
        .fault(Method::DELETE, "floatingips", Fault::Lose);
    assert_eq!(release(&scene, IP, KEY).await.unwrap(), Freed::Released);
}

#[tokio::test(start_paused = true)]
async fn who_binds_or_reclaims_for_the_same_pod_comes_first() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, KEY, 2, ""));
    })
    .await;
    let turn = scene.turns.wait("ns", "a-0").await;
    let mut releasing = std::pin::pin!(release(&scene, IP, KEY));
    assert!(futures::poll!(releasing.as_mut()).is_pending());
    assert_eq!(scene.server.count(&Method::GET, "/pods/a-0"), 0);
    // The address is a spare by the time the turn is over.
    scene.server.put(FIPS, fip(IP, "pool__p_", 2, ""));
    until("the books have it", || {
        scene
            .known(IP)
            .is_some_and(|it| it.key.as_str() == "pool__p_")
    })
    .await;
    drop(turn);
    assert_eq!(
        refusal(releasing.await),
        "ip allocated to another pod pool__p_"
    );
}

/// Knows what it was asked for.
#[derive(Default)]
struct Provider {
    refuses: AtomicBool,
    calls: Mutex<Vec<String>>,
}

impl IpProvider for Provider {
    fn assign<'a>(&'a self, _: &'a str, _: IpAddr) -> Answer<'a> {
        Box::pin(async { Ok(()) })
    }

    fn unassign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        self.calls.lock().unwrap().push(format!("{node} {ip}"));
        let refuses = self.refuses.load(Ordering::Relaxed);
        Box::pin(async move {
            let message = "not today".into();
            if refuses {
                Err(ProviderError::Refused { message })
            } else {
                Ok(())
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_cloud_gives_it_back_before_it_is_free() {
    let mut scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, KEY, 2, "u"));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-1", 2, ""));
    })
    .await;
    let cloud = Arc::new(Provider::default());
    cloud.refuses.store(true, Ordering::Relaxed);
    scene.use_cloud(cloud.clone());
    let text = refusal(release(&scene, IP, KEY).await);
    let start = "UnAssignIP nodeName n1, ip 10.0.70.2: ";
    assert!(
        text.starts_with(start) && text.contains("not today"),
        "{text}"
    );
    assert_eq!(scene.held(IP), format!("{KEY} u"));

    cloud.refuses.store(false, Ordering::Relaxed);
    cloud.calls.lock().unwrap().clear();
    assert_eq!(release(&scene, IP, KEY).await.unwrap(), Freed::Released);
    let released = release(&scene, "10.0.70.3", "sts_ns_a_a-1").await;
    assert_eq!(released.unwrap(), Freed::Released);
    assert_eq!(*cloud.calls.lock().unwrap(), ["n1 10.0.70.2"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_tells_the_same_and_changes_nothing() {
    let mut scene = Scene::start(|server| {
        server.put(FIPS, fip(IP, KEY, 2, "u"));
        server.put(PODS, numbered("a-1", "v"));
        server.put(FIPS, fip("10.0.70.3", "sts_ns_a_a-1", 2, "v"));
    })
    .await;
    let cloud = Arc::new(Provider::default());
    scene.use_cloud(cloud.clone());
    let wishes = [wish(IP, None), wish("10.0.70.3", None)];
    let results = scene.actions().release(&wishes, true).await;
    assert_eq!(*results[0].as_ref().unwrap(), Freed::Released);
    assert_eq!(results[1].as_ref().unwrap_err().reason(), "PodRuns");
    assert_eq!(scene.server.objects(FIPS).len(), 2);
    assert!(cloud.calls.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_are_released_at_a_time_and_told_in_their_order() {
    let ip = |number: usize| format!("10.0.70.{number}");
    let scene = Scene::start(|server| {
        for number in 2..60 {
            let key = format!("sts_ns_a_a-{number}");
            server.put(FIPS, fip(&ip(number), &key, 2, ""));
            if number % 3 == 0 {
                server.put(PODS, numbered(&format!("a-{number}"), "u"));
            }
        }
    })
    .await;
    let wishes: Vec<Wish> = (2..60)
        .rev()
        .map(|number| wish(&ip(number), None))
        .collect();
    let wanted: Vec<&str> = (2..60)
        .rev()
        .map(|number| {
            if number % 3 == 0 {
                "PodRuns"
            } else {
                "Released"
            }
        })
        .collect();
    assert_eq!(reasons(&scene, &wishes).await, wanted);
}

/// A user who releases a spare of such a pool finds another one a second later.
#[tokio::test(start_paused = true)]
async fn a_spare_that_its_pool_replaces_is_reported_as_such() {
    let pool = |size: u32, ahead: bool| {
        json!({
            "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "Pool",
            "metadata": { "name": "p", "namespace": "kube-system" },
            "size": size, "preAllocateIP": ahead,
        })
    };
    for (size, ahead, expected) in [
        (2, true, Freed::Refilled),
        // It has more than it asks for.
        (1, true, Freed::Released),
        (2, false, Freed::Released),
    ] {
        let scene = Scene::start(|server| {
            server.put(POOLS, pool(size, ahead));
            server.put(FIPS, fip(IP, "pool__p_", 2, ""));
            server.put(FIPS, fip("10.0.70.3", "pool__p_", 2, ""));
        })
        .await;
        until("the pool is known", || {
            scene.store.read(|books| !books.pools().is_empty())
        })
        .await;
        let wishes = [wish(IP, None)];
        for dry_run in [true, false] {
            let result = scene.actions().release(&wishes, dry_run).await.remove(0);
            let freed = result.unwrap();
            assert_eq!(freed, expected, "{size} {ahead}");
            assert_eq!(freed.reason(), "Released");
        }
        assert_eq!(scene.held(IP), "");
    }
}
