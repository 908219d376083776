use std::{net::SocketAddr, path::PathBuf};

use floe_shell::mock::Server;
use futures::FutureExt as _;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{
    console::script,
    fixture,
    remote::{
        Connect, Line, Remote,
        stage::{NAME, Stage},
    },
};

/// Connects to a server on this machine.
struct Local(SocketAddr);

impl Connect for Local {
    async fn connect(&self) -> Result<Line, Failure> {
        let stream = TcpStream::connect(self.0).await.unwrap();
        Ok(Line {
            stream: Box::new(stream),
            trouble: async { None }.boxed(),
        })
    }
}

/// A controller on loopback, whatever authority the cluster shows.
async fn serve(stage: &Stage) -> Local {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stage = stage.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(stage.clone().serve(Box::new(stream)));
        }
    });
    Local(address)
}

/// What becomes of a call with these flags.
async fn call(local: Local, file: Option<PathBuf>, name: Option<&str>) -> Result<u32, Failure> {
    let access = ApiAccess {
        api_ca_file: file,
        api_server_name: name.map(str::to_owned),
        ..fixture::api()
    };
    let cluster = fixture::cluster(&Server::default());
    let trust = Trust::read(&cluster, &access).await?;
    let Remote {
        bearer,
        patience,
        tries,
        ..
    } = Stage::open(Vec::new()).remote().impatient();
    let mut remote = Remote {
        connect: local,
        trust,
        bearer,
        is_open: false,
        patience,
        tries,
    };
    let (mut console, ..) = script::console(None);
    remote.get(&mut console, "/v2/ips").await
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test]
async fn an_authority_and_a_name_can_be_given() {
    let stage = Stage::secure(vec![(200, json!(7))]);
    let file = written(stage.authority());
    let path = || Some(file.path().to_owned());
    assert_eq!(call(serve(&stage).await, path(), None).await.unwrap(), 7);
    let good = call(serve(&stage).await, path(), Some(NAME)).await;
    assert_eq!(good.unwrap(), 7);
    assert_eq!(stage.asked().len(), 2);

    let other = call(serve(&stage).await, path(), Some("floe.example")).await;
    let failure = other.unwrap_err();
    assert_eq!(failure.reason(), "ApiUntrusted");
    assert!(failure.to_string().contains("floe.example"), "{failure}");
    let nobody = call(serve(&stage).await, None, None).await.unwrap_err();
    assert_eq!(nobody.reason(), "ApiUntrusted", "the cluster shows none");
    let stranger = written(Stage::secure(Vec::new()).authority());
    let stranger = Some(stranger.path().to_owned());
    let failure = call(serve(&stage).await, stranger, None).await;
    assert_eq!(failure.unwrap_err().reason(), "ApiUntrusted");
    assert_eq!(stage.asked().len(), 2, "nothing was sent to them");
}

#[tokio::test]
async fn who_names_whom_to_trust_gets_no_api_without_tls() {
    let stage = Stage::open(vec![(200, json!(7))]);
    assert_eq!(call(serve(&stage).await, None, None).await.unwrap(), 7);
    let failure = call(serve(&stage).await, None, Some(NAME)).await;
    let failure = failure.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "the management API cannot be trusted: it does not speak TLS"
    );
}

#[tokio::test]
async fn a_file_that_is_no_authority_is_refused_before_anybody_is_asked() {
    let stage = Stage::open(vec![(200, json!(7))]);
    let empty = written("nothing");
    let failure = call(serve(&stage).await, Some(empty.path().to_owned()), None);
    assert_eq!(failure.await.unwrap_err().exit_code(), 2);
    let failure = call(serve(&stage).await, Some("/nowhere/ca".into()), None).await;
    assert_eq!(failure.unwrap_err().reason(), "InputOutput");
    let failure = call(serve(&stage).await, None, Some("not a name")).await;
    assert_eq!(failure.unwrap_err().reason(), "ApiUntrusted");
    assert!(stage.asked().is_empty());
}
