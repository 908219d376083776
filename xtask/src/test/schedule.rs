//! Which jobs run beside each other, decided by what each needs of the machine.

/// What a job needs while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// How many tenths of a processor it keeps busy on average.
    pub load: u32,
    /// The load of all jobs together up to which its results count, for each processor that the
    /// machine has; `None` for any.
    pub quiet: Option<u32>,
    /// What it has to itself.
    pub exclusive: &'static [Resource],
    /// What it uses beside others.
    pub shared: &'static [Resource],
    /// About how long it takes. Long jobs start first, so that short ones fill the gaps.
    pub seconds: u32,
}

/// What jobs may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Cargo's build directory, which cargo locks.
    Cargo,
    /// The mounts of the machine: a test that looks for leftovers sees those of all others.
    Mounts,
}

/// The load that jobs may cause together for each processor. Most of them wait now and then, so
/// it is more than one.
const CAPACITY: u32 = 15;

/// The next job to start beside those that run: the longest that fits.
pub fn next(waiting: &[Needs], running: &[Needs], processors: u32) -> Option<usize> {
    let fitting = waiting.iter().enumerate();
    let fitting = fitting.filter(|(_, needs)| fits(needs, running, processors));
    // Of equally long ones the first.
    let longest = fitting.rev().max_by_key(|(_, needs)| needs.seconds);
    longest.map(|(index, _)| index)
}

fn fits(needs: &Needs, running: &[Needs], processors: u32) -> bool {
    // A job that needs more than the machine has still has to run.
    if running.is_empty() {
        return true;
    }
    let all = || running.iter().chain([needs]);
    let load: u32 = all().map(|it| it.load).sum();
    let limits = all().filter_map(|it| it.quiet).chain([CAPACITY]);
    let limit = limits.min().map(|it| it.saturating_mul(processors));
    let is_taken = |one: &Needs, other: &Needs| {
        let used = |it: &Resource| other.exclusive.contains(it) || other.shared.contains(it);
        one.exclusive.iter().any(used)
    };
    Some(load) <= limit
        && !running
            .iter()
            .any(|it| is_taken(it, needs) || is_taken(needs, it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(load: u32, seconds: u32) -> Needs {
        Needs {
            load,
            seconds,
            ..Needs::default()
        }
    }

    #[test]
    fn the_longest_job_that_fits_starts_first() {
        let waiting = [job(5, 10), job(25, 600), job(10, 300), job(10, 300)];
        assert_eq!(next(&waiting, &[], 2), Some(1));
        assert_eq!(next(&waiting, &[job(20, 1)], 2), Some(2));
        assert_eq!(next(&waiting, &[job(25, 1)], 2), Some(0));
        assert_eq!(next(&waiting, &[job(30, 1)], 2), None);
        assert_eq!(next(&[], &[], 2), None);
    }

    #[test]
    fn a_job_that_needs_more_than_the_machine_has_runs_by_itself() {
        assert_eq!(next(&[job(80, 1)], &[], 2), Some(0));
        assert_eq!(next(&[job(80, 1)], &[job(0, 1)], 2), None);
    }

    #[test]
    fn a_quiet_job_limits_what_runs_beside_it_whichever_starts_first() {
        let quiet = Needs {
            quiet: Some(10),
            ..job(5, 1)
        };
        for (one, load, fits) in [(quiet, 15, true), (quiet, 16, false)] {
            assert_eq!(next(&[one], &[job(load, 1)], 2).is_some(), fits);
            assert_eq!(next(&[job(load, 1)], &[one], 2).is_some(), fits);
        }
    }

    #[test]
    fn what_is_exclusive_is_used_by_nothing_else() {
        let with = |exclusive, shared| Needs {
            exclusive,
            shared,
            ..Needs::default()
        };
        let owner = with(&[Resource::Mounts], &[]);
        let user = with(&[], &[Resource::Mounts]);
        let other = with(&[Resource::Cargo], &[]);
        assert_eq!(next(&[owner], &[user], 2), None);
        assert_eq!(next(&[user], &[owner], 2), None);
        assert_eq!(next(&[owner], &[owner], 2), None);
        assert_eq!(next(&[user], &[user], 2), Some(0));
        assert_eq!(next(&[other], &[owner], 2), Some(0));
    }
}
