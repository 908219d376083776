use std::time::Duration;

use super::*;
use crate::{explain::nodes::NAMED, vip::elect::MoveReason};

const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 70, 20));
const A: Place<'_> = Place {
    pod: "a",
    uid: "ua",
    node: "n1",
};
const B: Place<'_> = Place {
    pod: "b",
    uid: "ub",
    node: "n2",
};
const GRANTED: Told<'_> = Told {
    status: "True",
    reason: "Granted",
    message: "granted 1 of 1 addresses",
};
const TAKEN: Told<'_> = Told {
    status: "False",
    reason: "AddressTaken",
    message: "10.0.70.20 belongs to VirtualIP bank/x",
};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Pod `a` has it, and `b` could.
fn held() -> Facts<'static> {
    Facts {
        id: VipId {
            namespace: "shop".into(),
            name: "web".into(),
        },
        is_going: false,
        addresses: &[IP],
        accepted: Some(GRANTED),
        serving: None,
        reachable: None,
        holder: Some(A),
        since: Some(time("2026-01-01T00:00:00Z")),
        successor: None,
        candidates: vec![A, B],
        moves: 1,
        last_move: Some(Move {
            at: time("2026-01-01T00:00:00Z"),
            reason: "FirstHolder",
            from: "",
            to: "a",
        }),
        failover: Failover::default(),
        wish: None,
    }
}

fn vacant() -> Facts<'static> {
    Facts {
        holder: None,
        since: None,
        last_move: None,
        moves: 0,
        ..held()
    }
}

fn told(facts: &Facts<'_>) -> Vec<String> {
    Account::of(facts).sentences()
}

fn why(facts: &Facts<'_>) -> (&'static str, &'static str) {
    (Account::of(facts).why.reason(), facts.state().text())
}

#[test]
fn who_holds_it_is_told_with_what_would_move_it() {
    assert_eq!(
        told(&held()),
        [
            "It is at pod a on node n1 since 2026-01-01T00:00:00Z.",
            "It came to pod a at 2026-01-01T00:00:00Z: nobody had it (FirstHolder).",
            "It could be at a (n1), b (n2).",
            "What would move it: the end of its pod, or silence of the pod's node; a pod that \
             is not ready, but not within 3 s after a move; somebody who asks for it.",
        ]
    );
    assert_eq!(why(&held()), ("Held", "Held"));
}

#[test]
fn nothing_moves_an_address_that_no_other_pod_could_have() {
    for candidates in [vec![A], vec![]] {
        let facts = Facts {
            candidates,
            ..held()
        };
        let last = told(&facts).pop().unwrap();
        assert_eq!(
            last,
            "What would move it: nothing now, for no other pod could have it."
        );
    }
    // A pod of the same name that is another one could.
    let next = Place { uid: "u2", ..A };
    let facts = Facts {
        candidates: vec![next],
        ..held()
    };
    assert_eq!(Account::of(&facts).movers.len(), 3);
}

#[test]
fn settings_of_the_object_are_in_what_would_move_it() {
    let failover = |failback| Failover {
        unready_grace: Duration::from_secs(10),
        between_moves: Duration::ZERO,
        failback,
        preferred: vec!["c".into(), "a".into(), "b".into()],
    };
    let movers = |failback| {
        let facts = Facts {
            failover: failover(failback),
            ..held()
        };
        let movers = Account::of(&facts).movers;
        movers.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        movers(false)[1..],
        [
            "a pod that is not ready for 10 s",
            "somebody who asks for it"
        ]
    );
    assert_eq!(
        movers(true)[2],
        "a preferred pod that can have it: c",
        "only those before the holder"
    );
    let first = Facts {
        holder: Some(Place { pod: "c", ..A }),
        failover: failover(true),
        ..held()
    };
    let movers = Account::of(&first).movers;
    assert!(!movers.iter().any(|it| matches!(it, Mover::Preferred(_))));
}

#[test]
fn the_last_move_is_told_with_its_reason() {
    let with = |from, to, reason, moves| {
        let last_move = Some(Move {
            at: time("2026-02-01T00:00:00Z"),
            reason,
            from,
            to,
        });
        let facts = Facts {
            moves,
            last_move,
            ..held()
        };
        told(&facts)[1].clone()
    };
    assert_eq!(
        with("b", "a", "NodeSilent", 7),
        "It moved last at 2026-02-01T00:00:00Z, from pod b to pod a: nothing was heard from its \
         node (NodeSilent). It has moved 7 times."
    );
    assert_eq!(
        with("b", "", "PodDeleted", 1),
        "It left pod b at 2026-02-01T00:00:00Z: its pod was deleted (PodDeleted)."
    );
    assert_eq!(
        with("b", "a", "Later", 1),
        "It moved last at 2026-02-01T00:00:00Z, from pod b to pod a: Later.",
        "a reason of a later version is told as it is"
    );
    for known in MoveReason::ALL {
        let word = known.reason();
        assert!(reason(word).ends_with(&format!("({word})")), "{word}");
    }
}

#[test]
fn what_goes_on_is_told() {
    let facts = Facts {
        serving: Some(Told {
            status: "True",
            reason: "HolderNotReady",
            message: "",
        }),
        reachable: Some(Told {
            status: "False",
            reason: "NoInterface",
            message: "no interface is in a subnet of 10.0.70.20.",
        }),
        accepted: Some(TAKEN),
        successor: Some((B, "Requested")),
        wish: Some("c"),
        ..held()
    };
    assert_eq!(
        told(&facts)[1..6],
        [
            "Its pod is not ready, but nobody else could have it.",
            "It is reachable from inside the cluster only: no interface is in a subnet of \
             10.0.70.20 (NoInterface).",
            "Not all that it asks for is granted: 10.0.70.20 belongs to VirtualIP bank/x \
             (AddressTaken).",
            "It is being handed over to pod b on node n2: somebody asked for it (Requested).",
            "Somebody asks for a move to pod c; the controller has not answered yet.",
        ]
    );
    let silent = Told {
        status: "False",
        reason: "LinkDown",
        message: "",
    };
    let facts = Facts {
        serving: Some(silent),
        ..held()
    };
    assert_eq!(told(&facts)[1], "It is not served: LinkDown.");
}

#[test]
fn why_nobody_has_it_is_told() {
    let refused = Facts {
        addresses: &[],
        accepted: Some(TAKEN),
        candidates: Vec::new(),
        ..vacant()
    };
    assert_eq!(why(&refused), ("NotGranted", "Refused"));
    assert_eq!(
        told(&refused),
        ["Nobody has it: 10.0.70.20 belongs to VirtualIP bank/x (AddressTaken)."]
    );
    let new = Facts {
        addresses: &[],
        accepted: None,
        candidates: Vec::new(),
        ..vacant()
    };
    assert_eq!(why(&new), ("NotLookedAt", "Vacant"));
    let lonely = Facts {
        candidates: Vec::new(),
        ..vacant()
    };
    assert_eq!(why(&lonely), ("NoCandidate", "Vacant"));
    assert_eq!(told(&lonely).len(), 1);
    assert_eq!(why(&vacant()), ("NotTaken", "Vacant"));
    assert_eq!(told(&vacant())[1], "It could be at a (n1), b (n2).");
    for facts in [refused, new, lonely, vacant()] {
        assert_eq!(Account::of(&facts).movers, []);
    }
}

#[test]
fn an_object_that_goes_or_gives_an_address_up_is_no_holder() {
    let going = Facts {
        is_going: true,
        ..held()
    };
    assert_eq!(why(&going), ("Deleting", "Deleting"));
    assert_eq!(
        told(&going)[0],
        "VirtualIP shop/web is being deleted, and pod a on node n1 has not let go of it yet."
    );
    let gone = Facts {
        is_going: true,
        ..vacant()
    };
    assert!(told(&gone)[0].ends_with("about to be free."));
    let other: IpAddr = "10.0.70.21".parse().unwrap();
    let facts = held();
    let account = Account::of_address(&facts, other);
    assert_eq!(account.why.reason(), "LetGo");
    assert_eq!((account.sentences().len(), account.movers.len()), (1, 0));
    assert_eq!(Account::of_address(&facts, IP).why, Why::Held);
    assert_eq!(Account::of_address(&going, other).why, Why::Deleting);
}

#[test]
fn a_crowd_of_candidates_is_counted() {
    let facts = Facts {
        candidates: vec![B; NAMED + 3],
        ..vacant()
    };
    let text = told(&facts).pop().unwrap();
    assert!(text.ends_with("b (n2) and 3 more."), "{text}");
}

#[test]
fn a_node_that_has_it_itself_is_called_a_node_and_its_pool_moves_it() {
    let place = Place {
        pod: "node/n1",
        uid: "node/n1",
        node: "n1",
    };
    let facts = Facts {
        holder: Some(place),
        candidates: vec![place],
        ..held()
    };
    let words = Account::of(&facts).sentences().join(" ");
    assert!(words.contains("node n1"), "{words}");
    assert!(!words.contains("pod node/"), "{words}");
    let moves = "What would move it: its pool, when that names another node.";
    assert!(words.contains(moves), "{words}");
}
