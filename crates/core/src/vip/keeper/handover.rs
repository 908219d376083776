//! Planned moves: the holder names a successor, the successor prepares, the holder falls
//! silent, and only then gives the address away.

use std::time::Duration;

use super::{
    act::{Act, Change},
    agenda::Agenda,
    entry::Entry,
    scene::{Scene, is_to_be_held},
    serving::Kernel,
    view::{Holding, Successor},
};
use crate::vip::{
    Candidate, Mode,
    elect::{self, Health, MoveReason, Verdict},
};

/// How long a successor may take to be prepared, while the holder cannot serve well.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same while the holder can: somebody wishes the move, but nobody waits for it.
const UNHURRIED: Duration = Duration::from_secs(30);

/// How long one that was not prepared in time is left out.
const LEFT_OUT: Duration = Duration::from_secs(5);

/// How long a fit holder may be missing among the candidates, whose list may be late.
const UNLISTED: Duration = Duration::from_secs(3);

/// What should become of an address that this node holds.
enum Wish {
    Keep,
    Give(Vec<Candidate>, MoveReason),
    LetGo(MoveReason),
}

/// Does what is to be done about an address that this node holds in this term.
pub(super) fn tend(
    entry: &mut Entry,
    term: i64,
    scene: &Scene<'_>,
    kernel: &Kernel,
    agenda: &mut Agenda,
) -> Option<Act> {
    entry.passed.retain(|_, at| !agenda.due(at.after(LEFT_OUT)));
    let wish = wish(entry, scene, agenda);
    let change = match entry.view.successor.clone() {
        Some(successor) => accompany(entry, &successor, wish, term, scene, agenda),
        None => begin(entry, wish, term, scene),
    };
    let Some(change) = change else {
        entry.yielding = None;
        // Given up, and yet still held: only a write can tell whether that is so.
        if entry.is_given(term) {
            let change = Change::Hold {
                holder: entry.view.holder.clone()?,
                moves: entry.view.moves,
                reason: None,
            };
            return entry.commit(agenda, |entry| entry.write(change));
        }
        return None;
    };
    let target = match &change {
        Change::Hold { holder, .. } if holder.candidate.node != scene.me => {
            Some(holder.candidate.uid.clone())
        }
        Change::Release { .. } => Some(String::new()),
        Change::Hold { .. } | Change::Nominate(_) | Change::Dismiss => None,
    };
    entry.yielding.clone_from(&target);
    if target.is_none() {
        return entry.commit(agenda, |entry| entry.write(change));
    }
    // Others may serve as soon as this is written.
    if !kernel.is_silent(entry, agenda) {
        return None;
    }
    entry.commit(agenda, |entry| entry.give_up(term, change))
}

/// Prepares to be the next holder, and says so once the kernel is prepared.
pub(super) fn prepare(
    entry: &mut Entry,
    scene: &Scene<'_>,
    kernel: &Kernel,
    agenda: &mut Agenda,
) -> Option<Act> {
    let term = scene.term?;
    let successor = entry.view.successor.as_ref()?;
    if successor.ready && successor.term == term || !kernel.is_prepared(&entry.view.id) {
        return None;
    }
    let successor = Successor {
        candidate: scene.fresh(&successor.candidate),
        term,
        ready: true,
        reason: successor.reason.clone(),
    };
    entry.commit(agenda, |entry| entry.write(Change::Nominate(successor)))
}

/// Whether this node is to be the next holder after another one, and can be.
pub(super) fn is_called(entry: &Entry, scene: &Scene<'_>) -> bool {
    let by_another = entry
        .view
        .holder
        .as_ref()
        .is_some_and(|it| it.candidate.node != scene.me);
    let successor = entry.view.successor.as_ref();
    by_another
        && is_to_be_held(&entry.view)
        && successor.is_some_and(|it| scene.is_fit_here(entry, &it.candidate))
}

/// What this node would do if nobody had named a successor.
fn wish(entry: &mut Entry, scene: &Scene<'_>, agenda: &mut Agenda) -> Wish {
    if !is_to_be_held(&entry.view) {
        return Wish::LetGo(MoveReason::Requested);
    }
    let Some(holder) = entry.view.holder.as_ref() else {
        return Wish::Keep;
    };
    let holder = holder.candidate.clone();
    let is_listed = entry.view.electable().any(|it| it.uid == holder.uid);
    let others: Vec<&Candidate> = entry
        .view
        .candidates
        .iter()
        .filter(|it| it.uid != holder.uid && scene.may_be_fit(entry, it))
        .filter(|it| !entry.passed.contains_key(&it.uid))
        .collect();
    // Which nodes are named is an order, and no list that may be late.
    if holder.mode == Mode::Node && !is_listed && entry.unable.is_none() {
        return obey(entry, others, scene);
    }
    let mut health = scene.health(&holder);
    if is_listed || health != Health::Fit || others.is_empty() {
        entry.unlisted = None;
    } else if agenda.due(entry.unlisted.get_or_insert(agenda.now).after(UNLISTED)) {
        health = Health::Unclaimed;
    }
    if entry.unable.is_some() || entry.unheard.is_some() && !others.is_empty() {
        health = Health::CannotServe;
    }
    if scene.stopping && matches!(health, Health::Fit | Health::Unready { .. }) {
        let failover = &entry.view.failover;
        let to = elect::rank(others, &failover.preferred, &scene.load);
        if to.is_empty() {
            return Wish::Keep;
        }
        return Wish::Give(to.into_iter().cloned().collect(), MoveReason::AgentStopping);
    }
    let pod = elect::Holder {
        pod: &holder.pod,
        uid: &holder.uid,
        health,
        moved: entry.moved,
    };
    let failover = &entry.view.failover;
    let verdict = elect::judge(pod, others, failover, &scene.load, agenda.now);
    if let Some(at) = verdict.until() {
        agenda.due(at);
    }
    match verdict {
        Verdict::Stay(_) => Wish::Keep,
        Verdict::Move { to, reason } => Wish::Give(to.into_iter().cloned().collect(), reason),
        Verdict::Vacate { reason } => Wish::LetGo(reason),
    }
}

/// What becomes of the address of a node that is not named any more. While those that are
/// named cannot have it, it stays: it is not better off with nobody.
fn obey(entry: &Entry, others: Vec<&Candidate>, scene: &Scene<'_>) -> Wish {
    if entry.view.electable().next().is_none() {
        return Wish::LetGo(MoveReason::Requested);
    }
    if others.is_empty() {
        return Wish::Keep;
    }
    let to = elect::rank(others, &entry.view.failover.preferred, &scene.load);
    Wish::Give(to.into_iter().cloned().collect(), MoveReason::Requested)
}

/// Names a successor, or changes pods on this node.
fn begin(entry: &mut Entry, wish: Wish, term: i64, scene: &Scene<'_>) -> Option<Change> {
    entry.nominee = None;
    match wish {
        Wish::Keep => None,
        Wish::LetGo(reason) => Some(Change::Release {
            moves: entry.view.moves.saturating_add(1),
            reason,
        }),
        Wish::Give(to, reason) => to.first().map(|best| {
            if best.node == scene.me {
                return change_pods(entry, best, term, reason, scene);
            }
            Change::Nominate(Successor {
                candidate: best.clone(),
                term: 0,
                ready: false,
                reason: reason.reason().to_owned(),
            })
        }),
    }
}

/// Goes on with a successor that was named, by this node or by somebody else.
fn accompany(
    entry: &mut Entry,
    successor: &Successor,
    wish: Wish,
    term: i64,
    scene: &Scene<'_>,
    agenda: &mut Agenda,
) -> Option<Change> {
    let uid = &successor.candidate.uid;
    let reason = MoveReason::parse(&successor.reason).unwrap_or(MoveReason::Requested);
    let holder = entry.view.holder.as_ref();
    let is_holder = holder.is_some_and(|it| it.candidate.uid == *uid);
    if !is_to_be_held(&entry.view) {
        return begin(entry, wish, term, scene);
    }
    // The holder is well again before anything was given away.
    let was_unfit = !matches!(reason, MoveReason::Requested | MoveReason::Failback);
    if is_holder || was_unfit && matches!(wish, Wish::Keep) && entry.passed.is_empty() {
        return Some(Change::Dismiss);
    }
    if successor.candidate.node == scene.me {
        if scene.is_fit_here(entry, &successor.candidate) {
            return Some(change_pods(
                entry,
                &successor.candidate,
                term,
                reason,
                scene,
            ));
        }
        return Some(Change::Dismiss);
    }
    let is_listed = entry.view.electable().any(|it| it.uid == *uid);
    if successor.ready && is_listed {
        return Some(Change::Hold {
            holder: Holding {
                candidate: successor.candidate.clone(),
                term: successor.term,
            },
            moves: entry.view.moves.saturating_add(1),
            reason: Some(reason),
        });
    }
    let since = match &entry.nominee {
        Some((known, since)) if known == uid => *since,
        _ => agenda.now,
    };
    entry.nominee = Some((uid.clone(), since));
    // A node that is to give its address away serves as well as before.
    let is_node = holder.is_some_and(|it| it.candidate.mode == Mode::Node) && !scene.stopping;
    let is_unhurried = !was_unfit && (is_node || matches!(wish, Wish::Keep));
    let patience = if is_unhurried { UNHURRIED } else { PATIENCE };
    let is_passed = !is_unhurried && entry.passed.contains_key(uid);
    // Who could have it is told by another way than who is to have it, and may come later.
    let may_come = is_listed || is_unhurried;
    if may_come && !is_passed && !agenda.due(since.after(patience)) {
        return None;
    }
    entry.passed.insert(uid.clone(), agenda.now);
    agenda.due(agenda.now.after(LEFT_OUT));
    let rest = match wish {
        Wish::Give(to, reason) => {
            Wish::Give(to.into_iter().filter(|it| it.uid != *uid).collect(), reason)
        }
        Wish::Keep | Wish::LetGo(_) => wish,
    };
    begin(entry, rest, term, scene).or(Some(Change::Dismiss))
}

fn change_pods(
    entry: &Entry,
    to: &Candidate,
    term: i64,
    reason: MoveReason,
    scene: &Scene<'_>,
) -> Change {
    Change::Hold {
        holder: Holding {
            candidate: scene.fresh(to),
            term,
        },
        moves: entry.view.moves.saturating_add(1),
        reason: Some(reason),
    }
}
