//! What attachments have and no link remembers, written down: a file for each.

use std::{fs, io, path::PathBuf};

use floe_core::{
    cni::{config::Attachment, error::CniError},
    json::{self, Names},
    node::notes::{self, Topic},
};
use floe_net::files;
use serde::{Serialize, de::DeserializeOwned};

use crate::{fail::system, request::Places};

/// The notes about one topic.
pub struct Notes {
    folder: PathBuf,
}

impl Notes {
    /// The notes about a topic.
    pub fn about(places: &Places, topic: Topic) -> Self {
        let folder = places.state.join(topic.folder());
        Self { folder }
    }

    /// Writes down what an attachment has.
    pub fn write(&self, of: &Attachment, what: &impl Serialize) -> Result<(), CniError> {
        let path = self.path(of);
        let text = serde_json::to_vec(what).expect("texts, numbers and lists have a JSON form");
        files::write(&path, &text).map_err(system(format_args!("write {}", path.display())))
    }

    /// What an attachment has. A file that cannot be understood says nothing: it was
    /// written as a whole, so somebody else did that.
    pub fn read<T: DeserializeOwned>(&self, of: &Attachment) -> Result<Option<T>, CniError> {
        let path = self.path(of);
        match fs::read(&path) {
            Ok(text) => Ok(json::decode(&text, Names::Exact).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(system(format_args!("read {}", path.display()))(error)),
        }
    }

    /// Whether there is a file of an attachment.
    pub fn has(&self, of: &Attachment) -> bool {
        self.path(of).exists()
    }

    /// Forgets what an attachment had.
    pub fn remove(&self, of: &Attachment) -> Result<(), CniError> {
        let path = self.path(of);
        let removed = files::remove(&path).map(drop);
        removed.map_err(system(format_args!("remove {}", path.display())))
    }

    /// All attachments that have something, in order.
    pub fn all(&self) -> Result<Vec<Attachment>, CniError> {
        let unreadable = |error| system(format_args!("read {}", self.folder.display()))(error);
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        let names: Result<Vec<_>, _> = entries
            .map(|entry| entry.map(|it| it.file_name()))
            .collect();
        let names = names.map_err(unreadable)?;
        let mut found: Vec<_> = names
            .iter()
            .filter_map(|name| notes::attachment_of(name.to_str()?))
            .collect();
        found.sort();
        Ok(found)
    }

    fn path(&self, of: &Attachment) -> PathBuf {
        self.folder.join(notes::file_name(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_its_attachment() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes {
            folder: folder.path().join("topic"),
        };
        assert_eq!(notes.all().unwrap(), []);
        let attachment = Attachment {
            container: "0a1b.c_d-e".into(),
            ifname: "eth0".into(),
        };
        assert_eq!(notes.read::<String>(&attachment).unwrap(), None);
        notes.write(&attachment, &"what it has").unwrap();
        assert!(notes.has(&attachment));
        let read: Option<String> = notes.read(&attachment).unwrap();
        assert_eq!(read.as_deref(), Some("what it has"));
        assert_eq!(notes.read::<u32>(&attachment).unwrap(), None, "no number");
        for other in ["a:b.json.tmp", "a.json"] {
            fs::write(notes.folder.join(other), "").unwrap();
        }
        assert_eq!(notes.all().unwrap(), std::slice::from_ref(&attachment));
        for _ in 0..2 {
            notes.remove(&attachment).unwrap();
            assert_eq!(notes.all().unwrap(), []);
        }
    }
}
