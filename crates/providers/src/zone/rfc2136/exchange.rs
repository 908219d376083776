//! A connection to a name server: each message is signed, and each answer is checked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use floe_core::nodepool::cloud::{Class, Refusal};
use hickory_proto::{
    op::Message,
    rr::{Name, Record, RecordType, TSigner},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use super::{answer, message};
use crate::http::LIMIT;

/// One connection, which has an end.
pub(super) struct Connection<'a> {
    stream: TcpStream,
    signer: &'a TSigner,
    end: Instant,
}

impl<'a> Connection<'a> {
    pub(super) async fn open(server: &str, signer: &'a TSigner) -> Result<Self, Refusal> {
        let end = Instant::now() + LIMIT;
        let connected = timeout_at(end, TcpStream::connect(server)).await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let words = format!("cannot connect to {server}: {error}");
                return Err(Refusal::new(Class::Unavailable, words));
            }
            Err(_) => return Err(silent(LIMIT, Class::Unavailable)),
        };
        // Messages are small, and each is waited for.
        let _ = stream.set_nodelay(true);
        Ok(Self {
            stream,
            signer,
            end,
        })
    }

    /// The records of a name, of one type or aliases. There may be none.
    pub(super) async fn query(
        &mut self,
        name: &Name,
        kind: RecordType,
    ) -> Result<Vec<Record>, Refusal> {
        let question = message::question(name, kind);
        let answer = self.exchange(question, Class::Unavailable).await?;
        answer::records(answer)
    }

    /// Has an update done.
    pub(super) async fn update(&mut self, update: Message) -> Result<(), Refusal> {
        let answer = self.exchange(update, Class::Unclear).await?;
        answer::done(&answer)
    }

    /// The answer, if it is proven to come from the server. One that refuses need not be:
    /// not every server signs those, and with the wrong key none can.
    async fn exchange(&mut self, mut sent: Message, lost: Class) -> Result<Message, Refusal> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let unsendable = |_| Refusal::new(Class::Invalid, "the message is too long for DNS");
        let verifier = sent.finalize(self.signer, now).map_err(unsendable)?;
        let bytes = sent.to_vec().map_err(unsendable)?;
        let passed = timeout_at(self.end, self.pass(&bytes)).await;
        let received = match passed {
            Ok(Ok(received)) => received,
            Ok(Err(error)) => {
                let words = format!("the connection broke: {error}");
                return Err(Refusal::new(lost, words));
            }
            Err(_) => return Err(silent(LIMIT, lost)),
        };
        let senseless = |why: &str| Refusal::new(lost, format!("the answer makes no sense: {why}"));
        let answer = Message::from_vec(&received).map_err(|_| senseless("it is no DNS"))?;
        if answer.metadata.id != sent.metadata.id {
            return Err(senseless("it is for another question"));
        }
        answer::refusal(&answer).map_or(Ok(()), Err)?;
        let mut verifier = verifier.ok_or_else(|| senseless("nothing was signed"))?;
        match verifier.verify(&received) {
            Ok(_) => Ok(answer),
            Err(_) => Err(senseless("it is not signed with the key")),
        }
    }

    /// Over TCP, a message has its length before it.
    async fn pass(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let length = u16::try_from(bytes.len())
            .map_err(|_| std::io::Error::other("the message is too long"))?;
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend_from_slice(bytes);
        self.stream.write_all(&framed).await?;
        let length = self.stream.read_u16().await?;
        let mut received = vec![0; usize::from(length)];
        self.stream.read_exact(&mut received).await?;
        Ok(received)
    }
}

fn silent(limit: Duration, class: Class) -> Refusal {
    Refusal::new(class, format!("no answer within {} s", limit.as_secs()))
}
