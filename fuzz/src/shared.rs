//! What pods say about the addresses that they share.

use std::{collections::BTreeSet, net::IpAddr};

use floe_core::{
    addr,
    vip::claim::{ALIAS, ANNOTATION, Claim, MAX_ADDRESSES, MAX_PROBLEMS, Special, pair},
};

/// The annotation that asks for shared addresses.
pub fn vip_annotation(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else {
        return false;
    };
    let claim = Claim::of(|name| (name == ANNOTATION).then_some(text));
    let all: BTreeSet<&IpAddr> = claim.addresses.iter().collect();
    assert_eq!(all.len(), claim.addresses.len());
    assert!(all.len() <= MAX_ADDRESSES && claim.problems.len() <= MAX_PROBLEMS + 1);
    for &ip in &claim.addresses {
        assert_eq!(addr::canonical(ip), ip);
        assert_eq!(Special::of(ip), None);
        assert_eq!(pair(ip, &[ip]), Ok(ip));
    }
    for problem in &claim.problems {
        assert!(!problem.reason().is_empty());
        // They become Events, which have at most 1024 bytes of text.
        let text = problem.to_string();
        assert!(text.len() < 1024, "{text}");
        assert!(!text.contains(['\n', '\0']), "{text:?}");
    }
    // Written anew it asks for the same, and nothing is wrong any more.
    let texts: Vec<String> = claim.addresses.iter().map(IpAddr::to_string).collect();
    let written = serde_json::to_string(&texts).expect("texts always have a JSON form");
    let again = Claim::of(|name| (name == ALIAS).then_some(&*written));
    assert_eq!(again.addresses, claim.addresses);
    assert_eq!(again.problems, []);
    // In both places, whatever is wrong in one does not change what the other asks for.
    let both = Claim::of(|name| Some(if name == ALIAS { &*written } else { text }));
    assert_eq!(both, claim);
    claim.problems.is_empty()
}
