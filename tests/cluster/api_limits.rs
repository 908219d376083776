//! What clients send that is too much, too slow, or no end of it: each is refused as
//! documented, others are answered meanwhile, and nothing changes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::floe::OpenApi;
use floe_testbed::host::Inside;
use serde_json::json;

use crate::LIMIT;
use crate::api::{Caller, NAME};
use crate::holdings::{forget, records_of};
use crate::racks;

/// One more than a body may have.
const TOO_LONG: usize = 1024 * 1024 + 1;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn bodies_that_are_too_long_or_broken_are_refused_and_change_nothing() -> Result<()> {
    let cluster = racks::together().await?;
    let namespace = TestNamespace::create(&cluster, "bodies").await?;
    let operator = Caller::operator(&cluster).await?;
    let before = records_of(&namespace).await?;
    let padding = " ".repeat(TOO_LONG);
    let json = &["Content-Type: application/json"][..];
    for (path, body, status, text) in [
        ("/v1/ip", padding.as_str(), 413, "BodyTooLarge"),
        ("/v2/ips/release", padding.as_str(), 413, "BodyTooLarge"),
        ("/v1/ip", r#"{"ips":["#, 400, "bad request: "),
        ("/v1/pool", "pool", 400, "bad request: "),
        ("/v2/ips/release", r#"{"ips":["#, 400, "MalformedBody"),
        (
            "/v2/ips/reserve",
            r#"{"ip":"10.0.75.6"}"#,
            400,
            "MalformedBody",
        ),
    ] {
        let answer = operator.call("POST", path, json, Some(body))?;
        let (found, told) = (answer.status, &answer.body);
        ensure!(
            found == status && told.contains(text),
            "{path}: {found} {told}"
        );
    }
    // A stranger's body is not even read.
    let stranger = Caller::nobody(&cluster).await?;
    let answer = stranger.call("POST", "/v1/ip", json, Some(&padding))?;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(records_of(&namespace).await?, before);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn slow_clients_are_refused_in_the_end_and_others_are_answered_meanwhile() -> Result<()> {
    let cluster = racks::together().await?;
    let operator = Caller::operator(&cluster).await?;
    let (host, to) = (operator.host().network()?, operator.address());
    // These never say what they want, not even that they speak TLS.
    let connect = || TcpStream::connect_timeout(&to, PATIENCE);
    let mut silent = (0..100)
        .map(|_| host.run(connect))
        .collect::<std::io::Result<Vec<_>>>()?;
    let mut slow = (0..20)
        .map(|_| Slow::start(&operator))
        .collect::<Result<Vec<_>>>()?;

    for path in [
        "/v1/ip?size=1",
        "/v2/ips?size=1",
        "/v2/explain?ip=10.0.75.2",
    ] {
        let answer = operator.get(path)?;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    let answer = operator.post("/v1/ip", &json!({ "ips": [] }))?;
    assert_eq!(answer.status, 200, "{answer:?}");
    for slow in &mut slow {
        let ended = slow.client.try_wait()?;
        ensure!(
            ended.is_none(),
            "they were to be there all the time: {ended:?}"
        );
    }

    for slow in slow {
        let told = slow.end()?;
        ensure!(
            told.contains(" 408 ") && told.contains("BodyTooSlow"),
            "told {told}"
        );
    }
    for stream in &mut silent {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut rest = Vec::new();
        // Closed, with a last word of TLS or without.
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error).context("a silent client is kept"),
        }
    }
    Ok(())
}

/// A client that has sent half of its body. With TLS, curl hears no answer before it has
/// sent all.
struct Slow {
    client: Child,
}

impl Slow {
    fn start(caller: &Caller) -> Result<Self> {
        let mut client = caller
            .host()
            .command(Inside::Network, "openssl")
            .args(["s_client", "-quiet", "-verify_return_error"])
            .args(["-connect", &caller.address().to_string()])
            .args(["-servername", NAME, "-CAfile"])
            .arg(caller.certificate())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = client.stdin.as_mut().context("its input is piped")?;
        write!(
            input,
            "POST /v1/ip HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{{\"ips",
            caller.token()
        )?;
        Ok(Self { client })
    }

    /// What it is told in the end.
    fn end(mut self) -> Result<String> {
        let mut told = String::new();
        let mut output = self.client.stdout.take().context("its output is piped")?;
        output.read_to_string(&mut told)?;
        Ok(told)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// Openly, because a socket has two directions and TLS ends both.
#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_client_that_only_listens_any_more_is_answered_and_half_a_call_does_nothing() -> Result<()>
{
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "half").await?;
    let name = namespace.name();
    let record = json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
        "metadata": { "name": "10.0.75.2" },
        "spec": { "key": format!("sts_{name}_web_web-0"), "policy": 2 },
    });
    namespace.apply(&record.to_string())?;
    let caller = Caller::nobody(&cluster).await?;
    let host = caller.host().network()?;
    let _open = OpenApi::start(&cluster)?;
    let say = |text: &str| host.run(|| say(caller.address(), text));
    let list = format!("GET /v1/ip?namespace={name}&appName=web HTTP/1.1\r\nHost: galaxy\r\n\r\n");
    wait::until("the record is listed", LIMIT, async || {
        let answer = say(&list)?;
        ensure!(
            answer.contains(r#""totalElements":1"#),
            "answered {answer:?}"
        );
        Ok(Some(()))
    })
    .await?;

    let before = records_of(&namespace).await?;
    let body = json!({ "ips": [{ "ip": "10.0.75.2", "namespace": name, "appName": "web",
        "podName": "web-0", "appType": "statefulset" }] })
    .to_string();
    let head = format!(
        "POST /v1/ip HTTP/1.1\r\nHost: galaxy\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = say(&(head.clone() + &body[..body.len() - 1]))?;
    // Refused, if there is still somebody to tell.
    ensure!(
        answer.is_empty() || answer.contains("BodyBroken"),
        "answered {answer:?}"
    );
    let answer = say(&head[..head.len() - 2])?;
    ensure!(!answer.contains("200 OK"), "answered {answer:?}");
    for noise in ["\r\n\r\n\0\0", "GET", "BREW /v1/ip HTTP/9.9\r\n\r\n"] {
        let answer = say(noise)?;
        let refused = answer.is_empty() || answer.starts_with("HTTP/1.1 400");
        ensure!(refused, "{noise:?} is answered with {answer:?}");
    }
    assert_eq!(records_of(&namespace).await?, before);

    let answer = say(&(head + &body))?;
    ensure!(
        answer.ends_with(r#"{"code":200,"message":""}"#),
        "answered {answer:?}"
    );
    assert!(records_of(&namespace).await?.is_empty());
    forget(&cluster, &format!("_{name}_")).await
}

/// Sends a text and no more, and hears the answer.
fn say(to: SocketAddr, text: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        other => drop(other?),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
