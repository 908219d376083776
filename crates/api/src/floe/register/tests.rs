use super::*;
use crate::{
    crds::tests::refusals,
    floe::{tests::unknown, virtualip::VirtualIPSpec},
};

fn now() -> Timestamp {
    "2026-07-01T08:00:00Z".parse().unwrap()
}

fn holding(pod: &str) -> Holding {
    Holding {
        pod: pod.into(),
        uid: format!("uid-of-{pod}"),
        node: "node-1".into(),
        node_address: [192, 168, 0, 1].into(),
        addresses: vec![[10, 1, 0, 7].into()],
        mode: "nat".into(),
        term: 4,
        since: Some(Time(now())),
        ready: false,
        reason: String::new(),
    }
}

fn entry() -> Entry {
    Entry {
        vip: "shop/web".into(),
        addresses: vec![[10, 0, 0, 1].into()],
        withheld: Vec::new(),
        holder: Some(holding("web-0")),
        successor: Some(Holding {
            ready: true,
            reason: "Requested".into(),
            ..holding("web-1")
        }),
        moves: 3,
        last_move: Some(Move {
            at: Time(now()),
            reason: "PodNotReady".into(),
            from: "web-1".into(),
            to: "web-0".into(),
        }),
    }
}

#[test]
fn addresses_of_an_object_that_is_gone_stay_withheld() {
    let next = entry().orphaned().expect("it still offers an address");
    assert_eq!(
        (&next.addresses, &next.withheld),
        (&vec![], &entry().addresses)
    );
    assert_eq!((&next.successor, &next.holder), (&None, &entry().holder));
    assert_eq!(next.orphaned(), None, "there is nothing more to withdraw");
    let mut register = VirtualIPRegister::named("floe-vips-3");
    register.entries.insert("3f2a".into(), next.clone());
    let read = VirtualIPRegister::deserialize(json!(register)).unwrap();
    assert_eq!(read, register);

    let again = Entry {
        addresses: vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        ..next
    };
    let next = again.orphaned().unwrap();
    assert_eq!(next.withheld, again.addresses);
}

/// What a merge makes of an object.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, member) in members {
        if member.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], member);
        }
    }
}

#[test]
fn the_uid_says_which_register_has_the_entry() {
    assert_eq!(name_for("3f2a"), "floe-vips-3");
    assert_eq!(name_for("Ff2a"), "floe-vips-f");
    assert_eq!(name_for("uid"), "floe-vips-0");
    assert_eq!(name_for(""), "floe-vips-0");
}

#[test]
fn the_schema_takes_what_floe_writes_and_names_every_member() {
    let mut register = VirtualIPRegister::named("floe-vips-3");
    register.entries.insert("3f2a".into(), entry());
    let object = serde_json::to_value(&register).unwrap();
    assert_eq!(refusals(&definition(), &object), Vec::<String>::new());
    let schema = &definition().spec.versions[0].schema;
    let schema = serde_json::to_value(schema).unwrap()["openAPIV3Schema"].take();
    assert_eq!(
        unknown(&schema, &object, ""),
        ["/apiVersion", "/kind", "/metadata"]
    );
    assert_eq!(
        serde_json::from_value::<VirtualIPRegister>(object).unwrap(),
        register
    );
}

#[test]
fn an_entry_is_texts_and_a_write_replaces_all_of_it() {
    let register = |entry: &Entry| {
        let mut register = VirtualIPRegister::named("floe-vips-3");
        register.entries.insert("3f2a".into(), entry.clone());
        register
    };
    let mut object = json!(register(&entry()));
    let stored = &object["entries"]["3f2a"];
    assert!(stored.as_object().unwrap().values().all(Value::is_string));
    assert_eq!(stored["vip"], "shop/web");
    assert_eq!(stored["holderNode"], "node-1");
    assert_eq!(stored["successorNode"], "node-1");
    let free = Entry {
        holder: None,
        successor: None,
        moves: 4,
        ..entry()
    };
    merge(&mut object, &patch(Some("7"), [("3f2a", Some(&free))]));
    assert_eq!(object["metadata"]["resourceVersion"], "7");
    let read = |object: &Value| VirtualIPRegister::deserialize(object);
    assert_eq!(read(&object).unwrap().entries, register(&free).entries);
    object["entries"]["3f2a"]["state"] = json!("{}}");
    let error = read(&object).unwrap_err().to_string();
    assert!(error.starts_with("the entry of 3f2a: "), "{error}");
    merge(&mut object, &patch(None, [("3f2a", None)]));
    assert_eq!(read(&object).unwrap().entries, BTreeMap::new());
}

#[test]
fn an_entry_is_what_an_object_is_by_it() {
    let mut vip = VirtualIP::default();
    vip.metadata.namespace = Some("shop".into());
    vip.metadata.name = Some("web".into());
    assert_eq!(Entry::of(&Entry::applied(Some(&entry()), &vip)), entry());
}

#[test]
fn an_entry_decides_whatever_the_status_shows() {
    let vip = VirtualIP {
        spec: VirtualIPSpec::default(),
        ..VirtualIP::default()
    };
    assert_eq!(Entry::applied(None, &vip), vip);
    let decided = Entry::applied(Some(&entry()), &vip).status.unwrap();
    assert_eq!(decided.holder, entry().holder);
    assert_eq!(decided.addresses, entry().addresses);
    // As an object that lost its entry shows it: nobody may have what is not granted.
    let shown = VirtualIP {
        status: Some(decided),
        ..vip
    };
    let lost = Entry::applied(None, &shown).status.unwrap();
    assert_eq!(
        (lost.addresses, lost.holder, lost.successor),
        (vec![], None, None)
    );
    assert_eq!(lost.moves, 3, "it is counted on");
}

#[test]
fn the_status_shows_an_entry_after_the_changes_and_then_there_are_none() {
    let condition = json!({
        "type": "Serving", "status": "True", "reason": "HolderReady", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let mut object = json!({ "status": { "candidates": [], "conditions": [condition] } });
    let handing = entry();
    let held = Entry {
        holder: Some(holding("web-1")),
        successor: None,
        moves: 4,
        ..entry()
    };
    let free = Entry {
        holder: None,
        successor: None,
        moves: 5,
        last_move: Some(Move {
            at: Time(now()),
            reason: "PodDeleted".into(),
            from: "web-1".into(),
            to: String::new(),
        }),
        ..entry()
    };
    for entry in [handing, held, free] {
        let vip: VirtualIP = serde_json::from_value(object.clone()).unwrap();
        let patch = entry.shown_on(&vip, now()).unwrap();
        merge(&mut object["status"], &patch);
        let vip: VirtualIP = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(entry.shown_on(&vip, now()), None);
        assert_eq!(Entry::applied(Some(&entry), &vip), vip);
        assert_eq!(vip.status.as_ref().unwrap().summary.addresses, "10.0.0.1");
        let served = vip.condition(SERVING).unwrap();
        let expected = if entry.holder.is_some() {
            ("True", "HolderReady")
        } else {
            ("False", "PodDeleted")
        };
        assert_eq!((served.status.as_str(), served.reason.as_str()), expected);
    }
}
