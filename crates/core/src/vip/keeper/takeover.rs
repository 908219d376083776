//! Taking what nobody serves: addresses without a holder, of a term that is over, or of an
//! earlier term of this node itself.

use std::{collections::BTreeMap, time::Duration};

use super::{
    act::{Act, Change},
    agenda::{Agenda, before},
    entry::Entry,
    pledges::Pledges,
    rivals::Rivals,
    scene::{Scene, is_to_be_held},
    serving::Kernel,
    view::Holding,
};
use crate::{
    lease::Moment,
    vip::{
        Candidate, Mode, VipId,
        elect::{self, MoveReason, Vacant, Verdict},
    },
};

/// How long a node is waited for that takes other addresses meanwhile: it may be unable to
/// serve this one.
const LONGEST: Duration = Duration::from_secs(10);

/// The same for an address that never had a holder: nobody misses it, and whoever is
/// impatient takes what another one is about to write.
const LONGEST_FIRST: Duration = Duration::from_mins(1);

/// How an address stands towards this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The object is gone.
    Gone,
    /// This node has it in the running term.
    Mine,
    /// This node had it in a term that is over.
    WasMine,
    /// Nobody serves it.
    Vacant,
    /// Its holder's node is about to be judged silent.
    Suspect,
    /// Another node has it.
    Held,
}

/// How an address stands towards this node.
pub(super) fn standing(
    entry: &Entry,
    scene: &Scene<'_>,
    rivals: &mut Rivals,
    pledges: &Pledges,
    agenda: &mut Agenda,
) -> Standing {
    if entry.gone {
        return Standing::Gone;
    }
    let Some(holder) = &entry.view.holder else {
        return Standing::Vacant;
    };
    if holder.candidate.node == scene.me {
        return match scene.term {
            Some(term) if term == holder.term => Standing::Mine,
            _ => Standing::WasMine,
        };
    }
    if rivals.is_over(holder, agenda) {
        return Standing::Vacant;
    }
    // Who cannot take it need not wake up for it.
    if scene.can_have(entry) && rivals.is_suspect(holder, pledges, scene.timing.margin, agenda) {
        return Standing::Suspect;
    }
    Standing::Held
}

/// Who comes first for what is vacant or will be, spread evenly.
pub(super) fn plan<'a>(
    entries: &'a BTreeMap<VipId, Entry>,
    standings: &BTreeMap<VipId, Standing>,
    scene: &Scene<'_>,
    rivals: &Rivals,
) -> BTreeMap<&'a VipId, Vec<&'a Candidate>> {
    let mut vacant = BTreeMap::new();
    for (id, entry) in entries {
        let suspect = match standings.get(id) {
            Some(Standing::Vacant) => None,
            Some(Standing::Suspect) => entry.view.holder.as_ref().map(|it| &it.candidate.node),
            _ => continue,
        };
        let candidates = entry.view.candidates.iter().filter(|it| {
            !rivals.is_silent(&it.node) && Some(&it.node) != suspect && scene.may_be_fit(entry, it)
        });
        let one = Vacant {
            candidates: candidates.collect(),
            preferred: &entry.view.failover.preferred,
            first: entry.planned.as_deref(),
            turn: entry.view.born,
        };
        vacant.insert(id, one);
    }
    elect::plan(&vacant, &scene.load)
}

/// What to do about an address that is vacant or will be.
pub(super) struct Taking {
    /// Whether a term is needed for it by now.
    pub wanted: bool,
    /// What to do.
    pub act: Option<Act>,
}

/// What is known about other nodes.
#[derive(Clone, Copy)]
pub(super) struct Others<'a> {
    pub rivals: &'a Rivals,
    /// When they were last seen to get an address.
    pub busy: &'a BTreeMap<String, Moment>,
    /// Whether this node still writes what it is the first one for. With a slow server all
    /// of them do; who takes the part of others meanwhile only makes it slower.
    pub is_occupied: bool,
}

/// Takes a vacant address when it is this node's turn.
pub(super) fn take(
    entry: &mut Entry,
    ranked: &[Candidate],
    is_vacant: bool,
    scene: &Scene<'_>,
    others: Others<'_>,
    agenda: &mut Agenda,
) -> Taking {
    let mut taking = Taking {
        wanted: false,
        act: None,
    };
    let holder_before = entry.view.holder.as_ref();
    let last = holder_before.map(|it| (it.candidate.node.clone(), it.term));
    let since = match &entry.vacant {
        _ if !is_vacant => {
            entry.vacant = None;
            agenda.now
        }
        Some((known, since)) if *known == last => *since,
        _ => {
            entry.vacant = Some((last, agenda.now));
            agenda.now
        }
    };
    if !is_to_be_held(&entry.view) {
        return taking;
    }
    // The first of a node counts: it would take for that pod only.
    let mine = ranked.iter().find(|it| scene.is_fit_here(entry, it));
    let Some(mine) = mine else { return taking };
    let mut nodes: Vec<&str> = Vec::new();
    for it in ranked.iter().take_while(|it| it.node != scene.me) {
        if !nodes.contains(&it.node.as_str()) {
            nodes.push(&it.node);
        }
    }
    // Whoever lives takes what is its own, and may have much to take: as long as it is seen
    // to, it is waited for. Nobody misses an address that never had a holder. Only for
    // those that may be dead it is a matter of moments.
    let is_new = holder_before.is_none() && entry.view.moves == 0;
    if is_new && others.is_occupied && !nodes.is_empty() {
        return taking;
    }
    let longest = if is_new { LONGEST_FIRST } else { LONGEST };
    let mut turn = since;
    for node in nodes {
        let is_alive = is_new || others.rivals.is_heard(node, agenda.now);
        if let Some(last) = others.busy.get(node).filter(|_| is_alive) {
            turn = turn.max(*last).min(since.after(longest).max(turn));
        }
        // Its first address costs a node a term, too.
        turn = turn.after(if is_new {
            scene.timing.duration
        } else if is_alive {
            scene.timing.renew
        } else {
            scene.timing.stagger
        });
    }
    if !agenda.due(before(turn, scene.timing.margin)) {
        return taking;
    }
    taking.wanted = true;
    let Some(term) = scene.term.filter(|_| is_vacant) else {
        return taking;
    };
    if !agenda.due(turn) {
        return taking;
    }
    // Whoever let go of it without a successor has counted that as a move.
    let (moves, reason) = match &entry.view.holder {
        Some(_) => (entry.view.moves.saturating_add(1), MoveReason::NodeSilent),
        None => (entry.view.moves, MoveReason::FirstHolder),
    };
    let change = Change::Hold {
        holder: Holding {
            candidate: scene.fresh(mine),
            term,
        },
        moves,
        reason: Some(reason),
    };
    taking.act = entry.commit(agenda, |entry| entry.write(change));
    taking
}

/// Takes back what this node had in a term that is over, or lets go of it. No other node
/// can serve it by that holding, so there is nobody to wait for.
pub(super) fn reclaim(
    entry: &mut Entry,
    scene: &Scene<'_>,
    kernel: &Kernel,
    agenda: &mut Agenda,
) -> Taking {
    let mut taking = Taking {
        wanted: false,
        act: None,
    };
    let change = match &entry.view.holder {
        // What no other pod can have stays as it is for the next process of the agent.
        Some(_) if scene.stopping => return taking,
        Some(holder) => reclaiming(entry, holder, scene, agenda),
        None => return taking,
    };
    // A pod that had the address itself must be silent before another one gets it.
    let is_in_other_pod = |next: &Holding| {
        entry.view.holder.as_ref().is_some_and(|it| {
            it.candidate.mode == Mode::Direct && it.candidate.uid != next.candidate.uid
        })
    };
    let must_be_silent = match &change {
        Change::Hold { holder, .. } => {
            taking.wanted = true;
            if scene.term.is_none() {
                return taking;
            }
            is_in_other_pod(holder)
        }
        Change::Release { .. } | Change::Nominate(_) | Change::Dismiss => true,
    };
    if must_be_silent && !kernel.is_silent(entry, agenda) {
        return taking;
    }
    taking.act = entry.commit(agenda, |entry| entry.write(change));
    taking
}

fn reclaiming(entry: &Entry, holder: &Holding, scene: &Scene<'_>, agenda: &mut Agenda) -> Change {
    let view = &entry.view;
    let gone = |reason| Change::Release {
        moves: view.moves.saturating_add(1),
        reason,
    };
    // Without a term nothing is written that has one.
    let term = scene.term.unwrap_or_default();
    let hold = |candidate: &Candidate, moves, reason| Change::Hold {
        holder: Holding {
            candidate: scene.fresh(candidate),
            term,
        },
        moves,
        reason,
    };
    if !is_to_be_held(view) {
        return gone(MoveReason::Requested);
    }
    if entry.unable.is_some() {
        return gone(MoveReason::CannotServe);
    }
    let pod = elect::Holder {
        pod: &holder.candidate.pod,
        uid: &holder.candidate.uid,
        health: scene.health(&holder.candidate),
        moved: None,
    };
    let others = view
        .candidates
        .iter()
        .filter(|it| scene.may_be_fit(entry, it));
    let verdict = elect::judge(pod, others, &view.failover, &scene.load, agenda.now);
    match verdict {
        Verdict::Stay(_) => hold(&holder.candidate, view.moves, None),
        Verdict::Move { to, reason } => match to.iter().find(|it| it.node == scene.me) {
            Some(local) => hold(local, view.moves.saturating_add(1), Some(reason)),
            // Failback is no reason to let go.
            None if pod.health == elect::Health::Fit => hold(&holder.candidate, view.moves, None),
            None => gone(reason),
        },
        Verdict::Vacate { reason } => gone(reason),
    }
}
