//! Who answers, and who asks.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{
        IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream,
        UdpSocket,
    },
    os::fd::AsRawFd,
    process::Command,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::sys::socket::{Shutdown, SockaddrStorage, recvfrom, shutdown};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::super::Space;

const PORT: u16 = 7000;
const SOON: Duration = Duration::from_secs(5);

/// Two IP protocols that have no ports: one that the kernel knows, one for experiments.
pub const PROTOCOLS: [u8; 2] = [47, 253];

/// Both begin like a packet of GRE: the kernel drops those of versions that do not exist.
const QUESTION: &[u8] = b"\0\0\x08\0a question";
const ANSWER: &[u8] = b"\0\0\x08\0an answer";

/// Answers over TCP, UDP and [`PROTOCOLS`] in both families until it is dropped.
pub struct Echo {
    pub name: String,
    sockets: Vec<Arc<Socket>>,
    threads: Vec<JoinHandle<()>>,
}

/// A connection with the first line that was said on it.
pub struct Connection {
    /// Who answers: its name, and whom it sees.
    pub greeting: String,
    stream: BufReader<TcpStream>,
}

impl Echo {
    pub fn start(space: &Space, name: &str) -> Self {
        let mut echo = Self {
            name: name.to_owned(),
            sockets: Vec::new(),
            threads: Vec::new(),
        };
        for any in [
            IpAddr::from(Ipv4Addr::UNSPECIFIED),
            Ipv6Addr::UNSPECIFIED.into(),
        ] {
            let name = echo.name.clone();
            echo.add(space, any, Type::STREAM, None, move |socket| {
                greet(&socket, &name);
            });
            let name = echo.name.clone();
            echo.add(space, any, Type::DGRAM, None, move |socket| {
                reply(&socket, |from| format!("{name} {}", from.ip()).into_bytes());
            });
            for protocol in PROTOCOLS {
                let protocol = Protocol::from(i32::from(protocol));
                echo.add(space, any, Type::RAW, Some(protocol), |socket| {
                    reply(&socket, |_| ANSWER.to_vec());
                });
            }
        }
        echo
    }

    fn add(
        &mut self,
        space: &Space,
        any: IpAddr,
        kind: Type,
        protocol: Option<Protocol>,
        serve: impl FnOnce(Arc<Socket>) + Send + 'static,
    ) {
        let opened = space.netns.run(|| {
            let socket = Socket::new(Domain::for_address(SocketAddr::new(any, 0)), kind, protocol)?;
            // A raw socket is of one family anyway.
            if any.is_ipv6() && kind != Type::RAW {
                socket.set_only_v6(true)?;
            }
            let port = if kind == Type::RAW { 0 } else { PORT };
            socket.bind(&SocketAddr::new(any, port).into())?;
            if kind == Type::STREAM {
                socket.listen(16)?;
            }
            io::Result::Ok(Arc::new(socket))
        });
        let socket = opened.unwrap().unwrap();
        self.sockets.push(socket.clone());
        self.threads.push(thread::spawn(move || serve(socket)));
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // Who waits is woken, also where this is an error.
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Greets who connects, then says each line again.
fn greet(socket: &Socket, name: &str) {
    let listener = TcpListener::from(socket.try_clone().unwrap());
    while let Ok((stream, from)) = listener.accept() {
        let greeting = format!("{name} {}\n", from.ip());
        // Ends with its connection.
        thread::spawn(move || {
            let _ = (&stream).write_all(greeting.as_bytes());
            for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                let _ = (&stream).write_all(format!("{line}\n").as_bytes());
            }
        });
    }
}

/// Answers each packet, until the socket is shut down: then there is one of nobody.
fn reply(socket: &Socket, words: impl Fn(SocketAddr) -> Vec<u8>) {
    let mut buffer = [0; 2048];
    while let Ok((packet, from)) = receive(socket, &mut buffer) {
        let Some(mut from) = from.filter(|_| !packet.is_empty()) else {
            return;
        };
        if socket.r#type().unwrap() == Type::RAW {
            // Who asks himself hears his own answers, too.
            if !packet.ends_with(QUESTION) {
                continue;
            }
            from.set_port(0);
        }
        let _ = socket.send_to(&words(from), &SockAddr::from(from));
    }
}

/// Connects to an address over TCP.
pub fn tcp(space: &Space, to: IpAddr, patience: Duration) -> io::Result<Connection> {
    let to = SocketAddr::new(to, PORT);
    let stream = space
        .netns
        .run(|| TcpStream::connect_timeout(&to, patience))??;
    stream.set_read_timeout(Some(SOON))?;
    let mut stream = BufReader::new(stream);
    let mut greeting = String::new();
    stream.read_line(&mut greeting)?;
    Ok(Connection {
        greeting: greeting.trim_end().to_owned(),
        stream,
    })
}

impl Connection {
    /// Says a line, and waits for it to come back.
    pub fn say(&mut self, line: &str, patience: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        self.stream
            .get_ref()
            .write_all(format!("{line}\n").as_bytes())?;
        let mut heard = String::new();
        if self.stream.read_line(&mut heard)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        assert_eq!(heard.trim_end(), line);
        Ok(())
    }

    /// Waits for what was said before to come back.
    pub fn hear(&mut self, line: &str, patience: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        let mut heard = String::new();
        self.stream.read_line(&mut heard)?;
        assert_eq!(heard.trim_end(), line);
        Ok(())
    }
}

/// Asks an address over UDP: what the answer says, and from where it comes.
pub fn udp(space: &Space, to: IpAddr, patience: Duration) -> io::Result<(String, IpAddr)> {
    let any: IpAddr = if to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = space.netns.run(|| UdpSocket::bind((any, 0)))??;
    socket.set_read_timeout(Some(patience))?;
    socket.send_to(b"a question", (to, PORT))?;
    let mut buffer = [0; 256];
    let (length, from) = socket.recv_from(&mut buffer)?;
    let words = String::from_utf8_lossy(&buffer[..length]).into_owned();
    Ok((words, from.ip()))
}

/// Asks an address over an IP protocol: from where the answer comes.
pub fn raw(space: &Space, to: IpAddr, protocol: u8, patience: Duration) -> io::Result<IpAddr> {
    let protocol = Protocol::from(i32::from(protocol));
    let to = SocketAddr::new(to, 0);
    let socket = space
        .netns
        .run(|| Socket::new(Domain::for_address(to), Type::RAW, Some(protocol)))??;
    socket.set_read_timeout(Some(patience))?;
    socket.send_to(QUESTION, &to.into())?;
    let mut buffer = [0; 2048];
    loop {
        let (packet, from) = receive(&socket, &mut buffer)?;
        // Who asks himself hears his own question, too.
        if packet.ends_with(ANSWER) {
            return Ok(from.ok_or(io::ErrorKind::InvalidData)?.ip());
        }
    }
}

/// The next packet, and from where it comes; nobody when the socket is shut down.
fn receive<'a>(
    socket: &Socket,
    buffer: &'a mut [u8],
) -> io::Result<(&'a [u8], Option<SocketAddr>)> {
    let (length, from) = recvfrom::<SockaddrStorage>(socket.as_raw_fd(), buffer)?;
    let from = from.and_then(|from| {
        let v4 = from
            .as_sockaddr_in()
            .map(|it| SocketAddrV4::from(*it).into());
        v4.or_else(|| {
            from.as_sockaddr_in6()
                .map(|it| SocketAddrV6::from(*it).into())
        })
    });
    Ok((&buffer[..length], from))
}

/// Whether an address answers an echo request, with itself as the source.
pub fn ping(space: &Space, to: IpAddr) -> bool {
    let output = space.netns.run(|| {
        Command::new("ping")
            .args(["-n", "-c", "1", "-W", "3", &to.to_string()])
            .output()
    });
    let said = String::from_utf8(output.unwrap().unwrap().stdout).unwrap();
    said.contains(&format!("bytes from {to}:"))
}
