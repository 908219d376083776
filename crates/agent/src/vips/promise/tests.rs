use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::*;

fn keys(members: &[(&str, u8)]) -> Keys {
    let member = |(name, byte): &(&str, u8)| ((*name).to_owned(), ByteString(vec![*byte; 32]));
    Keys::of(&Secret {
        data: Some(members.iter().map(member).collect()),
        ..Secret::default()
    })
}

fn desk(node: &str) -> Desk {
    Desk::new(node.into(), format!("nonce of {node}"))
}

fn from() -> SocketAddr {
    "10.0.0.1:9042".parse().unwrap()
}

fn ask(desk: &Desk, term: i64, ticket: u64, keys: &Keys) -> Vec<u8> {
    let said = Said::Ask {
        to: "b".into(),
        address: "10.0.0.2".parse().unwrap(),
        term,
        ticket,
    };
    let (bytes, to) = desk.say(said, 9042, keys);
    assert_eq!(to, "10.0.0.2:9042".parse().unwrap());
    bytes.unwrap()
}

#[test]
fn a_question_is_answered_to_the_process_that_has_asked() {
    let keys = keys(&[("key", 1)]);
    let (mut a, mut b) = (desk("a"), desk("b"));
    let heard = b.hear(&ask(&a, 7, 3, &keys), from(), &keys).unwrap();
    let Heard::Ask {
        by,
        term,
        ticket,
        back,
    } = heard
    else {
        panic!("{heard:?}");
    };
    assert_eq!((by.as_str(), term, ticket), ("a", 7, 3));
    let answer = |refusal| Said::Answer {
        to: "a".into(),
        term,
        ticket,
        refusal,
        back: back.clone(),
    };
    for refusal in [None, Some("NewerTerm")] {
        let (bytes, to) = b.say(answer(refusal), 9042, &keys);
        assert_eq!(to, from());
        let bytes = bytes.unwrap();
        let wanted = Heard::Answer {
            by: "b".into(),
            term: 7,
            ticket: 3,
            granted: refusal.is_none(),
        };
        assert_eq!(a.hear(&bytes, from(), &keys), Ok(wanted));
        // The next process on that node has not asked.
        let mut later = Desk::new("a".into(), "another nonce".into());
        assert_eq!(later.hear(&bytes, from(), &keys), Err(Drop::Stale));
    }
}

#[test]
fn a_question_counts_once_and_only_for_whom_it_is_meant() {
    let keys = keys(&[("key", 1)]);
    let (a, mut b, mut c) = (desk("a"), desk("b"), desk("c"));
    let first = ask(&a, 7, 3, &keys);
    assert!(b.hear(&first, from(), &keys).is_ok());
    assert_eq!(b.hear(&first, from(), &keys), Err(Drop::Stale));
    assert!(b.hear(&ask(&a, 7, 4, &keys), from(), &keys).is_ok());
    assert_eq!(b.hear(&first, from(), &keys), Err(Drop::Stale));
    assert!(b.hear(&ask(&a, 8, 1, &keys), from(), &keys).is_ok());
    assert_eq!(
        b.hear(&ask(&a, 7, 9, &keys), from(), &keys),
        Err(Drop::Stale)
    );
    assert_eq!(c.hear(&first, from(), &keys), Err(Drop::Stale));
    assert_eq!(b.dropped.stale.load(Ordering::Relaxed), 3);
}

#[test]
fn what_is_too_long_changed_or_of_a_stranger_is_dropped_and_counted() {
    let own = keys(&[("key", 1)]);
    let (a, mut b) = (desk("a"), desk("b"));
    let good = ask(&a, 7, 3, &own);
    for position in [0, TAG_END, good.len() - 1] {
        let mut bad = good.clone();
        bad[position] ^= 1;
        assert_eq!(b.hear(&bad, from(), &own), Err(Drop::Unauthentic));
    }
    let stranger = ask(&a, 7, 3, &keys(&[("key", 2)]));
    for bad in [&stranger[..], &good[..20], &[]] {
        assert_eq!(b.hear(bad, from(), &own), Err(Drop::Unauthentic));
    }
    assert_eq!(
        b.hear(&[0; LONGEST + 1], from(), &own),
        Err(Drop::Oversized)
    );
    assert_eq!(
        b.hear(&good, from(), &Keys::default()),
        Err(Drop::Unauthentic)
    );
    assert_eq!(b.dropped.unauthentic.load(Ordering::Relaxed), 7);
    assert_eq!(b.dropped.oversized.load(Ordering::Relaxed), 1);
    assert!(b.hear(&good, from(), &own).is_ok());
}

const TAG_END: usize = 32;

#[test]
fn while_a_key_is_changed_both_are_believed() {
    let (a, mut b) = (desk("a"), desk("b"));
    let old = keys(&[("key", 1)]);
    let first = keys(&[("key", 1), ("next", 2)]);
    let second = keys(&[("key", 2), ("previous", 1)]);
    assert!(b.hear(&ask(&a, 1, 1, &old), from(), &first).is_ok());
    assert!(b.hear(&ask(&a, 1, 2, &second), from(), &first).is_ok());
    assert!(b.hear(&ask(&a, 1, 3, &first), from(), &second).is_ok());
    let last = keys(&[("key", 2)]);
    let dropped = b.hear(&ask(&a, 1, 4, &old), from(), &last);
    assert_eq!(dropped, Err(Drop::Unauthentic));
}

#[test]
fn without_a_key_that_signs_nothing_is_said() {
    let said = Said::Ask {
        to: "b".into(),
        address: "10.0.0.2".parse().unwrap(),
        term: 1,
        ticket: 1,
    };
    for keys in [Keys::default(), keys(&[("other", 1)])] {
        assert!(!keys.can_sign());
        assert_eq!(desk("a").say(said.clone(), 9042, &keys).0, None);
    }
    let short = Secret {
        data: Some([("key".to_owned(), ByteString(vec![1; 8]))].into()),
        ..Secret::default()
    };
    assert!(!Keys::of(&short).can_sign());
    let text = format!("{:?}", keys(&[("key", 7)]));
    assert!(!text.contains('7'), "{text}");
}

#[tokio::test]
async fn two_agents_talk_over_a_real_socket() {
    // Two posts cannot share a port; the answer goes back to wherever the question came from.
    let port = open(0).await.unwrap().local_addr().unwrap().port();
    let (_keep, keys) = watch::channel(keys(&[("key", 1)]));
    let (heard, mut incoming) = mpsc::channel(QUEUE);
    let (says, said) = mpsc::channel(QUEUE);
    let listener = Post {
        node: "b".into(),
        port,
        keys: keys.clone(),
        heard,
        said,
    };
    let task = tokio::spawn(listener.run());

    let mut a = desk("a");
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
    let current = keys.borrow().clone();
    let mut ticket = 0;
    // What comes before the port is open is lost, as with any other loss.
    let question = loop {
        ticket += 1;
        // The port may have no owner yet; then the system says so.
        let _ = socket.send_to(&ask(&a, 5, ticket, &current), to).await;
        let wait = tokio::time::timeout(Duration::from_millis(50), incoming.recv());
        if let Ok(heard) = wait.await {
            break heard.unwrap();
        }
        assert!(ticket < 200, "nothing was heard");
    };
    let Heard::Ask { ticket, back, .. } = question else {
        panic!("{question:?}");
    };
    let answer = Said::Answer {
        to: "a".into(),
        term: 5,
        ticket,
        refusal: None,
        back,
    };
    says.send(answer).await.unwrap();
    let mut buffer = [0; LONGEST];
    let (length, from) = loop {
        if let Ok(received) = socket.recv_from(&mut buffer).await {
            break received;
        }
    };
    let heard = a.hear(&buffer[..length], from, &current);
    assert!(
        matches!(heard, Ok(Heard::Answer { granted: true, .. })),
        "{heard:?}"
    );
    drop(says);
    task.await.unwrap();
}
