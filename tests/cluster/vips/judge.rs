//! Whether only one node ever spoke for an address: what was heard on the wire against
//! who had the address when.

use std::time::Duration;

/// How long after it was written a holding is learnt at the latest, on a busy machine.
const LEARNT_WITHIN: Duration = Duration::from_secs(3);

/// How long a successor that was passed over may answer what reaches it: until its deadline.
const PASSED_OVER: Duration = Duration::from_secs(3);

/// Somebody said on the wire that an address is at this hardware address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// When, since 1970.
    pub at: Duration,
    /// The hardware address.
    pub mac: String,
}

/// A holding of the address, as it was learnt from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// When it was learnt, since 1970. It began before.
    pub at: Duration,
    /// The hardware address of the holder; `None`: nobody has the address.
    pub mac: Option<String>,
    /// The hardware address of the successor that the holder has named.
    pub successor: Option<String>,
}

/// Somebody spoke who had no right to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// What was heard.
    pub heard: Sighting,
    /// The holding that was in force, as far as it was known.
    pub instead_of: Option<Learnt>,
}

/// Follows what was heard through the holdings, both in their order in time.
///
/// A holder is silent before another one is written down, so from the moment in which a
/// holding is learnt nobody of an earlier one may be heard. A later holder may be heard
/// before its holding is learnt, and from then on nobody of an earlier one either. So a
/// hardware address comes back only with a new holding.
pub fn judge(heard: &[Sighting], holdings: &[Learnt]) -> Result<(), Breach> {
    let mut reached = 0;
    for sighting in heard {
        let known = holdings.iter().rposition(|it| it.at < sighting.at);
        let first = reached.max(known.unwrap_or_default());
        let its = |it: &Learnt| it.mac.as_ref() == Some(&sighting.mac);
        let Some(found) = holdings.iter().skip(first).position(its) else {
            return Err(Breach {
                heard: sighting.clone(),
                instead_of: holdings.get(first).cloned(),
            });
        };
        reached = first + found;
    }
    Ok(())
}

/// The same for packets that were answered in the name of an address.
///
/// From the moment in which a holding is learnt, no earlier holder may answer. A successor
/// answers what reaches it from the moment in which the holder names it: the holder sends
/// its last packets there. One that is passed over has until its deadline to learn of that.
/// Both may be heard a moment before they are learnt.
pub fn judge_answers(answers: &[Sighting], holdings: &[Learnt]) -> Result<(), Breach> {
    let mut reached = 0;
    for answer in answers {
        let known = holdings.iter().rposition(|it| it.at < answer.at);
        let known = known.unwrap_or_default().max(reached);
        let mac = Some(&answer.mac);
        let its = |it: &Learnt| it.mac.as_ref() == mac || it.successor.as_ref() == mac;
        if holdings.get(known).is_some_and(its) || was_passed_over(&holdings[..=known], answer) {
            continue;
        }
        let next = holdings.get(known + 1);
        let next = next.filter(|it| it.at.saturating_sub(answer.at) < LEARNT_WITHIN);
        if !next.is_some_and(its) {
            return Err(Breach {
                heard: answer.clone(),
                instead_of: holdings.get(known).cloned(),
            });
        }
        // It was not named before, so the holder has failed and must be silent by now.
        if next.is_some_and(|it| it.mac.as_ref() == mac) {
            reached = known + 1;
        }
    }
    Ok(())
}

/// Whether somebody answers who was to be the next holder until shortly before, and was not the
/// holder since then.
fn was_passed_over(holdings: &[Learnt], answer: &Sighting) -> bool {
    let mac = Some(&answer.mac);
    let Some(last) = holdings.iter().rposition(|it| it.successor.as_ref() == mac) else {
        return false;
    };
    let after = &holdings[last + 1..];
    let is_recent = |it: &Learnt| answer.at < it.at + PASSED_OVER;
    after.first().is_some_and(is_recent) && after.iter().all(|it| it.mac.as_ref() != mac)
}

/// The sender of an echo reply that comes from an address, in a line of `tcpdump -tt -e`.
pub fn answer(line: &str, ip: &str) -> Option<Sighting> {
    let is_reply = line.contains("ICMP echo reply") || line.contains("ICMP6, echo reply");
    if !is_reply || !line.contains(&format!(": {ip} > ")) {
        return None;
    }
    let mut words = line.split_whitespace();
    let at = words.next()?.parse().ok()?;
    Some(Sighting {
        at: Duration::try_from_secs_f64(at).ok()?,
        mac: words.next()?.to_owned(),
    })
}

/// What a line of `tcpdump -tt -e` says about where an address is; nothing, if it only asks,
/// or says something about others.
///
/// Who asks for another one in the name of the address says as well where it is: whoever
/// hears it learns it.
pub fn sighting(line: &str, ip: &str) -> Option<Sighting> {
    let mut words = line.split_whitespace();
    let at = words.next()?.parse().ok()?;
    let sender = words.next()?;
    let mac = if line.contains("ethertype ARP") {
        told_by_arp(line, sender, ip)?
    } else {
        told_by_discovery(line, sender, ip)?
    };
    Some(Sighting {
        at: Duration::try_from_secs_f64(at).ok()?,
        mac: mac.to_owned(),
    })
}

fn told_by_arp<'a>(line: &'a str, sender: &'a str, ip: &str) -> Option<&'a str> {
    if let Some((_, reply)) = line.split_once(&format!("Reply {ip} is-at ")) {
        return reply.split([',', ' ']).next();
    }
    let asks = line.contains("who-has") && line.contains(&format!(" tell {ip},"));
    asks.then_some(sender)
}

/// Advertisements, asked for or not, and questions that come from the address.
fn told_by_discovery<'a>(line: &str, sender: &'a str, ip: &str) -> Option<&'a str> {
    let told = line.contains(&format!("neighbor advertisement, tgt is {ip},"));
    let asks = line.contains(&format!(": {ip} > ")) && line.contains("neighbor solicitation");
    (told || asks).then_some(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(all: &[(u64, &str)]) -> Vec<Sighting> {
        let one = |(at, mac): &(u64, &str)| Sighting {
            at: Duration::from_millis(*at),
            mac: (*mac).to_owned(),
        };
        all.iter().map(one).collect()
    }

    fn learnt(all: &[(u64, Option<&str>)]) -> Vec<Learnt> {
        let one = |(at, mac): &(u64, Option<&str>)| Learnt {
            at: Duration::from_millis(*at),
            mac: mac.map(str::to_owned),
            successor: None,
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_holder_that_answers_after_the_next_one_is_learnt_is_found() {
        let holdings = learnt(&[(0, Some("a")), (100, Some("b")), (5_000, Some("a"))]);
        let answers = [(10, "a"), (99, "a"), (99, "b"), (101, "b"), (800, "b")];
        assert_eq!(judge_answers(&heard(&answers), &holdings), Ok(()));
        // Also after the next one was heard and before it is learnt.
        let answers = [(10, "a"), (90, "b"), (95, "a")];
        assert!(judge_answers(&heard(&answers), &holdings).is_err());
        // Also if it comes back later, and if no node has the address meanwhile.
        assert!(judge_answers(&heard(&[(101, "a")]), &holdings).is_err());
        let ended = learnt(&[(0, Some("a")), (100, None)]);
        assert!(judge_answers(&heard(&[(101, "a")]), &ended).is_err());
    }

    #[test]
    fn a_successor_answers_as_soon_as_the_holder_names_it() {
        let mut holdings = learnt(&[(0, Some("a")), (100, Some("a")), (200, Some("b"))]);
        holdings[1].successor = Some("b".to_owned());
        let answers = [(90, "b"), (150, "b"), (160, "a"), (170, "b"), (300, "b")];
        assert_eq!(judge_answers(&heard(&answers), &holdings), Ok(()));
        assert!(judge_answers(&heard(&[(150, "c")]), &holdings).is_err());
        assert!(judge_answers(&heard(&[(201, "a")]), &holdings).is_err());
    }

    #[test]
    fn a_successor_that_is_passed_over_answers_until_its_deadline_at_most() {
        let mut holdings = learnt(&[(0, Some("a")), (100, Some("a")), (1_000, Some("a"))]);
        holdings[0].successor = Some("b".to_owned());
        holdings[1].successor = Some("c".to_owned());
        assert_eq!(judge_answers(&heard(&[(3_099, "b")]), &holdings), Ok(()));
        assert!(judge_answers(&heard(&[(3_101, "b")]), &holdings).is_err());
        // Whoever was the holder since then was not passed over.
        holdings[1].mac = Some("b".to_owned());
        assert!(judge_answers(&heard(&[(1_001, "b")]), &holdings).is_err());
    }

    #[test]
    fn echo_replies_of_an_address_are_answers_and_requests_are_not() {
        let start = "1700000000.250000 02:f1:0e:00:00:0b > 02:f1:0e:00:00:c8, ethertype IPv4 (0x0800), length 42: ";
        let sender = |rest: &str, ip: &str| Some(answer(&format!("{start}{rest}"), ip)?.mac);
        let reply = "10.200.0.22 > 10.200.0.200: ICMP echo reply, id 7, seq 1, length 8";
        let here = Some("02:f1:0e:00:00:0b".to_owned());
        assert_eq!(sender(reply, "10.200.0.22"), here);
        assert_eq!(sender(reply, "10.200.0.2"), None);
        let reply = "fd00:200::22 > fd00:200::c8: ICMP6, echo reply, id 7, seq 1, length 8";
        assert_eq!(sender(reply, "fd00:200::22"), here);
        let request = "10.200.0.22 > 10.200.0.200: ICMP echo request, id 7, seq 1, length 8";
        assert_eq!(sender(request, "10.200.0.22"), None);
    }

    #[test]
    fn one_after_the_other_is_fine_also_when_a_holding_is_learnt_late() {
        let holdings = learnt(&[(0, Some("a")), (100, Some("b")), (200, Some("a"))]);
        let all = heard(&[(10, "a"), (90, "b"), (110, "b"), (190, "a"), (300, "a")]);
        assert_eq!(judge(&all, &holdings), Ok(()));
        assert_eq!(judge(&[], &holdings), Ok(()));
    }

    #[test]
    fn whoever_speaks_after_another_without_a_new_holding_is_found() {
        let holdings = learnt(&[(0, Some("a")), (100, Some("b"))]);
        let all = heard(&[(10, "a"), (90, "b"), (95, "a")]);
        let breach = judge(&all, &holdings).unwrap_err();
        assert_eq!(
            (breach.heard, breach.instead_of),
            (all[2].clone(), Some(holdings[1].clone()))
        );
    }

    #[test]
    fn whoever_speaks_once_another_has_it_is_found_though_that_one_was_not_heard() {
        let holdings = learnt(&[(0, Some("a")), (100, Some("b"))]);
        assert!(judge(&heard(&[(10, "a"), (101, "a")]), &holdings).is_err());
        let nobody = learnt(&[(0, Some("a")), (100, None)]);
        assert!(judge(&heard(&[(10, "a"), (101, "a")]), &nobody).is_err());
        assert!(judge(&heard(&[(10, "a"), (99, "a")]), &nobody).is_ok());
    }

    #[test]
    fn whoever_never_had_it_is_found() {
        let holdings = learnt(&[(0, Some("a"))]);
        assert!(judge(&heard(&[(10, "c")]), &holdings).is_err());
        assert!(judge(&heard(&[(10, "a")]), &[]).is_err());
    }

    #[test]
    fn replies_and_announcements_tell_a_place_and_questions_do_not() {
        let start = "1700000000.250000 02:f1:0e:00:00:0b > ff:ff:ff:ff:ff:ff, ethertype ARP (0x0806), length 42: ";
        let told = |rest: &str| {
            let sighting = sighting(&format!("{start}{rest}"), "10.200.0.22")?;
            assert_eq!(sighting.at, Duration::from_millis(1_700_000_000_250));
            Some(sighting.mac)
        };
        let reply = "Reply 10.200.0.22 is-at 02:f1:0e:00:00:0c, length 28";
        assert_eq!(told(reply).as_deref(), Some("02:f1:0e:00:00:0c"));
        let announcement =
            "Request who-has 10.200.0.22 (ff:ff:ff:ff:ff:ff) tell 10.200.0.22, length 28";
        assert_eq!(told(announcement).as_deref(), Some("02:f1:0e:00:00:0b"));
        assert_eq!(
            told("Request who-has 10.200.0.22 tell 10.200.0.200, length 28"),
            None
        );
        assert_eq!(
            told("Reply 10.200.0.221 is-at 02:f1:0e:00:00:0c, length 28"),
            None
        );
        assert_eq!(
            told("Request who-has 10.200.0.221 tell 10.200.0.221, length 28"),
            None
        );
    }

    #[test]
    fn advertisements_tell_a_place_and_solicitations_only_that_of_who_asks() {
        let start = "1700000000.250000 02:f1:0e:00:00:0b > 33:33:00:00:00:01, ethertype IPv6 (0x86dd), length 86: ";
        let told = |rest: &str| Some(sighting(&format!("{start}{rest}"), "fd00:200::22")?.mac);
        let here = Some("02:f1:0e:00:00:0b".to_owned());
        for rest in [
            "fd00:200::22 > ff02::1: ICMP6, neighbor advertisement, tgt is fd00:200::22, length 32",
            "fd00:200::22 > fd00:200::c8: ICMP6, neighbor advertisement, tgt is fd00:200::22, length 32",
            "fd00:200::b > ff02::1: ICMP6, neighbor advertisement, tgt is fd00:200::22, length 32",
            "fd00:200::22 > ff02::1:ff00:c8: ICMP6, neighbor solicitation, who has fd00:200::c8, length 32",
        ] {
            assert_eq!(told(rest), here, "{rest}");
        }
        for rest in [
            "fd00:200::c8 > ff02::1:ff00:22: ICMP6, neighbor solicitation, who has fd00:200::22, length 32",
            ":: > ff02::1:ff00:22: ICMP6, neighbor solicitation, who has fd00:200::22, length 24",
            "fd00:200::221 > ff02::1: ICMP6, neighbor advertisement, tgt is fd00:200::221, length 32",
            "fd00:200::221 > ff02::1:ff00:c8: ICMP6, neighbor solicitation, who has fd00:200::c8, length 32",
        ] {
            assert_eq!(told(rest), None, "{rest}");
        }
    }
}
