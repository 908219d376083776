//! A small Deployment controller and a place that hands addresses out, in which
//! whatever can happen happens in any order: each update comes to its end, and never
//! is a pod missing because of floe that was not missing before.

use std::collections::BTreeSet;

use proptest::prelude::{any, prop, prop_assert, proptest};

use super::*;

/// A version of the Deployment.
#[derive(Clone, Debug)]
struct Set {
    revision: u64,
    wanted: usize,
    works: bool,
}

#[derive(Clone, Debug)]
struct Pod {
    number: i64,
    set: usize,
    holds: bool,
    ready: bool,
    leaving: bool,
}

#[derive(Clone, Debug)]
struct World {
    replicas: usize,
    strategy: Strategy,
    /// How many addresses there are for it.
    addresses: usize,
    /// How many pods have to be available for an eviction.
    budget: usize,
    paused: bool,
    sets: Vec<Set>,
    /// The version that is wanted.
    template: usize,
    pods: Vec<Pod>,
    made: i64,
    evictions: usize,
}

impl World {
    /// All pods of the first version run.
    fn new(replicas: usize, strategy: Strategy) -> Self {
        let mut world = Self {
            replicas,
            strategy,
            addresses: replicas,
            budget: 0,
            paused: false,
            sets: vec![Set {
                revision: 1,
                wanted: replicas,
                works: true,
            }],
            template: 0,
            pods: Vec::new(),
            made: 0,
            evictions: 0,
        };
        world.calm();
        assert!(world.is_done());
        world
    }

    fn update(&mut self, works: bool) {
        let revision = self.newest() + 1;
        self.sets.push(Set {
            revision,
            wanted: 0,
            works,
        });
        self.template = self.sets.len() - 1;
    }

    /// As `kubectl rollout undo`: an older version is the newest again.
    fn go_back_to(&mut self, set: usize) {
        if set != self.template {
            self.sets[set].revision = self.newest() + 1;
            self.template = set;
        }
    }

    fn newest(&self) -> u64 {
        self.sets.iter().map(|set| set.revision).max().unwrap()
    }

    fn of(&self, set: usize) -> impl Iterator<Item = &Pod> {
        let pods = self.pods.iter();
        pods.filter(move |pod| pod.set == set && !pod.leaving)
    }

    fn available(&self) -> usize {
        let up = |pod: &&Pod| pod.ready && !pod.leaving;
        self.pods.iter().filter(up).count()
    }

    fn is_done(&self) -> bool {
        let all = |pod: &Pod| pod.set == self.template && pod.ready && !pod.leaving;
        self.pods.len() == self.replicas && self.pods.iter().all(all)
    }

    /// What the Deployment controller does to the sizes of its `ReplicaSets`.
    fn control(&mut self) {
        if self.paused {
            return;
        }
        let replicas = u32::try_from(self.replicas).unwrap();
        let total = |sets: &[Set]| sets.iter().map(|set| set.wanted).sum::<usize>();
        let most = self.replicas + self.strategy.surge(replicas) as usize;
        let least = self.replicas - self.strategy.unavailable(replicas) as usize;
        let room = most.saturating_sub(total(&self.sets));
        let new = &mut self.sets[self.template];
        let missing = self.replicas.saturating_sub(new.wanted);
        if missing.min(room) > 0 {
            new.wanted += missing.min(room);
            return;
        }
        let new_up = self.of(self.template).filter(|pod| pod.ready).count();
        let new_down = self.sets[self.template].wanted.saturating_sub(new_up);
        let mut spare = total(&self.sets).saturating_sub(least + new_down);
        let old: Vec<usize> = (0..self.sets.len())
            .filter(|set| *set != self.template)
            .collect();
        for &set in &old {
            let up = self.of(set).filter(|pod| pod.ready).count();
            let down = self.sets[set].wanted.saturating_sub(up).min(spare);
            self.sets[set].wanted -= down;
            spare -= down;
        }
        let mut spare = spare.min(self.available().saturating_sub(least));
        for &set in &old {
            let down = self.sets[set].wanted.min(spare);
            self.sets[set].wanted -= down;
            spare -= down;
        }
    }

    /// What the `ReplicaSets` do: those that do not run go first, and the youngest.
    fn scale(&mut self) {
        for set in 0..self.sets.len() {
            let (is, wanted) = (self.of(set).count(), self.sets[set].wanted);
            for _ in is..wanted {
                self.made += 1;
                self.pods.push(Pod {
                    number: self.made,
                    set,
                    holds: false,
                    ready: false,
                    leaving: false,
                });
            }
            for _ in wanted..is {
                let number = self
                    .of(set)
                    .min_by_key(|pod| (pod.ready, pod.holds, -pod.number))
                    .unwrap()
                    .number;
                self.remove(number);
            }
        }
    }

    /// One that runs needs a moment to go.
    fn remove(&mut self, number: i64) {
        let pod = self.pods.iter_mut().find(|pod| pod.number == number);
        let pod = pod.unwrap();
        if pod.holds {
            pod.leaving = true;
            pod.ready = false;
        } else {
            self.pods.retain(|pod| pod.number != number);
        }
    }

    /// One that leaves is gone.
    fn bury(&mut self) {
        self.pods.retain(|pod| !pod.leaving);
    }

    /// The scheduler comes with a pod, with whichever it likes.
    fn ask(&mut self, choice: usize) {
        let waiting = |pod: &&Pod| !pod.holds && !pod.leaving;
        let waiting: Vec<Pod> = self.pods.iter().filter(waiting).cloned().collect();
        let held = self.pods.iter().filter(|pod| pod.holds).count();
        if waiting.is_empty() || held >= self.addresses {
            return;
        }
        let newest = self.newest();
        let is_unproven = |pod: &Pod| {
            let revision = self.sets[pod.set].revision;
            revision == newest && pod.holds && !pod.ready && !pod.leaving
        };
        let unproven = self.pods.iter().any(is_unproven).then_some(newest);
        let rank = |pod: &Pod| precedence(self.sets[pod.set].revision, unproven);
        let chosen = &waiting[choice % waiting.len()];
        if waiting.iter().all(|other| rank(other) <= rank(chosen)) {
            let number = chosen.number;
            let pod = self.pods.iter_mut().find(|pod| pod.number == number);
            pod.unwrap().holds = true;
        }
    }

    fn start(&mut self) {
        for pod in &mut self.pods {
            pod.ready |= pod.holds && !pod.leaving && self.sets[pod.set].works;
        }
    }

    /// The node of a pod is gone, and the pod with it.
    fn lose(&mut self, choice: usize) {
        if !self.pods.is_empty() {
            self.pods.remove(choice % self.pods.len());
        }
    }

    /// A pod is not ready for a while.
    fn falter(&mut self, choice: usize) {
        if !self.pods.is_empty() {
            let place = choice % self.pods.len();
            self.pods[place].ready = false;
        }
    }

    fn picture(&self) -> Picture {
        let member = |pod: &Pod| Member {
            name: format!("pod-{}", pod.number),
            uid: format!("uid-{}", pod.number),
            revision: self.sets[pod.set].revision,
            created: Timestamp::from_second(pod.number).unwrap(),
            health: match (pod.leaving, pod.ready) {
                (true, _) => Health::Leaving,
                (false, true) => Health::Available,
                (false, false) => Health::Unavailable,
            },
            address: if pod.holds { HOLDS } else { Address::Lacks },
        };
        Picture {
            handling: Handling::Handover,
            rolling: true,
            paused: self.paused,
            replicas: u32::try_from(self.replicas).unwrap(),
            allowance: self
                .strategy
                .unavailable(u32::try_from(self.replicas).unwrap()),
            newest: self.newest(),
            pods: self.pods.iter().map(member).collect(),
        }
    }

    /// What floe does.
    fn help(&mut self) {
        let Step::Evict(eviction) = decide(&self.picture()) else {
            return;
        };
        assert!(!self.paused);
        let before = self.available();
        let found = |pod: &&Pod| format!("uid-{}", pod.number) == eviction.uid;
        let pod = self.pods.iter().find(found).unwrap().clone();
        assert_ne!(pod.set, self.template, "no pod of the wanted version goes");
        assert!(pod.holds && !pod.leaving);
        assert_eq!(pod.ready, eviction.available);
        assert_eq!(eviction.outage, pod.ready && before == 1);
        if pod.ready && before <= self.budget {
            return;
        }
        self.remove(pod.number);
        self.evictions += 1;
        if pod.ready {
            assert!(self.available() + 1 >= self.replicas, "{self:?}");
        }
    }

    /// Everything happens that can happen by itself.
    fn calm(&mut self) {
        for round in 0..self.replicas * 40 + 80 {
            self.control();
            self.scale();
            self.ask(round);
            self.ask(round + 1);
            self.start();
            self.help();
            self.bury();
        }
    }

    fn act(&mut self, action: u8, choice: usize) {
        match action % 10 {
            0 | 1 => self.control(),
            2 => self.scale(),
            3 | 4 => self.ask(choice),
            5 => self.start(),
            6 => self.help(),
            7 => self.bury(),
            8 => self.lose(choice),
            _ => self.falter(choice),
        }
    }

    fn revisions(&self) -> BTreeSet<u64> {
        let pods = self.pods.iter();
        pods.map(|pod| self.sets[pod.set].revision).collect()
    }
}

const SIZES: [usize; 4] = [1, 2, 3, 10];

#[test]
fn updates_of_all_sizes_end() {
    for replicas in SIZES {
        let mut world = World::new(replicas, Strategy::default());
        world.update(true);
        world.calm();
        assert!(world.is_done(), "{world:?}");
        // From four replicas on the Deployment controller takes old pods away itself.
        assert_eq!(world.evictions, if replicas < 4 { replicas } else { 0 });
    }
}

#[test]
fn without_help_small_ones_never_end() {
    for replicas in [1, 2, 3] {
        let mut world = World::new(replicas, Strategy::default());
        world.budget = replicas;
        world.update(true);
        world.calm();
        assert!(!world.is_done());
        assert_eq!(world.available(), replicas);
    }
}

#[test]
fn a_version_that_fails_takes_one_pod_at_most_and_undo_brings_it_back() {
    for replicas in [1, 2, 3] {
        let mut world = World::new(replicas, Strategy::default());
        world.update(false);
        world.calm();
        assert_eq!(world.available(), replicas - 1, "{world:?}");
        assert_eq!(world.evictions, 1);
        world.go_back_to(0);
        world.calm();
        assert!(world.is_done(), "{world:?}");

        // A third version helps as well.
        let mut world = World::new(replicas, Strategy::default());
        world.update(false);
        world.calm();
        world.update(true);
        world.calm();
        assert!(world.is_done(), "{world:?}");
    }
}

#[test]
fn what_a_lost_pod_leaves_goes_to_its_replacement_while_the_new_version_fails() {
    let three = Strategy::rolling(Some(Amount::Percent(25)), Some(Amount::Pods(3)));
    let mut world = World::new(3, three);
    world.update(false);
    world.calm();
    assert_eq!(world.available(), 2);
    let old = world.pods.iter().position(|pod| pod.ready).unwrap();
    world.lose(old);
    world.calm();
    assert_eq!(world.available(), 2, "{world:?}");
    assert_eq!(world.revisions(), [1, 2].into());
}

#[test]
fn a_pause_stops_it_and_it_goes_on_afterwards() {
    let mut world = World::new(2, Strategy::default());
    world.update(true);
    world.control();
    world.scale();
    world.paused = true;
    world.calm();
    assert_eq!((world.available(), world.evictions), (2, 0));
    world.paused = false;
    world.calm();
    assert!(world.is_done());
}

proptest! {
    #[test]
    fn whatever_happens_no_pod_is_missing_because_of_floe_and_updates_end(
        size in 0_usize..4,
        surge in 0_u32..4,
        spare in 0_usize..3,
        story in prop::collection::vec((any::<u8>(), any::<usize>()), 0..400),
    ) {
        let strategies = [
            Strategy::default(),
            Strategy::rolling(Some(Amount::Pods(0)), Some(Amount::Pods(2))),
            Strategy::rolling(Some(Amount::Pods(1)), Some(Amount::Pods(0))),
            Strategy::rolling(Some(Amount::Percent(50)), Some(Amount::Percent(100))),
        ];
        let strategy = strategies[surge as usize];
        let mut world = World::new(SIZES[size], strategy);
        // A pool may have more addresses than the Deployment has replicas.
        world.addresses += spare;
        for (place, (action, choice)) in story.into_iter().enumerate() {
            match (place % 60, action % 4) {
                (59, 0) => world.update(false),
                (59, 1) => world.go_back_to(choice % world.sets.len()),
                (59, 2) => world.paused = !world.paused,
                (59, _) => world.update(true),
                _ => world.act(action, choice),
            }
        }
        world.paused = false;
        if !world.sets[world.template].works {
            world.go_back_to(0);
        }
        world.calm();
        prop_assert!(world.is_done(), "{world:?}");
    }
}
