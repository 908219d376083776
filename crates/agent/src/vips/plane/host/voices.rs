//! Who answers on which link.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use floe_net::{
    boottime::Deadline,
    responder::{Responder, ResponderError},
};

/// Links, each with the addresses that are or shall be answered for.
type Answers = BTreeMap<String, BTreeSet<IpAddr>>;

/// Links, each with why nobody is answered there.
pub type Deaf = BTreeMap<String, String>;

/// The responders of all links.
#[derive(Debug, Default)]
pub struct Voices(BTreeMap<String, Voice>);

#[derive(Debug)]
struct Voice {
    responder: Responder,
    answers: BTreeSet<IpAddr>,
}

impl Voices {
    /// Answers for nothing any more that is not wanted.
    pub fn hush(&mut self, wanted: &Answers) -> Result<(), ResponderError> {
        self.0.retain(|link, _| wanted.contains_key(link));
        for (link, voice) in &mut self.0 {
            let new = wanted.get(link).into_iter().flatten();
            let kept: BTreeSet<IpAddr> = new
                .filter(|ip| voice.answers.contains(ip))
                .copied()
                .collect();
            if kept != voice.answers {
                voice.responder.set(kept.clone())?;
                voice.answers = kept;
            }
        }
        Ok(())
    }

    /// Answers for all that is wanted, and tells the links what is new there.
    pub fn answer(&mut self, wanted: &Answers, deadline: &Deadline) -> Deaf {
        let mut deaf = Deaf::new();
        for (link, addresses) in wanted {
            if let Err(error) = self.answer_on(link, addresses, deadline) {
                deaf.insert(link.clone(), error.to_string());
            }
        }
        deaf
    }

    /// Where nobody would be heard and answered. What cannot be mended is ended, so that
    /// the next order begins anew.
    pub fn check(&mut self) -> Deaf {
        let mut deaf = Deaf::new();
        self.0.retain(|link, voice| {
            let Err(error) = voice.responder.check() else {
                return true;
            };
            deaf.insert(link.clone(), error.to_string());
            matches!(error, ResponderError::NoCarrier(_))
        });
        deaf
    }

    fn answer_on(
        &mut self,
        link: &str,
        addresses: &BTreeSet<IpAddr>,
        deadline: &Deadline,
    ) -> Result<(), ResponderError> {
        if !self.0.contains_key(link) {
            let voice = Voice {
                responder: Responder::start(link, deadline.clone())?,
                answers: BTreeSet::new(),
            };
            self.0.insert(link.to_owned(), voice);
        }
        let Some(voice) = self.0.get_mut(link) else {
            return Ok(());
        };
        if voice.answers != *addresses {
            voice.responder.set(addresses.clone())?;
            let new = addresses.difference(&voice.answers).copied();
            voice.responder.announce(new);
            voice.answers.clone_from(addresses);
        }
        Ok(())
    }
}
