//! Everything that is said about addresses on the segment, every answer in their name, and
//! which node had them when.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use etherparse::PacketBuilder;
use floe_api::floe::register::{VirtualIPRegister, name_for};
use floe_api::floe::virtualip::{Holding, VirtualIP};
use floe_core::announce::{Mac, arp, ndp};
use floe_net::netlink::Netlink;
use floe_net::packet::Packets;
use floe_testbed::capture::Capture;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::host::HostRef;
use floe_testbed::supervisor::addresses::{CONTROL_PLANE, OUTSIDE, Seat};
use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::{Api, WatchEvent, WatchParams};
use tokio::time::{sleep, timeout};

use super::judge::{Learnt, Sighting, answer, judge, judge_answers, sighting};
use crate::LIMIT;
use crate::underlay::hardware;

/// The pause between two questions on the wire for each address.
const PAUSE: Duration = Duration::from_millis(20);

/// All of ARP, solicitations and advertisements of neighbour discovery, and echo replies.
const FILTER: &str = "arp or (icmp and icmp[icmptype] == icmp-echoreply) \
    or (icmp6 and (ip6[40] == 135 or ip6[40] == 136 or ip6[40] == 129))";

/// The pause before an object is followed again, and how long it may be silent before.
const AGAIN: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(2);

/// A look at the wire under way. All the time the outside host asks where the addresses are,
/// and sends echo requests for them to every node, and to every pod that may have them itself,
/// not only to where ARP points: a client with an old neighbour entry reaches the previous
/// holder.
pub struct Wire {
    registers: Api<VirtualIPRegister>,
    subjects: Vec<Subject>,
    capture: Capture,
    outside: HostRef,
    stop: Arc<AtomicBool>,
    asks: JoinHandle<io::Result<()>>,
    looks: Vec<tokio::task::JoinHandle<()>>,
}

/// An address, the object that it belongs to, and who had it when.
struct Subject {
    ip: IpAddr,
    object: Object,
    holdings: Holdings,
    /// The hardware addresses of pods that may have it themselves.
    pods: Vec<[u8; 6]>,
}

/// An object, by its uid, and the register that says who has it: its status shows that only
/// a moment later.
#[derive(Clone)]
struct Object {
    uid: String,
    register: String,
}

type Holdings = Arc<Mutex<Vec<Learnt>>>;

impl Wire {
    /// Begins to look at the address of an object that is named so.
    pub async fn begin(namespace: &TestNamespace<'_>, ip: &str) -> Result<Self> {
        Self::listen(namespace, &[(ip, &[ip])]).await
    }

    /// Begins to look at the addresses of objects.
    pub async fn listen(
        namespace: &TestNamespace<'_>,
        objects: &[(&str, &[&str])],
    ) -> Result<Self> {
        let cluster = namespace.cluster();
        // The switch shows all that passes between its ports.
        let switch = cluster.host(CONTROL_PLANE).await?;
        let capture = switch.capture_with_times("br0", FILTER)?;
        let vips = namespace.api::<VirtualIP>();
        let registers: Api<VirtualIPRegister> = Api::all(cluster.client().await?);
        let (mut subjects, mut looks) = (Vec::new(), Vec::new());
        for (name, ips) in objects {
            let holdings = Holdings::default();
            let vip = vips.get(name).await?;
            let uid = vip.uid().context("it has a uid")?;
            let own = direct_pods(&vip)?;
            let object = Object {
                register: name_for(&uid),
                uid,
            };
            let first = object.read(&registers).await?;
            object.note(&first, &holdings)?;
            let version = first.resource_version();
            let (all, it, learnt) = (registers.clone(), object.clone(), Arc::clone(&holdings));
            looks.push(tokio::spawn(follow(all, it, version, learnt)));
            for ip in *ips {
                subjects.push(Subject {
                    ip: ip.parse()?,
                    object: object.clone(),
                    holdings: Arc::clone(&holdings),
                    pods: own.clone(),
                });
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let targets = subjects.iter().map(|it| (it.ip, it.seats())).collect();
        let outside = cluster.outside().await?;
        let asks = ask(&outside, targets, Arc::clone(&stop))?;
        Ok(Self {
            registers,
            subjects,
            capture,
            outside,
            stop,
            asks,
            looks,
        })
    }

    /// Waits until a host has said that one of the addresses is at it, since the look began.
    pub async fn hears(&self, node: &str, limit: Duration) -> Result<()> {
        self.hears_mac(node, &mac_of(node)?, limit).await
    }

    /// Waits until so many more packets to the addresses are answered.
    pub async fn is_answered(&self, more: usize, limit: Duration) -> Result<()> {
        let count = || {
            let lines = self.capture.packets();
            let answers = |it: &Subject| {
                let ip = it.ip.to_string();
                lines
                    .iter()
                    .filter(|line| answer(line, &ip).is_some())
                    .count()
            };
            self.subjects.iter().map(answers).sum::<usize>()
        };
        let before = count();
        wait::until(&format!("{more} answers"), limit, async || {
            Ok((count() >= before + more).then_some(()))
        })
        .await
    }

    async fn hears_mac(&self, host: &str, mac: &str, limit: Duration) -> Result<()> {
        wait::until(&format!("{host} speaks"), limit, async || {
            let lines = self.capture.packets();
            let mut all = self.subjects.iter().flat_map(|it| it.heard(&lines));
            Ok(all.any(|it| it.mac == mac).then_some(()))
        })
        .await
    }

    /// Has the outside host say that an address is at it, and waits until that is heard.
    pub async fn pretend(&self, ip: IpAddr) -> Result<()> {
        send(&self.outside, move |own| match ip {
            IpAddr::V4(ip) => arp::gratuitous_request(own, ip).to_vec(),
            IpAddr::V6(ip) => ndp::advertisement(own, ip),
        })?;
        self.hears_mac(OUTSIDE, &Seat::Outside.mac(), LIMIT).await
    }

    /// Ends, and fails if two spoke for an address at a time. For each address so many
    /// holdings by different speakers, one after the other, must have been heard.
    pub async fn had_one_speaker(self, holders: usize) -> Result<()> {
        for (ip, speakers) in self.speakers().await? {
            let found = speakers.len();
            ensure!(found >= holders, "only {speakers:?} were heard for {ip}");
        }
        Ok(())
    }

    /// Ends, and says who spoke for each address, one after the other; it fails if two did
    /// at a time.
    pub async fn speakers(self) -> Result<Vec<(IpAddr, Vec<String>)>> {
        let lines = self.capture.packets();
        // Whoever was heard up to now has been written down before.
        for subject in &self.subjects {
            let what = format!("all holders of {} are learnt", subject.ip);
            let object = &subject.object;
            wait::until(&what, LIMIT, async || {
                let now = object.place(&object.read(&self.registers).await?)?;
                let learnt = lock(&subject.holdings).last().cloned();
                Ok(learnt.is_some_and(|it| it.mac == now).then_some(()))
            })
            .await?;
        }
        self.looks.iter().for_each(tokio::task::JoinHandle::abort);
        self.stop.store(true, Ordering::Relaxed);
        self.asks
            .join()
            .ok()
            .context("the asking thread panicked")??;
        let mut speakers = Vec::new();
        for subject in &self.subjects {
            let (ip, heard) = (subject.ip, subject.heard(&lines));
            let holdings = lock(&subject.holdings).clone();
            let name = ip.to_string();
            let answers: Vec<_> = lines.iter().filter_map(|it| answer(it, &name)).collect();
            if let Err(breach) = judge_answers(&answers, &holdings) {
                let from = breach.heard.at;
                let its = answers.iter().filter(|it| it.mac == breach.heard.mac);
                let late: Vec<_> = its.filter(|it| it.at >= from).map(|it| it.at).collect();
                bail!(
                    "two nodes answer for {ip}: {breach:?}, then at {late:?}; holdings {holdings:?}"
                );
            }
            if let Err(breach) = judge(&heard, &holdings) {
                bail!(
                    "two spoke for {ip}: {breach:?}; holdings {holdings:?}; heard then {:#?}",
                    around(&lines, &ip.to_string(), breach.heard.at)
                );
            }
            speakers.push((ip, runs(&heard)));
        }
        Ok(speakers)
    }
}

impl Subject {
    /// Where echo requests go.
    fn seats(&self) -> Vec<[u8; 6]> {
        let nodes = (1..=3).map(|node| hardware_address(&Seat::Node(node).mac()));
        nodes.chain(self.pods.iter().copied()).collect()
    }

    fn heard(&self, lines: &[String]) -> Vec<Sighting> {
        let ip = self.ip.to_string();
        let told = |line: &String| sighting(line, &ip);
        lines.iter().filter_map(told).collect()
    }
}

/// The hardware address of a node's only cable.
pub fn mac_of(node: &str) -> Result<String> {
    let mut seats = (1..=3).map(Seat::Node);
    let seat = seats.find(|seat| seat.name() == node);
    Ok(seat.with_context(|| format!("no seat {node}"))?.mac())
}

impl Object {
    /// Its register, which may not exist before the object has an entry.
    async fn read(&self, registers: &Api<VirtualIPRegister>) -> Result<VirtualIPRegister> {
        let register = registers.get_opt(&self.register).await?;
        Ok(register.unwrap_or_default())
    }

    /// Where it is on the wire.
    fn place(&self, register: &VirtualIPRegister) -> Result<Option<String>> {
        let entry = register.entries.get(&self.uid);
        let holder = entry.and_then(|it| it.holder.as_ref());
        holder.map(speaker).transpose()
    }

    /// Notes who has it, if that has changed.
    fn note(&self, register: &VirtualIPRegister, holdings: &Holdings) -> Result<()> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mac = self.place(register)?;
        let entry = register.entries.get(&self.uid);
        let successor = entry.and_then(|it| it.successor.as_ref());
        let successor = successor.map(|it| mac_of(&it.node)).transpose()?;
        let mut holdings = lock(holdings);
        let is_known = |it: &Learnt| it.mac == mac && it.successor == successor;
        if !holdings.last().is_some_and(is_known) {
            holdings.push(Learnt { at, mac, successor });
        }
        Ok(())
    }
}

/// Who speaks for a holder: its node, or the pod itself, if it has the addresses.
fn speaker(holder: &Holding) -> Result<String> {
    if holder.mode != "direct" {
        return mac_of(&holder.node);
    }
    let own = holder.addresses.iter().find(|ip| ip.is_ipv4());
    let own = own.with_context(|| format!("{} has no address of IPv4", holder.pod))?;
    hardware(&own.to_string())
}

/// The hardware addresses of candidates that would have the addresses themselves.
fn direct_pods(vip: &VirtualIP) -> Result<Vec<[u8; 6]>> {
    let candidates = vip.status.iter().flat_map(|it| &it.candidates);
    let direct = candidates.filter(|it| it.mode == "direct");
    let own = direct.filter_map(|it| it.addresses.iter().find(|ip| ip.is_ipv4()));
    own.map(|ip| Ok(hardware_address(&hardware(&ip.to_string())?)))
        .collect()
}

/// Follows the register of an object for ever, and notes each holder.
async fn follow(
    registers: Api<VirtualIPRegister>,
    object: Object,
    mut version: Option<String>,
    holdings: Holdings,
) {
    loop {
        // While nobody answers nobody can write, either. What was written before is told
        // when somebody does: nothing is left out.
        let followed = follow_once(&registers, &object, &mut version, &holdings).await;
        if followed.is_err_and(|error| is_too_old(&error)) {
            version = None;
        }
        sleep(AGAIN).await;
    }
}

async fn follow_once(
    registers: &Api<VirtualIPRegister>,
    object: &Object,
    version: &mut Option<String>,
    holdings: &Holdings,
) -> Result<()> {
    let name = &object.register;
    let from = if let Some(version) = version {
        version.clone()
    } else {
        let register = timeout(PATIENCE, registers.get(name)).await??;
        object.note(&register, holdings)?;
        register.resource_version().context("it has a version")?
    };
    *version = Some(from.clone());
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    let events = timeout(PATIENCE, registers.watch(&only, &from)).await??;
    let mut events = events.boxed();
    while let Some(event) = timeout(PATIENCE, events.try_next()).await?? {
        match event {
            WatchEvent::Added(register) | WatchEvent::Modified(register) => {
                object.note(&register, holdings)?;
                *version = register.resource_version();
            }
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            // What it knew last is too old.
            WatchEvent::Error(_) => *version = None,
        }
    }
    Ok(())
}

/// Whether the API server does not remember what came after a version.
fn is_too_old(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(it)) if it.code == 410)
}

/// Asks from a host all the time where addresses are, and sends echo requests for each to the
/// hardware addresses beside it.
fn ask(
    from: &HostRef,
    targets: Vec<(IpAddr, Vec<[u8; 6]>)>,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<io::Result<()>>> {
    let network = from.network()?;
    let own_v6: Ipv6Addr = Seat::Outside.ipv6().parse()?;
    Ok(thread::spawn(move || {
        network.run(move || {
            let (packets, own) = open()?;
            let mut number = 0_u16;
            while !stop.load(Ordering::Relaxed) {
                number = number.wrapping_add(1);
                for (ip, seats) in &targets {
                    // Each of them sees connections of its own.
                    for (id, seat) in (0x4600..).zip(seats) {
                        packets.send(&echo_request(own, *seat, *ip, (id, number)))?;
                    }
                    let question = match ip {
                        IpAddr::V4(ip) => arp::request(own, Seat::Outside.ipv4(), *ip).to_vec(),
                        IpAddr::V6(ip) => ndp::solicitation(own, own_v6, *ip),
                    };
                    packets.send(&question)?;
                }
                thread::sleep(PAUSE);
            }
            Ok(())
        })
    }))
}

/// An echo request from the outside host to an address, in a frame for a hardware address.
fn echo_request(own: Mac, seat: [u8; 6], to: IpAddr, (id, number): (u16, u16)) -> Vec<u8> {
    const HOPS: u8 = 64;
    let frame = PacketBuilder::ethernet2(own.0, seat);
    let mut bytes = Vec::new();
    let written = match to {
        IpAddr::V4(to) => frame
            .ipv4(Seat::Outside.ipv4().octets(), to.octets(), HOPS)
            .icmpv4_echo_request(id, number)
            .write(&mut bytes, &[]),
        IpAddr::V6(to) => {
            let from: Ipv6Addr = Seat::Outside.ipv6().parse().expect("a seat has an address");
            frame
                .ipv6(from.octets(), to.octets(), HOPS)
                .icmpv6_echo_request(id, number)
                .write(&mut bytes, &[])
        }
    };
    written.expect("memory takes all that is written to it");
    bytes
}

fn hardware_address(text: &str) -> [u8; 6] {
    let mut bytes = [0; 6];
    for (byte, word) in bytes.iter_mut().zip(text.split(':')) {
        *byte = u8::from_str_radix(word, 16).expect("a seat has a hardware address");
    }
    bytes
}

/// Sends a frame from a host, whose hardware address it is made with.
fn send(from: &HostRef, frame: impl FnOnce(Mac) -> Vec<u8> + Send) -> Result<()> {
    let sent = from.network()?.run(move || {
        let (packets, own) = open()?;
        packets.send(&frame(own))
    });
    Ok(sent?)
}

/// The cable of the host in whose network this is called, and its hardware address.
fn open() -> io::Result<(Packets, Mac)> {
    let link = Netlink::open().and_then(|mut netlink| netlink.link("eth0"));
    let link = link.map_err(io::Error::other)?;
    let link = link.ok_or_else(|| io::Error::other("there is no eth0"))?;
    let own = link
        .mac
        .ok_or_else(|| io::Error::other("eth0 has no MAC"))?;
    Ok((Packets::open_to_send(link.index)?, own))
}

/// The speakers one after the other.
fn runs(heard: &[Sighting]) -> Vec<String> {
    let mut runs: Vec<String> = heard.iter().map(|it| it.mac.clone()).collect();
    runs.dedup();
    runs
}

/// What was heard of an address within a second before and after a moment.
fn around<'a>(lines: &'a [String], ip: &str, moment: Duration) -> Vec<&'a str> {
    const NEAR: Duration = Duration::from_secs(1);
    let is_near =
        |line: &&String| sighting(line, ip).is_some_and(|it| it.at.abs_diff(moment) < NEAR);
    lines.iter().filter(is_near).map(String::as_str).collect()
}

fn lock<T>(holdings: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    holdings.lock().unwrap_or_else(PoisonError::into_inner)
}
