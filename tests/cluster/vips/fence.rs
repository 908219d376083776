//! The fence of shared addresses: what the kernel of the previous holder does with packets
//! that still reach it, while its agent stands still, goes on, or is late.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::{Holding, VirtualIP};
use floe_testbed::capture::Capture;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::floe::agent;
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::caught::{Caught, lends, renews, renews_pod};
use super::ground::{CLAIM, alone, holder, moved, pings, served, status, three, webs};
use super::ranges::duals;
use super::standstill::{Frozen, agent_process, freeze_next};
use super::wire::Wire;
use crate::LIMIT;
use crate::underlay::hardware;

/// Answers of the next holder that are waited for: with three nodes asked 50 times a second,
/// about a second and a half.
const ANSWERS: usize = 200;

/// How long one packet is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// The pause between two packets of a flow.
const PAUSE: Duration = Duration::from_millis(100);

fn object(name: &str, addresses: &[&str]) -> Value {
    json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": name },
        "spec": {
            "addresses": addresses,
            "selector": { "matchLabels": { "app": "web" } },
        },
    })
}

/// How often an attack is repeated: as often as usual, or as `FLOE_ROUNDS` says.
fn rounds(usual: usize) -> Result<usize> {
    match std::env::var("FLOE_ROUNDS") {
        Ok(rounds) => Ok(rounds.parse()?),
        Err(_) => Ok(usual),
    }
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_previous_holder_answers_nothing_when_its_agent_goes_on() -> Result<()> {
    const IP: &str = "10.200.0.242";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "goes-on").await?;
    three(&namespace, IP).await?;
    for round in 1..=rounds(3)? {
        let wire = Wire::begin(&namespace, IP).await?;
        wire.is_answered(ANSWERS, LIMIT).await?;
        // Whoever has it now: it may have moved since the last round.
        let held = served(&namespace, IP, |_| true).await?;
        let node = holder(&held)?.node;
        let frozen = Frozen::new(agent_process(&cluster, &node).await?)?;
        moved(&namespace, &held, "NodeSilent").await?;
        wire.is_answered(ANSWERS, LIMIT).await?;
        drop(frozen);
        wire.is_answered(ANSWERS, LIMIT).await?;
        agent::wait_until_ready(&cluster)?;
        let one = wire.had_one_speaker(2).await;
        one.with_context(|| format!("round {round}, {node} was frozen"))?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_renewal_that_comes_late_revives_no_previous_holder() -> Result<()> {
    const IPS: [&str; 1] = ["10.200.0.243"];
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "late").await?;
    webs(&namespace, &json!({})).await?;
    namespace.apply(&object("late", &IPS).to_string())?;
    for round in 1..=rounds(3)? {
        let outcome = renew_late(&namespace, "late", &IPS, renews).await;
        outcome.with_context(|| format!("round {round}"))?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_late_renewal_revives_no_pod_that_had_addresses_of_both_families() -> Result<()> {
    const IPS: [&str; 2] = ["10.200.0.245", "fd00:200::223"];
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "late-direct").await?;
    duals(&namespace).await?;
    namespace.apply(&object("late", &IPS).to_string())?;
    let held = served(&namespace, "late", |_| true).await?;
    ensure!(holder(&held)?.mode == "direct", "the pods bypass the host");
    for round in 1..=rounds(3)? {
        // The node's rules get more time, then the pod's, then the pod gets its addresses.
        let wanted = [renews, renews_pod, lends][round % 3];
        let outcome = renew_late(&namespace, "late", &IPS, wanted).await;
        outcome.with_context(|| format!("round {round}"))?;
    }
    Ok(())
}

/// Stops the agent of the holder right before it sends such a message, until another node has
/// taken over; then the kernel gets the message, and the agent stands still again before it
/// could take anything back.
async fn renew_late(
    namespace: &TestNamespace<'_>,
    name: &str,
    ips: &[&str],
    wanted: fn(&[u8]) -> bool,
) -> Result<()> {
    let cluster = namespace.cluster();
    let wire = Wire::listen(namespace, &[("late", ips)]).await?;
    wire.is_answered(ANSWERS, LIMIT).await?;
    // Whoever has it now: it may have moved since the last round.
    let held = served(namespace, name, |_| true).await?;
    let old = holder(&held)?;
    let process = agent_process(cluster, &old.node).await?;
    let catch = move || Caught::before_sending(process, wanted, LIMIT);
    let caught = tokio::task::spawn_blocking(catch).await??;
    moved(namespace, &held, "NodeSilent").await?;
    wire.is_answered(ANSWERS, LIMIT).await?;
    let from_pod = if old.mode == "direct" {
        Some(leaving(namespace, &old, ips).await?)
    } else {
        None
    };
    caught.send()?;
    wire.is_answered(ANSWERS, LIMIT).await?;
    let said = from_pod.map(|it| it.packets()).unwrap_or_default();
    ensure!(said.is_empty(), "{} still speaks: {said:#?}", old.pod);
    drop(caught);
    agent::wait_until_ready(cluster)?;
    wire.is_answered(ANSWERS, LIMIT).await?;
    wire.had_one_speaker(2).await
}

/// What leaves the link of a pod in the name of addresses. The node's other pods would get it,
/// whatever its uplink stops.
async fn leaving(namespace: &TestNamespace<'_>, pod: &Holding, ips: &[&str]) -> Result<Capture> {
    let found = namespace.api::<Pod>().get(&pod.pod).await?;
    let network = namespace.cluster().pod_network(&found)?;
    let own = pod.addresses.iter().find(|ip| ip.is_ipv4());
    let own = hardware(&own.context("it has no address of IPv4")?.to_string())?;
    let sources: Vec<String> = ips.iter().map(|ip| format!("src host {ip}")).collect();
    let filter = format!("ether src {own} and ({})", sources.join(" or "));
    network.capture("eth0", &filter)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn addresses_are_answered_while_a_look_at_the_rules_takes_longer_than_a_deadline()
-> Result<()> {
    const IP: &str = "10.200.0.246";
    /// Five in a second: longer than a renewal lasts, and half as long as the program may take.
    const PINGS: usize = 25;
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "stuck").await?;
    three(&namespace, IP).await?;
    // While an address of an earlier test is being taken away, nothing is renewed.
    no_other_object(&namespace).await?;
    let first = served(&namespace, IP, |_| true).await?;
    let node = holder(&first)?.node;
    let outside = cluster.outside().await?;
    let look = &["list", "table", "inet", "floe-vip"];
    let frozen = freeze_next(&cluster, &node, "nft", look).await?;
    let ip = IP.parse()?;
    let from = outside.clone();
    let answered = tokio::task::spawn_blocking(move || pings(&from, ip, PINGS)).await??;
    ensure!(frozen.stands_still(), "the program was ended meanwhile");
    drop(frozen);
    assert_eq!(
        answered, PINGS,
        "some pings are lost while the program is stopped"
    );
    let answered = tokio::task::spawn_blocking(move || pings(&outside, ip, PINGS)).await??;
    assert_eq!(answered, PINGS, "some pings are lost when it goes on");
    let after = served(&namespace, IP, |_| true).await?;
    assert_eq!(status(&after).moves, status(&first).moves);
    Ok(())
}

/// Waits until the objects of earlier tests are gone.
async fn no_other_object(namespace: &TestNamespace<'_>) -> Result<()> {
    let all: Api<VirtualIP> = Api::all(namespace.cluster().client().await?);
    wait::until("no other VirtualIP exists", LIMIT, async || {
        let found = all.list(&ListParams::default()).await?;
        Ok((found.items.len() == 1).then_some(()))
    })
    .await
}

/// A flow of a client that goes on sending, whatever happens.
trait Flow {
    /// Whether something came back from the pod for what is sent now.
    fn is_answered(&mut self) -> Result<bool>;
}

/// Echo requests of one identifier, each with its number. The socket also gets the replies to
/// everything else that the host asks the address.
struct Pings {
    socket: Socket,
    number: u16,
}

impl Pings {
    const IDENTIFIER: u16 = 0x4242;

    fn start(from: &HostRef, to: IpAddr) -> Result<Self> {
        let socket = from.network()?.run(|| {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
            socket.connect(&SockAddr::from(SocketAddr::new(to, 0)))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok::<_, std::io::Error>(socket)
        });
        let socket = socket?;
        Ok(Self { socket, number: 0 })
    }

    /// A message of this type, with the checksum of RFC 1071.
    fn message(&self, kind: u8) -> [u8; 8] {
        let sum = u32::from(kind) * 256 + u32::from(Self::IDENTIFIER) + u32::from(self.number);
        let folded = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap_or(u16::MAX);
        let mut message = [kind, 0, 0, 0, 0, 0, 0, 0];
        message[2..4].copy_from_slice(&(!folded).to_be_bytes());
        message[4..6].copy_from_slice(&Self::IDENTIFIER.to_be_bytes());
        message[6..].copy_from_slice(&self.number.to_be_bytes());
        message
    }
}

impl Flow for Pings {
    fn is_answered(&mut self) -> Result<bool> {
        const REQUEST: u8 = 8;
        const REPLY: u8 = 0;
        self.number = self.number.wrapping_add(1);
        // The network may be unreachable for a moment.
        let _ = self.socket.send(&self.message(REQUEST));
        let wanted = self.message(REPLY);
        let deadline = Instant::now() + PATIENCE;
        let mut packet = [0; 256];
        while Instant::now() < deadline {
            let Ok(length) = (&self.socket).read(&mut packet) else {
                return Ok(false);
            };
            let header = usize::from(packet[0] & 15) * 4;
            if packet[..length].get(header..) == Some(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Datagrams of one port to a port at which the pod does not listen: its kernel says so.
struct Datagrams(UdpSocket);

impl Datagrams {
    fn start(from: &HostRef, to: IpAddr) -> Result<Self> {
        let socket = from.network()?.run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(SocketAddr::new(to, 9))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok::<_, std::io::Error>(socket)
        });
        Ok(Self(socket?))
    }
}

impl Flow for Datagrams {
    fn is_answered(&mut self) -> Result<bool> {
        let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        let sent = self.0.send(b"?").is_err_and(refused);
        Ok(sent || self.0.recv(&mut [0; 8]).is_err_and(refused))
    }
}

/// One connection attempt after the other, all from the same port.
struct Connections {
    from: HostRef,
    to: SocketAddr,
    port: u16,
}

impl Flow for Connections {
    fn is_answered(&mut self) -> Result<bool> {
        let (to, port) = (self.to, self.port);
        let answer = self.from.network()?.run(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            // No rest of an attempt is in the way of the next one.
            socket.set_linger(Some(Duration::ZERO))?;
            socket.bind(&SockAddr::from(SocketAddr::from(([0, 0, 0, 0], port))))?;
            socket.connect_timeout(&SockAddr::from(to), PATIENCE)?;
            let mut stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            stream.read(&mut [0; 64])
        });
        Ok(answer.is_ok_and(|length| length > 0))
    }
}

/// Flows of all kinds from one host to an address. They send all the time until this is
/// dropped.
struct Flows {
    over: Arc<AtomicBool>,
    all: Vec<Running>,
}

/// A flow and the thread that sends it.
struct Running {
    kind: &'static str,
    counts: Arc<Counts>,
    thread: JoinHandle<Result<()>>,
}

#[derive(Default)]
struct Counts {
    answered: AtomicUsize,
    missed: AtomicUsize,
}

impl Flows {
    fn start(from: &HostRef, to: IpAddr) -> Result<Self> {
        let connections = Connections {
            from: from.clone(),
            to: SocketAddr::new(to, 80),
            port: 20_217,
        };
        let mut flows = Self {
            over: Arc::default(),
            all: Vec::new(),
        };
        flows.run("ICMP", Pings::start(from, to)?);
        flows.run("UDP", Datagrams::start(from, to)?);
        flows.run("TCP", connections);
        Ok(flows)
    }

    fn run(&mut self, kind: &'static str, mut flow: impl Flow + Send + 'static) {
        let (counts, over) = (Arc::<Counts>::default(), Arc::clone(&self.over));
        let counted = Arc::clone(&counts);
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let is_answered = flow.is_answered()?;
                let count = if is_answered {
                    &counted.answered
                } else {
                    &counted.missed
                };
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(PAUSE);
            }
            Ok(())
        });
        self.all.push(Running {
            kind,
            counts,
            thread,
        });
    }

    /// Waits until each of them is answered again.
    async fn are_answered(&self) -> Result<()> {
        self.grow("answered", |it| &it.answered).await
    }

    /// Waits until each of them has missed an answer.
    async fn are_missed(&self) -> Result<()> {
        self.grow("missed", |it| &it.missed).await
    }

    async fn grow(&self, what: &str, count: fn(&Counts) -> &AtomicUsize) -> Result<()> {
        let read = |counts: &Counts| count(counts).load(Ordering::Relaxed);
        let before: Vec<usize> = self.all.iter().map(|it| read(&it.counts)).collect();
        for (Running { kind, counts, .. }, before) in self.all.iter().zip(before) {
            // One may have been counted a moment ago.
            let what = format!("packets of {kind} are {what}");
            wait::until(&what, LIMIT, async || {
                Ok((read(counts) > before + 1).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for flow in self.all.drain(..) {
            // What went wrong in it was seen as missing answers.
            let _ = flow.thread.join();
        }
    }
}

/// A Deployment of one replica, whose pods run on one node only.
fn lonely(ip: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "lonely" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "lonely" } },
            "template": {
                "metadata": {
                    "labels": { "app": "lonely" },
                    "annotations": { CLAIM: format!("[\"{ip}\"]") },
                },
                "spec": {
                    "nodeSelector": { "kubernetes.io/hostname": "node-2" },
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{ "name": "web", "image": "nginx:1.7.9" }],
                },
            },
        },
    })
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn flows_that_go_on_while_the_only_pod_is_replaced_reach_the_next_one() -> Result<()> {
    const IP: &str = "10.200.0.244";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "lonely").await?;
    namespace.apply(&lonely(IP).to_string())?;
    let mut held = served(&namespace, IP, |_| true).await?;
    let outside = cluster.outside().await?;
    let flows = Flows::start(&outside, IP.parse()?)?;
    flows.are_answered().await?;
    for round in 1..=rounds(1)? {
        let wire = Wire::begin(&namespace, IP).await?;
        let outcome = interrupt(&namespace, &held, &flows).await;
        held = outcome.with_context(|| format!("round {round}"))?;
        let one = wire.had_one_speaker(1).await;
        one.with_context(|| format!("round {round}"))?;
    }
    Ok(())
}

/// Replaces the only pod, which is sometimes too fast for a flow to miss an answer, and then stops
/// the only agent that can serve it until they do: each time the flows are answered again.
async fn interrupt(
    namespace: &TestNamespace<'_>,
    held: &VirtualIP,
    flows: &Flows,
) -> Result<VirtualIP> {
    let (cluster, old) = (namespace.cluster(), holder(held)?);
    namespace.kubectl(&["delete", "pod", &old.pod, "--wait=false"])?;
    let is_next = |vip: &VirtualIP| status(vip).holder.is_some_and(|it| it.uid != old.uid);
    let next = served(namespace, &held.name_any(), is_next).await?;
    flows.are_answered().await?;

    // It stands still until the kernel is silent.
    let frozen = Frozen::new(agent_process(cluster, &old.node).await?)?;
    flows.are_missed().await?;
    drop(frozen);
    agent::wait_until_ready(cluster)?;
    flows.are_answered().await?;
    Ok(next)
}
