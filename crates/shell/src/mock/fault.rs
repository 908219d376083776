//! What can go wrong with a request.

use std::{collections::VecDeque, time::Duration};

use axum::{
    body::Body,
    http::{Method, Response},
};

use super::State;

/// What else happens on the server.
pub type Act = Box<dyn FnOnce(&mut State) + Send>;

/// What happens to a request.
pub enum Fault {
    /// It is refused with this status.
    Refuse(u16),
    /// It is not done, and the connection breaks.
    Break,
    /// It is not done, and no answer ever comes.
    Hang,
    /// It is done, but the connection breaks before the answer.
    Lose,
    /// It is done, but no answer ever comes.
    Swallow,
    /// Something else happens just before it is done.
    Before(Act),
    /// It is done, then something else happens, and watches report both before the answer comes.
    After(Act),
}

/// How long an answer takes that watches overtake.
pub(super) const LATE: Duration = Duration::from_millis(100);

/// What comes back.
pub(super) enum Reply {
    Answer(Response<Body>),
    /// The same, after [`LATE`].
    Late(Response<Body>),
    Broken,
    Never,
}

#[derive(Default)]
pub(super) struct Faults {
    once: VecDeque<(Method, String, Fault)>,
    always: Vec<(Method, String, Fault)>,
}

impl Faults {
    pub fn once(&mut self, method: Method, path: &str, fault: Fault) {
        self.once.push_back((method, path.into(), fault));
    }

    pub fn always(&mut self, method: Method, path: &str, fault: Fault) {
        assert!(
            !matches!(fault, Fault::Before(_) | Fault::After(_)),
            "such a thing happens once"
        );
        self.always.push((method, path.into(), fault));
    }

    pub fn next(&mut self, method: &Method, path: &str) -> Option<Fault> {
        let fits = |it: &&(Method, String, Fault)| it.0 == *method && path.contains(&it.1);
        if let Some(position) = self.once.iter().position(|it| fits(&it)) {
            return self.once.remove(position).map(|(_, _, fault)| fault);
        }
        let (_, _, fault) = self.always.iter().find(fits)?;
        Some(match fault {
            Fault::Refuse(status) => Fault::Refuse(*status),
            Fault::Break => Fault::Break,
            Fault::Hang => Fault::Hang,
            Fault::Lose => Fault::Lose,
            Fault::Swallow => Fault::Swallow,
            Fault::Before(_) | Fault::After(_) => return None,
        })
    }
}
