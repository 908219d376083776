//! What the agent answers, and what floe has written down for itself: a crash, a full
//! disk or somebody else may have made something else of it.

use floe_core::{
    cni::http::{self, LONGEST},
    node::moves::Move,
};

/// The agent's answer to a plugin.
pub fn agent_answer(data: &[u8]) -> bool {
    let Ok(whole) = http::read(data) else {
        assert!(http::at_end(data).is_err());
        return false;
    };
    let ended = http::at_end(data);
    if let Some(answer) = whole {
        assert!(answer.body.len() <= LONGEST);
        // What follows an answer changes nothing, and neither does the end.
        assert_eq!(ended.as_ref(), Ok(&answer));
        let more = [data, b"\r\n0\r\n"].concat();
        assert_eq!(http::read(&more), Ok(Some(answer)));
    }
    // It comes in pieces: no beginning of it is another answer.
    let half = &data[..data.len() / 2];
    if let (Ok(Some(early)), Ok(late)) = (http::read(half), &ended) {
        assert_eq!(early, *late);
    }
    ended.is_ok()
}

/// The journal of a move of the host's addresses.
pub fn move_journal(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else {
        return false;
    };
    match Move::parse(text) {
        Ok(journal) => {
            assert_eq!(Move::parse(&journal.to_json()).as_ref(), Ok(&journal));
            // They become parts of paths and names of links.
            for name in [&journal.device, &journal.bridge] {
                assert!(!name.is_empty() && name.len() < 16 && !name.contains('/'));
                assert!(name != "." && name != "..");
            }
            true
        }
        Err(error) => {
            assert!(!error.reason().is_empty());
            false
        }
    }
}
