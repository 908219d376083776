use axum::http::Method;
use floe_api::galaxy::Pool;
use floe_core::ipam::{
    families::Family,
    names,
    owner::{App, AppKind, OwnerError},
};
use floe_shell::mock::Fault;
use serde_json::json;

use super::{
    scene::{Scene, owner, pod},
    *,
};
use crate::store::Seen;

fn pod_ref(name: &str, uid: &str) -> PodRef {
    PodRef {
        namespace: "ns".into(),
        name: name.into(),
        uid: uid.into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_looked_up_by_its_uid() {
    let scene = Scene::start().await;
    let known = scene.bare("a").await;
    let reads = || scene.server.count(&Method::GET, "/namespaces/ns/pods/");
    assert_eq!(scene.claims.pod(&known).await.unwrap().uid, "uid-a");
    assert_eq!(reads(), 0, "the cache has it");

    let other = scene.claims.pod(&pod_ref("a", "uid-of-the-last")).await;
    assert_eq!(other.unwrap_err().reason(), "NoSuchPod");
    assert_eq!(reads(), 1);
    let mut unwanting = pod("b");
    unwanting["spec"] = json!({ "containers": [{}] });
    scene.add(unwanting).await;
    let found = scene.claims.pod(&pod_ref("b", "uid-b")).await.unwrap();
    assert!(!found.wants_address);
    assert_eq!(scene.claims.pod_now(&pod_ref("c", "c")).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn names_from_outside_lead_nowhere_else() {
    let scene = Scene::start().await;
    scene.bare("a").await;
    let calls = scene.server.state().calls.len();
    for (namespace, name) in [
        ("ns", "../secrets/x"),
        ("ns/pods/a?x=", "a"),
        ("", "a"),
        ("ns", ""),
        ("ns", ".."),
        ("ns", "a/binding"),
    ] {
        let pod = PodRef {
            namespace: namespace.into(),
            name: name.into(),
            uid: "uid-a".into(),
        };
        assert_eq!(
            scene.claims.pod_now(&pod).await,
            Ok(None),
            "{namespace} {name}"
        );
    }
    assert_eq!(scene.server.state().calls.len(), calls, "nobody was asked");
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_no_proof() {
    let scene = Scene::start().await;
    for fault in [Fault::Hang, Fault::Refuse(500)] {
        scene
            .server
            .fault(Method::GET, "/namespaces/ns/pods/a", fault);
        let error = scene.claims.pod(&pod_ref("a", "uid-a")).await.unwrap_err();
        assert_eq!(error.reason(), "PodUnreadable");
        assert!(error.is_transient());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_deployment_has_its_key_limits_and_revision() {
    let scene = Scene::start().await;
    scene.deployment(3).await;
    let pod = scene.web("web-2-x", 2).await;
    let pod = scene.claims.pod(&pod).await.unwrap();
    let claim = scene.claims.of(pod).await.unwrap();
    let claimant = &claim.claimant;
    assert_eq!(claimant.key.as_str(), "dp_ns_web_web-2-x");
    assert_eq!(claimant.galaxy_key.as_ref(), Some(&claimant.key));
    assert_eq!(claimant.wishes, [Wish::Any(Family::V4)]);
    assert!(claimant.shares_spares);
    assert_eq!(claim.revision, 2);
    let limits = Limit::list("ns", "web", 3, 1, None);
    assert_eq!(claimant.limits, limits);
    assert_eq!(claimant.yields_to, None);
}

#[tokio::test(start_paused = true)]
async fn an_older_revision_goes_behind_a_newer_one_that_could_run() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    let old = scene.web("web-1-x", 1).await;
    let new = scene.web("web-2-x", 2).await;
    let claim = async |pod: &PodRef| {
        let pod = scene.claims.pod(pod).await.unwrap();
        scene.claims.of(pod).await.unwrap()
    };
    let yields = async |pod: &PodRef| claim(pod).await.claimant.yields_to;
    assert_eq!(yields(&old).await, None);
    scene.waiting.refused(&claim(&new).await);
    assert_eq!(yields(&old).await.as_deref(), Some("web-2-x"));
    assert_eq!(yields(&new).await, None);

    // The newer one could not use it: then nobody gains if the older one waits.
    scene.hold("10.0.70.2", "dp_ns_web_web-1-y", "uid-web-1-y");
    assert_eq!(yields(&old).await, None);
    scene.free("10.0.70.2");
    assert_eq!(yields(&old).await.as_deref(), Some("web-2-x"));

    // Whoever was let through goes on.
    let promise = floe_core::ipam::ledger::Promise {
        group: "dp_ns_web_".into(),
        namespace: "ns".into(),
        app_prefix: "dp_ns_web_".into(),
        places: 1,
        addresses: std::iter::empty().collect(),
        until: scene::later(),
    };
    scene
        .store
        .change(|books| books.promise(&old.uid, Some(promise)));
    assert_eq!(yields(&old).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_does_not_work_takes_no_address_from_the_one_before() {
    let scene = Scene::start().await;
    scene.deployment(2).await;
    let old = scene.web("web-1-x", 1).await;
    let new = scene.web("web-2-x", 2).await;
    let claim = async |pod: &PodRef| {
        let pod = scene.claims.pod(pod).await.unwrap();
        scene.claims.of(pod).await.unwrap()
    };
    let yields = async |pod: &PodRef| claim(pod).await.claimant.yields_to;
    for pod in [&old, &new] {
        scene.waiting.refused(&claim(pod).await);
    }
    assert_eq!(yields(&old).await.as_deref(), Some("web-2-x"));
    assert_eq!(yields(&new).await, None);

    // Another one of the new version has an address, and does not get ready.
    scene.runs("web-2-y", 2, "10.0.70.2", false).await;
    assert_eq!(yields(&old).await, None);
    assert_eq!(yields(&new).await.as_deref(), Some("web-1-x"));

    // It does, and for long enough.
    scene.runs("web-2-y", 2, "10.0.70.2", true).await;
    assert_eq!(yields(&old).await.as_deref(), Some("web-2-x"));
    assert_eq!(yields(&new).await, None);
}

#[tokio::test(start_paused = true)]
async fn who_goes_back_to_the_version_before_makes_it_the_newest() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    let old = scene.web("web-1-x", 1).await;
    let new = scene.web("web-2-x", 2).await;
    let claim = async |pod: &PodRef| {
        let pod = scene.claims.pod(pod).await.unwrap();
        scene.claims.of(pod).await.unwrap()
    };
    for pod in [&old, &new] {
        scene.waiting.refused(&claim(pod).await);
    }
    let mut set = scene.server.object(scene::REPLICA_SETS, "web-1").unwrap();
    set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("3");
    scene.server.put(scene::REPLICA_SETS, set);
    scene::settle().await;
    let yields = async |pod: &PodRef| claim(pod).await.claimant.yields_to;
    assert_eq!(yields(&old).await, None);
    assert_eq!(yields(&new).await.as_deref(), Some("web-1-x"));
}

#[tokio::test(start_paused = true)]
async fn no_other_workload_of_a_pool_takes_what_is_being_handed_over() {
    let scene = Scene::start().await;
    scene.deployment(1).await;
    let other = json!({
        "metadata": { "name": "other", "namespace": "ns" }, "spec": { "replicas": 1 },
    });
    scene.server.put(scene::DEPLOYMENTS, other);
    let set = json!({
        "metadata": {
            "name": "other-1", "namespace": "ns",
            "ownerReferences": [scene::owner("apps/v1", "Deployment", "other")],
            "annotations": { "deployment.kubernetes.io/revision": "1" },
        },
        "spec": { "replicas": 1 },
    });
    scene.server.put(scene::REPLICA_SETS, set);
    let add = async |name: &str, set: &str| {
        let mut object = pod(name);
        object["metadata"]["ownerReferences"] = json!([scene::owner("apps/v1", "ReplicaSet", set)]);
        object["metadata"]["annotations"] = json!({ names::POOL: "p" });
        scene.add(object).await
    };
    let (heir, rival) = (
        add("web-2-x", "web-2").await,
        add("other-1-x", "other-1").await,
    );
    let claim = async |pod: &PodRef| {
        let pod = scene.claims.pod(pod).await.unwrap();
        scene.claims.of(pod).await.unwrap()
    };
    let yields = async |pod: &PodRef| claim(pod).await.claimant.yields_to;
    for pod in [&rival, &heir] {
        scene.waiting.refused(&claim(pod).await);
    }
    assert_eq!(yields(&rival).await, None);
    scene.waiting.hand_over(&heir.uid);
    assert_eq!(yields(&rival).await.as_deref(), Some("web-2-x"));
    assert_eq!(yields(&heir).await, None);
    // Two heirs do not wait for each other.
    scene.waiting.hand_over(&rival.uid);
    assert_eq!(yields(&rival).await, None);
    scene.waiting.leave(&heir.uid);
    scene.waiting.leave(&rival.uid);
    assert_eq!(yields(&rival).await, None);
}

#[tokio::test(start_paused = true)]
async fn surge_has_addresses_for_the_pods_beside_the_replicas() {
    let scene = Scene::start().await;
    scene.deployment(3).await;
    let limits = async || {
        let pod = scene.claims.pod(&scene.web("web-2-x", 2).await).await;
        let claim = scene.claims.of(pod.unwrap()).await.unwrap();
        claim.claimant.limits
    };
    assert_eq!(limits().await, Limit::list("ns", "web", 3, 1, None));
    let mut object = scene.server.object(scene::DEPLOYMENTS, "web").unwrap();
    object["metadata"]["annotations"] = json!({ names::ROLLOUT: "surge" });
    scene.server.put(scene::DEPLOYMENTS, object.clone());
    scene::settle().await;
    assert_eq!(limits().await, Limit::list("ns", "web", 4, 1, None));
    object["spec"]["strategy"] = json!({ "rollingUpdate": { "maxSurge": 3 } });
    scene.server.put(scene::DEPLOYMENTS, object);
    scene::settle().await;
    assert_eq!(limits().await, Limit::list("ns", "web", 6, 1, None));
}

#[tokio::test(start_paused = true)]
async fn bad_annotations_are_refusals_with_their_own_reasons() {
    let scene = Scene::start().await;
    for (name, annotation, value, reason) in [
        ("a", names::ARGS, "{", "InvalidArgs"),
        ("b", names::FAMILIES, "v5", "InvalidFamilies"),
        ("c", names::POOL, "a_b", "InvalidPoolName"),
    ] {
        let mut object = pod(name);
        object["metadata"]["annotations"] = json!({ annotation: value });
        let pod = scene.claims.pod(&scene.add(object).await).await.unwrap();
        let error = scene.claims.of(pod).await.unwrap_err();
        assert_eq!(error.reason(), reason);
        assert!(!error.is_transient(), "{reason}");
    }
    let mut object = pod("d");
    object["metadata"]["ownerReferences"] = json!([owner("batch/v1", "Job", "a_b")]);
    let pod = scene.claims.pod(&scene.add(object).await).await.unwrap();
    let error = scene.claims.of(pod).await.unwrap_err();
    assert_eq!(error.reason(), "InvalidHolder");
}

#[tokio::test(start_paused = true)]
async fn replicas_that_nobody_can_tell_are_not_guessed() {
    let scene = Scene::start().await;
    scene.deployment(3).await;
    scene
        .server
        .delete("/apis/apps/v1/namespaces/ns/deployments", "web");
    let pod = scene.web("web-1-x", 1).await;
    let pod = scene.claims.pod(&pod).await.unwrap();
    scene
        .server
        .fault(Method::GET, "/deployments/web", Fault::Refuse(500));
    let error = scene.claims.of(Arc::clone(&pod)).await.unwrap_err();
    assert_eq!(error.reason(), "WorkloadUnreadable");
    assert!(error.is_transient());
    // It is gone: nobody wants an address of it.
    let claim = scene.claims.of(pod).await.unwrap();
    assert_eq!(claim.claimant.limits, Limit::list("ns", "web", 0, 1, None));
}

#[test]
fn a_pool_of_kube_system_counts_for_all_and_others_for_their_namespace() {
    let store = Store::default();
    for (namespace, size) in [("kube-system", 5), ("ns", 2)] {
        let pool: Pool = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": namespace, "uid": namespace, "resourceVersion": "1" },
            "size": size,
        }))
        .unwrap();
        store.change(|books| books.pool(Seen::Whole(pool)));
    }
    let table = [
        ("p", "ns", Some(5), Some(2)),
        ("p", "other", Some(5), None),
        ("p", "kube-system", Some(5), None),
        ("q", "ns", None, None),
    ];
    for (pool, namespace, everywhere, in_namespace) in table {
        let pool = PoolName::new(pool).unwrap();
        let wanted = PoolSizes {
            everywhere,
            in_namespace,
        };
        let got = store.read(|books| sizes(books, &pool, namespace));
        assert_eq!(got, wanted, "{pool} {namespace}");
    }
}

#[test]
fn a_size_makes_replicas_needless() {
    let workload = |state| Workload {
        app: App {
            kind: AppKind::Deployment,
            namespace: "ns".into(),
            name: "web".into(),
        },
        scale: Scale::Yes,
        state,
    };
    let unreadable = workload(State::Unreadable {
        why: "no right".into(),
    });
    let pool = PoolName::new("p").unwrap();
    let sized = PoolSizes {
        everywhere: Some(4),
        in_namespace: None,
    };
    let limits_of = |sizes| limits(&unreadable, 1, Some((&pool, sizes)));
    assert_eq!(limits_of(sized).unwrap().len(), 1);
    for unsized_pool in [
        limits_of(PoolSizes::default()),
        limits(&unreadable, 1, None),
    ] {
        let error = unsized_pool.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot tell how many addresses web may have: no right"
        );
    }
    let gone = limits(&workload(State::Gone), 1, None).unwrap();
    assert_eq!(gone, Limit::list("ns", "web", 0, 1, None));
}

#[test]
fn only_what_may_pass_is_transient() {
    let read = Unreadable::Read {
        what: "x".into(),
        why: "y".into(),
    };
    assert!(ClaimError::from(read).is_transient());
    let owner = Unreadable::Owner(OwnerError::Ambiguous { count: 2 });
    let error = ClaimError::from(owner);
    assert!(!error.is_transient());
    assert_eq!(error.reason(), "UnsupportedAppType");
}
