use super::*;

fn owner(api_version: &str, kind: &str, name: &str) -> OwnerRef {
    OwnerRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        controller: true,
    }
}

fn loose(api_version: &str, kind: &str, name: &str) -> OwnerRef {
    OwnerRef {
        controller: false,
        ..owner(api_version, kind, name)
    }
}

/// The key of a pod of namespace ns1 without a pool.
fn key(owners: &[OwnerRef], replica_set: Option<&[OwnerRef]>, pod: &str) -> String {
    let app = App::of_pod("ns1", owners, replica_set).unwrap();
    app.holder(None, pod).key().unwrap().to_string()
}

fn galaxys(owners: &[OwnerRef], pod: &str) -> String {
    galaxy_key("ns1", owners, None, pod).unwrap().to_string()
}

#[test]
fn built_in_and_custom_workloads_have_galaxys_keys() {
    #[rustfmt::skip]
    let table = [
        (vec![owner("apps/v1", "StatefulSet", "sts")], "sts-1", "sts_ns1_sts_sts-1"),
        (vec![owner("apps.tkestack.io/v1", "TApp", "tapp")], "tapp-1", "tapp_ns1_tapp_tapp-1"),
        (vec![loose("x/v1", "spark", "worker")], "worker-1", "spark_ns1_worker_worker-1"),
        (vec![owner("batch/v1", "Job", "job")], "job-x1y2z", "job_ns1_job_job-x1y2z"),
        (vec![owner("apps/v1", "DaemonSet", "ds")], "ds-x1y2z", "daemonset_ns1_ds_ds-x1y2z"),
        (vec![owner("v1", "Node", "node1")], "etcd-node1", "node_ns1_node1_etcd-node1"),
        (vec![], "pod1", "NULL_ns1_NULL_pod1"),
        // Another group's StatefulSet has the same keys.
        (vec![owner("apps.kruise.io/v1", "StatefulSet", "sts")], "sts-1", "sts_ns1_sts_sts-1"),
    ];
    for (owners, pod, wanted) in table {
        assert_eq!(key(&owners, None, pod), wanted);
        assert_eq!(galaxys(&owners, pod), wanted);
    }
}

#[test]
fn pods_of_a_deployment_are_named_by_its_replica_set() {
    let long = "d".repeat(63);
    for (deployment, replica_set) in [
        ("dp", "dp-xxx".to_owned()),
        ("dp1", "dp1-1".to_owned()),
        ("dp2-1", "dp2-1-1".to_owned()),
        (&long, format!("{long}-5d4f8c7b9")),
    ] {
        let pod = [owner("apps/v1", "ReplicaSet", &replica_set)];
        let upper = [owner("apps/v1", "Deployment", deployment)];
        let wanted = format!("dp_ns1_{deployment}_pod-x");
        assert_eq!(replica_set_of(&pod), Some(replica_set.as_str()));
        assert_eq!(key(&pod, Some(&upper), "pod-x"), wanted);
        // Also when the ReplicaSet is gone, and as galaxy had it.
        assert_eq!(key(&pod, None, "pod-x"), wanted);
        assert_eq!(galaxys(&pod, "pod-x"), wanted);
    }
    let undashed = [owner("apps/v1", "ReplicaSet", "web")];
    assert_eq!(key(&undashed, None, "pod-x"), "dp_ns1_web_pod-x");
    assert_eq!(galaxys(&undashed, "pod-x"), "dp_ns1_web_pod-x");
}

#[test]
fn other_replica_sets_follow_the_chain_and_galaxys_records_are_found() {
    let pod = [owner("apps/v1", "ReplicaSet", "web-front")];
    let rollout = [owner("argoproj.io/v1alpha1", "Rollout", "web-front")];
    let table: [(&[OwnerRef], AppKind, &str); 3] = [
        (
            &rollout,
            AppKind::ReplicaSetOf("Rollout.argoproj.io".parse().unwrap()),
            "rollout_ns1_web-front_web-front-x",
        ),
        (&[], AppKind::ReplicaSet, "rs_ns1_web-front_web-front-x"),
        // An owner that does not control it does not scale it.
        (
            &[loose("v1", "ConfigMap", "c")],
            AppKind::ReplicaSet,
            "rs_ns1_web-front_web-front-x",
        ),
    ];
    for (upper, kind, wanted) in table {
        let app = App::of_pod("ns1", &pod, Some(upper)).unwrap();
        assert_eq!(app.kind, kind);
        assert!(app.kind.shares_spares());
        assert_eq!(key(&pod, Some(upper), "web-front-x"), wanted);
    }
    assert_eq!(galaxys(&pod, "web-front-x"), "dp_ns1_web_web-front-x");
    assert_eq!(
        galaxy_key("ns1", &pod, Some("a_b"), "p").unwrap().as_str(),
        "pool__a_b_dp_ns1_web_p"
    );
}

#[test]
fn the_controller_counts_and_not_the_order() {
    let owners = [
        loose("x/v1", "Watcher", "w"),
        owner("apps/v1", "StatefulSet", "sts"),
    ];
    assert_eq!(key(&owners, None, "sts-0"), "sts_ns1_sts_sts-0");
    assert_eq!(galaxys(&owners, "sts-0"), "watcher_ns1_w_sts-0");

    let owners = [
        owner("apps/v1", "ReplicaSet", "dp-1"),
        loose("x/v1", "Watcher", "w"),
    ];
    assert_eq!(key(&owners, None, "dp-1-x"), "dp_ns1_dp_dp-1-x");
    assert_eq!(galaxy_key("ns1", &owners, None, "dp-1-x"), None);

    let owners = [
        loose("apps/v1", "ReplicaSet", "dp-1"),
        loose("x/v1", "Watcher", "w"),
    ];
    let error = App::of_pod("ns1", &owners, None).unwrap_err();
    assert_eq!(error.reason(), "UnsupportedAppType");
    assert!(error.to_string().starts_with("unsupported app type"));
    assert_eq!(replica_set_of(&owners), None);
}

#[test]
fn a_kind_of_another_group_is_not_the_built_in_one() {
    let app = |api_version: &str, kind: &str| {
        App::of_pod("ns1", &[owner(api_version, kind, "a")], None)
            .unwrap()
            .kind
    };
    assert_eq!(app("apps/v1", "StatefulSet"), AppKind::StatefulSet);
    assert_eq!(app("apps/v1beta1", "StatefulSet"), AppKind::StatefulSet);
    assert_eq!(
        app("apps.kruise.io/v1", "StatefulSet"),
        AppKind::Custom("StatefulSet.apps.kruise.io".parse().unwrap())
    );
    assert_eq!(
        app("x.io/v1", "ReplicaSet"),
        AppKind::Custom("ReplicaSet.x.io".parse().unwrap())
    );
    assert_eq!(
        app("batch.volcano.sh/v1alpha1", "Job"),
        AppKind::Custom("Job.batch.volcano.sh".parse().unwrap())
    );
}

#[test]
fn a_key_and_its_note_give_the_workload_back() {
    let kinds = [
        AppKind::Deployment,
        AppKind::ReplicaSet,
        AppKind::ReplicaSetOf("Rollout.argoproj.io".parse().unwrap()),
        AppKind::StatefulSet,
        AppKind::Custom("StatefulSet.apps.kruise.io".parse().unwrap()),
        AppKind::Custom("TApp.apps.tkestack.io".parse().unwrap()),
        AppKind::Custom("Node".parse().unwrap()),
        AppKind::Job,
        AppKind::DaemonSet,
        AppKind::Bare,
    ];
    for kind in kinds {
        let app = App {
            kind,
            namespace: "ns1".into(),
            name: "app".into(),
        };
        let key = app.holder(None, "app-0").key().unwrap();
        let parts = key.parts().unwrap();
        let back = App::of_key(&parts, app.note().as_deref()).unwrap();
        assert_eq!(back, app);
    }
}

#[test]
fn a_key_without_its_note_says_what_it_can() {
    let app = |text: &str, note| App::of_key(&HolderKey::from(text).parts().unwrap(), note);
    let tapp = app("tapp_ns1_tapp_tapp-1", None).unwrap();
    assert_eq!(tapp.kind, AppKind::Custom("tapp".parse().unwrap()));
    // A note about something else is not believed.
    for note in ["", ".", "Rollout.argoproj.io", "ReplicaSet/"] {
        assert_eq!(app("tapp_ns1_tapp_tapp-1", Some(note)), Some(tapp.clone()));
    }
    assert_eq!(app("pool__pl1_", None), None);
    let pooled = app("pool__pl1_dp_ns1_dp_dp-1", None).unwrap();
    assert_eq!(
        (pooled.kind, pooled.name.as_str()),
        (AppKind::Deployment, "dp")
    );
}
