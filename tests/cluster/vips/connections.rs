//! Connections to a holder that has lost the address end, and do not hang.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::host::HostRef;

use super::ground::{NODES_OF_PODS, alone, holder, moved, served, status, three};
use crate::LIMIT;
use crate::moving::node_of;

/// Much less than a client waits for answers of a peer that is gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection on which nothing was said yet.
struct Client {
    place: String,
    stream: TcpStream,
}

impl Client {
    fn connect(place: &HostRef, to: SocketAddr) -> Result<Self> {
        let connected = place
            .network()?
            .run(|| TcpStream::connect_timeout(&to, PATIENCE));
        let stream = connected.with_context(|| format!("{to} from {}", place.name))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            place: place.name.clone(),
            stream,
        })
    }

    /// Says something; whoever has the address now knows nothing of the connection, and
    /// refuses it.
    fn is_refused(&mut self) -> Result<()> {
        let said = self.stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
        let heard = said.and_then(|()| self.stream.read(&mut [0; 64]));
        match heard {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
            other => bail!("the connection of {} ends with {other:?}", self.place),
        }
    }
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn connections_to_a_dead_holder_are_refused_wherever_they_come_from() -> Result<()> {
    const IP: &str = "10.200.0.234";
    let cluster = alone().await?;
    let namespace = TestNamespace::create(&cluster, "dead").await?;
    let first = three(&namespace, IP).await?;
    let node = holder(&first)?.node;
    // One of the other nodes gets the address, and the kernel of each has to forget where
    // it sent these.
    let mut places = vec![cluster.outside().await?];
    for other in NODES_OF_PODS.into_iter().filter(|it| *it != node) {
        places.push(cluster.host(other).await?);
    }
    for web in namespace.pods("app=web").await? {
        if node_of(&web)? != node {
            places.push(cluster.pod_network(&web)?);
        }
    }
    ensure!(places.len() == 5, "{} places", places.len());
    let to = SocketAddr::new(IP.parse()?, 80);
    let connect = |it| Client::connect(it, to);
    let clients: Vec<Client> = places.iter().map(connect).collect::<Result<_>>()?;
    let same = served(&namespace, IP, |_| true).await?;
    ensure!(
        status(&same).moves == status(&first).moves,
        "it has moved before"
    );

    cluster.power_off(&node).await?;
    let second = moved(&namespace, &first, "NodeSilent").await?;
    every_node_knows(&places, to, &second)?;
    for mut client in clients {
        client.is_refused()?;
    }
    cluster.power_on(&node).await?;
    cluster.wait_for_node(&node, true, LIMIT).await
}

/// Whoever asks anew is answered by the next holder: so every agent has heard of it.
fn every_node_knows(places: &[HostRef], to: SocketAddr, vip: &VirtualIP) -> Result<()> {
    let expected = format!("pod={} ", holder(vip)?.pod);
    for place in places {
        let answer = crate::http::get(place, to)?;
        ensure!(answer.contains(&expected), "{} gets {answer:?}", place.name);
    }
    Ok(())
}
