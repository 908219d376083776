use serde_json::json;

use super::*;

#[test]
fn an_error_is_written_as_the_specification_says() {
    let error = CniError::conflict(
        "10.0.0.5".parse().unwrap(),
        Mac([0x02, 0x42, 0x0a, 0, 0, 5]),
    );
    assert_eq!(
        error.to_text(Version::V1_0_0),
        concat!(
            r#"{"cniVersion":"1.0.0","code":101,"#,
            r#""msg":"AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05"}"#
        )
    );
    let error = CniError::of(Code::Io, "cannot read").with_details("file x");
    let text =
        r#"{"cniVersion":"0.4.0","code":5,"msg":"IoFailed: cannot read","details":"file x"}"#;
    assert_eq!(error.to_text(Version::V0_4_0), text);
    assert_eq!(
        error.to_json(Version::V0_4_0),
        serde_json::from_str::<Value>(text).unwrap()
    );
}

#[test]
fn a_pod_without_address_is_refused_with_galaxys_words() {
    let error = CniError::no_address();
    assert_eq!(
        error.to_string(),
        "NoAddress: neither ipInfo from cni args nor ipam type from netconf"
    );
    assert_eq!(error.code.number(), 7);
}

#[test]
fn the_numbers_are_those_of_the_specification() {
    let numbers: Vec<u32> = Code::NAMED.map(Code::number).to_vec();
    assert_eq!(
        numbers,
        [1, 2, 3, 4, 5, 6, 7, 11, 50, 51, 100, 101, 102, 103, 104]
    );
    for code in Code::NAMED {
        assert_eq!(Code::of(code.number()), code);
    }
    assert_eq!(Code::of(999), Code::Other(999));
    assert_eq!(Code::Other(999).number(), 999);
}

#[test]
fn an_error_of_floe_survives_being_handed_on() {
    let errors = Code::NAMED
        .into_iter()
        .map(|code| CniError::of(code, "it: failed"))
        .chain(REASONS.map(|reason| CniError::new(Code::Agent, reason, "it failed")))
        .chain([CniError::of(Code::Io, "it failed").with_details("more")]);
    for error in errors.filter(|error| error.code != Code::Delegate) {
        for version in Version::SUPPORTED {
            let read = CniError::of_delegate("galaxy-k8s-vlan", error.to_text(version).as_bytes());
            assert_eq!(read, error);
        }
    }
}

#[test]
fn another_plugin_keeps_its_code_and_texts() {
    let output = br#"{"code":999,"msg":"no such subnet: 10.0.0.0/8","details":"look there"}"#;
    let error = CniError::of_delegate("host-local", output);
    assert_eq!(error.code, Code::Other(999));
    assert_eq!(error.reason, "DelegateFailed");
    assert_eq!(
        error.to_json(Version::V0_3_1),
        json!({
            "cniVersion": "0.3.1",
            "code": 999,
            "msg": "DelegateFailed: host-local: no such subnet: 10.0.0.0/8",
            "details": "look there",
        })
    );
    // A code of the specification stays, too: the runtime may act on it.
    let error = CniError::of_delegate("dhcp", br#"{"cniVersion":"1.0.0","code":11,"msg":"busy"}"#);
    assert_eq!(error.code, Code::TryAgainLater);
    assert_eq!(error.to_string(), "DelegateFailed: dhcp: busy");
}

#[test]
fn a_code_that_cannot_be_is_that_of_a_failed_plugin() {
    for code in ["0", "-1", "4294967296"] {
        let output = format!(r#"{{"code":{code},"msg":"m"}}"#);
        let error = CniError::of_delegate("x", output.as_bytes());
        assert_eq!(error.code, Code::Delegate, "{code}");
        assert_eq!(error.message, "x: m");
    }
}

#[test]
fn what_is_no_error_object_is_quoted() {
    let table: [(&[u8], &str); 7] = [
        (b"", "x failed and told nothing"),
        (b" \n", "x failed and told nothing"),
        (b"panic: oh\n", "x: panic: oh"),
        (b"{}", "x: {}"),
        (br#"["1.0.0",7,"m"]"#, r#"x: ["1.0.0",7,"m"]"#),
        (br#"{"code":"7"}"#, r#"x: {"code":"7"}"#),
        (b"\xff", "x: \u{fffd}"),
    ];
    for (output, message) in table {
        let error = CniError::of_delegate("x", output);
        assert_eq!(error, CniError::of(Code::Delegate, message));
    }
    let long = CniError::of_delegate("x", &[b'y'; 10_000]);
    assert!(long.message.len() < 200, "{}", long.message.len());
}
