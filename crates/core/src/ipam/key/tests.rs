use proptest::prelude::*;

use super::*;

fn holder(pool: &str, kind: &KindPrefix, namespace: &str, app: &str, pod: &str) -> Holder {
    Holder {
        pool: PoolName::from_annotation(Some(pool)).unwrap(),
        kind: kind.clone(),
        namespace: namespace.into(),
        app: app.into(),
        pod: pod.into(),
    }
}

fn parts<'a>(
    pool: &'a str,
    kind: &'a str,
    namespace: &'a str,
    app: &'a str,
    pod: &'a str,
) -> KeyParts<'a> {
    KeyParts {
        pool: Some(pool).filter(|pool| !pool.is_empty()),
        kind,
        namespace,
        app,
        pod,
    }
}

#[test]
fn keys_groups_and_prefixes_are_galaxys() {
    let sts = KindPrefix::STATEFUL_SET;
    let dp = KindPrefix::DEPLOYMENT;
    let (tapp, spark) = (KindPrefix::of_kind("TApp"), KindPrefix::of_kind("spark"));
    let bare = KindPrefix::BARE;
    // pool, kind, app, pod, key, group key, app prefix
    #[rustfmt::skip]
    let table = [
        ("", &sts, "sts", "sts-1", "sts_ns1_sts_sts-1", "sts_ns1_sts_", "sts_ns1_sts_"),
        ("pl1", &sts, "sts", "sts-1", "pool__pl1_sts_ns1_sts_sts-1", "pool__pl1_", "pool__pl1_sts_ns1_sts_"),
        ("", &dp, "dp", "dp-xxx-yyy", "dp_ns1_dp_dp-xxx-yyy", "dp_ns1_dp_", "dp_ns1_dp_"),
        ("pl1", &dp, "dp", "dp-xxx-yyy", "pool__pl1_dp_ns1_dp_dp-xxx-yyy", "pool__pl1_", "pool__pl1_dp_ns1_dp_"),
        ("", &tapp, "tapp", "tapp-1", "tapp_ns1_tapp_tapp-1", "tapp_ns1_tapp_", "tapp_ns1_tapp_"),
        ("pl1", &tapp, "tapp", "tapp-1", "pool__pl1_tapp_ns1_tapp_tapp-1", "pool__pl1_", "pool__pl1_tapp_ns1_tapp_"),
        ("", &bare, "NULL", "pod1", "NULL_ns1_NULL_pod1", "NULL_ns1_NULL_", "NULL_ns1_NULL_"),
        ("", &spark, "worker", "worker-1", "spark_ns1_worker_worker-1", "spark_ns1_worker_", "spark_ns1_worker_"),
        ("pl1", &spark, "worker", "worker-1", "pool__pl1_spark_ns1_worker_worker-1", "pool__pl1_", "pool__pl1_spark_ns1_worker_"),
    ];
    for (pool, kind, app, pod, text, group, prefix) in table {
        let key = holder(pool, kind, "ns1", app, pod).key().unwrap();
        assert_eq!(key.as_str(), text);
        assert_eq!(key.group_key(), Some(group.into()));
        assert_eq!(key.app_prefix(), Some(prefix.into()));
        assert_eq!(
            key.parts(),
            Some(parts(pool, kind.as_str(), "ns1", app, pod))
        );
        assert!(!key.is_group() && !key.is_opaque());
        assert!(key.names_pod("ns1", pod));
        assert!(!key.names_pod("ns2", pod) && !key.names_pod("ns1", app));
    }
}

#[test]
fn keys_without_a_pod_are_read() {
    let table = [
        ("sts_ns1_demo_", parts("", "sts", "ns1", "demo", "")),
        ("dp_ns1_dp_", parts("", "dp", "ns1", "dp", "")),
        ("pool__pl1_", parts("pl1", "", "", "", "")),
        (
            "pool__reserved-for-node_",
            parts("reserved-for-node", "", "", "", ""),
        ),
        (
            "pool__a-b_dp_n-s_d-p_d-p-1-2",
            parts("a-b", "dp", "n-s", "d-p", "d-p-1-2"),
        ),
    ];
    for (text, wanted) in table {
        assert_eq!(HolderKey::from(text).parts(), Some(wanted), "{text}");
    }
    assert!(HolderKey::from("dp_ns1_dp_").is_group());
    assert!(HolderKey::from("pool__pl1_").is_group());
    assert!(!HolderKey::from("pool__pl1_dp_ns1_dp_").is_group());
}

#[test]
fn strange_keys_are_kept_as_they_are() {
    let table = [
        "pod1",
        "a_b_c",
        "a_b_c_d_e",
        "pool__",
        "pool__pl1",
        "pool___dp_ns1_dp_dp-1",
        // What galaxy stores for a pool `a_b`.
        "pool__a_b_",
        "pool__a_b_dp_ns1_dp_dp-1",
        "___",
        "dp_ns1__pod",
        "pool__pl1_dp_ns1__pod",
        "?",
    ];
    for text in table {
        let key = HolderKey::from(text);
        assert!(key.is_opaque(), "{text}");
        assert_eq!(key.parts(), None, "{text}");
        assert_eq!(key.group_key(), None, "{text}");
        assert_eq!(key.app_prefix(), None, "{text}");
        assert_eq!(key.to_string(), text);
        assert!(!key.is_group() && key.is_under(&key));
    }
    let empty = HolderKey::from("");
    assert!(!empty.is_opaque() && !empty.is_group() && empty.parts().is_none());
}

#[test]
fn lookups_leave_missing_parts_empty() {
    #[rustfmt::skip]
    let table = [
        (parts("rami", "dp", "", "", ""), "pool__rami_"),
        (parts("rami", "dp", "ns1", "", ""), "pool__rami_"),
        (parts("", "dp", "", "", ""), ""),
        (parts("", "dp", "", "", "pod"), ""),
        (parts("", "dp", "ns1", "rami", ""), "dp_ns1_rami_"),
        (parts("rami", "dp", "ns1", "rami", ""), "pool__rami_dp_ns1_rami_"),
        (parts("", "sts", "ns1", "", ""), "sts_ns1__"),
        (parts("", "sts", "", "app", ""), "sts__app_"),
        (parts("", "dp", "ns1", "rami", "rami-1-2"), "dp_ns1_rami_rami-1-2"),
        (parts("rami", "dp", "ns1", "rami", "rami-1-2"), "pool__rami_dp_ns1_rami_rami-1-2"),
    ];
    for (parts, text) in table {
        assert_eq!(HolderKey::lookup(&parts).as_str(), text, "{parts:?}");
    }
    let no_pool = KeyParts {
        pool: Some(""),
        ..parts("", "dp", "ns1", "rami", "")
    };
    assert_eq!(HolderKey::lookup(&no_pool).as_str(), "dp_ns1_rami_");
}

#[test]
fn prefixes_never_cross_pools() {
    // key, prefix, whether the key lies under it
    let table = [
        ("pool__a_dp_ns_app_pod", "pool__a_", true),
        ("pool__a_", "pool__a_", true),
        ("pool__a_b_", "pool__a_", false),
        ("pool__a_b_dp_ns_app_pod", "pool__a_", false),
        ("pool__ab_dp_ns_app_pod", "pool__a_", false),
        ("pool__a_dp_ns_app_pod", "pool__a_dp_ns_app_", true),
        ("pool__a_dp_ns_app2_pod", "pool__a_dp_ns_app_", false),
        ("pool__a_dp_ns_app_pod", "dp_ns_app_", false),
        ("dp_ns_app_pod", "dp_ns_app_", true),
        ("dp_ns_app-2_pod", "dp_ns_app_", false),
        ("dp_ns2_app_pod", "dp_ns_app_", false),
        ("sts_ns_app_app-10", "sts_ns_app_app-1", false),
        ("dp_ns_app_x_pod", "dp_ns_app_", false),
        ("dp_ns_app_pod", "", false),
        ("pod12", "pod1", false),
        ("pod1_", "pod1_", true),
        ("pod1_x", "pod1_", false),
    ];
    for (key, prefix, wanted) in table {
        let (key, prefix) = (HolderKey::from(key), HolderKey::from(prefix));
        assert_eq!(key.is_under(&prefix), wanted, "{key} under {prefix}");
    }
}

#[test]
fn selectors_are_prefixes_that_stay_in_their_pool() {
    let table = [
        ("sts_ns_app_app-10", "sts_ns_app_app-1", true),
        ("sts_ns_app_app-1", "sts_ns_app_app-10", false),
        ("sts_ns_app_app-1", "", true),
        ("anything", "", true),
        ("sts_ns_app_app-1", "sts_ns__", false),
        ("pool__a_dp_ns_app_pod", "pool__a_", true),
        ("pool__a_b_", "pool__a_", false),
        // The pool of galaxy's corrupt records can still be asked for.
        ("pool__a_b_", "pool__a_b_", true),
        ("pool__a_b_dp_ns_app_pod", "pool__a_b_", true),
        ("pod2", "od", false),
        ("pod2", "pod", true),
        ("pod1", "pod2", false),
    ];
    for (key, selector, wanted) in table {
        let (key, selector) = (HolderKey::from(key), HolderKey::from(selector));
        assert_eq!(key.is_selected_by(&selector), wanted, "{key} {selector}");
    }
}

#[test]
fn pool_names_with_a_separator_are_refused() {
    assert_eq!(PoolName::from_annotation(None), Ok(None));
    assert_eq!(PoolName::from_annotation(Some("")), Ok(None));
    let error = PoolName::from_annotation(Some("a_b")).unwrap_err();
    assert_eq!(error.reason(), "InvalidPoolName");
    assert!(error.to_string().contains("\"a_b\""), "{error}");
    let error = PoolName::new(&"p".repeat(254)).unwrap_err();
    assert_eq!(error, PoolNameError::TooLong { length: 254 });
    assert!(PoolName::new(&"p".repeat(253)).is_ok());
    assert_eq!(PoolName::new(""), Err(PoolNameError::Empty));
}

#[test]
fn parts_with_a_separator_make_no_key() {
    let dp = KindPrefix::DEPLOYMENT;
    let table = [
        (
            holder("", &KindPrefix::of_kind("A_b"), "n", "a", "p"),
            "a_b",
        ),
        (holder("", &dp, "n_s", "a", "p"), "n_s"),
        (holder("", &dp, "n", "a_", "p"), "a_"),
        (holder("", &dp, "n", "a", "_p"), "_p"),
    ];
    for (holder, text) in table {
        let error = holder.key().unwrap_err();
        assert_eq!(error.text, text);
        assert_eq!(error.reason(), "InvalidHolder");
    }
}

#[test]
fn kinds_have_prefixes_and_prefixes_have_app_types() {
    let parameters = [
        ("statefulset", "sts"),
        ("statefulsets", "sts"),
        ("StatefulSet", "sts"),
        ("sts", "sts"),
        ("", "sts"),
        ("replicaset", "dp"),
        ("deployment", "dp"),
        ("deployments", "dp"),
        ("TApp", "tapp"),
        ("NULL", "NULL"),
        ("rs", "rs"),
    ];
    for (text, prefix) in parameters {
        assert_eq!(KindPrefix::from_parameter(text).as_str(), prefix, "{text}");
    }
    let shown = [
        ("dp", "deployment"),
        ("sts", "statefulset"),
        ("tapp", "tapp"),
        ("NULL", "NULL"),
        ("rs", "rs"),
    ];
    for (prefix, app_type) in shown {
        let prefix = KindPrefix::from_key(prefix);
        assert_eq!(prefix.app_type(), app_type);
        assert_eq!(KindPrefix::from_parameter(app_type), prefix, "{app_type}");
    }
    assert_eq!(KindPrefix::from_key("").app_type(), "");
}

#[test]
fn the_index_is_a_plain_number_at_the_end() {
    let table = [
        ("sts-0", Some(0)),
        ("a-b-12", Some(12)),
        ("a-007", Some(7)),
        ("123", Some(123)),
        ("crd-xxx-sbx", None),
        ("crd-xxx-xb1", None),
        ("sts-", None),
        ("sts", None),
        ("", None),
        ("a-+1", None),
        ("a-99999999999999999999999", None),
    ];
    for (pod, index) in table {
        assert_eq!(pod_index(pod), index, "{pod}");
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?"
}

fn any_holder() -> impl Strategy<Value = Holder> {
    let pod = prop_oneof![Just(String::new()), name()];
    let kind = prop_oneof![Just("dp".to_owned()), Just("NULL".into()), "[a-z]{1,6}"];
    (proptest::option::of(name()), kind, name(), name(), pod).prop_map(
        |(pool, kind, namespace, app, pod)| Holder {
            pool: pool.map(|pool| PoolName::new(&pool).unwrap()),
            kind: KindPrefix::from_key(&kind),
            namespace,
            app,
            pod,
        },
    )
}

proptest! {
    #[test]
    fn parsing_is_the_inverse(holder in any_holder()) {
        let key = holder.key().unwrap();
        let parts = key.parts().unwrap();
        prop_assert_eq!(parts.pool, holder.pool.as_ref().map(PoolName::as_str));
        prop_assert_eq!(parts.kind, holder.kind.as_str());
        prop_assert_eq!(parts.namespace, &holder.namespace);
        prop_assert_eq!(parts.app, &holder.app);
        prop_assert_eq!(parts.pod, &holder.pod);
        let group = key.group_key().unwrap();
        prop_assert!(group.is_group());
        prop_assert!(key.is_under(&group));
        prop_assert!(key.is_under(&key.app_prefix().unwrap()));
        prop_assert_eq!(group.group_key().unwrap(), group);
    }

    #[test]
    fn being_under_means_equal_parts(one in any_holder(), two in any_holder()) {
        let same = match (&one.pool, &two.pool) {
            (None, None) => (&one.kind, &one.namespace, &one.app) == (&two.kind, &two.namespace, &two.app),
            (one, two) => one == two,
        };
        let group = two.key().unwrap().group_key().unwrap();
        prop_assert_eq!(one.key().unwrap().is_under(&group), same);
    }

    #[test]
    fn any_text_survives(text in "(pool__)?[a_-]{0,12}|.*") {
        let key = HolderKey::from(text.as_str());
        prop_assert_eq!(key.as_str(), &text);
        if let Some(parts) = key.parts() {
            prop_assert_eq!(&HolderKey::lookup(&parts), &key);
            prop_assert!(key.is_under(&key.group_key().unwrap()));
        }
    }
}
