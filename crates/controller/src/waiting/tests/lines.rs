//! Who may be woken when.

use floe_core::{
    ipam::{
        args::Args,
        choice::Wish,
        families::Family,
        owner::{App, AppKind},
        policy::ReleasePolicy,
        workload::{Scale, State, Workload},
    },
    schedule::claimant::Claimant,
};

use super::*;
use crate::{
    claims::Claim,
    cluster::{Phase, Pod},
};

fn claim(name: &str, revision: u64) -> Claim {
    let workload = Workload {
        app: App {
            kind: AppKind::Deployment,
            namespace: "ns".into(),
            name: "web".into(),
        },
        scale: Scale::Yes,
        state: State::Gone,
    };
    let uid = format!("uid-{name}");
    let wishes = vec![Wish::Any(Family::V4)];
    let policy = ReleasePolicy::Immutable;
    let claimant = Claimant::new(&workload, None, name, &uid, policy, wishes).unwrap();
    let pod = Pod {
        namespace: "ns".into(),
        name: name.into(),
        uid,
        version: "1".into(),
        created: Timestamp::UNIX_EPOCH,
        terminating: false,
        owners: Vec::new(),
        wants_address: true,
        release_policy: None,
        pool: None,
        args: None,
        families: None,
        node: None,
        phase: Phase::Pending,
        phase_text: "Pending",
        addresses: Vec::new(),
        gate: None,
        needs: None,
        unschedulable: false,
        assigned: None,
        ready_since: None,
    };
    Claim {
        pod: Arc::new(pod),
        workload,
        claimant,
        args: Args::default(),
        revision,
    }
}

fn rooms(room: Room) -> Arc<Rooms> {
    let mut rooms = Rooms::default();
    rooms.add(room);
    Arc::new(rooms)
}

fn address(last: u8) -> Arc<Rooms> {
    rooms(Room::Address([10, 0, 0, last].into()))
}

fn due(line: &Line, rooms: &Rooms, at: Instant) -> bool {
    line.called(rooms, false, at).iter().any(|it| it.wake)
}

fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

#[test]
fn once_a_second_unless_there_is_something_new() {
    let start = Instant::now();
    let at = |count: f64| start + seconds(count);
    let mut line = Line::default();
    let pod = claim("a", 1);
    assert_eq!(line.refused(&pod, at(0.0)), None);
    assert!(due(&line, &address(1), at(0.0)));
    line.woken(&["uid-a"], &address(1), at(0.0));
    assert!(!due(&line, &address(2), at(0.1)), "it is on its way");
    // It came in vain: what it was woken for is there for others.
    assert_eq!(line.refused(&pod, at(0.2)), Some(address(1)));
    assert_eq!(line.refused(&pod, at(0.2)), None);
    assert!(!due(&line, &address(1), at(0.3)), "not for the same again");
    assert!(due(&line, &address(2), at(0.3)));
    assert!(due(&line, &address(1), at(1.0)));
    // Who always comes in vain is woken once a second at most.
    for _ in 0..3 {
        line.woken(&["uid-a"], &address(3), at(2.0));
        line.refused(&pod, at(2.1));
    }
    assert!(!due(&line, &address(4), at(2.2)));
    assert!(due(&line, &address(4), at(3.0)));
    // Nobody else is kept from what it does not take.
    assert!(!line.called(&address(4), false, at(3.0))[0].reserves);
}

#[test]
fn who_could_not_be_woken_is_not_expected() {
    let start = Instant::now();
    let at = |count: f64| start + seconds(count);
    let mut line = Line::default();
    let pod = claim("a", 1);
    line.refused(&pod, at(0.0));
    line.woken(&["uid-a"], &address(1), at(0.0));
    assert!(!due(&line, &address(1), at(1.0)));
    line.not_woken("uid-a");
    line.not_woken("uid-b");
    assert!(due(&line, &address(1), at(1.0)));
    assert_eq!(line.refused(&pod, at(1.0)), None, "it did not come for it");
}

#[test]
fn regular_wakes_become_rare() {
    let start = Instant::now();
    let mut line = Line::default();
    let pod = claim("a", 1);
    line.refused(&pod, start);
    let mut now = start;
    let mut woken = Vec::new();
    for second in 0..400 {
        now = start + Duration::from_secs(second);
        if line.called(&Rooms::default(), true, now).is_empty() {
            continue;
        }
        woken.push(second);
        line.woken(&["uid-a"], &Arc::default(), now);
        line.refused(&pod, now);
    }
    assert_eq!(woken, [0, 10, 30, 70, 130, 190, 250, 310, 370]);
    assert!(now > start);
}

#[test]
fn who_is_expected_comes_first_and_is_not_woken_again() {
    let start = Instant::now();
    let mut line = Line::default();
    for (name, revision) in [("a", 1), ("b", 2), ("c", 3)] {
        line.refused(&claim(name, revision), start);
    }
    line.woken(&["uid-a"], &address(1), start);
    let called = |at: f64| {
        let called = line.called(&address(2), false, start + seconds(at));
        let names = called.iter().map(|it| {
            let marks = [(it.wake, "!"), (it.reserves, "+")];
            let marks = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark);
            format!("{}{}", it.claimant.name, marks.collect::<String>())
        });
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(called(1.0), "a+ c!+ b!+");
    // It has not come: it is woken in its turn, and nothing is kept for it.
    assert_eq!(called(15.0), "c!+ b!+ a!");
}

#[test]
fn those_who_go_first_are_of_newer_revisions_and_come_when_called() {
    let start = Instant::now();
    let mut line = Line::default();
    let pods = [("a", 1), ("b", 2), ("c", 2), ("d", 3)].map(|(name, it)| claim(name, it));
    for pod in &pods {
        line.refused(pod, start);
    }
    let newer = |line: &Line, revision, at: f64| {
        let (first, at) = (&pods[0].claimant, start + seconds(at));
        let newer = line.ahead_of(first, revision, |pod| pod.revision, at);
        let names: Vec<String> = newer.into_iter().map(|(pod, _)| pod.name).collect();
        names.join(" ")
    };
    assert_eq!(newer(&line, 1, 0.0), "d b c");
    assert_eq!(newer(&line, 2, 0.0), "d");
    assert_eq!(newer(&line, 3, 0.0), "");
    line.woken(&["uid-d"], &address(1), start);
    assert_eq!(newer(&line, 1, 14.0), "d b c");
    assert_eq!(newer(&line, 1, 15.0), "b c");
    // A second wake without an answer does not make it expected again.
    line.woken(&["uid-d"], &address(1), start + seconds(16.0));
    assert_eq!(newer(&line, 1, 17.0), "b c");
    line.refused(&pods[3], start + seconds(18.0));
    assert_eq!(newer(&line, 1, 18.0), "d b c");
    assert_eq!(line.leave("uid-d").unwrap().as_str(), "dp_ns_web_");
    assert_eq!(newer(&line, 1, 18.0), "b c");
    for uid in ["uid-a", "uid-b"] {
        assert!(line.leave(uid).is_some());
    }
    assert_eq!(line.leave("uid-c"), None, "nobody is left to go next");
    assert_eq!(line.leave("uid-c"), None);
}

#[test]
fn who_is_not_in_the_cache_leaves_after_a_while() {
    let start = Instant::now();
    let mut line = Line::default();
    line.refused(&claim("a", 1), start);
    let without = |at: f64| line.without(|_| false, start + seconds(at));
    assert!(without(29.0).is_empty(), "the cache may be late");
    assert_eq!(without(30.0), ["uid-a"]);
    assert!(line.without(|_| true, start + seconds(60.0)).is_empty());
}

#[test]
fn rooms_concern_those_who_can_use_them() {
    let mut pod = claim("a", 1).claimant;
    let group = |text: &str| rooms(Room::InGroup(text.into()));
    let v6 = rooms(Room::Address("fd00::1".parse().unwrap()));
    // One that shares spares may only have lacked a place.
    assert!(address(1).concern(&pod) && v6.concern(&pod));
    assert!(group("dp_ns_web_").concern(&pod));
    assert!(!group("dp_ns_other_").concern(&pod));
    pod.shares_spares = false;
    assert!(address(1).concern(&pod) && !v6.concern(&pod));
    pod.galaxy_key = Some("dp_ns_cut_web-1".into());
    assert!(group("dp_ns_cut_").concern(&pod));
    assert!(!Rooms::default().concern(&pod));
    assert!(rooms(Room::Anywhere).concern(&pod));
}

#[test]
fn too_many_rooms_are_anywhere() {
    let mut all = Rooms::default();
    for number in 0..2_000_u32 {
        all.add(Room::Address(std::net::Ipv4Addr::from(number).into()));
    }
    let mut joined = Rooms::default();
    joined.join(&all);
    assert_eq!(joined, *rooms(Room::Anywhere));
}

#[test]
fn whoever_is_handed_an_address_is_called_first_and_expected_again() {
    let start = Instant::now();
    let mut line = Line::default();
    let pods = [("a", 1), ("b", 2), ("c", 2)].map(|(name, it)| claim(name, it));
    for pod in &pods {
        line.refused(pod, start);
    }
    // It has come in vain so often that nobody waits for it any more.
    for second in 0..3 {
        line.woken(&["uid-c"], &address(1), start + seconds(f64::from(second)));
        line.refused(&pods[2], start + seconds(f64::from(second)));
    }
    let now = start + seconds(5.0);
    let names = |line: &Line| {
        let called = line.called(&address(1), false, now).into_iter();
        called.map(|it| it.claimant.name).collect::<Vec<_>>()
    };
    let ahead = |line: &Line| {
        let ahead = line.ahead_of(&pods[0].claimant, 1, |pod| pod.revision, now);
        ahead
            .into_iter()
            .map(|(pod, _)| pod.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&line), ["b", "c", "a"]);
    assert_eq!(ahead(&line), ["b"]);
    line.hand_over("uid-c");
    assert_eq!(names(&line), ["c", "b", "a"]);
    assert_eq!(ahead(&line), ["b", "c"]);
    assert!(line.has_rivals(&pods[0].claimant, 1));
    for uid in ["uid-b", "uid-c"] {
        line.leave(uid);
    }
    assert!(!line.has_rivals(&pods[0].claimant, 1));
    line.hand_over("uid-c");
    assert!(!line.has_rivals(&pods[0].claimant, 1), "it is gone");
}

#[test]
fn where_a_pod_could_run_adds_up_while_it_waits() {
    let mut line = Line::default();
    let net = |text: &str| text.parse::<ipnet::IpNet>().unwrap();
    assert_eq!(line.sites("uid-a"), None);
    line.offered("uid-a", [net("10.0.1.0/24")]);
    line.refused(&claim("a", 1), Instant::now());
    assert_eq!(line.sites("uid-a"), Some(BTreeSet::new()));
    line.offered("uid-a", [net("10.0.1.0/24")]);
    line.offered("uid-a", [net("10.0.2.0/24")]);
    let both = BTreeSet::from([net("10.0.1.0/24"), net("10.0.2.0/24")]);
    assert_eq!(line.sites("uid-a"), Some(both));
    line.leave("uid-a");
    assert_eq!(line.sites("uid-a"), None);
}
