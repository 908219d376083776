//! Files that are there as a whole or not at all.

use std::{
    collections::hash_map::RandomState,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, Hasher},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Writes a file of mode 0600 by rename, with its folder made if it is not there, so
/// that nobody ever reads half of it and a crash leaves the old one, also one of the
/// machine.
///
/// A crash may also leave a draft beside it: its name begins with a dot and ends with
/// `.draft`, see [`is_draft`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let (draft, mut file) = open_draft(path)?;
    let written = file
        .write_all(content)
        .and_then(|()| file.sync_data())
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // The first error tells more than one of the clean-up.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Removes a file; whether it was there.
pub fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a file of this name is what a crash during [`write`] left, and means nothing.
pub fn is_draft(name: &str) -> bool {
    let extension = Path::new(name).extension();
    name.starts_with('.') && extension.is_some_and(|extension| extension == "draft")
}

fn open_draft(path: &Path) -> io::Result<(PathBuf, File)> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not the name of a file", path.display()),
        ));
    };
    let random = RandomState::new().build_hasher().finish();
    let mut draft = OsString::from(".");
    draft.push(name);
    draft.push(format!(".{random:016x}.draft"));
    let draft = path.with_file_name(draft);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = match options.open(&draft) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            options.open(&draft)?
        }
        opened => opened?,
    };
    Ok((draft, file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_written_with_its_folder_replaced_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cni/galaxy/container");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(remove(&path).unwrap());
        assert!(!remove(&path).unwrap());
        assert!(!remove(&folder.path().join("no/such")).unwrap());
        assert_eq!(names(path.parent().unwrap()), [""; 0]);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir_all(path.join("by a folder")).unwrap();
        write(&path, b"one").unwrap_err();
        assert_eq!(names(folder.path()), ["taken"]);
        assert!(write(Path::new("/"), b"one").is_err());
    }

    #[test]
    fn a_draft_is_known_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (draft, _) = open_draft(&folder.path().join("container")).unwrap();
        assert!(is_draft(draft.file_name().unwrap().to_str().unwrap()));
        for name in ["container", ".hidden", "x.draft"] {
            assert!(!is_draft(name), "{name}");
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}
