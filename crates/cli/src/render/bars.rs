//! How full something is.

use anstyle::{AnsiColor, Style};

/// How many characters a bar has.
const WIDTH: u128 = 20;

/// What a bar is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// What is in use.
    pub used: u128,
    /// What waits for somebody.
    pub waiting: u128,
    /// What is set aside.
    pub reserved: u128,
    /// All there is.
    pub capacity: u128,
}

impl Share {
    /// The bar with its percentage. Whatever is there shows, be it ever so little, and
    /// only what is full looks full.
    pub fn bar(&self, is_utf8: bool) -> String {
        let letters = if is_utf8 {
            ['█', '▓', '▒', '░']
        } else {
            ['#', '+', 'x', '.']
        };
        let parts = [self.used, self.waiting, self.reserved];
        let taken = parts.iter().sum::<u128>().min(self.capacity);
        let cells = part_of(WIDTH, taken, self.capacity);
        let mut bar = String::new();
        let (mut below, mut drawn) = (0_u128, 0);
        for (part, letter) in parts.into_iter().zip(letters) {
            below = below.saturating_add(part).min(taken);
            let end = if below == taken {
                cells
            } else {
                rounded(cells, below, taken)
            };
            bar.extend((drawn..end).map(|_| letter));
            drawn = drawn.max(end);
        }
        bar.extend((drawn..WIDTH).map(|_| letters[3]));
        format!("{bar} {:>3}%", part_of(100, taken, self.capacity))
    }

    /// The colour of the bar: calm, soon full, or full.
    pub fn style(&self) -> Style {
        let taken = self.used + self.waiting + self.reserved;
        let color = match part_of(100, taken.min(self.capacity), self.capacity) {
            0..75 => AnsiColor::Green,
            75..95 => AnsiColor::Yellow,
            _ => AnsiColor::Red,
        };
        Style::new().fg_color(Some(color.into()))
    }
}

/// The part of `whole` that `some` is of `all`, rounded, but 0 and `whole` only if that
/// is exact.
fn part_of(whole: u128, some: u128, all: u128) -> u128 {
    if some == 0 {
        0
    } else if some >= all {
        whole
    } else {
        rounded(whole, some, all).clamp(1, whole - 1)
    }
}

/// The part of `whole` that `some` is of `all`, rounded; `all` is not 0.
fn rounded(whole: u128, some: u128, all: u128) -> u128 {
    // IPv6 ranges are too large to multiply: what is lost is far below one cell.
    let bits = u128::BITS - all.leading_zeros();
    let shift = bits.saturating_sub(96);
    let (some, all) = (some >> shift, all >> shift);
    (some * whole + all / 2) / all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(used: u128, waiting: u128, reserved: u128, capacity: u128) -> Share {
        Share {
            used,
            waiting,
            reserved,
            capacity,
        }
    }

    #[test]
    fn bars_are_as_long_as_they_are_full() {
        let table = [
            (share(0, 0, 0, 240), "....................   0%"),
            (share(1, 0, 0, 240), "#...................   1%"),
            (share(120, 0, 0, 240), "##########..........  50%"),
            (share(60, 60, 60, 240), "#####+++++xxxxx.....  75%"),
            (share(239, 0, 0, 240), "###################.  99%"),
            (share(240, 0, 0, 240), "#################### 100%"),
            (share(0, 0, 4, 4), "xxxxxxxxxxxxxxxxxxxx 100%"),
            (share(0, 0, 0, 0), "....................   0%"),
            (share(300, 0, 0, 240), "#################### 100%"),
            (share(1, 0, 0, u128::MAX), "#...................   1%"),
            (
                share(u128::MAX / 2, 0, 0, u128::MAX),
                "##########..........  50%",
            ),
        ];
        for (share, bar) in table {
            assert_eq!(share.bar(false), bar, "{share:?}");
        }
        assert_eq!(
            share(60, 60, 60, 240).bar(true),
            "█████▓▓▓▓▓▒▒▒▒▒░░░░░  75%"
        );
    }

    #[test]
    fn a_bar_has_always_the_same_length() {
        for capacity in 1..40 {
            for used in 0..=capacity {
                for waiting in 0..=capacity - used {
                    let bar = share(used, waiting, 0, capacity).bar(false);
                    assert_eq!(bar.len(), 25, "{used} {waiting} {capacity}");
                }
            }
        }
    }
}
