use floe_core::ipam::families::Family;
use hickory_proto::{
    op::{Message, OpCode, ResponseCode, UpdateMessage as _},
    rr::DNSClass,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

const SECRET: &str = "c2VjcmV0IG9mIHRlc3Rz";

fn key() -> Key {
    Key {
        name: "floe".into(),
        secret: Secret::new(SECRET),
        algorithm: "hmac-sha256".into(),
    }
}

fn wanted(addresses: &[&str]) -> RecordSet {
    RecordSet {
        zone: "example.com".into(),
        name: "www".into(),
        addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
        ttl: 60,
        owner: "floe/cluster/pool".into(),
        families: [Family::V4, Family::V6].into(),
    }
}

#[test]
fn names_are_relative_unless_they_end_with_the_zone() {
    for (name, full) in [
        ("www", "www.example.com"),
        ("a.b", "a.b.example.com"),
        ("@", "example.com"),
        ("", "example.com"),
        ("www.Example.com", "www.Example.com"),
        ("www.example.com.", "www.example.com"),
        ("example.com", "example.com"),
        ("notexample.com", "notexample.com.example.com"),
    ] {
        assert_eq!(full_name("example.com", name), full, "{name:?}");
        assert_eq!(full_name("example.com.", name), full, "{name:?}");
    }
    let place = Place::new("example.com", "www").unwrap();
    assert_eq!(place.note.to_ascii(), "_floe.www.example.com.");
    let refusal = Place::new("example.com", "a..b").unwrap_err();
    assert_eq!(refusal.class, Class::Invalid);
}

#[test]
fn the_environment_names_server_and_key_or_says_what_is_missing() {
    let all = [
        ("RFC2136_SERVER", "ns.example.com:53"),
        ("RFC2136_TSIG_NAME", "floe"),
        ("RFC2136_TSIG_SECRET", SECRET),
    ];
    let with = |pairs: &[(&str, &str)]| {
        let found = |name: &str| {
            let pair = pairs.iter().find(|(key, _)| *key == name)?;
            Some(pair.1.to_owned())
        };
        from_environment(&found)
    };
    assert!(with(&[]).unwrap().is_none());
    let client = with(&all).unwrap().unwrap();
    assert_eq!(*client.signer.algorithm(), TsigAlgorithm::HmacSha256);
    assert!(!format!("{client:?}").contains("secret"), "{client:?}");
    let more = [&all[..], &[("RFC2136_TSIG_ALGORITHM", "HMAC-SHA512.")]].concat();
    let client = with(&more).unwrap().unwrap();
    assert_eq!(*client.signer.algorithm(), TsigAlgorithm::HmacSha512);
    for (name, value) in [
        ("RFC2136_SERVER", "ns.example.com"),
        ("RFC2136_TSIG_NAME", "a..b"),
        ("RFC2136_TSIG_NAME", ""),
        ("RFC2136_TSIG_SECRET", "not base 64"),
        ("RFC2136_TSIG_ALGORITHM", "hmac-md5"),
    ] {
        let pairs = [&[(name, value)][..], &all].concat();
        let error = with(&pairs).unwrap_err();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
        assert!(!error.contains("base 64 not"), "{error}");
    }
}

#[test]
fn an_update_clears_only_the_families_of_the_name() {
    let place = Place::new("example.com", "www").unwrap();
    let cleared = |wanted: &RecordSet| -> Vec<RecordType> {
        let update = message::ensure(&place, &Now::default(), wanted);
        let updates = update.updates().iter();
        let cleared = updates.filter(|it| it.dns_class == DNSClass::ANY);
        cleared.map(Record::record_type).collect()
    };
    let (a, aaaa, txt) = (RecordType::A, RecordType::AAAA, RecordType::TXT);
    let mut wanted = wanted(&["192.0.2.1"]);
    assert_eq!(cleared(&wanted), [a, aaaa, txt]);
    wanted.families.clear();
    assert_eq!(cleared(&wanted), [a, txt]);
}

#[test]
fn an_update_begins_with_what_must_still_be_true() {
    let place = Place::new("example.com", "www").unwrap();
    let now = Now::default();
    let update = message::ensure(&place, &now, &wanted(&["192.0.2.1", "2001:db8::1"]));
    assert_eq!(update.metadata.op_code, OpCode::Update);
    let conditions: Vec<_> = update
        .prerequisites()
        .iter()
        .map(|record| (record.name.clone(), record.record_type(), record.dns_class))
        .collect();
    assert_eq!(
        conditions,
        [
            (place.note.clone(), RecordType::TXT, DNSClass::NONE),
            (place.name.clone(), RecordType::CNAME, DNSClass::NONE),
        ]
    );
    let kinds: Vec<_> = update
        .updates()
        .iter()
        .map(|record| (record.record_type(), record.dns_class, record.ttl))
        .collect();
    assert_eq!(
        kinds,
        [
            (RecordType::A, DNSClass::ANY, 0),
            (RecordType::AAAA, DNSClass::ANY, 0),
            (RecordType::TXT, DNSClass::ANY, 0),
            (RecordType::A, DNSClass::IN, 60),
            (RecordType::AAAA, DNSClass::IN, 60),
            (RecordType::TXT, DNSClass::IN, 60),
        ]
    );
    // With a note, it is this note that must be there.
    let note = update.updates()[5].clone();
    let now = Now {
        owner: Some(text(&note.data)),
        note: vec![note.clone()],
        ..Now::default()
    };
    assert_eq!(now.owner.as_deref(), Some("floe/cluster/pool"));
    let update = message::remove(&place, &now, &message::kinds(|_| true));
    let [condition] = update.prerequisites() else {
        panic!("one condition: {update:?}");
    };
    assert_eq!((condition.ttl, condition.dns_class), (0, DNSClass::IN));
    assert_eq!(condition.data, note.data);
    assert_eq!(update.updates().len(), 3);
}

#[test]
fn nothing_is_written_when_it_is_so_already() {
    let so = Now {
        addresses: wanted(&["192.0.2.1"]).addresses,
        ttls: [60].into(),
        owner: Some("floe/cluster/pool".into()),
        ..Now::default()
    };
    assert!(so.says(&wanted(&["192.0.2.1"])));
    assert!(!so.says(&wanted(&["192.0.2.2"])));
    let late = Now {
        ttls: [60, 61].into(),
        ..so.clone()
    };
    assert!(!late.says(&wanted(&["192.0.2.1"])));
    let without_note = Now { owner: None, ..so };
    assert!(!without_note.says(&wanted(&["192.0.2.1"])));
    assert!(Now::default().says(&wanted(&[])));
}

#[test]
fn codes_have_their_classes() {
    let class = |code| {
        let answer = Message::error_msg(1, OpCode::Update, code);
        answer::refusal(&answer).map(|refusal| refusal.class)
    };
    assert_eq!(class(ResponseCode::NoError), None);
    assert_eq!(class(ResponseCode::NXDomain), None);
    for (code, expected) in [
        (ResponseCode::NotAuth, Class::ZoneUnknown),
        (ResponseCode::Refused, Class::Unauthorized),
        (ResponseCode::NXRRSet, Class::Busy),
        (ResponseCode::YXRRSet, Class::Busy),
        (ResponseCode::ServFail, Class::Unavailable),
        (ResponseCode::NotZone, Class::Invalid),
        (ResponseCode::FormErr, Class::Invalid),
    ] {
        assert_eq!(class(code), Some(expected), "{code:?}");
    }
}

/// A server that answers each question with what this makes of it; nothing ends the
/// connection.
async fn server(answer: fn(&Message) -> Option<Message>) -> Rfc2136 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while let Ok(length) = stream.read_u16().await {
            let mut bytes = vec![0; usize::from(length)];
            stream.read_exact(&mut bytes).await.unwrap();
            let Some(answer) = answer(&Message::from_vec(&bytes).unwrap()) else {
                return;
            };
            let bytes = answer.to_vec().unwrap();
            let length = u16::try_from(bytes.len()).unwrap();
            stream.write_u16(length).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        }
    });
    Rfc2136::new(&address.to_string(), &key()).unwrap()
}

async fn class_of(answer: fn(&Message) -> Option<Message>) -> Class {
    let client = server(answer).await;
    client
        .ensure(&wanted(&["192.0.2.1"]))
        .await
        .unwrap_err()
        .class
}

#[tokio::test]
async fn a_good_answer_without_a_signature_is_not_believed() {
    let good = |asked: &Message| {
        let mut answer = Message::response(asked.id, asked.op_code);
        answer.metadata.authoritative = true;
        Some(answer)
    };
    assert_eq!(class_of(good).await, Class::Unavailable);
}

#[tokio::test]
async fn a_refusal_without_a_signature_is_a_refusal() {
    let refuse = |asked: &Message| {
        let refused = ResponseCode::Refused;
        Some(Message::error_msg(asked.id, asked.op_code, refused))
    };
    assert_eq!(class_of(refuse).await, Class::ZoneUnknown);
    let refuse_update = |asked: &Message| {
        let refused = Message::error_msg(asked.id, asked.op_code, ResponseCode::Refused);
        let mut answer = Message::response(asked.id, asked.op_code);
        answer.metadata.authoritative = true;
        Some(if asked.op_code == OpCode::Query {
            signed(asked, answer)
        } else {
            refused
        })
    };
    assert_eq!(class_of(refuse_update).await, Class::Unauthorized);
    let stranger = |asked: &Message| {
        let id = asked.id.wrapping_add(1);
        Some(Message::error_msg(id, asked.op_code, ResponseCode::Refused))
    };
    assert_eq!(class_of(stranger).await, Class::Unavailable);
}

#[tokio::test]
async fn what_was_lost_while_asking_has_changed_nothing() {
    assert_eq!(class_of(|_| None).await, Class::Unavailable);
    let nobody = Rfc2136::new("127.0.0.1:1", &key()).unwrap();
    let refusal = nobody.read("example.com", "www").await.unwrap_err();
    assert_eq!(refusal.class, Class::Unavailable);
}

/// Signs as the server with the same key would.
fn signed(asked: &Message, mut answer: Message) -> Message {
    use hickory_proto::{rr::TSigResponseContext, serialize::binary::BinEncodable as _};
    let signer = Rfc2136::new("127.0.0.1:1", &key()).unwrap().signer;
    let asked_with = asked.signature().unwrap();
    let time = asked_with.data.time;
    let mac = asked_with.data.mac.clone();
    let context = TSigResponseContext::new(asked.id, time, signer, mac, None);
    let signature = context.sign(&answer.to_bytes().unwrap()).unwrap();
    answer.set_signature(signature);
    answer
}

#[tokio::test]
async fn what_was_lost_while_changing_is_unclear() {
    let lost = |asked: &Message| {
        let mut answer = Message::response(asked.id, asked.op_code);
        answer.metadata.authoritative = true;
        (asked.op_code == OpCode::Query).then(|| signed(asked, answer))
    };
    assert_eq!(class_of(lost).await, Class::Unclear);
    let unsigned = |asked: &Message| {
        let mut answer = Message::response(asked.id, asked.op_code);
        answer.metadata.authoritative = true;
        Some(if asked.op_code == OpCode::Query {
            signed(asked, answer)
        } else {
            answer
        })
    };
    assert_eq!(class_of(unsigned).await, Class::Unclear);
    let resolver = |asked: &Message| {
        let answer = Message::response(asked.id, asked.op_code);
        Some(signed(asked, answer))
    };
    assert_eq!(class_of(resolver).await, Class::ZoneUnknown);
}
