use super::*;

#[test]
fn a_request_has_its_length_its_number_and_padded_attributes() {
    let mut request = Request::new(16, libc::NLM_F_ACK, &[9; 4])
        .put(1, &[7])
        .put_name(3, "lo")
        .put_u32(4, 1500);
    let bytes = request.finish(77);
    assert_eq!(u32_of(bytes).unwrap() as usize, bytes.len());
    assert_eq!(u16_of(&bytes[4..]).unwrap(), 16);
    assert_eq!(u16_of(&bytes[6..]).unwrap(), 0x5);
    assert_eq!(u32_of(&bytes[8..]).unwrap(), 77);
    let expected: &[(u16, &[u8])] = &[(1, &[7]), (3, b"lo\0"), (4, &1500_u32.to_ne_bytes())];
    assert_eq!(read(&bytes[20..]), expected);
}

#[test]
fn a_nest_counts_what_is_in_it_and_what_follows_is_outside() {
    let mut request = Request::new(16, 0, &[])
        .nest(18, &[1, 2, 3, 4], |inner| {
            inner.put(1, b"veth").nest(2, &[], |deep| deep.put(1, &[5]))
        })
        .put(20, b"alias");
    let bytes = request.finish(1);
    let outer = read(&bytes[HEADER..]);
    assert_eq!(outer.len(), 2);
    assert_eq!(outer[1], (20, b"alias".as_slice()));
    let inner = read(&outer[0].1[4..]);
    assert_eq!(inner[0], (1, b"veth".as_slice()));
    assert_eq!(read(inner[1].1), [(1, [5].as_slice())]);
}

#[test]
fn attributes_that_lie_about_their_length_are_an_error_and_no_panic() {
    for bytes in [
        [1].as_slice(),
        &[4, 0, 1],
        &[0, 0, 1, 0],
        &[3, 0, 1, 0],
        &[5, 0, 1, 0],
        &[0xff, 0xff, 1, 0, 0],
    ] {
        let result = attributes(bytes, |_, _| Ok(()));
        assert!(
            matches!(result, Err(NetlinkError::Malformed(_))),
            "{bytes:?}: {result:?}"
        );
    }
}

#[test]
fn the_flags_of_an_attribute_do_not_belong_to_its_kind() {
    let kind = (0x8000_u16 + 18).to_ne_bytes();
    let bytes = [4_u16.to_ne_bytes(), kind].concat();
    assert_eq!(read(&bytes), [(18, [].as_slice())]);
}

#[test]
fn texts_end_at_their_zero_and_addresses_have_four_or_sixteen_bytes() {
    assert_eq!(text_of(b"eth0\0rest"), "eth0");
    assert_eq!(text_of(b"eth0"), "eth0");
    assert_eq!(ip_of(&[10, 0, 0, 1]).unwrap().to_string(), "10.0.0.1");
    assert_eq!(ip_of(&[0; 16]).unwrap().to_string(), "::");
    assert!(ip_of(&[0; 5]).is_err());
}

fn read(bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    attributes(bytes, |kind, value| {
        all.push((kind, value));
        Ok(())
    })
    .unwrap();
    all
}
