//! Runs jobs beside each other, as far as the machine allows.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use floe_testbed::cache::Lock;
use floe_testbed::cluster::{self, shared};
use floe_testbed::guest;
use floe_testbed::leftovers;
use floe_testbed::progress::say;
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::{MissedTickBehavior, interval};

use super::build::{self, Binary};
use super::jobs::{Job, Work};
use super::report::{Row, Tally};
use super::rights::{self, Requests};
use super::schedule::{self, Needs};
use super::suite::{self, Filter, Place, Suite, Tests};
use super::timeline::Timeline;
use super::unit::{self, End};
use super::usage::Usage;
use super::{Settings, libtest};
use crate::child::{Children, Finished, Interrupted, Output};

/// How often the use of the processors is measured.
const SAMPLE: Duration = Duration::from_secs(1);

/// How many processors the guest has, and so how many tests it runs at a time.
const GUEST_PROCESSORS: usize = 2;

/// What jobs share.
pub struct Context {
    pub children: Children,
    pub settings: Settings,
    /// The test programs, once they are built.
    binaries: OnceCell<Vec<Binary>>,
    prepared: RefCell<BTreeMap<Suite, Rc<OnceCell<Prepared>>>>,
    /// What floe's accounts have asked of the API servers of all clusters.
    requests: RefCell<Requests>,
    has_used_clusters: Cell<bool>,
}

/// What a suite needs is there, or why not. A lock is kept until the end.
type Prepared = Result<Option<Lock>, String>;

/// A job that is over.
pub struct Done {
    pub job: &'static Job,
    pub row: Row,
    /// When it started, counted from the start of the command.
    pub start: Duration,
    /// The job whose end let this one start, if it had to wait for one.
    pub waited_for: Option<&'static str>,
}

impl Context {
    pub fn new(children: Children, settings: Settings) -> Self {
        Self {
            children,
            settings,
            binaries: OnceCell::new(),
            prepared: RefCell::default(),
            requests: RefCell::default(),
            has_used_clusters: Cell::new(false),
        }
    }

    /// Gets what a suite needs, once for all of its jobs.
    async fn prepare(&self, suite: Suite) -> Result<Option<String>> {
        let cell = Rc::clone(self.prepared.borrow_mut().entry(suite).or_default());
        let prepare = || async move {
            match self.children.wait_for(move || suite.prepare()).await {
                Ok(lock) => Ok(Ok(lock)),
                Err(error) if error.is::<Interrupted>() => Err(error),
                Err(error) => Ok(Err(format!("{error:#}"))),
            }
        };
        let prepared = cell.get_or_try_init(prepare).await?;
        Ok(prepared.as_ref().err().cloned())
    }
}

/// Runs jobs, the longest first, until all are over.
pub async fn run(
    jobs: Vec<&'static Job>,
    context: &Context,
    usage: &mut Usage,
) -> Result<Vec<Done>> {
    let begin = Instant::now();
    let (mut waiting, mut running) = (jobs, Vec::<&'static Job>::new());
    let mut work = FuturesUnordered::new();
    let mut done: Vec<Done> = Vec::new();
    let mut interrupted = None;
    let mut sampling = interval(SAMPLE);
    sampling.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while let Some(job) = next(&mut waiting, &running, context) {
            running.push(job);
            let waited_for = done.last().map(|it| it.job.name);
            let start = begin.elapsed();
            work.push(async move {
                let row = run_one(job, context).await?;
                anyhow::Ok(Done {
                    job,
                    row,
                    start,
                    waited_for,
                })
            });
        }
        tokio::select! {
            ended = work.next() => {
                match ended {
                    Some(Ok(ended)) => {
                        running.retain(|job| job.name != ended.job.name);
                        done.push(ended);
                    }
                    // The other children also clean up.
                    Some(Err(error)) => {
                        waiting.clear();
                        interrupted = Some(error);
                    }
                    // What still waits cannot run: it did not compile.
                    None => return interrupted.map_or(Ok(done), Err),
                }
            }
            _ = sampling.tick() => usage.sample(&running),
        }
    }
}

/// Takes out the next job that can start.
fn next(
    waiting: &mut Vec<&'static Job>,
    running: &[&'static Job],
    context: &Context,
) -> Option<&'static Job> {
    let is_built = context.binaries.initialized();
    let is_prepared = |job: &Job| {
        let others = waiting.iter().chain(running);
        let mut suites = others.filter_map(|it| it.prepares());
        !suites.any(|suite| job.tests().is_some_and(|tests| tests.suite == suite))
    };
    let is_ready = |job: &Job| is_prepared(job) && (is_built || !job.is_after_build());
    let ready: Vec<usize> = (0..waiting.len())
        .filter(|it| is_ready(waiting[*it]))
        .collect();
    let needs: Vec<Needs> = ready.iter().map(|it| waiting[*it].needs).collect();
    let running: Vec<Needs> = running.iter().map(|it| it.needs).collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = u32::try_from(processors).unwrap_or(u32::MAX);
    let chosen = schedule::next(&needs, &running, processors)?;
    Some(waiting.remove(ready[chosen]))
}

async fn run_one(job: &'static Job, context: &Context) -> Result<Row> {
    let started = Instant::now();
    let mut row = Row::new(job.name);
    let worked = match &job.work {
        Work::Check(check) => check.run(context, &mut row).await,
        Work::Build => build(context, &mut row).await,
        // Its tests report what is missing.
        Work::Prepare(suite) => context.prepare(*suite).await.map(drop),
        Work::Unit => unit::run(context, programs(context), &mut row).await,
        Work::Documentation => unit::examples(context, &mut row).await,
        Work::Tests(tests) => run_tests(*tests, context, &mut row).await,
    };
    row.absorb(worked)?;
    row.elapsed = started.elapsed();
    if row.tally != Tally::default() {
        let mark = match row.tally {
            Tally { failed: 1.., .. } => "FAIL",
            Tally { passed: 0, .. } => "skip",
            Tally { .. } => "ok",
        };
        say(
            mark,
            &format!("{}: {}", job.name, row.tally),
            Some(row.elapsed),
        );
    }
    Ok(row)
}

async fn build(context: &Context, row: &mut Row) -> Result<()> {
    if let Some(binaries) = build::run(&context.children, &context.settings.scope()).await? {
        // Only this job sets them, and it runs once.
        let _ = context.binaries.set(binaries);
    } else {
        row.add(Tally::FAILED);
        row.note("the workspace does not compile, so no test ran");
    }
    Ok(())
}

/// The programs that were built; none before.
fn programs(context: &Context) -> &[Binary] {
    context.binaries.get().map_or(&[], Vec::as_slice)
}

async fn run_tests(tests: Tests, context: &Context, row: &mut Row) -> Result<()> {
    let Settings {
        filter, targets, ..
    } = &context.settings;
    let filter = match tests.filter(filter.as_deref(), targets) {
        Filter::Nothing => return Ok(()),
        Filter::Everything => None,
        Filter::Named(word) => Some(word),
    };
    let Some(binary) = programs(context).iter().find(|it| tests.are_in(it)) else {
        anyhow::bail!("floe-tests has no test target '{}'", tests.target);
    };
    let names = tests.choose(binary.ignored(context, filter).await?);
    if filter.is_none() {
        tests.check(&names)?;
    }
    if names.is_empty() {
        return Ok(());
    }
    if let Some(reason) = context.prepare(tests.suite).await? {
        row.add(Tally::missing(names.len(), context.settings.ci));
        row.note(format!("could not run: {reason}"));
        return Ok(());
    }
    let since = SystemTime::now();
    let ran = match tests.place {
        Place::Host => run_on_host(&tests, binary, names, context, row).await,
        Place::Guest => run_in_guest(binary, names, context, row).await,
    };
    row.absorb(ran)?;
    context
        .has_used_clusters
        .set(!tests.clusters.is_empty() || context.has_used_clusters.get());
    for name in tests.clusters {
        // The cluster ends after the program that brought it up.
        let gone = context.children.wait_for(|| cluster::wait_until_gone(name));
        let gone = gone
            .await
            .with_context(|| format!("cluster {name} did not end"));
        row.absorb(gone)?;
        row.absorb(context.requests.borrow_mut().read(name, since))?;
    }
    Ok(())
}

async fn run_on_host(
    tests: &Tests,
    binary: &Binary,
    names: Vec<String>,
    context: &Context,
    row: &mut Row,
) -> Result<()> {
    let mut command = binary.command(&context.settings, &libtest::arguments(&names));
    if let [name] = tests.clusters {
        command.env(shared::NAME, name);
    }
    let finished = run_program(command, row.name, &names, context, row).await?;
    finished.count(row, &binary.title(), names.len());
    Ok(())
}

/// Runs a test program, whose lines begin with a label, and notes how long each of its tests has
/// taken.
pub async fn run_program(
    mut command: Command,
    label: &str,
    names: &[String],
    context: &Context,
    row: &mut Row,
) -> Result<Finished> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let started = Instant::now();
    let timeline = RefCell::new(Timeline::new(names.iter().cloned(), processors));
    let tell = |line: &str| {
        show(label, line);
        timeline.borrow_mut().take_in(line, started.elapsed());
    };
    command.env(leftovers::JOB, row.name);
    let finished = context.children.run(command, Output::Lines(&tell)).await;
    row.times(timeline.into_inner().finish(started.elapsed()));
    finished
}

async fn run_in_guest(
    binary: &Binary,
    names: Vec<String>,
    context: &Context,
    row: &mut Row,
) -> Result<()> {
    let started = Instant::now();
    let name = row.name;
    let job = suite::guest_job(&context.settings, binary, &names);
    let expected = names.len();
    let work = move || {
        let mut lines = Vec::new();
        let code = guest::run_with(&job, |line| {
            show(name, line);
            lines.push((line.to_owned(), started.elapsed()));
        })?;
        Ok((code, lines))
    };
    let (code, lines) = context.children.wait_for(work).await?;
    let mut timeline = Timeline::new(names, GUEST_PROCESSORS);
    let mut stdout = String::new();
    for (line, at) in lines {
        timeline.take_in(&line, at);
        stdout.push_str(&line);
        stdout.push('\n');
    }
    row.times(timeline.finish(started.elapsed()));
    let end = End {
        is_success: code == 0,
        words: format!("exit code {code}"),
    };
    unit::count(row, &binary.title(), expected, &stdout, end);
    Ok(())
}

/// Passes on a line of a job; several jobs write at the same time.
pub fn show(job: &str, line: &str) {
    // Standard output may be closed.
    let _ = writeln!(std::io::stdout().lock(), "{job:>17} | {line}");
}

/// What floe was refused in clusters, and, if everything has run, which permissions it has never
/// used. The former is a failure, the latter one in a nightly run: a single run may miss what is
/// rarely needed. `None` if no cluster was used.
pub fn judge_rights(context: &Context, has_whole: bool) -> Option<Row> {
    if !context.has_used_clusters.get() {
        return None;
    }
    let requests = context.requests.borrow();
    let mut row = Row::new("permissions");
    match rights::grants() {
        Ok(grants) => {
            let mut verdict = requests.judge(&grants);
            if !has_whole {
                verdict.unused.clear();
            }
            let is_fault = !verdict.refused.is_empty()
                || context.settings.nightly && !verdict.unused.is_empty();
            row.add(if is_fault {
                Tally::FAILED
            } else {
                Tally::PASSED
            });
            for it in verdict.refused {
                row.note(format!("refused: {it}"));
            }
            for it in verdict.unused {
                row.note(format!("granted, and never used: {it}"));
            }
        }
        Err(error) => {
            row.add(Tally::FAILED);
            row.note(format!("{error:#}"));
        }
    }
    Some(row)
}
