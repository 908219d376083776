//! Settings of the kernel, in the network namespace of this thread.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

const ROOT: &str = "/proc/sys";

/// Reads a setting such as `net/ipv4/conf/eth0/rp_filter`.
pub fn read(path: &str) -> io::Result<String> {
    let text = fs::read_to_string(file(path)?).map_err(|error| named(path, &error))?;
    Ok(text.trim_end().to_owned())
}

/// Writes a setting if it has another value; whether it had.
pub fn write(path: &str, value: &str) -> io::Result<bool> {
    if read(path)? == value {
        return Ok(false);
    }
    fs::write(file(path)?, value).map_err(|error| named(path, &error))?;
    Ok(true)
}

/// The file of a setting. Slashes, not dots, separate its parts: a link may have a dot
/// in its name.
fn file(path: &str) -> io::Result<PathBuf> {
    let relative = Path::new(path);
    let stays_below = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !stays_below {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("not a setting of the kernel: {path:?}"),
        ));
    }
    Ok(Path::new(ROOT).join(relative))
}

/// The same error with the setting's name, which people need to find it.
fn named(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_read_without_the_end_of_its_line() {
        assert_eq!(read("kernel/ostype").unwrap(), "Linux");
    }

    #[test]
    fn a_setting_that_is_not_there_is_not_found_and_named() {
        let error = read("net/ipv4/conf/no-such/rp_filter").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("no-such"), "{error}");
        let error = write("net/ipv4/conf/no-such/rp_filter", "0").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn nothing_outside_of_the_settings_is_reached() {
        for path in ["", "/etc/hostname", "../version", "net/../../version"] {
            let error = read(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}");
        }
    }
}
