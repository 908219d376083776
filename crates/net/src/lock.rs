//! Locks between processes of one host.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// A lock that is held until this value is dropped, or the process ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "closing it releases the lock")] File);

impl Lock {
    /// Takes the lock of this file, which is made if it is not there, as is its folder.
    /// `TimedOut` at the deadline.
    ///
    /// # Assumptions
    /// Nobody removes the file, and it is held for moments only: those who wait look
    /// again every few milliseconds, in no order.
    pub fn take(path: &Path, deadline: Instant) -> io::Result<Self> {
        let file = open(path)?;
        let mut pause = Duration::from_millis(1);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("somebody else holds {}", path.display()),
                ));
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            options.open(path)
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn only_one_has_it_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/net.lock");
        let (inside, passes) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let _lock = Lock::take(&path, Instant::now() + LONG).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        passes.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(passes.into_inner(), 40);
    }

    #[test]
    fn who_waits_in_vain_is_told_and_the_holder_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.lock");
        let held = Lock::take(&path, Instant::now()).unwrap();
        for wait in [Duration::ZERO, Duration::from_millis(20)] {
            let start = Instant::now();
            let error = Lock::take(&path, start + wait).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(start.elapsed() >= wait);
        }
        drop(held);
        Lock::take(&path, Instant::now()).unwrap();
    }
}
