use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use proptest::{prelude::*, sample::select};

use super::*;
use crate::{
    config::fixture,
    ipam::{attribute::Attribute, policy::ReleasePolicy},
    vip::VipId,
};

/// What is looked at, in a form that a test can damage.
#[derive(Clone, Debug)]
struct Scene {
    configuration: Option<String>,
    records: Vec<StoredRecord>,
    pods: Vec<Pod>,
    pools: Vec<Pool>,
    nodes: Vec<Node>,
    vips: Option<Vec<Vip>>,
    missing: Option<Vec<Missing>>,
}

impl Scene {
    fn audit(&self) -> Vec<Finding> {
        audit(&World {
            configuration: self.configuration.as_deref(),
            records: &self.records,
            pods: &self.pods,
            pools: &self.pools,
            nodes: &self.nodes,
            vips: self.vips.as_deref(),
            missing: self.missing.as_deref(),
            everywhere: "kube-system",
            node_label: |node| (!node.is_empty()).then(|| format!("label-{node}")),
        })
    }

    fn reasons(&self) -> Vec<&'static str> {
        self.audit().iter().map(Finding::reason).collect()
    }

    /// The agent of a node misses the address of pod `p<number>`.
    fn lack(&mut self, number: u8, node: &str) {
        self.missing.get_or_insert_default().push(Missing {
            ip: t5(2 + number),
            pod: ("ns".into(), format!("p{number}")),
            node: node.into(),
        });
    }

    fn content(&mut self, ip: IpAddr) -> &mut Content {
        let name = name::name(ip);
        let mut records = self.records.iter_mut();
        let record = records.find(|record| record.name == name).unwrap();
        record.content.as_mut().unwrap()
    }

    fn hold(&mut self, ip: IpAddr, key: &str, policy: ReleasePolicy, place: &Attribute) {
        let node = Some(place.node_name.clone()).filter(|node| !node.is_empty());
        let mut content = Content {
            key: key.into(),
            attribute: place.text(),
            policy,
            updated: Timestamp::UNIX_EPOCH,
            reserved: false,
            marks: Marks {
                outside: false,
                node: node.as_ref().map(|node| format!("label-{node}")),
                node_note: node,
                state: None,
            },
        };
        let record = StoredRecord {
            name: name::name(ip),
            content: Some(content.clone()),
        };
        let entered = record.entered().unwrap();
        content.marks.state = Some(crate::ipam::state::State::of(&entered).to_string());
        self.records.push(StoredRecord {
            content: Some(content),
            ..record
        });
    }
}

fn t5(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 70, last).into()
}

/// Pod `p<number>` of namespace `ns`, which runs on `n1` with an address of its own.
fn run(scene: &mut Scene, number: u8, policy: ReleasePolicy) {
    let (ip, uid) = (t5(2 + number), format!("uid-{number}"));
    let name = format!("p{number}");
    let place = Attribute {
        node_name: "n1".into(),
        uid: uid.clone(),
    };
    scene.hold(ip, &format!("NULL_ns_NULL_{name}"), policy, &place);
    scene.pods.push(Pod {
        namespace: "ns".into(),
        name,
        uid,
        node: Some("n1".into()),
        life: Life::Running,
        claimed: Some(vec![ip]),
        shown: vec![ip],
    });
}

/// What each of the following damages: pods p0 and p1, a kept address, a reservation,
/// a pool of size 2 with its two spares, and a shared address.
fn scene() -> Scene {
    let mut scene = Scene {
        configuration: Some(fixture::T.replace(
            r#""ips": ["10.0.70.2~10.0.70.20"]"#,
            r#""ips": ["10.0.70.2~10.0.70.20"], "shared": ["10.0.70.30~10.0.70.39"]"#,
        )),
        records: Vec::new(),
        pods: Vec::new(),
        pools: vec![Pool {
            namespace: "kube-system".into(),
            name: "blue".into(),
            size: 2,
            preallocate: true,
        }],
        nodes: vec![Node {
            name: "n1".into(),
            address: Some([10, 0, 1, 5].into()),
        }],
        vips: Some(vec![Vip {
            id: VipId {
                namespace: "shop".into(),
                name: "web".into(),
            },
            addresses: vec![t5(30)],
        }]),
        missing: Some(Vec::new()),
    };
    run(&mut scene, 0, ReleasePolicy::OnDelete);
    run(&mut scene, 1, ReleasePolicy::Immutable);
    let nowhere = Attribute::default();
    scene.hold(KEPT.into(), "sts_ns_a_a-0", ReleasePolicy::Never, &nowhere);
    for last in [11, 12] {
        scene.hold(t5(last), "pool__blue_", ReleasePolicy::Never, &nowhere);
    }
    scene.hold(
        RESERVED.into(),
        "pool__reserved_",
        ReleasePolicy::Never,
        &nowhere,
    );
    scene.hold(t5(30), "vip__shop_web_", ReleasePolicy::Never, &nowhere);
    let content = scene.content(RESERVED.into());
    content.reserved = true;
    content.marks.state = Some("Reserved".into());
    scene
}

const KEPT: Ipv4Addr = Ipv4Addr::new(10, 0, 70, 10);
const RESERVED: Ipv4Addr = Ipv4Addr::new(10, 0, 70, 13);

type Damage = (&'static str, fn(&mut Scene));

/// Each damage gives this one finding and no other.
const DAMAGES: &[Damage] = &[
    ("AddressMissing", |it| it.lack(0, "n1")),
    ("NoConfiguration", |it| it.configuration = None),
    ("EntriesOverlap", |it| {
        let entry = r#"{"nodeSubnets": ["10.77.0.0/24"], "ips": ["10.0.70.20~10.0.70.21"],
            "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"}"#;
        let text = it.configuration.as_ref().unwrap();
        it.configuration = Some(text.replace("\n]", &format!(",\n{entry}]")));
    }),
    ("NodeNotConfigured", |it| {
        it.nodes[0].address = Some([192, 0, 2, 1].into());
    }),
    ("NodeNotConfigured", |it| it.nodes[0].address = None),
    ("InvalidPoolName", |it| {
        it.pools.push(Pool {
            name: "under_score".into(),
            ..it.pools[0].clone()
        });
    }),
    ("LimitExceeded", |it| {
        let place = Attribute::default();
        it.hold(
            t5(19),
            "pool__green_sts_ns_b_b-0",
            ReleasePolicy::Never,
            &place,
        );
        it.pools.push(Pool {
            namespace: "ns".into(),
            name: "green".into(),
            size: 0,
            preallocate: false,
        });
    }),
    ("PoolShort", |it| it.pools[0].size = 3),
    ("NameNotAnAddress", |it| {
        let copy = StoredRecord {
            name: "someone".into(),
            ..it.records[0].clone()
        };
        it.records.push(copy);
    }),
    ("NameNotCanonical", |it| {
        let copy = StoredRecord {
            name: "fd00--5".into(),
            ..it.records[0].clone()
        };
        it.records.push(copy);
    }),
    ("UnreadableRecord", |it| {
        let name = name::name(KEPT.into());
        let mut records = it.records.iter_mut();
        records.find(|it| it.name == name).unwrap().content = None;
    }),
    ("MalformedAttribute", |it| {
        it.content(t5(2)).attribute = "{".into();
    }),
    ("ForeignKey", |it| {
        let content = it.content(KEPT.into());
        content.key = "somebody".into();
        content.marks.state = Some("Foreign".into());
    }),
    ("OutsideConfiguration", |it| {
        let place = Attribute::default();
        let ip = [10, 0, 99, 1].into();
        it.hold(ip, "sts_ns_b_b-0", ReleasePolicy::Never, &place);
    }),
    ("OutsideConfiguration", |it| {
        let place = Attribute::default();
        let ip = [10, 0, 99, 1].into();
        it.hold(ip, "sts_ns_b_b-0", ReleasePolicy::Never, &place);
        it.content(ip).marks.outside = true;
    }),
    ("LabelsNotTrue", |it| it.content(t5(2)).marks.outside = true),
    ("LabelsNotTrue", |it| it.content(t5(2)).marks.node = None),
    ("LabelsNotTrue", |it| {
        it.content(KEPT.into()).marks.node_note = Some("n1".into());
    }),
    ("LabelsNotTrue", |it| {
        it.content(t5(2)).marks.state = Some("Kept".into());
    }),
    ("ReservedInUse", |it| {
        let content = it.content(t5(2));
        content.reserved = true;
        content.marks.state = Some("Reserved".into());
    }),
    ("PodGone", |it| {
        it.pods.remove(0);
    }),
    ("PodGone", |it| it.pods[0].life = Life::Finished),
    ("StaleBinding", |it| {
        it.pods.remove(1);
    }),
    ("OtherUid", |it| it.pods[0].uid = "another".into()),
    ("UnreadableAnnotation", |it| it.pods[0].claimed = None),
    ("RecordMissing", |it| {
        it.records.remove(0);
    }),
    ("AddressConflict", |it| {
        it.pods[0].claimed = Some(vec![KEPT.into()]);
    }),
    ("VirtualIPGone", |it| {
        it.vips.as_mut().unwrap().clear();
    }),
    ("SharedRecordMissing", |it| {
        it.records.retain(|record| record.name != "10.0.70.30");
    }),
    ("AddressTaken", |it| {
        let vips = it.vips.as_mut().unwrap();
        vips[0].addresses.push(KEPT.into());
    }),
    ("OutsideConfiguration", |it| {
        // An address for pods is no place for a shared one.
        let nowhere = Attribute::default();
        it.hold(t5(15), "vip__shop_web_", ReleasePolicy::Never, &nowhere);
    }),
    ("OutsideConfiguration", |it| {
        // And the other way round.
        let nowhere = Attribute::default();
        it.hold(t5(31), "sts_ns_b_b-0", ReleasePolicy::Never, &nowhere);
    }),
    ("LabelsNotTrue", |it| {
        it.content(t5(30)).marks.outside = true;
    }),
    ("LabelsNotTrue", |it| {
        it.content(t5(30)).marks.state = Some("Foreign".into());
    }),
    ("ClaimedTwice", |it| {
        let pod = Pod {
            name: "q".into(),
            uid: "uid-q".into(),
            ..it.pods[0].clone()
        };
        it.pods.push(pod);
    }),
];

#[test]
fn each_damage_is_found_by_its_name_and_nothing_else_is() {
    assert_eq!(scene().audit(), []);
    for (number, (reason, damage)) in DAMAGES.iter().enumerate() {
        let mut scene = scene();
        damage(&mut scene);
        assert_eq!(
            scene.reasons(),
            [*reason],
            "damage {number}: {:?}",
            scene.audit()
        );
        let finding = &scene.audit()[0];
        assert!(
            finding.fix().is_some() || finding.advice().is_some(),
            "somebody has to do something: {finding:?}"
        );
    }
}

#[test]
fn what_galaxy_wrote_lacks_nothing_but_the_label_of_its_node() {
    let mut scene = scene();
    for record in &mut scene.records {
        record.content.as_mut().unwrap().marks = Marks::default();
    }
    let bound = [t5(2), t5(3)].map(|ip| Finding::LabelsNotTrue(vec![Label::Node], ip));
    assert_eq!(scene.audit(), bound);
}

#[test]
fn only_what_no_pod_has_is_ever_freed() {
    for (_, damage) in DAMAGES {
        let mut scene = scene();
        damage(&mut scene);
        for finding in scene.audit() {
            let Some(Fix::DeleteRecord(ip)) = finding.fix() else {
                continue;
            };
            let uses = |pod: &Pod| {
                let has =
                    pod.shown.contains(&ip) || pod.claimed.iter().flatten().any(|it| *it == ip);
                has && pod.life != Life::Finished
            };
            assert!(!scene.pods.iter().any(uses), "{finding:?}");
        }
    }
    // The pod of the record is gone, but another one runs with the address.
    let mut scene = scene();
    scene.pods[0].name = "q".into();
    assert_eq!(scene.reasons(), ["PodGone", "AddressConflict"]);
    assert!(scene.audit().iter().all(|finding| finding.fix().is_none()));
    // Its annotation does not say so, but what it runs with counts.
    scene.pods[0].claimed = Some(Vec::new());
    assert_eq!(scene.reasons(), ["PodGone"]);
    assert!(scene.audit()[0].fix().is_none());
    scene.pods[0].shown.clear();
    assert!(scene.audit()[0].fix().is_some());
}

#[test]
fn what_nobody_can_tell_about_shared_addresses_is_not_told() {
    let mut scene = scene();
    scene.vips = None;
    assert_eq!(scene.audit(), []);
    scene.records.retain(|record| record.name != "10.0.70.30");
    assert_eq!(scene.audit(), []);
}

#[test]
fn what_is_found_at_shared_addresses_is_told_in_words() {
    let mut scene = scene();
    let vip = &mut scene.vips.as_mut().unwrap()[0];
    vip.addresses = vec![t5(31), KEPT.into()];
    vip.id.name = "api".into();
    let findings = scene.audit();
    let told: Vec<String> = findings
        .iter()
        .map(|it| format!("{} {it}", it.subject()))
        .collect();
    assert_eq!(
        told,
        [
            "floatingip/10.0.70.30 it is held for VirtualIP shop/web, which is not there",
            "virtualip/shop/api its status has 10.0.70.31, which has no record",
            "virtualip/shop/api its status has 10.0.70.10, but \"sts_ns_a_a-0\" holds it",
        ]
    );
    assert!(findings.iter().all(|finding| finding.fix().is_none()));
}

#[test]
fn findings_are_told_in_a_fixed_order_and_in_words() {
    let mut scene = scene();
    scene.nodes[0].address = None;
    scene.pools[0].size = 3;
    scene.content(t5(3)).marks.node = None;
    scene.pods[0].claimed = Some(vec![KEPT.into()]);
    let told = |scene: &Scene| -> Vec<String> {
        let findings = scene.audit();
        let lines = findings.iter().map(|it| format!("{} {it}", it.subject()));
        lines.collect()
    };
    let first = told(&scene);
    assert_eq!(
        first,
        [
            "node/n1 it has no InternalIP, but 2 pods with floating IPs are bound to it",
            "pool/kube-system/blue it has fewer addresses than it asks for ahead of pods",
            "floatingip/10.0.70.3 label node is not true",
            "pod/ns/p0 its annotation names 10.0.70.10, but \"sts_ns_a_a-0\" holds it",
        ]
    );
    scene.records.reverse();
    scene.pods.reverse();
    assert_eq!(told(&scene), first);
}

proptest! {
    #[test]
    fn a_consistent_world_has_no_findings(
        policies in proptest::collection::vec(select(vec![
            ReleasePolicy::OnDelete, ReleasePolicy::Immutable, ReleasePolicy::Never,
        ]), 0..8),
        spares in 0_u8..5,
        size in 0_i64..5,
    ) {
        let mut scene = scene();
        (scene.records, scene.pods) = (Vec::new(), Vec::new());
        scene.vips = None;
        for (number, policy) in (0..).zip(policies) {
            run(&mut scene, number, policy);
        }
        for spare in 0..spares {
            let nobody = Attribute::default();
            scene.hold(t5(12 + spare), "pool__blue_", ReleasePolicy::Never, &nobody);
        }
        scene.pools[0].size = size.min(spares.into());
        prop_assert_eq!(scene.audit(), vec![]);
    }
}

#[test]
fn a_bad_annotation_is_a_notice_unless_an_address_depends_on_it() {
    let mut scene = scene();
    scene.pods[0].claimed = None;
    let findings = scene.audit();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].is_notice(), "its record says what it has");
    // Without the record, only the annotation could tell.
    let shown = scene.pods[0].shown[0].to_string();
    scene.records.retain(|record| record.name != shown);
    let findings = scene.audit();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(!findings[0].is_notice());
    // It has no address yet.
    scene.pods[0].shown.clear();
    assert!(scene.audit()[0].is_notice());
}

#[test]
fn a_conflict_names_the_node_of_the_holder() {
    let mut scene = scene();
    let held = scene.pods[1].shown[0];
    scene.pods[0].claimed = Some(vec![held]);
    scene.pods[1].claimed = Some(Vec::new());
    let findings = scene.audit();
    let conflict = findings
        .iter()
        .find(|it| it.reason() == "AddressConflict")
        .unwrap();
    let node = scene.pods[1].node.clone().unwrap();
    let told = conflict.to_string();
    assert!(
        told.ends_with(&format!(" holds it on node {node}")),
        "{told}"
    );
}

#[test]
fn a_report_of_a_missing_address_that_is_out_of_date_is_no_finding() {
    let mut scene = scene();
    // From before the pod moved, and about a pod that is not there.
    scene.lack(0, "n2");
    scene.lack(7, "n1");
    assert_eq!(scene.reasons(), [""; 0]);
    scene.missing = None;
    assert_eq!(scene.reasons(), [""; 0]);
}
