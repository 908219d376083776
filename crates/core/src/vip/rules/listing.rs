//! Reads what `nft list table` prints.

use std::collections::BTreeMap;

/// The lines of sets, maps and chains, by kind and name.
pub(in crate::vip) type Blocks<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a str>>;

/// The lines of each set, map and chain, by kind and name.
pub(in crate::vip) fn blocks(listing: &str) -> Blocks<'_> {
    let mut blocks = BTreeMap::<_, Vec<_>>::new();
    let mut open = None;
    for line in listing.lines().map(str::trim) {
        match (open, line) {
            (Some(_), "}") => open = None,
            (Some(block), line) => blocks.entry(block).or_default().push(line),
            (None, line) => {
                let words: Vec<_> = line.split_whitespace().collect();
                if let [kind @ ("set" | "map" | "chain"), name, "{"] = words[..] {
                    open = Some((kind, name));
                    blocks.entry((kind, name)).or_default();
                }
            }
        }
    }
    blocks
}

/// The elements of a set or map, which may go over several lines.
pub(in crate::vip) fn elements(
    blocks: &Blocks<'_>,
    kind: &str,
    name: &str,
) -> impl Iterator<Item = String> {
    let text = blocks
        .get(&(kind, name))
        .map(|lines| lines.join(" "))
        .unwrap_or_default();
    let inner = text
        .split_once("elements = {")
        .map_or("", |(_, rest)| rest.split('}').next().unwrap_or_default());
    let all: Vec<_> = inner
        .split(',')
        .map(|element| element.trim().to_owned())
        .filter(|element| !element.is_empty())
        .collect();
    all.into_iter()
}
