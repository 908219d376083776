//! A fuzz target on a stable toolchain: over its corpus, and over mutations of it that
//! are the same in every run. Tests of several crates use it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// Where the corpus of each target is.
pub const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");

/// Mutations of the corpus of each target.
const CASES: u64 = 1000;

/// Runs a target over its corpus, whose files are called by what becomes of them.
pub fn verdicts(target: &str, run: fn(&[u8]) -> bool) {
    let corpus = corpus(target);
    for verdict in ["taken-", "refused-"] {
        let has = corpus.keys().any(|name| name.starts_with(verdict));
        assert!(has, "{target} has nothing that is {verdict}");
    }
    for (name, bytes) in &corpus {
        let taken = checked(target, run, bytes);
        // A run of a fuzzer leaves files that no verdict is known of.
        if name.starts_with("taken-") || name.starts_with("refused-") {
            assert_eq!(taken, name.starts_with("taken-"), "{target}/{name}");
        }
    }
}

/// Runs a target over mutations of its corpus, those of a number.
pub fn mutations(target: &str, run: fn(&[u8]) -> bool, number: u64) {
    let corpus: Vec<Vec<u8>> = corpus(target).into_values().collect();
    let mut dice = Dice(number);
    let mut taken = 0;
    for _ in 0..CASES {
        let bytes = mutated(&corpus, &mut dice);
        taken += u64::from(checked(target, run, &bytes));
    }
    // Mutations of which all are refused at the door would test nothing behind it.
    assert!(taken > CASES / 50, "{target}: {taken} of {CASES} are taken");
    assert!(taken < CASES, "{target}: nothing is refused");
}

/// Pieces that matter to the parsers.
const WORDS: [&str; 24] = [
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    ",",
    ":",
    ";",
    "=",
    "/",
    "..",
    "@eth1",
    "\\u0000",
    "-1",
    "4096",
    "1e999",
    "18446744073709551616",
    "10.0.0.5/33",
    "::ffff:10.0.0.5",
    "fd00:a::5/64",
    "\"prevResult\":",
    "\"ipinfos\":[",
    "\u{130}",
    "ä",
];

/// The files of a target, by their names.
fn corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(CORPUS).join(target);
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    files
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// Runs a target, and says which bytes it was if it panics.
fn checked(target: &str, run: fn(&[u8]) -> bool, bytes: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| run(bytes))).unwrap_or_else(|panic| {
        let hex = bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let text = String::from_utf8_lossy(bytes);
        eprintln!("{target} breaks on {text:?}, which is {hex}");
        resume_unwind(panic)
    })
}

/// A file of the corpus with one to four changes.
fn mutated(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        let end = at + dice.below((bytes.len() - at).min(32) + 1);
        match dice.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => {
                let word = WORDS[dice.below(WORDS.len())];
                bytes.splice(at..end, word.bytes());
            }
            5 => {
                let word = WORDS[dice.below(WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            6 => {
                let other = &corpus[dice.below(corpus.len())];
                bytes.truncate(at);
                bytes.extend(&other[dice.below(other.len() + 1)..]);
            }
            _ => {
                // One value in place of another of the same length: the form stays.
                let from = dice.below(bytes.len() + 1);
                let piece = bytes[at..end].to_vec();
                let room = (from + piece.len()).min(bytes.len());
                bytes.splice(from..room, piece);
            }
        }
    }
    bytes
}

/// `SplitMix64`: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }
}
