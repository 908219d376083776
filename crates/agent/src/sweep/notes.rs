//! The notes of plugins, see [`floe_core::node::notes`].

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use floe_core::node::notes::{Note, Topic, file_name};
use tracing::debug;

/// All notes in the folder of the plugins' state, which need not exist. What cannot be
/// understood is nobody's note.
pub fn list(state: &Path) -> Result<Vec<Note>, String> {
    let mut found = Vec::new();
    for topic in Topic::ALL {
        let folder = state.join(topic.folder());
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable(&folder, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // It may have gone since. Nor may one bad file keep all others.
            let text = fs::read(entry.path()).ok();
            if let Some(note) = text.and_then(|text| Note::read(topic, &name, &text)) {
                found.push(note);
            } else {
                debug!(folder = %folder.display(), name, "not a note");
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a note is still there.
pub fn is_there(state: &Path, note: &Note) -> bool {
    path(state, note).exists()
}

fn path(state: &Path, note: &Note) -> PathBuf {
    let folder = state.join(note.topic.folder());
    folder.join(file_name(&note.attachment))
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_all_topics_are_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(list(folder.path()), Ok(Vec::new()));
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("functions/b:eth0.json", r#"{"network":"fast"}"#);
        write("proxies/a:eth1.json", r#"{"network":"lab"}"#);
        write("proxies/.a:eth1.json.0123.draft", r#"{"network":"lab"}"#);
        write("proxies/c:eth0.json", "{");
        write("proxies/d:eth0.json/e", "");
        write("moves/eth0.json", r#"{"network":"lab"}"#);
        let found = list(folder.path()).unwrap();
        let networks: Vec<&str> = found.iter().map(|note| &*note.network).collect();
        assert_eq!(networks, ["lab", "fast"]);
        assert!(is_there(folder.path(), &found[0]));
        fs::remove_file(folder.path().join("proxies/a:eth1.json")).unwrap();
        assert!(!is_there(folder.path(), &found[0]));
    }
}
