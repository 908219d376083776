//! Changes as they happen, as a stream of server-sent events.
//!
//! A stream that is asked for some holders tells of an address when it is theirs now,
//! and when it was theirs until now: so it knows which addresses it has told, or
//! would have. These are bounded; with more than [`MOST_KNOWN`] of them it tells of
//! every address that becomes free, rather than of too few.

use std::{collections::BTreeSet, net::IpAddr, ops::ControlFlow, time::Duration};

use axum::{
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use floe_api::rest::v2::{Change, ChangeKind, WatchQuery};
use floe_core::catalogue::Item;
use futures::{Stream, stream};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::{Interval, MissedTickBehavior, interval},
};

use super::{parameters::Parameters, problem::Refused, query::Wanted, view};
use crate::{
    rest::{
        Rest,
        access::{Access, Caller, Denied},
        openapi::Refusals,
    },
    store::News,
};

/// How many addresses a stream remembers.
const MOST_KNOWN: usize = 16_384;

/// How often a silent stream says that it is there.
const ALIVE: Duration = Duration::from_secs(15);

/// How often it is asked whether the caller still may follow.
const AGAIN: Duration = Duration::from_mins(1);

/// How often in a row nobody may be able to tell.
const DOUBTS: u32 = 5;

/// Follow changes as they happen
///
/// Right: `list floatingips.galaxy.k8s.io`. A stream of server-sent events, whose data are
/// `Change`. The first event is `Relisted`: list then, and follow. With parameters, it
/// tells of addresses for which they hold now or held until the change; if that is more
/// than 16384 addresses, of every address that becomes free. A client that is too slow
/// misses some changes, and gets `Relisted`. The stream ends when the token is good no
/// more or the right is gone, which is looked at every minute.
#[utoipa::path(
    get, path = "/v2/watch", tag = "watch", operation_id = "watch", params(WatchQuery),
    responses(
        (status = 200, description = "Events without end", body = Change, content_type = "text/event-stream"),
        Refusals,
    ),
)]
pub async fn watch(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Sse<impl Stream<Item = Result<Event, axum::Error>>>, Refused> {
    caller.may(&Access::ips("list")).await?;
    let wanted = parameters.read(|all| Ok(Wanted::take(all)))?;
    let follower = Follower::new(rest, caller, wanted);
    let events = stream::unfold(follower, async |mut follower| {
        let change = follower.next().await?;
        let event = Event::default().event(name(change.kind)).json_data(&change);
        Some((event, follower))
    });
    let alive = KeepAlive::new().interval(ALIVE).text("still here");
    Ok(Sse::new(events).keep_alive(alive))
}

/// Somebody who follows.
struct Follower {
    rest: Rest,
    caller: Caller,
    news: Receiver<News>,
    wanted: Wanted,
    known: Known,
    again: Interval,
    /// How often in a row nobody could tell whether he still may follow.
    doubts: u32,
    has_begun: bool,
}

/// For which addresses the parameters held when they were last looked at.
enum Known {
    /// Nobody needs to know: all are wanted.
    All,
    These(BTreeSet<IpAddr>),
    /// There are too many.
    Many,
}

impl Follower {
    fn new(rest: Rest, caller: Caller, wanted: Wanted) -> Self {
        let mut again = interval(AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        again.reset();
        Self {
            // Before anybody lists, so that nothing is missed between.
            news: rest.store.news(),
            known: Known::All,
            rest,
            caller,
            wanted,
            again,
            doubts: 0,
            has_begun: false,
        }
    }

    /// The next change to tell; `None` at the end.
    async fn next(&mut self) -> Option<Change> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(self.relisted());
        }
        loop {
            tokio::select! {
                news = self.news.recv() => match self.note(&news) {
                    ControlFlow::Continue(None) => {}
                    ControlFlow::Continue(change) => return change,
                    ControlFlow::Break(()) => return None,
                },
                _ = self.again.tick() => if !self.still_may().await {
                    return None;
                },
            }
        }
    }

    async fn still_may(&mut self) -> bool {
        match self.caller.still_may(&Access::ips("list")).await {
            Ok(()) => self.doubts = 0,
            // Nobody can tell now. A while ago he could.
            Err(Denied::Undecided(_)) => self.doubts += 1,
            Err(Denied::Forbidden { .. } | Denied::Unauthenticated(_)) => return false,
        }
        self.doubts < DOUBTS
    }

    /// What there is to tell of the news; a break at their end.
    fn note(&mut self, news: &Result<News, RecvError>) -> ControlFlow<(), Option<Change>> {
        ControlFlow::Continue(match news {
            Ok(News::Freed(ip) | News::Changed(ip)) => self.changed(*ip),
            Ok(News::Configured) => Some(Change {
                kind: ChangeKind::Configured,
                ip: None,
            }),
            Ok(News::Relisted) | Err(RecvError::Lagged(_)) => Some(self.relisted()),
            Ok(News::Pool(_)) => None,
            Err(RecvError::Closed) => return ControlFlow::Break(()),
        })
    }

    fn relisted(&mut self) -> Change {
        self.known = self.look();
        Change {
            kind: ChangeKind::Relisted,
            ip: None,
        }
    }

    fn look(&self) -> Known {
        if self.wanted.is_everything() {
            return Known::All;
        }
        self.rest.directory.look(|catalogue| {
            let rows = catalogue.rows();
            let wanted = rows.filter(|row| self.wanted.admits_row(row));
            let known: BTreeSet<IpAddr> = wanted.map(|row| row.ip).take(MOST_KNOWN + 1).collect();
            if known.len() > MOST_KNOWN {
                Known::Many
            } else {
                Known::These(known)
            }
        })
    }

    /// What is told of an address that has changed, as it is now.
    fn changed(&mut self, ip: IpAddr) -> Option<Change> {
        let item = self.rest.directory.get(ip).unwrap_or(Item::Free(ip));
        let kind = match &item {
            Item::Held(_) => ChangeKind::Changed,
            Item::Free(_) => ChangeKind::Freed,
        };
        let admitted = self.wanted.admits(&item);
        let was = self
            .known
            .update(ip, admitted && kind == ChangeKind::Changed);
        let was = was.unwrap_or(kind == ChangeKind::Freed);
        (admitted || was).then(|| Change {
            kind,
            ip: Some(view::one(&self.rest, &item)),
        })
    }
}

impl Known {
    /// Notes whether the parameters hold for an address now, and tells whether they
    /// did before; `None` if nobody knows.
    fn update(&mut self, ip: IpAddr, now: bool) -> Option<bool> {
        let known = match self {
            Self::All => return Some(true),
            Self::Many => return None,
            Self::These(known) => known,
        };
        if !now {
            return Some(known.remove(&ip));
        }
        let was = !known.insert(ip);
        if known.len() > MOST_KNOWN {
            *self = Self::Many;
        }
        Some(was)
    }
}

fn name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Changed => "Changed",
        ChangeKind::Freed => "Freed",
        ChangeKind::Configured => "Configured",
        ChangeKind::Relisted => "Relisted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_knows_what_it_told_until_that_is_too_much() {
        let ip = |number: usize| {
            let number = u32::try_from(number).unwrap();
            IpAddr::from(std::net::Ipv4Addr::from_bits(number))
        };
        let mut known = Known::These(BTreeSet::new());
        assert_eq!(known.update(ip(1), true), Some(false));
        assert_eq!(known.update(ip(1), true), Some(true));
        assert_eq!(known.update(ip(1), false), Some(true));
        assert_eq!(known.update(ip(1), false), Some(false));
        for number in 0..=MOST_KNOWN {
            assert_eq!(known.update(ip(number), true), Some(false));
        }
        assert_eq!(known.update(ip(1), false), None);
        assert_eq!(Known::All.update(ip(1), false), Some(true));
    }
}
