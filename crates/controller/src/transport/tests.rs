//! Clients that take more than their share.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use floe_shell::stop::{self, Stopper};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::serve::{Limits, serve};

/// Long enough for anything that works.
const PATIENCE: Duration = Duration::from_secs(30);

const LIMITS: Limits = Limits {
    idle: PATIENCE,
    hurried: PATIENCE,
    connections: 8,
    from_one: 8,
    unread: None,
    half_closed: false,
    drain: Duration::from_secs(5),
};

struct Door {
    addr: SocketAddr,
    stopper: Stopper,
    task: JoinHandle<()>,
}

impl Door {
    async fn open(limits: Limits) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stopper, stop) = stop::channel();
        let router = Router::new()
            .route("/", get(async || "ok"))
            .route("/much", get(async || vec![0; 16 * 1024 * 1024]));
        let task = tokio::spawn(serve(listener, router, None, limits, async {}, stop));
        Self {
            addr,
            stopper,
            task,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    async fn close(self) {
        self.stopper.stop();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// Whether a call on this connection is answered.
async fn works(stream: &mut TcpStream) -> bool {
    if stream.write_all(GET).await.is_err() {
        return false;
    }
    let mut heard = Vec::new();
    while !heard.ends_with(b"ok") {
        let mut some = [0; 256];
        match timeout(PATIENCE, stream.read(&mut some)).await.unwrap() {
            Ok(0) | Err(_) => return false,
            Ok(count) => heard.extend_from_slice(&some[..count]),
        }
    }
    true
}

/// Waits until the other side ends the connection.
async fn ended(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .unwrap();
}

#[tokio::test]
async fn who_sends_headers_too_slowly_is_cut_off_and_others_are_served() {
    let limits = Limits {
        idle: Duration::from_millis(300),
        hurried: Duration::from_millis(300),
        ..LIMITS
    };
    let door = Door::open(limits).await;
    // More of them than there is room for.
    let mut slow = Vec::new();
    for _ in 0..16 {
        let mut stream = door.connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        slow.push(stream);
    }
    let begin = Instant::now();
    assert!(works(&mut door.connect().await).await);
    assert!(begin.elapsed() < Duration::from_secs(5));
    for stream in &mut slow {
        ended(stream).await;
    }
    door.close().await;
}

#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    let door = Door::open(Limits {
        from_one: 2,
        ..LIMITS
    })
    .await;
    let (mut first, mut second) = (door.connect().await, door.connect().await);
    assert!(works(&mut first).await && works(&mut second).await);
    let mut third = door.connect().await;
    assert!(!works(&mut third).await);
    // Another address is served all the same.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(door.addr).await.unwrap();
    assert!(works(&mut other).await);
    // And so is this one when one of its connections has ended.
    drop(first);
    let again = async {
        while !works(&mut door.connect().await).await {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.unwrap();
    assert!(works(&mut second).await);
    door.close().await;
}

#[tokio::test]
async fn idle_connections_have_less_time_when_there_are_many() {
    let door = Door::open(Limits {
        hurried: Duration::from_millis(200),
        ..LIMITS
    })
    .await;
    let mut calm = Vec::new();
    for _ in 0..4 {
        let mut stream = door.connect().await;
        assert!(works(&mut stream).await);
        calm.push(stream);
    }
    let mut late = door.connect().await;
    ended(&mut late).await;
    for stream in &mut calm {
        assert!(works(stream).await);
    }
    door.close().await;
}

#[tokio::test]
async fn who_never_reads_is_cut_off() {
    let door = Door::open(Limits {
        connections: 1,
        from_one: 1,
        unread: Some(Duration::from_millis(500)),
        ..LIMITS
    })
    .await;
    let mut deaf = door.connect().await;
    deaf.write_all(b"GET /much HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    // There is room for the next one only when the first was cut off.
    let next = async { works(&mut door.connect().await).await };
    assert!(timeout(PATIENCE, next).await.unwrap());
    drop(deaf);
    door.close().await;
}
