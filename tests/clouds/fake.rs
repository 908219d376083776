//! Provider `fake`, as its page tells to use it: the program, told by the lines of that page,
//! and the client that a controller makes when it is told where it is.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use floe_core::nodepool::cloud::{Listed, Taken};
use floe_core::nodepool::records::RecordSet;
use floe_providers::registry::Registry;
use floe_testbed::host::sibling_program;

/// The page.
const PAGE: &str = include_str!("../../docs/providers/fake.md");

/// The program, which ends with this.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It fails only when it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it, and says where it listens.
fn start() -> (Program, String) {
    let program = sibling_program("examples/fake-cloud").unwrap();
    let child = Command::new(program)
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn();
    let mut program = Program(child.unwrap());
    let output = program.0.stdout.take().unwrap();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    let url = line.trim_end().strip_prefix("listening at ").unwrap();
    (program, url.to_owned())
}

/// Tells it something, as `curl` would.
fn tell(url: &str, script: &str) {
    let place = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(place).unwrap();
    let length = script.len();
    let request = format!(
        "POST /_fake/script HTTP/1.1\r\nhost: {place}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{script}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{script}: {answer}");
}

#[tokio::test]
#[ignore = "starts the program of crates/providers/examples"]
async fn the_documented_program_is_the_cloud_of_the_provider_with_its_name() {
    let (_program, url) = start();
    let lines = PAGE.lines().filter_map(|it| it.strip_prefix("tell '"));
    let scripts: Vec<&str> = lines.filter_map(|it| it.strip_suffix('\'')).collect();
    assert_eq!(scripts.len(), 4, "{scripts:?}");
    for script in scripts {
        tell(&url, script);
    }
    let environment = |name: &str| (name == "FLOE_FAKE_CLOUD_URL").then(|| url.clone());
    let (registry, problems) = Registry::from_environment(&environment);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(registry.names().collect::<Vec<_>>(), ["fake"]);
    let provider = registry.get("fake").unwrap();
    let (ips, dns) = (
        provider.ips.as_ref().unwrap(),
        provider.dns.as_ref().unwrap(),
    );
    let ip: IpAddr = "192.0.2.10".parse().unwrap();
    let at = |server: Option<&str>| Listed {
        ip,
        server: server.map(str::to_owned),
        busy: false,
        mark: None,
    };
    assert_eq!(ips.list().await.unwrap(), [at(None)]);
    let server = "digitalocean://7";
    assert_eq!(ips.assign(ip, server).await.unwrap(), Taken::Done);
    assert_eq!(ips.list().await.unwrap(), [at(Some(server))]);
    let wanted = RecordSet {
        zone: "example.com".to_owned(),
        name: "www".to_owned(),
        addresses: [ip].into(),
        ttl: 60,
        owner: "floe/a/pool/b/c".to_owned(),
        families: std::collections::BTreeSet::new(),
    };
    dns.ensure(&wanted).await.unwrap();
    let found = dns.read("example.com", "www").await.unwrap();
    assert_eq!(
        (found.addresses, found.owner),
        (wanted.addresses, Some(wanted.owner))
    );
}
