use super::*;

#[test]
fn a_refusal_has_its_number_and_its_words_whether_the_question_is_quoted_or_not() {
    let words = attribute(ERROR_WORDS, b"name already in use\0");
    let header = question(HEADER);
    let whole = question(HEADER + 8);
    for (flags, quoted) in [
        (libc::NLM_F_ACK_TLVS | libc::NLM_F_CAPPED, header),
        (libc::NLM_F_ACK_TLVS, whole),
    ] {
        let payload = [(-17_i32).to_ne_bytes().to_vec(), quoted, words.clone()].concat();
        let message = message(libc::NLMSG_ERROR, flags, &payload);
        let Err(Fault::Refused { errno, words }) = message.check() else {
            panic!("not refused")
        };
        assert_eq!(errno, 17);
        assert_eq!(words.as_deref(), Some("name already in use"));
    }
}

#[test]
fn an_acknowledgement_and_the_end_of_a_list_are_no_errors() {
    for (kind, payload) in [
        (libc::NLMSG_ERROR, [0; 20].as_slice()),
        (libc::NLMSG_DONE, &[0; 4]),
        (libc::NLMSG_DONE, &[]),
    ] {
        assert!(message(kind, 0, payload).check().is_ok());
    }
}

#[test]
fn a_list_can_end_with_a_refusal() {
    let payload = (-19_i32).to_ne_bytes();
    let message = message(libc::NLMSG_DONE, 0, &payload);
    assert!(matches!(
        message.check(),
        Err(Fault::Refused {
            errno: 19,
            words: None
        })
    ));
}

#[test]
fn words_that_cannot_be_read_do_not_hide_the_number() {
    let payload = [(-1_i32).to_ne_bytes(), [0xff; 4]].concat();
    let message = message(libc::NLMSG_ERROR, libc::NLM_F_ACK_TLVS, &payload);
    assert!(matches!(
        message.check(),
        Err(Fault::Refused {
            errno: 1,
            words: None
        })
    ));
}

#[test]
fn a_datagram_is_split_into_its_messages() {
    let mut datagram = Request::new(16, 0, &[1, 2, 3]).finish(5).to_vec();
    datagram.resize(aligned(datagram.len()), 0);
    datagram.extend(Request::new(3, 0, &[0; 4]).finish(5));
    let all: Vec<_> = Messages(&datagram).map(Result::unwrap).collect();
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].kind, all[0].payload), (16, [1, 2, 3].as_slice()));
    assert_eq!((all[1].kind, all[1].sequence), (3, 5));
}

#[test]
fn a_datagram_that_ends_early_is_an_error_and_ends() {
    let whole = Request::new(16, 0, &[1, 2, 3, 4]).finish(5).to_vec();
    for length in 1..whole.len() {
        let all: Vec<_> = Messages(&whole[..length]).collect();
        assert_eq!(all.len(), 1);
        assert!(all[0].is_err(), "{length} bytes");
    }
}

fn message(kind: i32, flags: i32, payload: &[u8]) -> Message<'_> {
    Message {
        kind,
        flags: flags.try_into().unwrap(),
        sequence: 1,
        payload,
    }
}

fn question(length: usize) -> Vec<u8> {
    let mut request = Request::new(16, 0, &vec![0; length - HEADER]);
    request.finish(1).to_vec()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut request = Request::new(0, 0, &[]).put(kind, value);
    request.finish(1)[HEADER..].to_vec()
}
