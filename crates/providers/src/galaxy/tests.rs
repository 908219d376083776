use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tonic::{
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::NamedService,
    transport::{Server, server::TcpIncoming},
};

use super::*;
use crate::{
    Func, Pace, Paced,
    fake::{Arrived, Behaviour, FakeCloud},
};
use wire::{AssignIpReply, UnAssignIpReply};

const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 70, 5));

#[test]
fn requests_have_the_bytes_of_the_contract() {
    let mut expected = vec![0x0a, 6];
    expected.extend(b"node-1");
    expected.extend([0x12, 9]);
    expected.extend(b"10.0.70.5");

    let assign = AssignIpRequest {
        node_name: "node-1".into(),
        ip_address: "10.0.70.5".into(),
    };
    let unassign = UnAssignIpRequest {
        node_name: "node-1".into(),
        ip_address: "10.0.70.5".into(),
    };
    assert_eq!(assign.encode_to_vec(), expected);
    assert_eq!(unassign.encode_to_vec(), expected);
}

#[test]
fn an_unknown_node_is_left_out_as_proto3_does() {
    let request = UnAssignIpRequest {
        node_name: String::new(),
        ip_address: "::1".into(),
    };
    assert_eq!(request.encode_to_vec(), [0x12, 3, b':', b':', b'1']);
}

#[test]
fn replies_have_the_bytes_of_the_contract() {
    let no = [0x12, 2, b'n', b'o'];
    let yes = [0x08, 1];

    assert!(AssignIpReply::decode(&yes[..]).unwrap().success);
    assert!(UnAssignIpReply::decode(&yes[..]).unwrap().success);
    let assign = AssignIpReply::decode(&no[..]).unwrap();
    let unassign = UnAssignIpReply::decode(&no[..]).unwrap();
    assert_eq!((assign.success, assign.msg.as_str()), (false, "no"));
    assert_eq!((unassign.success, unassign.msg.as_str()), (false, "no"));
    assert!(
        !AssignIpReply::decode(&[][..]).unwrap().success,
        "an empty message is a no"
    );
}

#[test]
fn only_host_and_port_is_an_address() {
    for good in ["cloud:80", "10.0.0.1:50051", "[fd00::1]:80", "a.b.svc:1"] {
        assert!(uri(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "cloud",
        "cloud:",
        "cloud:0",
        "cloud:99999",
        ":80",
        "http://cloud:80",
        "cloud:80/x",
        "cloud:80?x",
        "me@cloud:80",
        "clo ud:80",
        "fd00::1",
    ] {
        assert_eq!(
            uri(bad),
            Err(AddressError {
                address: bad.into()
            }),
            "{bad}"
        );
    }
}

#[test]
fn the_times_are_those_of_galaxy() {
    let timing = Timing::default();
    assert_eq!(timing.call.as_secs(), 60);
    assert_eq!(timing.ping_every.as_secs(), 120);
    assert_eq!(timing.ping_ack.as_secs(), 60);
}

#[tokio::test]
async fn both_calls_arrive_with_node_and_bare_address() {
    let cloud = FakeCloud::start().unwrap();
    let galaxy = client(&cloud);

    galaxy.assign("node-1", IP).await.unwrap();
    assert_eq!(
        cloud.assigned(),
        [("10.0.70.5".into(), "node-1".into())].into()
    );
    galaxy.unassign("", IP).await.unwrap();
    galaxy
        .assign("node-1", "::ffff:10.0.70.5".parse().unwrap())
        .await
        .unwrap();
    galaxy
        .unassign("node-1", "fd00:0::5".parse().unwrap())
        .await
        .unwrap();

    assert_eq!(
        cloud.calls(),
        [
            arrived(Func::Assign, "node-1", "10.0.70.5"),
            arrived(Func::Unassign, "", "10.0.70.5"),
            arrived(Func::Assign, "node-1", "10.0.70.5"),
            arrived(Func::Unassign, "node-1", "fd00::5"),
        ]
    );
}

#[tokio::test]
async fn a_no_is_final_and_keeps_its_words() {
    let cloud = FakeCloud::start().unwrap();
    cloud.behave(Behaviour::Refuse("no ENI left".into()));
    let galaxy = client(&cloud);

    for error in [
        galaxy.assign("node-1", IP).await.unwrap_err(),
        galaxy.unassign("node-1", IP).await.unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "cloud provider refused: no ENI left");
        assert_eq!(error.reason(), "ProviderRefused");
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_status_tells_whether_trying_again_helps() {
    let cloud = FakeCloud::start().unwrap();
    let galaxy = client(&cloud);
    let mut seen = Vec::new();
    for code in 1..=16 {
        cloud.behave(Behaviour::Fail(code, "x".into()));
        let error = galaxy.assign("node-1", IP).await.unwrap_err();
        seen.push((Code::from(code), error.reason(), error.is_transient()));
    }
    let failed = "ProviderFailed";
    let rejected = "ProviderRejected";
    assert_eq!(
        seen,
        [
            (Code::Cancelled, failed, true),
            (Code::Unknown, failed, true),
            (Code::InvalidArgument, rejected, false),
            (Code::DeadlineExceeded, "ProviderTimeout", true),
            (Code::NotFound, rejected, false),
            (Code::AlreadyExists, rejected, false),
            (Code::PermissionDenied, rejected, false),
            (Code::ResourceExhausted, failed, true),
            (Code::FailedPrecondition, rejected, false),
            (Code::Aborted, failed, true),
            (Code::OutOfRange, rejected, false),
            (Code::Unimplemented, rejected, false),
            (Code::Internal, failed, true),
            (Code::Unavailable, "ProviderUnreachable", true),
            (Code::DataLoss, failed, true),
            (Code::Unauthenticated, rejected, false),
        ]
    );
}

#[tokio::test]
async fn a_call_without_answer_ends_in_time() {
    let cloud = FakeCloud::start().unwrap();
    cloud.behave(Behaviour::Hold);
    let timing = Timing {
        call: Duration::from_millis(500),
        ..Timing::default()
    };
    let galaxy = Galaxy::new(&cloud.address(), timing).unwrap();

    let error = galaxy.assign("node-1", IP).await.unwrap_err();
    assert_eq!(error, ProviderError::Timeout { after: timing.call });
    assert!(error.is_transient());
    assert_eq!(cloud.calls().len(), 1, "it did arrive");
}

#[tokio::test]
async fn one_slow_call_does_not_hold_up_another() {
    let cloud = FakeCloud::start().unwrap();
    cloud.behave_for(IP, Behaviour::Hold);
    let galaxy = client(&cloud);

    let slow = tokio::spawn({
        let galaxy = galaxy.clone();
        async move { galaxy.assign("node-1", IP).await }
    });
    cloud.until_calls(1).await;
    galaxy
        .assign("node-1", "10.0.70.6".parse().unwrap())
        .await
        .unwrap();
    assert!(!slow.is_finished());
    cloud.behave_for(IP, Behaviour::Obey);
    slow.await.unwrap().unwrap();
}

#[tokio::test]
async fn nothing_is_connected_before_the_first_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let galaxy = Galaxy::new(&address.to_string(), Timing::default()).unwrap();

    // The listener takes connections in their order, so if the client had made
    // one, it would be the first here.
    let ours = TcpStream::connect(address).await.unwrap();
    let (_, first) = listener.accept().await.unwrap();
    assert_eq!(first, ours.local_addr().unwrap());

    let call = tokio::spawn(async move { galaxy.assign("node-1", IP).await });
    let (_, second) = listener.accept().await.unwrap();
    assert_ne!(second, ours.local_addr().unwrap());
    call.abort();
}

#[tokio::test]
async fn a_provider_may_go_away_and_come_back() {
    let mut cloud = FakeCloud::start().unwrap();
    let galaxy = client(&cloud);
    galaxy.assign("node-1", IP).await.unwrap();

    cloud.behave(Behaviour::Hold);
    let open = tokio::spawn({
        let galaxy = galaxy.clone();
        async move { galaxy.assign("node-2", IP).await }
    });
    cloud.until_calls(2).await;
    cloud.go_away().await;
    let broken = open.await.unwrap().unwrap_err();
    let refused = galaxy.unassign("node-1", IP).await.unwrap_err();
    for error in [broken, refused] {
        assert_eq!(error.reason(), "ProviderUnreachable", "{error}");
        assert!(error.is_transient());
    }

    cloud.behave(Behaviour::Obey);
    cloud.come_back().unwrap();
    galaxy.unassign("node-1", IP).await.unwrap();
    assert_eq!(cloud.calls().len(), 3);
}

#[tokio::test]
async fn with_patience_a_restart_of_the_provider_goes_unnoticed() {
    let mut cloud = FakeCloud::start().unwrap();
    cloud.go_away().await;
    let failures = Arc::new(tokio::sync::Notify::new());
    let paced = Paced::new(
        Arc::new(client(&cloud)),
        Pace::default(),
        Arc::new(Failures(Arc::clone(&failures))),
    );

    let call = tokio::spawn(async move { paced.assign("node-1", IP).await });
    failures.notified().await;
    cloud.come_back().unwrap();
    call.await.unwrap().unwrap();
    assert_eq!(
        cloud.calls(),
        [arrived(Func::Assign, "node-1", "10.0.70.5")]
    );
}

#[tokio::test]
async fn an_end_without_reply_is_a_failure() {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap().to_string();
    let mute = Mute::default();
    tokio::spawn(
        Server::builder()
            .add_service(mute.clone())
            .serve_with_incoming(incoming),
    );
    let galaxy = Galaxy::new(&address, Timing::default()).unwrap();

    let error = galaxy.assign("node-1", IP).await.unwrap_err();
    assert_eq!(error, ProviderError::NoReply);
    assert!(error.is_transient());
    let error = galaxy.unassign("node-1", IP).await.unwrap_err();
    assert_eq!(error, ProviderError::NoReply);

    let heads = mute.0.lock().unwrap();
    assert_eq!(
        heads.iter().map(|head| head.uri.path()).collect::<Vec<_>>(),
        [
            "/rpc.IPProviderService/AssignIP",
            "/rpc.IPProviderService/UnAssignIP"
        ]
    );
    for head in heads.iter() {
        assert_eq!(head.uri.authority().unwrap().as_str(), address);
        assert_eq!(head.headers["content-type"], "application/grpc");
        assert_eq!(head.headers["grpc-timeout"], "60000000u");
    }
}

#[tokio::test]
async fn an_idle_connection_is_pinged_and_dropped_when_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let timing = Timing {
        call: Duration::from_millis(500),
        ping_every: Duration::from_secs(1),
        ping_ack: Duration::from_millis(100),
        ..Timing::default()
    };
    let galaxy = Galaxy::new(&listener.local_addr().unwrap().to_string(), timing).unwrap();
    let (error, connection) = tokio::join!(galaxy.assign("node-1", IP), listener.accept());
    assert_eq!(error.unwrap_err().reason(), "ProviderTimeout");

    // Now no call is open. This peer never answers a ping.
    let frames = frames_until_closed(connection.unwrap().0);
    let frames = tokio::time::timeout(Duration::from_secs(30), frames)
        .await
        .expect("the client hangs up");
    let reset = frames.iter().position(|&kind| kind == RST_STREAM);
    let ping = frames.iter().rposition(|&kind| kind == PING);
    assert!(
        reset.expect("the call was given up") < ping.expect("a ping came"),
        "{frames:?}"
    );
}

const RST_STREAM: u8 = 3;
const PING: u8 = 6;

/// The kinds of all HTTP/2 frames that a client sends until it hangs up.
async fn frames_until_closed(mut stream: TcpStream) -> Vec<u8> {
    const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    stream.write_all(&EMPTY_SETTINGS).await.unwrap();
    stream.write_all(&SETTINGS_ACK).await.unwrap();
    let mut kinds = Vec::new();
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return kinds;
        }
        kinds.push(head[3]);
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut body = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut body).await.unwrap();
    }
}

/// Ends every call as good and says nothing; keeps the heads of the requests.
#[derive(Clone, Default)]
struct Mute(Arc<Mutex<Vec<http::request::Parts>>>);

impl NamedService for Mute {
    const NAME: &'static str = "rpc.IPProviderService";
}

impl Service<http::Request<Body>> for Mute {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.lock().unwrap().push(request.into_parts().0);
        Box::pin(async {
            Ok(http::Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", "0")
                .body(Body::empty())
                .unwrap())
        })
    }
}

/// Rings when a call has failed.
struct Failures(Arc<tokio::sync::Notify>);

impl crate::Observer for Failures {
    fn called(&self, call: &crate::Call<'_>) {
        if call.result.is_err() {
            self.0.notify_one();
        }
    }
}

fn client(cloud: &FakeCloud) -> Galaxy {
    Galaxy::new(&cloud.address(), Timing::default()).unwrap()
}

fn arrived(func: Func, node: &str, ip: &str) -> Arrived {
    Arrived {
        func,
        node: node.into(),
        ip: ip.into(),
    }
}
