//! Settings of the kernel, made writable in the agent's own container.
//!
//! A container that has not all rights on its host sees `/proc/sys`, `/proc/irq` and `/sys`
//! read-only, also where it may change what is there. The agent and the plugins that it
//! calls do: forwarding, neighbour entries, virtual functions. It has the right to
//! mount (without it nobody enters the namespace of a pod), so it mounts these again,
//! writable. Nobody but the agent and its plugins sees those mounts.

use std::{io, path::Path};

use nix::{
    mount::{MsFlags, mount},
    sys::statvfs::{FsFlags, statvfs},
};
use tracing::{debug, warn};

/// Where settings are.
const PLACES: [&str; 3] = ["/proc/sys", "/proc/irq", "/sys"];

/// Makes settings writable that are not. What cannot be done is told: most networks work
/// all the same.
pub fn open() {
    for place in PLACES.map(Path::new) {
        match open_one(place, is_read_only, remount) {
            Ok(true) => debug!(place = %place.display(), "settings are writable now"),
            Ok(false) => {}
            Err(error) => warn!(
                reason = "SettingsReadOnly",
                place = %place.display(),
                error = %error,
                "settings of the kernel cannot be changed in this container",
            ),
        }
    }
}

/// Whether something was done.
fn open_one(
    place: &Path,
    is_read_only: impl Fn(&Path) -> io::Result<bool>,
    remount: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<bool> {
    match is_read_only(place) {
        Ok(true) => {
            remount(place)?;
            // A file system that is read-only itself stays so.
            if is_read_only(place)? {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            Ok(true)
        }
        Ok(false) => Ok(false),
        // A kernel without it has no such settings.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_read_only(place: &Path) -> io::Result<bool> {
    Ok(statvfs(place)?.flags().contains(FsFlags::ST_RDONLY))
}

/// Changes the flags of this one mount. Those that make it safer stay.
fn remount(place: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_REMOUNT
        | MsFlags::MS_BIND
        | MsFlags::MS_NOSUID
        | MsFlags::MS_NODEV
        | MsFlags::MS_NOEXEC;
    Ok(mount(
        None::<&str>,
        place,
        None::<&str>,
        flags,
        None::<&str>,
    )?)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const PLACE: &str = "/proc/sys";

    #[test]
    fn what_is_writable_or_not_there_is_left_alone() {
        let never = |_: &Path| -> io::Result<()> { panic!("nothing is to be done") };
        let place = Path::new(PLACE);
        assert!(!open_one(place, |_| Ok(false), never).unwrap());
        let absent = |_: &Path| Err(io::ErrorKind::NotFound.into());
        assert!(!open_one(place, absent, never).unwrap());
    }

    #[test]
    fn what_is_read_only_is_mounted_again() {
        let read_only = Cell::new(true);
        let remount = |place: &Path| {
            assert_eq!(place, Path::new(PLACE));
            read_only.set(false);
            Ok(())
        };
        assert!(open_one(Path::new(PLACE), |_| Ok(read_only.get()), remount).unwrap());
    }

    #[test]
    fn a_refusal_is_told_and_so_is_one_that_says_nothing() {
        let refuse = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        let error = open_one(Path::new(PLACE), |_| Ok(true), refuse).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let error = open_one(Path::new(PLACE), |_| Ok(true), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    }
}
