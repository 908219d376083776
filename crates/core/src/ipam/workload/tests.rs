use super::*;

fn workload(kind: AppKind, scale: Scale) -> Workload {
    Workload {
        app: App {
            kind,
            namespace: "ns1".into(),
            name: "app".into(),
        },
        scale,
        state: State::Gone,
    }
}

fn custom() -> AppKind {
    AppKind::Custom("Foo.test.org".parse().unwrap())
}

fn rollout() -> AppKind {
    AppKind::ReplicaSetOf("Rollout.argoproj.io".parse().unwrap())
}

fn forbidden() -> Scale {
    Scale::Unreadable {
        why: "may not list foos.test.org".into(),
    }
}

#[test]
fn which_workload_supports_which_policy() {
    use WhyUnsupported::{NoReplicas, PodNameWithoutIndex};
    let unreadable = WhyUnsupported::ScaleUnreadable {
        why: "may not list foos.test.org".into(),
    };
    let (no_index, no_replicas) = (Some(PodNameWithoutIndex), Some(NoReplicas));
    // kind, scale of custom kinds, pod, refusal of never, refusal of immutable
    #[rustfmt::skip]
    let table = [
        (AppKind::Deployment, Scale::No, "dp-x-y", None, None),
        (AppKind::ReplicaSet, Scale::No, "rs-x", None, None),
        (AppKind::StatefulSet, Scale::No, "sts-0", None, None),
        (AppKind::StatefulSet, Scale::No, "sts-x", None, None),
        (rollout(), Scale::Yes, "ro-x-y", None, None),
        (rollout(), Scale::No, "ro-x-y", None, no_replicas.clone()),
        (rollout(), forbidden(), "ro-x-y", None, Some(unreadable.clone())),
        (custom(), Scale::Yes, "crd-xxx-0", None, None),
        (custom(), Scale::Yes, "123", None, None),
        (custom(), Scale::Yes, "crd-xxx-sbx", no_index.clone(), no_index.clone()),
        (custom(), Scale::No, "crd-xxx-0", None, no_replicas.clone()),
        (custom(), Scale::No, "crd-xxx-xb1", no_index.clone(), no_index.clone()),
        (custom(), forbidden(), "crd-xxx-0", None, Some(unreadable)),
        (custom(), forbidden(), "crd-xxx-x", no_index.clone(), no_index.clone()),
        (AppKind::Job, Scale::Yes, "job-0", None, no_replicas.clone()),
        (AppKind::Job, Scale::Yes, "job-x", no_index.clone(), no_index.clone()),
        (AppKind::DaemonSet, Scale::Yes, "ds-x", no_index.clone(), no_index.clone()),
        (AppKind::Bare, Scale::Yes, "pod-1", None, no_replicas),
        (AppKind::Bare, Scale::Yes, "pod", no_index.clone(), no_index),
    ];
    for (kind, scale, pod, never, immutable) in table {
        let workload = workload(kind, scale);
        let refusal = |policy| workload.supports(policy, pod).err().map(|e| e.why);
        assert_eq!(refusal(ReleasePolicy::OnDelete), None, "{workload:?} {pod}");
        assert_eq!(refusal(ReleasePolicy::Never), never, "{workload:?} {pod}");
        assert_eq!(
            refusal(ReleasePolicy::Immutable),
            immutable,
            "{workload:?} {pod}"
        );
    }
}

#[test]
fn refusals_have_galaxys_texts_and_stable_reasons() {
    let error = workload(custom(), Scale::Yes)
        .supports(ReleasePolicy::Never, "crd-xxx-sbx")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "release policy never is not supported for pod crd-xxx-sbx: pod name doesn't match \
         '.*-[0-9]*$', assume its parent is not a stateful workload"
    );
    assert_eq!(error.reason(), "PodNameWithoutIndex");

    let error = workload(custom(), Scale::No)
        .supports(ReleasePolicy::Immutable, "crd-xxx-0")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "release policy immutable is not supported for pod crd-xxx-0: parent workload has no \
         replicas"
    );
    assert_eq!(error.reason(), "WorkloadHasNoReplicas");

    let error = workload(custom(), forbidden())
        .supports(ReleasePolicy::Immutable, "crd-xxx-0")
        .unwrap_err();
    assert_eq!(error.reason(), "WorkloadUnreadable");
    assert!(error.to_string().ends_with("may not list foos.test.org"));
}

#[test]
fn a_custom_workload_that_cannot_be_read_is_told_before_a_pod_gets_an_address() {
    let why = String::from("may not list foos.test.org");
    for kind in [custom(), rollout(), AppKind::StatefulSet] {
        let mut workload = workload(kind.clone(), Scale::Yes);
        workload.state = State::Unreadable { why: why.clone() };
        let refusal = |policy| workload.supports(policy, "foo-0").err().map(|e| e.why);
        let wanted = (kind != AppKind::StatefulSet)
            .then(|| WhyUnsupported::ScaleUnreadable { why: why.clone() });
        assert_eq!(refusal(ReleasePolicy::Immutable), wanted, "{kind:?}");
        assert_eq!(refusal(ReleasePolicy::Never), None, "{kind:?}");
    }
}

#[test]
fn a_missing_field_means_one_replica() {
    let exists = |replicas| State::Exists {
        replicas,
        first_ordinal: 0,
    };
    assert_eq!(exists(None).replicas(), Some(1));
    assert_eq!(exists(Some(0)).replicas(), Some(0));
    assert_eq!(exists(Some(7)).replicas(), Some(7));
    assert_eq!(State::Gone.replicas(), Some(0));
    assert_eq!(State::Unreadable { why: "x".into() }.replicas(), None);
}
