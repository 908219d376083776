//! Everything that is said about an address on the segment, and who had it when.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_core::announce::arp;
use floe_net::netlink::Netlink;
use floe_net::packet::Packets;
use floe_testbed::capture::Capture;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;
use floe_testbed::supervisor::addresses::{CONTROL_PLANE, Seat};
use kube::Api;
use tokio::time::{sleep, timeout};

use super::judge::{Learnt, Sighting, judge, sighting};

/// The pause between two questions on the wire.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause between two looks at the object, and how long one may take.
const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(1);

/// A look at the wire under way. All the time the outside host asks where the address is, so
/// that whoever would answer does.
pub struct Wire {
    ip: Ipv4Addr,
    capture: Capture,
    stop: Arc<AtomicBool>,
    asks: JoinHandle<io::Result<()>>,
    holdings: Arc<Mutex<Vec<Learnt>>>,
    looks: tokio::task::JoinHandle<()>,
}

impl Wire {
    /// Begins to look at the address of an object, which nodes rewrite.
    pub async fn begin(namespace: &TestNamespace<'_>, ip: &str) -> Result<Self> {
        let cluster = namespace.cluster();
        let number: Ipv4Addr = ip.parse()?;
        // The switch shows all that passes between its ports.
        let switch = cluster.host(CONTROL_PLANE).await?;
        let capture = switch.capture_with_times("br0", "arp")?;
        let holdings = Arc::new(Mutex::new(Vec::new()));
        let vips = namespace.api::<VirtualIP>();
        learn(&vips, ip, &holdings).await?;
        let looks = {
            let (holdings, name) = (Arc::clone(&holdings), ip.to_owned());
            tokio::spawn(async move {
                loop {
                    // While nobody answers nobody can write, either.
                    let _ = timeout(PATIENCE, learn(&vips, &name, &holdings)).await;
                    sleep(LOOK).await;
                }
            })
        };
        let stop = Arc::new(AtomicBool::new(false));
        let asks = ask(&cluster.outside().await?, number, Arc::clone(&stop))?;
        Ok(Self {
            ip: number,
            capture,
            stop,
            asks,
            holdings,
            looks,
        })
    }

    /// Waits until a host has said that the address is at it, since the look began.
    pub async fn hears(&self, node: &str, limit: Duration) -> Result<()> {
        let mac = mac_of(node)?;
        let what = format!("{node} speaks for {}", self.ip);
        floe_testbed::cluster::wait::until(&what, limit, async || {
            Ok(self.heard().iter().any(|it| it.mac == mac).then_some(()))
        })
        .await
    }

    /// Ends, and fails if two nodes spoke for the address at a time. So many holdings by
    /// different nodes, one after the other, must have been seen.
    pub fn had_one_speaker(self, holders: usize) -> Result<()> {
        self.looks.abort();
        self.stop.store(true, Ordering::Relaxed);
        let heard = self.heard();
        self.asks
            .join()
            .ok()
            .context("the asking thread panicked")??;
        let holdings = lock(&self.holdings).clone();
        if let Err(breach) = judge(&heard, &holdings) {
            bail!(
                "two spoke for {}: {breach:?}; holdings {holdings:?}",
                self.ip
            );
        }
        let speakers = runs(&heard);
        ensure!(speakers.len() >= holders, "only {speakers:?} were heard");
        Ok(())
    }

    fn heard(&self) -> Vec<Sighting> {
        let (lines, ip) = (self.capture.packets(), self.ip.to_string());
        lines
            .iter()
            .filter_map(|line| sighting(line, &ip))
            .collect()
    }
}

/// The hardware address of a node's only cable.
pub fn mac_of(node: &str) -> Result<String> {
    let mut seats = (1..=3).map(Seat::Node);
    let seat = seats.find(|seat| seat.name() == node);
    Ok(seat.with_context(|| format!("no seat {node}"))?.mac())
}

/// Looks at an object once, and notes who has it if that has changed.
async fn learn(vips: &Api<VirtualIP>, name: &str, holdings: &Mutex<Vec<Learnt>>) -> Result<()> {
    let vip = vips.get(name).await?;
    let at = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let holder = vip.status.and_then(|status| status.holder);
    let mac = holder.map(|it| mac_of(&it.node)).transpose()?;
    let mut holdings = lock(holdings);
    if holdings.last().map(|it| &it.mac) != Some(&mac) {
        holdings.push(Learnt { at, mac });
    }
    Ok(())
}

/// Asks from a host all the time where an address is.
fn ask(from: &HostRef, ip: Ipv4Addr, stop: Arc<AtomicBool>) -> Result<JoinHandle<io::Result<()>>> {
    let network = from.network()?;
    Ok(thread::spawn(move || {
        network.run(move || {
            let link = Netlink::open().and_then(|mut netlink| netlink.link("eth0"));
            let link = link.map_err(io::Error::other)?;
            let link = link.ok_or_else(|| io::Error::other("there is no eth0"))?;
            let own = link.mac;
            let own = own.ok_or_else(|| io::Error::other("eth0 has no MAC"))?;
            let packets = Packets::open_to_send(link.index)?;
            while !stop.load(Ordering::Relaxed) {
                packets.send(&arp::request(own, Seat::Outside.ipv4(), ip))?;
                thread::sleep(PAUSE);
            }
            Ok(())
        })
    }))
}

/// The speakers one after the other.
fn runs(heard: &[Sighting]) -> Vec<&str> {
    let mut runs: Vec<&str> = heard.iter().map(|it| it.mac.as_str()).collect();
    runs.dedup();
    runs
}

fn lock<T>(holdings: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    holdings.lock().unwrap_or_else(PoisonError::into_inner)
}
