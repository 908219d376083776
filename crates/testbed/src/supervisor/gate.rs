//! The gate in front of the API server: everybody passes it, and it can be slow.
//!
//! The kernel offers no delay for packets everywhere, so latency is made here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::netns::NetNs;

/// A gate that passes connections on.
pub struct Gate {
    delay: watch::Sender<Duration>,
}

impl Gate {
    /// Passes what arrives at the listeners on to `upstream` in `network`.
    pub fn open(listeners: Vec<TcpListener>, network: NetNs, upstream: SocketAddr) -> Self {
        let (delay, delayed) = watch::channel(Duration::ZERO);
        let network = Arc::new(network);
        for listener in listeners {
            tokio::spawn(admit(listener, network.clone(), upstream, delayed.clone()));
        }
        Self { delay }
    }

    /// Delays every piece of data in either direction from now on.
    pub fn slow(&self, delay: Duration) {
        self.delay.send_replace(delay);
    }
}

async fn admit(
    listener: TcpListener,
    network: Arc<NetNs>,
    upstream: SocketAddr,
    delay: watch::Receiver<Duration>,
) {
    loop {
        let Ok((visitor, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: let others finish first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (network, delay) = (network.clone(), delay.clone());
        tokio::spawn(async move {
            // Without an API server the visitor is hung up on, as by a dead one.
            if let Ok(server) = network.connect(upstream).await {
                pass(visitor, server, delay).await;
            }
        });
    }
}

async fn pass(visitor: TcpStream, server: TcpStream, delay: watch::Receiver<Duration>) {
    let _ = (visitor.set_nodelay(true), server.set_nodelay(true));
    let (from_visitor, to_visitor) = visitor.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        pump(from_visitor, to_server, delay.clone()),
        pump(from_server, to_visitor, delay)
    );
}

/// Copies until either side ends, and tells the other side of it.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: watch::Receiver<Duration>) {
    let mut buffer = vec![0; 32 * 1024];
    while let Ok(length) = from.read(&mut buffer).await {
        let pause = *delay.borrow();
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
