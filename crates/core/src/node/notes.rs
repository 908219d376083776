//! Notes of plugins, as far as others read them.
//!
//! A plugin writes down what an attachment has and no link remembers, for its own DEL.
//! A lost DEL leaves the note behind. Whoever finds it needs to know no more than which
//! DEL to run.

use serde::Deserialize;

use crate::{
    cni::{
        call::{is_identifier, is_ifname},
        config::Attachment,
    },
    json::{self, Names},
};

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// IPv6 addresses that the host answers for.
    Proxies,
    /// Virtual functions that a pod has.
    Functions,
}

/// A note, as far as others than its plugin read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// What it is about.
    pub topic: Topic,
    /// Whose it is.
    pub attachment: Attachment,
    /// The network.
    pub network: String,
    /// The plugin that wrote it, and whose DEL removes it.
    pub kind: String,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 2] = [Self::Proxies, Self::Functions];

    /// The folder of its notes, in that of the plugins' state.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Proxies => "proxies",
            Self::Functions => "functions",
        }
    }

    /// A plugin whose DEL removes a note that names none, as the first ones did.
    const fn usual_plugin(self) -> &'static str {
        match self {
            // Of the two that write such notes one undoes what the other did.
            Self::Proxies => "galaxy-underlay-veth",
            Self::Functions => "galaxy-k8s-sriov",
        }
    }
}

impl Note {
    /// Reads the file of a note; nothing if it is none.
    pub fn read(topic: Topic, file_name: &str, text: &[u8]) -> Option<Self> {
        let attachment = attachment_of(file_name)?;
        let wire: Wire = json::decode(text, Names::Exact).ok()?;
        // A plugin would refuse to be called with any other.
        if !is_identifier(&wire.network) {
            return None;
        }
        let kind = wire.kind.filter(|kind| !kind.is_empty());
        Some(Self {
            topic,
            attachment,
            network: wire.network,
            kind: kind.unwrap_or_else(|| topic.usual_plugin().to_owned()),
        })
    }
}

/// The file of the note of an attachment. Neither containers nor interfaces have a
/// colon in their names.
pub fn file_name(of: &Attachment) -> String {
    let Attachment { container, ifname } = of;
    format!("{container}:{ifname}.json")
}

/// Whose note a file is; nothing if it is none.
pub fn attachment_of(file_name: &str) -> Option<Attachment> {
    let (container, ifname) = file_name.strip_suffix(".json")?.split_once(':')?;
    (is_identifier(container) && is_ifname(ifname)).then(|| Attachment {
        container: container.into(),
        ifname: ifname.into(),
    })
}

#[derive(Deserialize)]
struct Wire {
    network: String,
    kind: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_tells_which_del_removes_it() {
        let text = br#"{"network":"lab","kind":"galaxy-k8s-vlan","entries":[]}"#;
        let note = Note::read(Topic::Proxies, "0a1b:eth1.json", text).unwrap();
        let attachment = Attachment {
            container: "0a1b".into(),
            ifname: "eth1".into(),
        };
        assert_eq!(file_name(&attachment), "0a1b:eth1.json");
        assert_eq!(
            note,
            Note {
                topic: Topic::Proxies,
                attachment,
                network: "lab".into(),
                kind: "galaxy-k8s-vlan".into(),
            }
        );
    }

    #[test]
    fn a_note_without_a_plugin_belongs_to_the_usual_one() {
        for (topic, kind) in [
            (Topic::Proxies, "galaxy-underlay-veth"),
            (Topic::Functions, "galaxy-k8s-sriov"),
        ] {
            for text in [r#"{"network":"lab"}"#, r#"{"network":"lab","kind":""}"#] {
                let note = Note::read(topic, "a:eth0.json", text.as_bytes()).unwrap();
                assert_eq!(note.kind, kind);
            }
        }
    }

    #[test]
    fn what_is_no_note_tells_nothing() {
        let fine = r#"{"network":"lab"}"#;
        assert!(Note::read(Topic::Proxies, "a:eth0.json", fine.as_bytes()).is_some());
        for (name, text) in [
            ("a.json", fine),
            ("a:eth0", fine),
            (".a:eth0.json.0123.draft", fine),
            (".a:eth0.json", fine),
            ("../a:eth0.json", fine),
            ("a:.json", fine),
            ("a:eth0.json", ""),
            ("a:eth0.json", r#"{"network":""}"#),
            ("a:eth0.json", r#"{"network":"../lab"}"#),
        ] {
            let note = Note::read(Topic::Proxies, name, text.as_bytes());
            assert_eq!(note, None, "{name} {text}");
        }
    }
}
