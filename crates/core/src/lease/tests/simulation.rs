//! Several candidates share one lease on a server that refuses stale writes.
//!
//! A random list of steps drives them: answers are delayed, lost and
//! overtaken, processes are paused, crash and stop. All monotonic clocks run
//! at one speed but start at different points; wall clocks show anything.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The lease as the server stores it.
#[derive(Default)]
struct Server {
    version: u64,
    lease: Option<Record>,
}

impl Server {
    /// Accepts a write that was made from the current version, like an update
    /// with a resourceVersion, or a create while there is no object.
    fn write(&mut self, based_on: u64, record: &Record) -> bool {
        let accepted = self.version == based_on;
        if accepted {
            self.version += 1;
            self.lease = Some(record.clone());
        }
        accepted
    }
}

/// A request on its way to the server.
#[derive(Clone)]
struct Write {
    record: Record,
    based_on: u64,
    sent: Moment,
}

/// How far a replica is within its round.
enum Phase {
    Idle,
    /// The server's answer to a read travels back.
    Read {
        seen: Option<Record>,
        version: u64,
    },
    /// A write travels to the server.
    Sent(Write),
    /// The server's answer to a write travels back.
    Answered {
        write: Write,
        accepted: bool,
    },
    /// The replica was stopped and its release travels to the server.
    Releasing(Write),
}

struct Replica {
    candidate: Candidate,
    /// Where this host's monotonic clock stood at the start of the simulation.
    clock_start: Duration,
    phase: Phase,
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A replica gets on by one phase.
    Go(usize),
    /// A whole round without delay.
    Round(usize),
    /// Time passes for everybody; who does not go on is paused or waits.
    Pass(u64),
    /// A replica gives up its request, which still travels.
    GiveUp(usize),
    /// An abandoned write reaches the server at last.
    Arrive(usize),
    /// The process dies and comes back with a new identity.
    Crash(usize),
    /// The process is stopped cleanly and comes back after the release.
    Stop(usize),
}

struct World {
    timing: Timing,
    now: Duration,
    server: Server,
    replicas: Vec<Replica>,
    /// Writes whose sender no longer waits for the answer.
    abandoned: Vec<Write>,
    /// A changing number for identities, clock offsets and wall clocks.
    births: u32,
    leaders_seen: BTreeMap<String, u32>,
}

impl World {
    fn new(replicas: usize) -> Self {
        let mut world = Self {
            timing: Timing::default(),
            now: Duration::ZERO,
            server: Server::default(),
            replicas: Vec::new(),
            abandoned: Vec::new(),
            births: 0,
            leaders_seen: BTreeMap::new(),
        };
        for _ in 0..replicas {
            let replica = world.birth();
            world.replicas.push(replica);
        }
        world
    }

    fn birth(&mut self) -> Replica {
        self.births += 1;
        Replica {
            candidate: Candidate::new(format!("replica-{}", self.births), self.timing),
            clock_start: Duration::from_millis(u64::from(self.births) * 7_919 % 100_000),
            phase: Phase::Idle,
        }
    }

    fn moment(&self, index: usize) -> Moment {
        Moment(self.replicas[index].clock_start + self.now)
    }

    /// Wall clocks of different replicas differ by hours, and some run
    /// backwards. No decision may depend on them.
    fn wall(&self, index: usize) -> Timestamp {
        let start = i64::try_from(self.replicas[index].clock_start.as_secs()).expect("small");
        let now = i64::try_from(self.now.as_millis()).expect("small");
        let direction = if start % 2 == 0 { 1 } else { -1 };
        Timestamp::from_millisecond(start * 3_600_000 + direction * now).expect("small")
    }

    fn apply(&mut self, step: &Step) {
        let count = self.replicas.len();
        match *step {
            Step::Go(index) => self.go(index % count),
            Step::Round(index) => self.round(index % count),
            Step::Pass(ms) => self.now += Duration::from_millis(ms),
            Step::GiveUp(index) => self.give_up(index % count),
            Step::Arrive(index) => self.arrive(index),
            Step::Crash(index) => {
                self.give_up(index % count);
                self.replicas[index % count] = self.birth();
            }
            Step::Stop(index) => self.stop(index % count),
        }
        self.check();
    }

    fn go(&mut self, index: usize) {
        let (now, wall) = (self.moment(index), self.wall(index));
        let replica = &mut self.replicas[index];
        replica.candidate.expire(now);
        let next = match std::mem::replace(&mut replica.phase, Phase::Idle) {
            Phase::Idle => Phase::Read {
                seen: self.server.lease.clone(),
                version: self.server.version,
            },
            Phase::Read { seen, version } => match replica.candidate.decide(seen, now, wall) {
                Decision::Acquire { record, .. } | Decision::Renew { record } => {
                    Phase::Sent(Write {
                        record,
                        based_on: version,
                        sent: now,
                    })
                }
                Decision::Wait { .. } | Decision::StepDown(_) => Phase::Idle,
            },
            Phase::Sent(write) => Phase::Answered {
                accepted: self.server.write(write.based_on, &write.record),
                write,
            },
            Phase::Answered { write, accepted } => {
                if accepted {
                    replica.candidate.written(write.record, write.sent, now);
                }
                Phase::Idle
            }
            Phase::Releasing(write) => {
                self.server.write(write.based_on, &write.record);
                self.replicas[index] = self.birth();
                Phase::Idle
            }
        };
        self.replicas[index].phase = next;
    }

    /// Goes on until the replica is idle again.
    fn round(&mut self, index: usize) {
        self.go(index);
        while !matches!(self.replicas[index].phase, Phase::Idle) {
            self.go(index);
        }
    }

    fn give_up(&mut self, index: usize) {
        match std::mem::replace(&mut self.replicas[index].phase, Phase::Idle) {
            Phase::Sent(write) => self.abandoned.push(write),
            Phase::Releasing(write) => {
                self.abandoned.push(write);
                self.replicas[index] = self.birth();
            }
            Phase::Idle | Phase::Read { .. } | Phase::Answered { .. } => {}
        }
    }

    fn arrive(&mut self, index: usize) {
        if self.abandoned.is_empty() {
            return;
        }
        let write = self.abandoned.swap_remove(index % self.abandoned.len());
        self.server.write(write.based_on, &write.record);
    }

    fn stop(&mut self, index: usize) {
        self.give_up(index);
        let (sent, wall) = (self.moment(index), self.wall(index));
        let seen = self.server.lease.as_ref();
        let replica = &mut self.replicas[index];
        match replica.candidate.release(seen, wall) {
            Some(record) => {
                replica.phase = Phase::Releasing(Write {
                    record,
                    based_on: self.server.version,
                    sent,
                });
            }
            None => self.replicas[index] = self.birth(),
        }
    }

    fn leaders(&self) -> Vec<String> {
        (0..self.replicas.len())
            .filter(|&index| self.replicas[index].candidate.is_leader(self.moment(index)))
            .map(|index| self.replicas[index].candidate.identity().to_owned())
            .collect()
    }

    fn check(&mut self) {
        let leaders = self.leaders();
        assert!(leaders.len() <= 1, "{leaders:?} lead at {:?}", self.now);
        for leader in leaders {
            *self.leaders_seen.entry(leader).or_default() += 1;
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..4_usize;
    prop_oneof![
        12 => who.clone().prop_map(Step::Go),
        6 => who.clone().prop_map(Step::Round),
        6 => (1..3_000_u64).prop_map(Step::Pass),
        2 => (3_000..20_000_u64).prop_map(Step::Pass),
        2 => who.clone().prop_map(Step::GiveUp),
        2 => who.clone().prop_map(Step::Arrive),
        1 => who.clone().prop_map(Step::Crash),
        1 => who.prop_map(Step::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1_000), ..ProptestConfig::default() })]

    #[test]
    fn at_most_one_leads_and_somebody_leads_when_it_is_calm(
        replicas in 1..4_usize,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut world = World::new(replicas);
        for step in &steps {
            world.apply(step);
        }

        // From here on nobody fails. Requests that are on their way end, and
        // every replica makes a round in every follower's longest pause.
        for index in 0..replicas {
            while !matches!(world.replicas[index].phase, Phase::Idle) {
                world.apply(&Step::Go(index));
            }
        }
        while !world.abandoned.is_empty() {
            world.apply(&Step::Arrive(0));
        }
        let timing = world.timing;
        let pause = timing.follower_pause(1.0);
        // One pause to see the record, the lease duration, one pause until the
        // next look, and one round for a late holder that steps down first.
        let limit = world.now + timing.lease_duration() + pause * 3;
        while world.leaders().is_empty() {
            prop_assert!(world.now <= limit, "nobody leads after {:?}", world.now);
            for index in 0..replicas {
                world.apply(&Step::Round(index));
            }
            world.apply(&Step::Pass(u64::try_from(pause.as_millis()).expect("small")));
        }

        // And the leader stays.
        let leader = world.leaders();
        for _ in 0..20 {
            for index in 0..replicas {
                world.apply(&Step::Round(index));
            }
            world.apply(&Step::Pass(u64::try_from(pause.as_millis()).expect("small")));
            prop_assert_eq!(&world.leaders(), &leader);
        }
    }
}

/// A healthy leader keeps the lease, and a clean stop passes it on in the next
/// round of another replica, without waiting for the lease to expire.
#[test]
fn a_clean_stop_passes_the_lease_on_at_once() {
    let mut world = World::new(2);
    for _ in 0..50 {
        world.apply(&Step::Round(0));
        world.apply(&Step::Round(1));
        world.apply(&Step::Pass(2_000));
    }
    assert_eq!(world.leaders(), ["replica-1"]);
    world.apply(&Step::Stop(0));
    assert!(
        world.leaders().is_empty(),
        "a stopping leader leads no more"
    );
    world.apply(&Step::Go(0));
    world.apply(&Step::Round(1));
    assert_eq!(world.leaders(), ["replica-2"]);
    assert_eq!(world.leaders_seen.len(), 2);
}
