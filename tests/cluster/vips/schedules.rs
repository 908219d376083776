//! Random faults, one over the other, while the wire is listened to: at no time do two speak
//! for an address, and in the end somebody serves it.
//!
//! A schedule is drawn from a number. `FLOE_SEED=7` plays the one of that number alone,
//! `FLOE_SEED=7-30` those from the first to the last, and `FLOE_NIGHTLY=1` a hundred.

mod draw;
mod faults;
mod field;

use std::io::Write;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use tokio::time::{Instant, sleep_until};

use draw::{Step, draw};
use faults::{Trouble, Undo};
use field::OBJECTS;

use super::ground::{NODES_OF_PODS, alone};
use super::wire::Wire;

/// The numbers of an ordinary run. Together they have every fault.
const SEEDS: [u64; 5] = [1, 2, 5, 8, 13];

/// How many a nightly run has.
const NIGHTLY: u64 = 100;

/// The numbers that are asked for.
fn seeds() -> Result<Vec<u64>> {
    if let Ok(asked) = std::env::var("FLOE_SEED") {
        let (first, last) = asked.split_once('-').unwrap_or((&asked, &asked));
        let number = |text: &str| text.parse().context("FLOE_SEED is no number");
        return Ok((number(first)?..=number(last)?).collect());
    }
    if std::env::var_os("FLOE_NIGHTLY").is_some() {
        return Ok((1..=NIGHTLY).collect());
    }
    Ok(SEEDS.to_vec())
}

/// Tells how it goes, at once: who looks for the reason of a failure needs the order.
fn tell(line: &str) {
    // Without anybody who reads it goes on all the same.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Something that is wrong, and until when.
struct Wrong {
    until: Instant,
    name: String,
    node: Option<&'static str>,
    undo: Undo,
}

/// Plays a schedule to its end: whatever was broken is mended.
async fn play(trouble: &mut Trouble<'_>, steps: &[Step]) -> Result<usize> {
    let start = Instant::now();
    let said = |what: &str| tell(&format!("  {:5.1} s {what}", start.elapsed().as_secs_f32()));
    let (mut wrong, mut begun, mut at) = (Vec::<Wrong>::new(), 0, start);
    for step in steps {
        at += step.gap;
        mend_until(trouble, &mut wrong, at, &said).await?;
        sleep_until(at).await;
        match trouble.begin(step).await {
            Ok((node, undo)) => {
                let name = format!("{:?} {}", step.fault, node.unwrap_or_default());
                said(&format!("{name}, {} ms", step.lasts.as_millis()));
                let until = Instant::now() + step.lasts;
                wrong.push(Wrong {
                    until,
                    name,
                    node,
                    undo,
                });
                begun += 1;
            }
            Err(error) => said(&format!("left out: {error:#}")),
        }
    }
    let end = wrong.iter().map(|it| it.until).max();
    mend_until(trouble, &mut wrong, end.unwrap_or(at), &said).await?;
    Ok(begun)
}

/// Mends what is to be mended up to a moment, each thing at its time.
async fn mend_until(
    trouble: &mut Trouble<'_>,
    wrong: &mut Vec<Wrong>,
    moment: Instant,
    said: &impl Fn(&str),
) -> Result<()> {
    wrong.sort_by_key(|it| it.until);
    let due = wrong.partition_point(|it| it.until <= moment);
    for it in wrong.drain(..due) {
        sleep_until(it.until).await;
        if matches!(it.undo, Undo::Nothing) {
            continue;
        }
        said(&format!("{} is over", it.name));
        let ended = trouble.end(it.node, it.undo).await;
        ended.with_context(|| format!("{} cannot be mended", it.name))?;
    }
    Ok(())
}

/// Plays one schedule, and judges what was heard.
async fn survives(namespace: &TestNamespace<'_>, seed: u64) -> Result<()> {
    let start = Instant::now();
    tell(&format!("schedule {seed}"));
    let wire = Wire::listen(namespace, &OBJECTS).await?;
    let steps = draw(seed, NODES_OF_PODS.len(), OBJECTS.len());
    let mut trouble = Trouble::new(namespace);
    let begun = play(&mut trouble, &steps).await;
    // Also what could not be mended by itself.
    namespace.cluster().heal().await?;
    ensure!(begun? > 0, "nothing could go wrong");
    let settled = field::settle(namespace).await;
    // The worse of two failures is told.
    let speakers = wire.speakers().await?;
    settled?;
    for (ip, speakers) in speakers {
        ensure!(!speakers.is_empty(), "nobody was heard for {ip}");
        tell(&format!("  {ip} was at {}", speakers.join(", ")));
    }
    let seconds = start.elapsed().as_secs_f32();
    tell(&format!("  survived after {seconds:.1} s"));
    Ok(())
}

/// Somebody else speaks for an address of each family, and is found: whoever listens is not
/// deaf, and has it from the wire itself.
async fn an_imposter_is_found(namespace: &TestNamespace<'_>) -> Result<()> {
    for (object, ips) in OBJECTS {
        for ip in ips {
            let wire = Wire::listen(namespace, &[(object, &[ip])]).await?;
            wire.pretend(ip.parse()?).await?;
            let judged = wire.speakers().await;
            let breach = judged
                .err()
                .with_context(|| format!("two spoke for {ip} unheard"))?;
            ensure!(breach.to_string().contains("two spoke"), "{breach:#}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn whatever_goes_wrong_at_no_time_do_two_speak_for_an_address() -> Result<()> {
    let seeds = seeds()?;
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "schedules").await?;
    field::set_up(&namespace).await?;
    an_imposter_is_found(&namespace).await?;
    for seed in seeds {
        let survived = survives(&namespace, seed).await;
        survived.with_context(|| format!("schedule {seed}; FLOE_SEED={seed} plays it again"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::draw::{FAULTS, Fault};
    use super::*;

    #[test]
    fn the_schedules_of_an_ordinary_run_have_every_fault() {
        let drawn = SEEDS.iter().flat_map(|seed| draw(*seed, 3, 2));
        let faults: BTreeSet<Fault> = drawn.map(|it| it.fault).collect();
        assert_eq!(faults, FAULTS.into());
    }
}
