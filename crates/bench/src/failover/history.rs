//! What became of packets that were sent at a steady pace, and what that tells about
//! a move.

use std::time::Duration;

/// An answer that comes later than this is none.
pub const LATE: Duration = Duration::from_secs(1);
/// How long ago a packet must have been sent before it is missed.
const MISSED: Duration = Duration::from_millis(200);

/// A packet. Times count from the beginning of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was sent.
    pub sent: Duration,
    /// When its answer came.
    pub answered: Option<Duration>,
}

/// Packets in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Packet>);

/// What a move cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Packets without an answer, or with a late one.
    pub lost: u32,
    /// The longest time in which no answer came.
    pub gap: Duration,
    /// When the first packet after the last lost one was answered; `None` when no packet
    /// was lost.
    pub over: Option<Duration>,
}

/// The middle and the worst of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread<T> {
    /// Half of them were no worse.
    pub p50: T,
    /// The worst.
    pub max: T,
}

impl Packet {
    fn is_lost(&self) -> bool {
        self.answered
            .is_none_or(|answered| answered.saturating_sub(self.sent) > LATE)
    }
}

impl History {
    /// Notes a packet that is about to be sent, and returns its number.
    pub fn send(&mut self, at: Duration) -> usize {
        self.0.push(Packet {
            sent: at,
            answered: None,
        });
        self.0.len() - 1
    }

    /// Notes an answer. Of several the first counts; what was never sent is nothing.
    pub fn answer(&mut self, number: usize, at: Duration) {
        if let Some(packet) = self.0.get_mut(number) {
            packet.answered.get_or_insert(at);
        }
    }

    /// Whether all packets of the last `span` were answered, those apart that were sent
    /// just before `now`.
    pub fn is_steady(&self, now: Duration, span: Duration) -> bool {
        let (Some(end), Some(first)) = (now.checked_sub(MISSED), self.0.first()) else {
            return false;
        };
        // What is younger than the span cannot tell.
        let Some(start) = end.checked_sub(span).filter(|it| *it >= first.sent) else {
            return false;
        };
        let mut looked_at = self
            .0
            .iter()
            .rev()
            .skip_while(|it| it.sent > end)
            .take_while(|it| it.sent >= start)
            .peekable();
        looked_at.peek().is_some() && looked_at.all(|it| !it.is_lost())
    }

    /// When the first answer came.
    pub fn first_answer(&self) -> Option<Duration> {
        self.0.iter().filter_map(|it| it.answered).min()
    }

    /// Packets in a row that were lost after `from`: when the first of them was sent,
    /// and how many they were.
    pub fn holes(&self, from: Duration) -> Vec<(Duration, usize)> {
        let after: Vec<&Packet> = self.0.iter().filter(|it| it.sent >= from).collect();
        after
            .chunk_by(|one, other| one.is_lost() == other.is_lost())
            .filter(|run| run[0].is_lost())
            .map(|run| (run[0].sent, run.len()))
            .collect()
    }

    /// What something cost that happened at `from`. There is no saying before packets
    /// are answered again, nor if none was answered before.
    pub fn outage(&self, from: Duration) -> Option<Outage> {
        let start = self.0.iter().position(|it| it.sent >= from)?;
        let after = &self.0[start..];
        let lost = after.iter().filter(|it| it.is_lost()).count();
        let over = match after.iter().rposition(Packet::is_lost) {
            None => None,
            Some(end) => Some(after[end + 1..].iter().filter_map(|it| it.answered).min()?),
        };
        let mut answers: Vec<Duration> = self.0.iter().filter_map(|it| it.answered).collect();
        answers.sort_unstable();
        let begin = answers.iter().rposition(|it| *it <= from)?;
        let gaps = answers[begin..]
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]));
        Some(Outage {
            lost: u32::try_from(lost).unwrap_or(u32::MAX),
            gap: gaps.max()?,
            over,
        })
    }
}

impl Outage {
    /// How long packets were lost after somebody knew.
    pub fn after(&self, known: Duration) -> Duration {
        self.over
            .map_or(Duration::ZERO, |over| over.saturating_sub(known))
    }
}

impl<T: Ord + Copy> Spread<T> {
    /// Of these; none without any.
    pub fn of(values: impl IntoIterator<Item = T>) -> Option<Self> {
        let mut values: Vec<T> = values.into_iter().collect();
        values.sort_unstable();
        Some(Self {
            p50: *values.get(values.len().div_ceil(2).checked_sub(1)?)?,
            max: *values.last()?,
        })
    }
}

#[cfg(test)]
mod tests;
