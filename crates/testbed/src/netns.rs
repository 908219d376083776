//! Sockets in a network namespace that is not the caller's.
//!
//! A namespace belongs to a thread, and a runtime reuses its threads, so every
//! call enters the namespace on a thread that ends with it.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

/// A network namespace, kept alive by this handle.
#[derive(Debug)]
pub struct NetNs(OwnedFd);

impl NetNs {
    /// The namespace of a running process.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        Ok(Self(File::open(format!("/proc/{pid}/ns/net"))?.into()))
    }

    /// A second handle to the same namespace.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Runs `work` inside the namespace and waits for it.
    ///
    /// Sockets opened by `work` stay in the namespace wherever they are used.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)?;
                work()
            });
            inside
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("panicked inside the network namespace")))
        })
    }

    /// Opens a TCP connection from inside the namespace, off the runtime.
    pub async fn connect(&self, to: SocketAddr) -> io::Result<tokio::net::TcpStream> {
        let namespace = self.try_clone()?;
        let (answer, answered) = tokio::sync::oneshot::channel();
        thread::spawn(move || {
            // The receiver is gone when the caller gave up: nobody to tell.
            let _ = answer
                .send(namespace.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(5))));
        });
        let stream = answered.await.map_err(io::Error::other)??;
        stream.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(stream)
    }

    /// Listens on an address inside the namespace.
    pub fn listen(&self, on: SocketAddr) -> io::Result<tokio::net::TcpListener> {
        let listener = self.run(|| std::net::TcpListener::bind(on))?;
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    }
}
