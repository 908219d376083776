//! RFC 2136: the client on BIND and on Knot, whose own tools say what is really there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use floe_core::ipam::families::Family;
use floe_core::nodepool::cloud::Class;
use floe_core::nodepool::records::RecordSet;
use floe_providers::conformance::Deed;
use floe_providers::conformance::names::{self, Record, Zones};
use floe_providers::conformance::proxy::Proxy;
use floe_providers::conformance::report::Report;
use floe_providers::http::Secret;
use floe_providers::names::Dns;
use floe_providers::zone::rfc2136::{Key, Rfc2136};
use floe_testbed::nameserver::{KEY_NAME, KEY_SECRET, NameServer, Software, ZONE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server with its zone.
struct Served {
    software: Software,
    server: NameServer,
    client: Rfc2136,
}

impl Served {
    fn new(software: Software) -> Self {
        let server = NameServer::start(software).unwrap();
        let client = client(server.address(), KEY_NAME, KEY_SECRET, "hmac-sha256");
        Self {
            software,
            server,
            client,
        }
    }

    /// What `dig` shows of a label.
    fn shown(&self, label: &str, kind: &str) -> Vec<String> {
        let found = self.server.records(&format!("{label}.{ZONE}"), kind);
        found.unwrap().into_iter().map(|found| found.data).collect()
    }
}

fn wanted(label: &str, owner: &str, ip: &str) -> RecordSet {
    RecordSet {
        zone: ZONE.to_owned(),
        name: label.to_owned(),
        addresses: [ip.parse().unwrap()].into(),
        ttl: 60,
        owner: owner.to_owned(),
        families: [Family::V4, Family::V6].into(),
    }
}

fn client(server: SocketAddr, name: &str, secret: &str, algorithm: &str) -> Rfc2136 {
    let key = Key {
        name: name.to_owned(),
        secret: Secret::new(secret),
        algorithm: algorithm.to_owned(),
    };
    Rfc2136::new(&server.to_string(), &key).unwrap()
}

impl Zones for Served {
    fn title(&self) -> String {
        format!("RFC 2136 on {:?}", self.software)
    }

    fn dns(&self) -> &dyn Dns {
        &self.client
    }

    fn proxy(&self) -> Option<&Proxy> {
        None
    }

    fn zone(&self) -> String {
        ZONE.to_owned()
    }

    fn unknown_zone(&self) -> String {
        "example.org".to_owned()
    }

    fn domain(&self) -> String {
        ZONE.to_owned()
    }

    fn name(&self, label: &str) -> String {
        label.to_owned()
    }

    fn records<'a>(&'a self, label: &'a str) -> Deed<'a, Vec<Record>> {
        Box::pin(async move {
            let mut records = Vec::new();
            // Not every server tells all of them at once.
            for kind in ["A", "AAAA", "MX", "TXT"] {
                let found = self.server.records(&format!("{label}.{ZONE}"), kind);
                for shown in found.map_err(|error| format!("{error:#}"))? {
                    records.push(Record {
                        kind: shown.kind,
                        data: shown
                            .data
                            .trim_matches('"')
                            .trim_end_matches('.')
                            .to_owned(),
                        ttl: shown.ttl,
                    });
                }
            }
            Ok(records)
        })
    }

    fn plant<'a>(&'a self, label: &'a str, record: Record) -> Deed<'a, ()> {
        Box::pin(async move {
            let data = match record.kind.as_str() {
                "TXT" => format!("\"{}\"", record.data),
                "MX" => format!("{}.", record.data),
                _ => record.data,
            };
            let (ttl, kind) = (record.ttl, record.kind);
            let line = format!("update add {label}.{ZONE}. {ttl} {kind} {data}");
            self.server
                .update(&line)
                .map_err(|error| format!("{error:#}"))
        })
    }

    fn writes(&self) -> Deed<'_, u64> {
        Box::pin(async {
            let serial = self.server.serial();
            serial.map(u64::from).map_err(|error| format!("{error:#}"))
        })
    }

    fn stranger(&self) -> Option<(Arc<dyn Dns>, String)> {
        let secret = "d3Jvbmcgc2VjcmV0IG9mIGEgc3RyYW5nZXI=";
        let address = self.server.address();
        let stranger = client(address, KEY_NAME, secret, "hmac-sha256");
        Some((Arc::new(stranger), secret.to_owned()))
    }
}

#[tokio::test]
#[ignore = "gets BIND from Debian: cargo xtask test --only clouds"]
async fn rfc2136_passes_the_suite_on_bind() {
    let report = all_that_a_server_shows(&Served::new(Software::Bind)).await;
    println!("{report}");
}

#[tokio::test]
#[ignore = "gets Knot from Debian: cargo xtask test --only clouds"]
async fn rfc2136_passes_the_suite_on_knot() {
    let report = all_that_a_server_shows(&Served::new(Software::Knot)).await;
    println!("{report}");
}

async fn all_that_a_server_shows(served: &Served) -> Report {
    let report = names::every_name_server(served).await;
    let report = report.conclude_without(&[]);
    of_two_at_once_one_has_the_name(served).await;
    a_name_that_is_an_alias_is_left_alone(served).await;
    the_zone_itself_can_have_addresses(served).await;
    keys_that_are_not_good_are_refused(served).await;
    an_answer_that_is_lost_leaves_it_unclear(served).await;
    report
}

async fn of_two_at_once_one_has_the_name(served: &Served) {
    for round in 0..10 {
        let label = format!("wanted-by-two-{round}");
        let us = wanted(&label, "us", "192.0.2.1");
        let them = wanted(&label, "them", "192.0.2.2");
        let (ours, theirs) = tokio::join!(served.client.ensure(&us), served.client.ensure(&them));
        let (winner, refusal) = match (ours, theirs) {
            (Ok(()), Err(refusal)) => (us, refusal),
            (Err(refusal), Ok(())) => (them, refusal),
            both => panic!("one of two: {both:?}"),
        };
        let lost = matches!(refusal.class, Class::Busy | Class::HeldElsewhere);
        assert!(lost, "{refusal:?}");
        let ip = winner.addresses.first().unwrap().to_string();
        assert_eq!(served.shown(&label, "A"), [ip]);
        let note = format!("\"{}\"", winner.owner);
        assert_eq!(served.shown(&format!("_floe.{label}"), "TXT"), [note]);
    }
}

async fn a_name_that_is_an_alias_is_left_alone(served: &Served) {
    let line = format!("update add alias.{ZONE}. 60 CNAME ns.{ZONE}.");
    served.server.update(&line).unwrap();
    let wanted = wanted("alias", "us", "192.0.2.1");
    let refusal = served.client.ensure(&wanted).await.unwrap_err();
    assert_eq!(refusal.class, Class::HeldElsewhere, "{refusal}");
    assert!(served.shown("_floe.alias", "TXT").is_empty());
}

async fn the_zone_itself_can_have_addresses(served: &Served) {
    let wanted = wanted("@", "us", "192.0.2.1");
    served.client.ensure(&wanted).await.unwrap();
    let found = served.server.records(ZONE, "A").unwrap();
    assert_eq!(found[0].data, "192.0.2.1");
    served.client.remove(&wanted).await.unwrap();
    assert!(served.server.records(ZONE, "A").unwrap().is_empty());
    assert_eq!(served.server.records(ZONE, "NS").unwrap().len(), 1);
}

async fn keys_that_are_not_good_are_refused(served: &Served) {
    let address = served.server.address();
    let wanted = wanted("www", "us", "192.0.2.1");
    for (name, algorithm) in [("nobody", "hmac-sha256"), (KEY_NAME, "hmac-sha512")] {
        let stranger = client(address, name, KEY_SECRET, algorithm);
        let refusal = stranger.ensure(&wanted).await.unwrap_err();
        assert_eq!(refusal.class, Class::Unauthorized, "{name}: {refusal}");
    }
}

/// A way to the server on which the last answer is lost after the server has done it.
async fn an_answer_that_is_lost_leaves_it_unclear(served: &Served) {
    let real = served.server.address();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way = listener.local_addr().unwrap();
    let lossy = Arc::new(AtomicBool::new(true));
    let loses = Arc::clone(&lossy);
    let relay = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let loses = Arc::clone(&loses);
            tokio::spawn(async move { pass(client, real, &loses).await });
        }
    });
    let client = client(way, KEY_NAME, KEY_SECRET, "hmac-sha256");
    let wanted = wanted("unclear", "us", "192.0.2.1");
    let refusal = client.ensure(&wanted).await.unwrap_err();
    assert_eq!(refusal.class, Class::Unclear, "{refusal}");
    assert_eq!(served.shown("unclear", "A"), ["192.0.2.1"]);
    lossy.store(false, Ordering::Relaxed);
    let before = served.server.serial().unwrap();
    client.ensure(&wanted).await.unwrap();
    assert_eq!(served.server.serial().unwrap(), before);
    relay.abort();
}

/// Passes messages on; the answer to an update is lost.
async fn pass(mut client: TcpStream, server: SocketAddr, loses: &AtomicBool) {
    let mut server = TcpStream::connect(server).await.unwrap();
    while let Some(question) = message(&mut client).await {
        server.write_all(&question).await.unwrap();
        let answer = message(&mut server).await.unwrap();
        // The kind of a message is in the third byte after its length.
        let is_update = (question[4] >> 3) & 0xf == 5;
        if is_update && loses.load(Ordering::Relaxed) {
            return;
        }
        client.write_all(&answer).await.unwrap();
    }
}

/// A message with its length before it, or none at the end.
async fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let length = stream.read_u16().await.ok()?;
    let mut message = length.to_be_bytes().to_vec();
    message.resize(2 + usize::from(length), 0);
    stream.read_exact(&mut message[2..]).await.ok()?;
    Some(message)
}
