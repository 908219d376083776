//! What was measured, beside what is wanted.

use std::{
    cmp::Ordering,
    fmt::{self, Display},
};

/// The rows in the order in which they were measured.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

/// One measurement.
pub struct Row {
    name: String,
    outcome: Outcome,
    wanted: Wanted,
}

enum Outcome {
    Measured {
        figure: Figure,
        reference: Option<Figure>,
    },
    Failed(String),
}

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// How many each second.
    PerSecond(f64),
    /// How long, in seconds.
    Seconds(f64),
    /// How many bytes.
    Bytes(f64),
    /// A part of a whole, from 0 to 1.
    Share(f64),
    /// How many.
    Count(f64),
}

/// The promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// The figure alone is bounded from below.
    AtLeast(Figure),
    /// The figure alone is bounded from above.
    AtMost(Figure),
    /// The figure is at least this many times the reference.
    RatioAtLeast(f64),
    /// The figure is at most this many times the reference.
    RatioAtMost(f64),
    /// Nothing: it is shown because it explains others.
    Nothing,
}

impl Row {
    /// A measurement.
    pub fn new(name: impl Into<String>, figure: Figure, wanted: Wanted) -> Self {
        let outcome = Outcome::Measured {
            figure,
            reference: None,
        };
        Self {
            name: name.into(),
            outcome,
            wanted,
        }
    }

    /// With a measurement to compare it with.
    pub fn against(mut self, other: Figure) -> Self {
        if let Outcome::Measured { reference, .. } = &mut self.outcome {
            *reference = Some(other);
        }
        self
    }

    /// A measurement that could not be made.
    pub fn failed(name: impl Into<String>, error: &anyhow::Error) -> Self {
        Self {
            name: name.into(),
            outcome: Outcome::Failed(format!("{error:#}")),
            wanted: Wanted::Nothing,
        }
    }

    /// Whether the promise is kept; `None` where there is none.
    fn holds(&self) -> Option<bool> {
        let Outcome::Measured { figure, .. } = &self.outcome else {
            return Some(false);
        };
        match self.wanted {
            Wanted::AtLeast(bound) => Some(figure.value() >= bound.value()),
            Wanted::AtMost(bound) => Some(figure.value() <= bound.value()),
            Wanted::RatioAtLeast(bound) => Some(self.ratio()? >= bound),
            Wanted::RatioAtMost(bound) => Some(self.ratio()? <= bound),
            Wanted::Nothing => None,
        }
    }

    fn ratio(&self) -> Option<f64> {
        match &self.outcome {
            Outcome::Measured { figure, reference } => {
                Some(figure.value() / reference.as_ref()?.value())
            }
            Outcome::Failed(_) => None,
        }
    }

    fn cells(&self) -> [String; 6] {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let (figure, reference) = match &self.outcome {
            Outcome::Measured { figure, reference } => (figure.to_string(), *reference),
            Outcome::Failed(_) => ("failed".to_owned(), None),
        };
        let holds = self.holds().map(|holds| if holds { "yes" } else { "NO" });
        [
            self.name.clone(),
            figure,
            or_none(reference.map(|reference| reference.to_string())),
            or_none(self.ratio().map(|ratio| format!("{ratio:.2}"))),
            self.wanted.to_string(),
            or_none(holds.map(str::to_owned)),
        ]
    }
}

impl Figure {
    /// The order of two figures of one unit.
    pub fn cmp(&self, other: &Self) -> Ordering {
        self.value().total_cmp(&other.value())
    }

    fn value(self) -> f64 {
        match self {
            Self::PerSecond(value)
            | Self::Seconds(value)
            | Self::Bytes(value)
            | Self::Share(value)
            | Self::Count(value) => value,
        }
    }
}

impl Table {
    /// Adds rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    /// Whether every promise is kept.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.holds() != Some(false))
    }
}

impl Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["name", "figure", "reference", "ratio", "wanted", "holds"];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: [usize; 6] = std::array::from_fn(|column| width(column).unwrap_or(0));
        for line in &lines {
            write!(out, "{:<1$}", line[0], widths[0])?;
            for column in 1..line.len() {
                write!(out, "  {:>1$}", line[column], widths[column])?;
            }
            writeln!(out)?;
        }
        for row in &self.rows {
            if let Outcome::Failed(why) = &row.outcome {
                writeln!(out, "\n{}: {why}", row.name)?;
            }
        }
        Ok(())
    }
}

impl Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PerSecond(value) if value < 100.0 => write!(out, "{value:.1}/s"),
            Self::PerSecond(value) => write!(out, "{}/s", grouped(value)),
            Self::Seconds(value) if value < 0.1 => write!(out, "{:.2} ms", value * 1e3),
            Self::Seconds(value) => write!(out, "{value:.2} s"),
            Self::Bytes(value) if value < f64::from(10 << 20) => {
                write!(out, "{:.2} MiB", value / f64::from(1 << 20))
            }
            Self::Bytes(value) => write!(out, "{:.0} MiB", value / f64::from(1 << 20)),
            Self::Share(value) => write!(out, "{:.0} %", value * 100.0),
            Self::Count(value) => write!(out, "{}", grouped(value)),
        }
    }
}

impl Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(out, "≥ {bound}"),
            Self::AtMost(bound) => write!(out, "≤ {bound}"),
            Self::RatioAtLeast(bound) => write!(out, "ratio ≥ {bound}"),
            Self::RatioAtMost(bound) => write!(out, "ratio ≤ {bound}"),
            Self::Nothing => write!(out, "–"),
        }
    }
}

/// A whole number with a comma after each three digits.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(figure: f64, reference: Option<f64>, wanted: Wanted) -> Option<bool> {
        let mut row = Row::new("it", Figure::PerSecond(figure), wanted);
        if let Some(reference) = reference {
            row = row.against(Figure::PerSecond(reference));
        }
        row.holds()
    }

    #[test]
    fn promises_are_judged_by_figure_or_ratio() {
        let bound = Figure::PerSecond(10.0);
        let table = [
            (10.0, None, Wanted::AtLeast(bound), Some(true)),
            (9.0, None, Wanted::AtLeast(bound), Some(false)),
            (10.0, None, Wanted::AtMost(bound), Some(true)),
            (11.0, None, Wanted::AtMost(bound), Some(false)),
            (8.0, Some(10.0), Wanted::RatioAtLeast(0.8), Some(true)),
            (7.0, Some(10.0), Wanted::RatioAtLeast(0.8), Some(false)),
            (15.0, Some(10.0), Wanted::RatioAtMost(1.5), Some(true)),
            (16.0, Some(10.0), Wanted::RatioAtMost(1.5), Some(false)),
            (16.0, Some(10.0), Wanted::Nothing, None),
        ];
        for (figure, reference, wanted, expected) in table {
            assert_eq!(
                holds(figure, reference, wanted),
                expected,
                "{figure} {wanted}"
            );
        }
    }

    #[test]
    fn one_broken_promise_or_failure_breaks_the_table() {
        let kept = || {
            Row::new(
                "a",
                Figure::Seconds(1.0),
                Wanted::AtMost(Figure::Seconds(2.0)),
            )
        };
        let broken = Row::new(
            "b",
            Figure::Seconds(3.0),
            Wanted::AtMost(Figure::Seconds(2.0)),
        );
        let mut table = Table::default();
        table.extend([kept()]);
        assert!(table.holds());
        table.extend([broken]);
        assert!(!table.holds());
        let mut table = Table::default();
        table.extend([kept(), Row::failed("c", &anyhow::anyhow!("no cluster"))]);
        assert!(!table.holds());
        assert!(table.to_string().ends_with("\nc: no cluster\n"));
    }

    #[test]
    fn rows_are_aligned() {
        let mut table = Table::default();
        table.extend([
            Row::new("start", Figure::Seconds(2.5), Wanted::RatioAtMost(1.5))
                .against(Figure::Seconds(2.0)),
        ]);
        let text = table.to_string();
        let expected = "\
name   figure  reference  ratio       wanted  holds
start  2.50 s     2.00 s   1.25  ratio ≤ 1.5    yes
";
        // 1.25 is no more than 1.5, and says so.
        assert_eq!(text, expected);
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!(Figure::PerSecond(1_234_567.0).to_string(), "1,234,567/s");
        assert_eq!(Figure::PerSecond(999.4).to_string(), "999/s");
        assert_eq!(Figure::PerSecond(5.25).to_string(), "5.2/s");
        assert_eq!(Figure::Count(1_002.0).to_string(), "1,002");
        assert_eq!(Figure::Seconds(0.0042).to_string(), "4.20 ms");
        assert_eq!(Figure::Bytes(157_286_400.0).to_string(), "150 MiB");
        assert_eq!(Figure::Bytes(3e6).to_string(), "2.86 MiB");
        assert_eq!(Figure::Share(0.425).to_string(), "42 %");
    }
}
