//! What somebody may have meant.

/// The candidate that is nearest to a name, if one is near enough to be a slip.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(1);
    let near = candidates.into_iter().filter_map(|candidate| {
        let distance = distance(name, candidate);
        (distance <= most).then_some((distance, candidate))
    });
    near.min().map(|(_, candidate)| candidate)
}

/// How many letters have to be added, dropped, changed or swapped with their neighbour
/// to turn one text into the other. Case does not count.
fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let change = last[j] + usize::from(from != to);
            let mut cost = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_slips() {
        let table = [
            ("", "", 0),
            ("", "abc", 3),
            ("web", "web", 0),
            ("web", "WEB", 0),
            ("web", "wbe", 1),
            ("web", "weeb", 1),
            ("web", "eb", 1),
            ("web", "wob", 1),
            ("kitten", "sitting", 3),
        ];
        for (a, b, wanted) in table {
            assert_eq!(distance(a, b), wanted, "{a} {b}");
            assert_eq!(distance(b, a), wanted, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let names = ["frontend", "backend", "cache"];
        assert_eq!(closest("fronted", names), Some("frontend"));
        assert_eq!(closest("bakcend", names), Some("backend"));
        assert_eq!(closest("database", names), None);
        assert_eq!(closest("x", []), None);
    }
}
