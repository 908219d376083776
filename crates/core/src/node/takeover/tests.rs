use super::*;

const HERE: Here<'static> = Here {
    node: "node-1",
    is_confirmed: true,
};

fn pod(name: &str, uid: &str) -> PodId {
    PodId {
        namespace: "ns1".into(),
        name: name.into(),
        uid: uid.into(),
    }
}

fn attachment(pod: Option<PodId>, ip: &str) -> Attachment {
    Attachment {
        container: "c0ffee".into(),
        pod,
        ip: ip.parse().unwrap(),
    }
}

/// `key uid@node`; `-` is no record.
fn seen(text: &str) -> Option<Seen> {
    let (key, place) = text.split_once(' ')?;
    let (uid, node) = place.split_once('@').unwrap();
    Some(Seen {
        key: key.into(),
        uid: uid.into(),
        node: node.into(),
    })
}

fn one(attachment: &Attachment, evidence: Evidence) -> Verdict {
    let evidence = BTreeMap::from([(attachment.ip, evidence)]);
    let judged = judge(std::slice::from_ref(attachment), &evidence, HERE);
    assert_eq!(judged.len(), 1);
    assert_eq!(judged[0].attachment, *attachment);
    judged[0].verdict.clone()
}

fn reason(verdict: &Verdict) -> &'static str {
    let silent = if *verdict == Verdict::Keep {
        "keep"
    } else {
        "read"
    };
    verdict.reason().unwrap_or(silent)
}

#[test]
fn what_a_record_means_for_an_address_that_is_configured_here() {
    let known = Some(pod("a-0", "u1"));
    let without_uid = Some(pod("a-0", ""));
    let table = [
        // The record names this pod.
        (&known, "sts_ns1_a_a-0 u1@node-1", "keep"),
        (&known, "sts_ns1_a_a-0 u1@", "keep"),
        (&known, "pool__p_sts_ns1_a_a-0 u1@node-1", "keep"),
        // galaxy's records have no uid, and what is kept for a name has none either.
        (&known, "sts_ns1_a_a-0 @node-1", "keep"),
        (&known, "sts_ns1_a_a-0 @", "keep"),
        // Somebody else has it.
        (&known, "sts_ns1_a_a-0 u2@node-2", "AddressMovedAway"),
        (&known, "sts_ns1_a_a-0 u2@node-1", "AddressMovedAway"),
        (&known, "sts_ns1_a_a-0 u2@", "AddressMovedAway"),
        (&known, "sts_ns1_a_a-0 @node-2", "AddressMovedAway"),
        (&known, "sts_ns1_b_b-0 u2@node-1", "AddressMovedAway"),
        (&known, "sts_ns2_a_a-0 @node-1", "AddressMovedAway"),
        (&known, "sts_ns1_b_b-0 @", "AddressMovedAway"),
        (&known, "by-hand u2@node-1", "AddressMovedAway"),
        (&known, "by-hand @node-2", "AddressMovedAway"),
        // Nobody has it, so it stays.
        (&known, "-", "RecordGone"),
        (&known, "dp_ns1_a_ @", "RecordIdle"),
        (&known, "pool__p_ @", "RecordIdle"),
        (&known, "by-hand @", "RecordIdle"),
        // A pod never changes its node: nobody else can have this one.
        (&known, "sts_ns1_a_a-0 u1@node-2", "RecordContradicts"),
        (&known, "sts_ns1_b_b-0 u1@node-1", "RecordContradicts"),
        // Without the uid of the pod only name and node can tell.
        (&without_uid, "sts_ns1_a_a-0 u2@node-1", "keep"),
        (&without_uid, "sts_ns1_a_a-0 u2@node-2", "AddressMovedAway"),
        (&without_uid, "sts_ns1_b_b-0 u2@node-1", "AddressMovedAway"),
        // Without the pod only the node can.
        (&None, "sts_ns1_b_b-0 u2@node-1", "keep"),
        (&None, "sts_ns1_b_b-0 u2@", "keep"),
        (&None, "sts_ns1_b_b-0 u2@node-2", "AddressMovedAway"),
        (&None, "-", "RecordGone"),
    ];
    for (pod, record, wanted) in table {
        let case = format!("{pod:?} {record}");
        let attachment = attachment(pod.clone(), "10.0.0.5");
        let read = one(&attachment, Evidence::Read(seen(record)));
        assert_eq!(reason(&read), wanted, "{case}");
        // A watch alone never costs anybody an address.
        let watched = one(&attachment, Evidence::Watched(seen(record)));
        let wanted = if wanted == "keep" { "keep" } else { "read" };
        assert_eq!(reason(&watched), wanted, "{case} watched");
    }
}

#[test]
fn a_node_comes_back_after_its_pods_were_replaced() {
    let stays = attachment(Some(pod("b-0", "u2")), "10.0.0.6");
    let moved = attachment(Some(pod("a-0", "u1")), "10.0.0.5");
    let moved_v6 = attachment(Some(pod("a-0", "u1")), "fd00::5");
    let freed = attachment(Some(pod("c-0", "u3")), "10.0.0.7");
    let all = [
        stays.clone(),
        moved.clone(),
        moved_v6.clone(),
        freed.clone(),
    ];

    // The first list shows the records of this node: one is left.
    let here = seen("sts_ns1_b_b-0 u2@node-1");
    let mut evidence = BTreeMap::from([(stays.ip, Evidence::Watched(here))]);
    let to_read: Vec<IpAddr> = judge(&all, &evidence, HERE)
        .into_iter()
        .filter(|judged| judged.verdict == Verdict::Read)
        .map(|judged| judged.attachment.ip)
        .collect();
    assert_eq!(to_read, [moved.ip, moved_v6.ip, freed.ip]);

    // The others are read: one pod was replaced on another node, one was deleted.
    let there = seen("sts_ns1_a_a-0 u9@node-2");
    evidence.insert(moved.ip, Evidence::Read(there.clone()));
    evidence.insert(moved_v6.ip, Evidence::Read(there.clone()));
    evidence.insert(freed.ip, Evidence::Read(None));
    let verdicts: Vec<Verdict> = judge(&all, &evidence, HERE)
        .into_iter()
        .map(|judged| judged.verdict)
        .collect();
    let away = Verdict::TakeOff(there.unwrap());
    let gone = Verdict::Report(Oddity::RecordGone);
    assert_eq!(verdicts, [Verdict::Keep, away.clone(), away, gone]);
}

#[test]
fn a_pod_that_was_attached_before_the_watch_saw_its_record_keeps_its_address() {
    let new = attachment(Some(pod("a-0", "u2")), "10.0.0.5");
    let behind = Evidence::Watched(seen("sts_ns1_a_a-0 u1@node-2"));
    assert_eq!(one(&new, behind), Verdict::Read);
    let read = Evidence::Read(seen("sts_ns1_a_a-0 u2@node-1"));
    assert_eq!(one(&new, read), Verdict::Keep);
}

#[test]
fn an_old_container_of_a_pod_that_was_made_anew_here_loses_the_address() {
    let old = attachment(Some(pod("a-0", "u1")), "10.0.0.5");
    let new = Attachment {
        container: "facade".into(),
        ..attachment(Some(pod("a-0", "u2")), "10.0.0.5")
    };
    let read = Evidence::Read(seen("sts_ns1_a_a-0 u2@node-1"));
    let evidence = BTreeMap::from([(old.ip, read)]);
    let judged = judge(&[old, new], &evidence, HERE);
    assert_eq!(judged[0].verdict.reason(), Some("AddressMovedAway"));
    assert_eq!(judged[1].verdict, Verdict::Keep);
}

#[test]
fn two_spellings_of_an_address_are_one() {
    let mapped = attachment(Some(pod("a-0", "u1")), "::ffff:10.0.0.5");
    let ip = "10.0.0.5".parse().unwrap();
    let evidence = BTreeMap::from([(ip, Evidence::Read(seen("sts_ns1_a_a-0 u1@node-1")))]);
    assert_eq!(judge(&[mapped], &evidence, HERE)[0].verdict, Verdict::Keep);
}

#[test]
fn a_node_that_is_not_sure_of_its_name_takes_nothing_off_because_of_names_of_nodes() {
    let unsure = Here {
        is_confirmed: false,
        ..HERE
    };
    let known = Some(pod("a-0", "u1"));
    let table = [
        (None, "sts_ns1_a_a-0 u9@node-2", "NodeUnconfirmed"),
        (known.clone(), "sts_ns1_a_a-0 @node-2", "NodeUnconfirmed"),
        (known.clone(), "sts_ns1_a_a-0 @node-1", "keep"),
        (None, "sts_ns1_a_a-0 u9@node-1", "keep"),
        // Another pod is another pod, whatever this node is called.
        (known.clone(), "sts_ns1_a_a-0 u9@node-2", "AddressMovedAway"),
        (known, "sts_ns1_b_b-0 @node-2", "AddressMovedAway"),
    ];
    for (pod, record, wanted) in table {
        let attachment = attachment(pod, "10.0.0.5");
        let evidence = BTreeMap::from([(attachment.ip, Evidence::Read(seen(record)))]);
        let judged = judge(std::slice::from_ref(&attachment), &evidence, unsure);
        assert_eq!(reason(&judged[0].verdict), wanted, "{record}");
    }
}

#[test]
fn what_is_shared_by_now_is_no_pods_own() {
    let shared = || seen("vip__shop_web_ @");
    for pod in [Some(pod("a-0", "u1")), Some(pod("a-0", "")), None] {
        let attachment = attachment(pod, "10.0.0.1");
        assert_eq!(one(&attachment, Evidence::Watched(shared())), Verdict::Read);
        let verdict = one(&attachment, Evidence::Read(shared()));
        assert_eq!(verdict.reason(), Some(MOVED_AWAY));
    }
}
