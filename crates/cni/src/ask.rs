//! Asking several links at once whether somebody uses an address.

use std::{io, net::IpAddr, thread, time::Duration};

use floe_core::{announce::Mac, cni::error::CniError};
use floe_net::announce;

use crate::fail::system;

/// What is asked on one link of this thread's namespace.
pub struct Question {
    /// The link.
    pub link: u32,
    /// Who asks.
    pub own: Mac,
    /// Addresses of the asker. Who answers in the name of another answers only them,
    /// and not a probe, which has no sender.
    pub askers: Vec<IpAddr>,
    /// What is asked about.
    pub addresses: Vec<IpAddr>,
}

/// Asks everything at the same time. It takes `window`, and it is an error if
/// somebody uses one of the addresses.
pub fn ask(questions: &[Question], window: Duration) -> Result<(), CniError> {
    let ask = |question: &Question| {
        announce::ask_as(
            question.link,
            question.own,
            &question.askers,
            &question.addresses,
            window,
        )
    };
    let answers: Vec<io::Result<_>> = match questions {
        [] => return Ok(()),
        [only] => vec![ask(only)],
        // Threads stay in the namespace of the one that starts them.
        several => thread::scope(|scope| {
            let asking: Vec<_> = several
                .iter()
                .map(|question| scope.spawn(move || ask(question)))
                .collect();
            let answers = asking.into_iter().map(|it| {
                it.join()
                    .unwrap_or_else(|_| Err(io::Error::other("the inquiry panicked")))
            });
            answers.collect()
        }),
    };
    for answer in answers {
        let answer = answer.map_err(system("ask whether an address is in use"))?;
        if let Some(found) = answer {
            return Err(CniError::conflict(found.address, found.mac));
        }
    }
    Ok(())
}
