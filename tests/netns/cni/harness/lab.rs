//! Network namespaces of a test, at paths as a container runtime has them, and
//! datagrams between them.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

/// Starting a process takes long in an emulated machine.
pub const PATIENCE: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_millis(200);
const PORT: u16 = 7000;

/// A network namespace that goes away with this value.
pub struct Namespace {
    path: PathBuf,
    handle: Option<File>,
    is_mounted: bool,
}

impl Namespace {
    /// A new one at `folder/name`, with nothing but its loopback, which is up.
    pub fn new(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        File::create(&path).unwrap();
        let handle = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).unwrap();
                let here = Some("/proc/thread-self/ns/net");
                let nothing = None::<&str>;
                mount(here, &path, nothing, MsFlags::MS_BIND, nothing).unwrap();
                File::open(&path).unwrap()
            });
            thread.join().unwrap()
        });
        let namespace = Self {
            path,
            handle: Some(handle),
            is_mounted: true,
        };
        namespace.ip("link set lo up");
        namespace
    }

    /// The one that the test itself runs in.
    pub fn machine() -> Self {
        let path = PathBuf::from("/proc/self/ns/net");
        let handle = Some(File::open(&path).unwrap());
        Self {
            path,
            handle,
            is_mounted: false,
        }
    }

    /// Where a runtime would say it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the path away. The namespace lives on, as when a process is still in it.
    pub fn hide(&mut self) {
        umount2(&self.path, MntFlags::MNT_DETACH).unwrap();
        fs::remove_file(&self.path).unwrap();
        self.is_mounted = false;
    }

    /// Ends it after `hide`: the kernel clears it away in its own time.
    pub fn end(mut self) {
        self.handle = None;
    }

    /// Runs `work` on a thread in here; sockets that it opens stay here, and programs
    /// that it starts run here.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let handle = self.handle.as_ref().unwrap();
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(handle, CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    /// Runs `ip` with these arguments.
    pub fn ip(&self, args: &str) -> String {
        let words: Vec<&str> = args.split_whitespace().collect();
        self.read("ip", &words, "")
    }

    /// Runs `ip` with these lines, in one process.
    pub fn batch(&self, lines: &str) {
        self.read("ip", &["-batch", "-"], lines);
    }

    /// What a program prints that must succeed, given `stdin`.
    pub fn read(&self, program: &str, args: &[&str], stdin: &str) -> String {
        let output = self.within(|| {
            let mut child = Command::new(program)
                .args(args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap_or_else(|error| panic!("{program}: {error}"));
            let mut input = child.stdin.take().unwrap();
            // A program that does not read it says itself what is wrong.
            let _ = input.write_all(stdin.as_bytes());
            drop(input);
            child.wait_with_output().unwrap()
        });
        assert!(
            output.status.success(),
            "{program} {args:?} {stdin}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Sets something below `/proc/sys/net`.
    pub fn set(&self, path: &str, value: &str) {
        let path = format!("/proc/sys/net/{path}");
        self.within(|| fs::write(&path, value))
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Reads something below `/proc/sys/net`.
    pub fn get(&self, path: &str) -> String {
        let path = format!("/proc/sys/net/{path}");
        let text = self.within(|| fs::read_to_string(&path));
        let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
        text.trim().to_owned()
    }

    /// A socket of an address in here.
    pub fn udp(&self, address: IpAddr) -> UdpSocket {
        let address = SocketAddr::new(address, PORT);
        let bind = || match UdpSocket::bind(address) {
            Ok(socket) => Some(socket),
            // The one before is closed, but a process that another test starts at this
            // moment still has a copy, until it becomes another program.
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(error) => panic!("{address}: {error}"),
        };
        let socket = self.within(|| wait_for("the address of a socket", bind));
        socket.set_read_timeout(Some(RETRY)).unwrap();
        socket
    }

    /// The hardware address of a device in here.
    pub fn mac(&self, device: &str) -> String {
        let path = format!("-o link show dev {device}");
        let output = self.ip(&path);
        let mut words = output.split_whitespace();
        let found = words.find(|word| *word == "link/ether").and(words.next());
        found.unwrap_or_else(|| panic!("{output}")).to_owned()
    }

    /// The hardware address that is known here for a neighbour.
    pub fn neighbour(&self, address: IpAddr) -> Option<String> {
        let output = self.ip(&format!("neighbour show to {address}"));
        let mut words = output.split_whitespace();
        let found = words.find(|word| *word == "lladdr").and(words.next());
        found.map(str::to_owned)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.is_mounted {
            // A failing test goes on to its message.
            let _ = umount2(&self.path, MntFlags::MNT_DETACH);
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Sends `payload` again and again until `to` receives it: neighbours must be found first.
pub fn deliver(from: &UdpSocket, to: &UdpSocket, payload: &str) {
    let address = to.local_addr().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut trouble = None;
    while Instant::now() < deadline {
        // An unreachable neighbour is told only with the next datagram.
        if let Err(error) = from.send_to(payload.as_bytes(), address) {
            trouble = Some(error);
        }
        let mut buffer = [0; 2048];
        match to.recv(&mut buffer) {
            Ok(length) if &buffer[..length] == payload.as_bytes() => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    let from = from.local_addr().unwrap();
    panic!("'{payload}' did not arrive at {address} from {from}; last error: {trouble:?}");
}

/// Waits until `probe` has an answer.
pub fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited too long for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
