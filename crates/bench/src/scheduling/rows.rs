//! What comes of all turns.
//!
//! Each row is about one round: the one whose ratio is in the middle of all. So figure and
//! reference are of the same minute, and one round in which the machine had something else
//! to do decides nothing.

use std::collections::BTreeMap;

use super::{Case, Part};
use crate::table::{Figure, Row, Wanted};

/// What is promised beside the bare loop.
const PROMISED: Wanted = Wanted::RatioAtLeast(0.8);

/// A bare loop that makes more writes than floe is no reference. Some room is left for
/// writes that belong to no pod.
const NOT_FEWER: Wanted = Wanted::RatioAtLeast(0.98);

/// What one turn came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// How many pods there were.
    pub pods: u32,
    /// Seconds from the first creation until the last pod was bound.
    pub bound: f64,
    /// The same until everything was written.
    pub written: f64,
    /// All writes that the API server has kept, for each pod.
    pub writes: f64,
    /// How long floe has computed for each pod, in seconds; zero without floe.
    pub computed: f64,
}

impl Measured {
    /// How many pods were bound each second.
    pub fn rate(&self) -> f64 {
        f64::from(self.pods) / self.bound
    }

    /// The same, with all that was left to write for them.
    fn rate_of_all(&self) -> f64 {
        f64::from(self.pods) / self.written
    }
}

/// One turn of each case.
pub type Round = BTreeMap<Case, Measured>;

/// What is promised, of one round.
pub fn ratios(round: &Round, parts: &[Part]) -> Vec<(&'static str, f64)> {
    let ratio = |part: &Part| {
        let [floe, bare] = part.pair();
        let (ours, theirs) = (round.get(&floe)?, round.get(&bare)?);
        Some((floe.text(), ours.rate() / theirs.rate()))
    };
    parts.iter().filter_map(ratio).collect()
}

/// The rows of the table.
pub fn of(rounds: &[Round], parts: &[Part]) -> Vec<Row> {
    let rate = |name: &str, cases, wanted| {
        let pair = middle(rounds, cases, Measured::rate);
        row(name, pair, Figure::PerSecond, wanted)
    };
    let mut rows = Vec::new();
    for [floe, bare] in parts.iter().map(|part| part.pair()) {
        let of_all = middle(rounds, (floe, bare), Measured::rate_of_all);
        let writes = middle(rounds, (floe, bare), |it| it.writes);
        let computed = middle(rounds, (floe, floe), |it| it.computed);
        let name = floe.text();
        let named = |what: &str| format!("{name}: {what}");
        rows.extend([
            rate(
                &named("pods bound, beside scheduler and bare writes"),
                (floe, bare),
                PROMISED,
            ),
            rate(
                &named("pods bound, beside the scheduler alone"),
                (floe, Case::Plain),
                Wanted::Nothing,
            ),
            rate(
                &named("the bare writes, beside the scheduler alone"),
                (bare, Case::Plain),
                Wanted::Nothing,
            ),
            row(
                &named("until all is written, beside the bare writes"),
                of_all,
                Figure::PerSecond,
                Wanted::Nothing,
            ),
            row(
                &named("writes for each pod, beside the bare ones"),
                writes,
                Figure::Count,
                NOT_FEWER,
            ),
        ]);
        // Without it the rows above have failed.
        rows.extend(computed.map(|(computed, _)| {
            let name = named("floe computes for each pod");
            Row::new(name, Figure::Seconds(computed), Wanted::Nothing)
        }));
    }
    rows
}

fn row(name: &str, pair: Option<(f64, f64)>, unit: fn(f64) -> Figure, wanted: Wanted) -> Row {
    match pair {
        Some((figure, reference)) => Row::new(name, unit(figure), wanted).against(unit(reference)),
        None => Row::failed(name, &anyhow::anyhow!("it had no turn")),
    }
}

/// A value of both cases in the round whose ratio is in the middle; of two in the middle
/// the lower one. `None` unless every round has both.
fn middle(
    rounds: &[Round],
    (case, reference): (Case, Case),
    value: impl Fn(&Measured) -> f64,
) -> Option<(f64, f64)> {
    let pair = |round: &Round| Some((value(round.get(&case)?), value(round.get(&reference)?)));
    let mut pairs: Vec<(f64, f64)> = rounds.iter().map(pair).collect::<Option<_>>()?;
    // Where case and reference are one, the value itself has to be in the middle.
    let rank = |(one, other): &(f64, f64)| (one / other, *one);
    pairs.sort_by(|one, other| {
        let (one, other) = (rank(one), rank(other));
        one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    pairs.get(pairs.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::{super::order, *};
    use crate::table::Table;

    fn turn(bound: f64) -> Measured {
        Measured {
            pods: 100,
            bound,
            written: bound + 1.0,
            writes: 5.0,
            computed: 0.001 * bound,
        }
    }

    /// Rounds of these seconds for gates and its reference; all else takes one.
    fn rounds(seconds: &[(f64, f64)]) -> Vec<Round> {
        let round = |(floe, bare): &(f64, f64)| {
            let cases = order(0, &Part::wanted(None)).into_iter();
            let mut round: Round = cases.map(|case| (case, turn(1.0))).collect();
            round.insert(Case::Gates, turn(*floe));
            round.insert(Case::BareGates, turn(*bare));
            round
        };
        seconds.iter().map(round).collect()
    }

    #[test]
    fn figure_and_reference_are_of_the_round_in_the_middle() {
        let rounds = rounds(&[(2.0, 1.0), (4.0, 4.0), (1.0, 4.0)]);
        let cases = (Case::Gates, Case::BareGates);
        // Ratios of rates: 0.5, 1 and 4. One slow round decides nothing.
        assert_eq!(middle(&rounds, cases, Measured::rate), Some((25.0, 25.0)));
        assert_eq!(
            middle(&rounds[..2], cases, Measured::rate),
            Some((50.0, 100.0))
        );
        assert_eq!(
            middle(&rounds[..1], cases, Measured::rate),
            Some((50.0, 100.0))
        );
        let alone = middle(&rounds, (Case::Gates, Case::Gates), |it| it.computed);
        assert_eq!(alone, Some((0.002, 0.002)));
    }

    #[test]
    fn each_round_tells_its_own_ratios() {
        let two = rounds(&[(2.0, 1.0), (4.0, 4.0)]);
        assert_eq!(
            ratios(&two[0], &Part::wanted(None)),
            [("gates", 0.5), ("extender", 1.0)]
        );
        assert_eq!(
            ratios(&two[1], &Part::wanted(None)),
            [("gates", 1.0), ("extender", 1.0)]
        );
        assert_eq!(ratios(&Round::new(), &Part::wanted(None)), []);
    }

    #[test]
    fn a_case_without_a_turn_is_no_figure() {
        let mut two = rounds(&[(1.0, 1.0), (1.0, 1.0)]);
        two[1].remove(&Case::BareGates);
        let cases = (Case::Gates, Case::BareGates);
        assert_eq!(middle(&two, cases, Measured::rate), None);
        assert_eq!(middle(&[], cases, Measured::rate), None);
        let mut table = Table::default();
        table.extend(of(&two, &Part::wanted(None)));
        assert!(!table.holds());
    }

    #[test]
    fn what_is_promised_is_the_ratio_to_the_bare_writes() {
        let holds = |seconds: &[(f64, f64)]| {
            let mut table = Table::default();
            table.extend(of(&rounds(seconds), &Part::wanted(None)));
            table.holds()
        };
        assert!(holds(&[(5.0, 4.0)]));
        assert!(!holds(&[(5.1, 4.0)]));
        // Slow beside the scheduler alone is no broken promise.
        assert!(holds(&[(500.0, 400.0)]));
    }

    #[test]
    fn a_reference_with_more_writes_than_floe_does_not_count() {
        let mut rounds = rounds(&[(1.0, 1.0)]);
        if let Some(bare) = rounds[0].get_mut(&Case::BareExtender) {
            bare.writes = 6.0;
        }
        let mut table = Table::default();
        table.extend(of(&rounds, &Part::wanted(None)));
        assert!(!table.holds());
    }
}
