use axum::http::Method;
use floe_core::ipam::key::HolderKey;
use floe_shell::mock::{Fault, State};
use serde_json::json;

use super::*;
use crate::{
    reclaim::scene::{FIPS, POOLS, Scene, fip, pass, record_of, until},
    store::EVERYWHERE,
};

fn id() -> PoolId {
    PoolId::new(EVERYWHERE, "p").unwrap()
}

fn settings(size: i64, ahead: bool) -> Settings {
    Settings::new(size, ahead).unwrap()
}

async fn set(scene: &Scene, size: i64, ahead: bool) -> Result<Pool, PoolError> {
    let actions = scene.actions();
    let before = actions.pool(&id()).await?;
    actions.set_pool(&id(), before, settings(size, ahead)).await
}

fn addresses(scene: &Scene) -> usize {
    let key: HolderKey = "pool__p_".into();
    let objects = scene.server.objects(FIPS);
    let records = objects.iter().map(record_of);
    records.filter(|it| it.key.is_under(&key)).count()
}

#[test]
fn names_and_sizes_that_cannot_be_are_refused() {
    let reason = |namespace: &str, name: &str| PoolId::new(namespace, name).unwrap_err().reason();
    let too_long = "p".repeat(254);
    for name in [
        "", "a_b", "A", "a/b", "-a", "a-", ".a", "a.", "a b", &too_long,
    ] {
        assert_eq!(reason(EVERYWHERE, name), "InvalidPoolName", "{name}");
    }
    assert_eq!(reason("../x", "p"), "InvalidPoolName");
    assert!(PoolId::new(EVERYWHERE, "blue-green.1").is_ok());
    let error = Settings::new(-1, false).unwrap_err();
    assert_eq!(error.reason(), "InvalidPoolSize");
    assert!(error.is_callers_fault());
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_made_changed_and_deleted_and_the_books_know_it_at_once() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "pool__p_", 2, ""));
    })
    .await;
    let actions = scene.actions();
    let known = || {
        scene.store.read(|books| {
            let key = (EVERYWHERE.to_owned(), "p".to_owned());
            books
                .pools()
                .get(&key)
                .map(|it| (it.size, it.pre_allocate_ip))
        })
    };
    assert_eq!(actions.pool(&id()).await, Ok(None));
    set(&scene, 3, false).await.unwrap();
    assert_eq!(known(), Some((3, false)));
    set(&scene, 3, false).await.unwrap();
    assert_eq!(
        scene.server.count(&Method::PUT, "pools"),
        0,
        "it is the same"
    );
    set(&scene, 4, true).await.unwrap();
    assert_eq!(known(), Some((4, true)));
    let object = scene.server.object(POOLS, "p").unwrap();
    assert_eq!(
        (&object["size"], &object["preAllocateIP"]),
        (&json!(4), &json!(true))
    );

    actions.delete_pool(&id()).await.unwrap();
    assert_eq!(known(), None);
    assert!(scene.server.object(POOLS, "p").is_none());
    let missing = PoolError::Missing { name: "p".into() };
    assert_eq!(actions.delete_pool(&id()).await, Err(missing));
    pass(1).await;
    assert_eq!(known(), None);
    assert_eq!(scene.held("10.0.70.2"), "pool__p_", "its addresses stay");
    // It can come back.
    set(&scene, 1, false).await.unwrap();
    pass(1).await;
    assert_eq!(known(), Some((1, false)));
}

#[tokio::test(start_paused = true)]
async fn who_sets_a_pool_that_is_another_one_by_now_learns_it() {
    let scene = Scene::start(|_| ()).await;
    let pool = |size: i64| json!({ "metadata": { "name": "p", "namespace": EVERYWHERE }, "size": size, "preAllocateIP": false });
    let put = move |state: &mut State| {
        state.put(POOLS, pool(7));
    };
    let conflict = PoolError::Conflict { name: "p".into() };
    let before = || Fault::Before(Box::new(put));
    scene.server.fault(Method::POST, "pools", before());
    assert_eq!(set(&scene, 3, false).await, Err(conflict.clone()));
    scene.server.fault(Method::PUT, "pools", before());
    assert_eq!(set(&scene, 3, false).await, Err(conflict));
    let size = scene.server.object(POOLS, "p").unwrap()["size"].clone();
    assert_eq!(size, 7);

    scene.server.fault(Method::PUT, "pools", Fault::Refuse(403));
    let error = set(&scene, 3, false).await.unwrap_err();
    assert_eq!(error.reason(), "PoolWriteRefused");
    assert!(error.to_string().starts_with("failed to update Pool: "));
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_filled_at_once_and_never_twice() {
    let scene = Scene::start(|server| {
        server.put(FIPS, fip("10.0.70.2", "pool__p_dp_ns_a_a-1", 2, "u"));
    })
    .await;
    tokio::spawn(scene.preallocator().run(scene.stop.clone()));
    let actions = scene.actions();
    set(&scene, 5, true).await.unwrap();
    let ids = [id(), id(), id()];
    let filled = futures::future::join_all(ids.iter().map(|id| actions.fill_pool(id))).await;
    let wanted = Filling {
        has: 5,
        short: false,
    };
    assert_eq!(filled, [Ok(wanted), Ok(wanted), Ok(wanted)]);
    pass(120).await;
    assert_eq!(addresses(&scene), 5);

    // Less than it has frees nothing.
    set(&scene, 2, true).await.unwrap();
    assert_eq!(actions.fill_pool(&id()).await, Ok(wanted));

    // There are twelve addresses.
    set(&scene, 13, true).await.unwrap();
    let wanted = Filling {
        has: 12,
        short: true,
    };
    assert_eq!(actions.fill_pool(&id()).await, Ok(wanted));
    // Without a free one galaxy calls it short, even if it has enough.
    set(&scene, 3, true).await.unwrap();
    assert_eq!(actions.fill_pool(&id()).await, Ok(wanted));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_be_filled_says_why() {
    let scene = Scene::start(|_| ()).await;
    set(&scene, 2, true).await.unwrap();
    scene
        .server
        .fault(Method::POST, "floatingips", Fault::Refuse(403));
    let error = scene.actions().fill_pool(&id()).await.unwrap_err();
    assert_eq!(error.reason(), "RecordWriteRefused");
    assert!(!error.is_callers_fault());
    tokio::spawn(scene.preallocator().run(scene.stop.clone()));
    until("the leader goes on", || addresses(&scene) == 2).await;
}
