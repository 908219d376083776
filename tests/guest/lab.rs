//! Network namespaces of a test, and datagrams between them.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

/// Starting a process takes long in an emulated machine.
pub const PATIENCE: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_millis(300);

/// A network namespace that goes away with this value.
pub struct Namespace {
    name: &'static str,
}

impl Namespace {
    pub fn new(name: &'static str) -> Self {
        run("ip", &format!("netns add {name}"));
        let namespace = Self { name };
        namespace.ip("link set lo up");
        namespace
    }

    /// Runs `ip` in here.
    pub fn ip(&self, args: &str) -> String {
        run("ip", &format!("-n {} {args}", self.name))
    }

    /// Runs `bridge` in here.
    pub fn bridge(&self, args: &str) -> String {
        run("bridge", &format!("-n {} {args}", self.name))
    }

    /// Runs `work` on a thread in here; sockets that it opens stay here.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = std::fs::File::open(format!("/run/netns/{}", self.name)).unwrap();
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(file, CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    /// A socket bound to `address` in here.
    pub fn udp(&self, address: &str) -> UdpSocket {
        let socket = self.within(|| UdpSocket::bind(address)).unwrap();
        socket.set_read_timeout(Some(RETRY)).unwrap();
        socket
    }

    /// The hardware address of a device in here.
    pub fn mac(&self, device: &str) -> String {
        let output = self.ip(&format!("-o link show dev {device}"));
        let mut words = output.split_whitespace();
        let found = words.find(|word| *word == "link/ether").and(words.next());
        found.unwrap_or_else(|| panic!("{output}")).to_owned()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A failing test goes on to its message; the guest ends soon after it.
        let _ = Command::new("ip")
            .args(["netns", "delete", self.name])
            .status();
    }
}

/// Two namespaces joined by a cable with the device `near` here and `far` there, both up.
pub fn cable(here: &Namespace, near: &str, there: &Namespace, far: &str) {
    here.ip(&format!(
        "link add {near} type veth peer name {far} netns {}",
        there.name
    ));
    here.ip(&format!("link set {near} up"));
    there.ip(&format!("link set {far} up"));
}

/// Sends `payload` again and again until `to` receives it: links need a moment to come up.
///
/// Returns everything that `to` received, `payload` last.
pub fn deliver(from: &UdpSocket, to: &UdpSocket, payload: &str) -> Vec<String> {
    let address: SocketAddr = to.local_addr().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut received = Vec::new();
    while Instant::now() < deadline {
        from.send_to(payload.as_bytes(), address).unwrap();
        let mut buffer = [0; 2048];
        match to.recv(&mut buffer) {
            Ok(length) => received.push(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => panic!("{error}"),
        }
        if received.last().is_some_and(|last| last == payload) {
            return received;
        }
    }
    panic!("'{payload}' did not arrive at {address}; received: {received:?}");
}

/// Waits until `probe` has an answer.
pub fn wait_for<T>(what: &str, probe: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited too long for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Runs a command that must succeed; returns what it printed.
pub fn run(program: &str, args: &str) -> String {
    let output = Command::new(program)
        .args(args.split_whitespace())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {args}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
