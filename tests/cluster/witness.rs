//! What the segment sees of an address over time: who answers, with which hardware
//! address, behind which port of the switch, and for how long nobody does.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use floe_core::announce::arp::{self, Operation};
use floe_net::netlink::Netlink;
use floe_net::packet::{Ethertype, Packets};
use floe_testbed::cluster::Cluster;
use floe_testbed::host::HostRef;
use floe_testbed::supervisor::addresses::{CONTROL_PLANE, Seat};

/// How long one question of a [`Poll`] waits.
const MOMENT: Duration = Duration::from_millis(200);

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(20);

/// The host behind the port at which the switch has last seen a hardware address.
pub async fn seen_at(cluster: &Cluster, mac: &str) -> Result<String> {
    let switch = cluster.host(CONTROL_PLANE).await?;
    let shown = switch.network_script("bridge fdb show br br0")?;
    let ports: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.strip_prefix(mac)?.split_whitespace().nth(1))
        .collect();
    ensure!(
        ports.len() == 1,
        "the switch has seen {mac} at {ports:?}: {shown}"
    );
    let seats = (1..=3).map(Seat::Node).chain([Seat::Outside]);
    let seat = seats.into_iter().find(|seat| seat.port() == ports[0]);
    Ok(seat
        .with_context(|| format!("{} is nobody's", ports[0]))?
        .name())
}

/// Asks an address over and over, with a new connection each time.
pub struct Poll {
    stop: Arc<AtomicBool>,
    answered: JoinHandle<io::Result<Vec<Instant>>>,
}

impl Poll {
    /// Begins to ask from inside a host.
    pub fn begin(from: &HostRef, to: IpAddr) -> Result<Self> {
        let network = from.network()?;
        let to = SocketAddr::new(to, 80);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let answered = thread::spawn(move || {
            network.run(move || {
                let mut answered = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    if answers(to, MOMENT).is_ok() {
                        answered.push(Instant::now());
                    }
                    thread::sleep(PAUSE);
                }
                Ok(answered)
            })
        });
        Ok(Self { stop, answered })
    }

    /// Ends, and tells the longest time without an answer between two that came.
    pub fn longest_silence(self) -> Result<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let answered = self.answered.join().ok().context("the poll panicked")??;
        ensure!(answered.len() > 1, "nobody answered");
        let pauses = answered.windows(2).map(|pair| pair[1] - pair[0]);
        Ok(pauses.max().unwrap_or_default())
    }
}

/// Whether an HTTP server answers in time, asked from the thread's own network.
pub fn answers(to: SocketAddr, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Everybody who answers one ARP request for an address that the outside host sends,
/// with one entry for each answer: two hosts may share a hardware address.
pub fn claimants(outside: &HostRef, ip: Ipv4Addr) -> Result<Vec<String>> {
    /// Everybody on the segment answers sooner.
    const WINDOW: Duration = Duration::from_millis(50);
    let found = outside.network()?.run(move || {
        let link = Netlink::open().and_then(|mut netlink| netlink.link("eth0"));
        let link = link.map_err(io::Error::other)?;
        let link = link.ok_or_else(|| io::Error::other("there is no eth0"))?;
        let own = link
            .mac
            .ok_or_else(|| io::Error::other("eth0 has no MAC"))?;
        let packets = Packets::open(link.index, Ethertype::Arp)?;
        packets.send(&arp::request(own, Seat::Outside.ipv4(), ip))?;
        let deadline = Instant::now() + WINDOW;
        let mut found = Vec::new();
        while let Some(frame) = packets.receive(deadline)? {
            let answer = arp::parse(&frame).filter(|it| it.operation == Operation::Reply);
            found.extend(
                answer
                    .filter(|it| it.sender_ip == ip)
                    .map(|it| it.sender_mac.to_string()),
            );
        }
        Ok(found)
    })?;
    Ok(found)
}
