//! A connection that is not slammed in the face of a client that still sends.
//!
//! Whoever is refused before all of his call was read, such as a stranger with a long
//! body, must still get to read the answer: a system that closes while there is
//! something unread resets the connection, and the answer is lost on the way.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// How long it is waited for more to come.
const QUIET: Duration = Duration::from_millis(250);

/// How long this goes on at most.
const LONGEST: Duration = Duration::from_secs(2);

/// How much is read and thrown away at most.
const MOST: usize = 8 * 1024 * 1024;

/// A connection whose shutdown tells the client first, and then reads for a moment what
/// it still sends.
pub struct Lingering<S> {
    stream: S,
    farewell: Option<Farewell>,
}

struct Farewell {
    quiet: Pin<Box<Sleep>>,
    end: Instant,
    read: usize,
}

impl<S> Lingering<S> {
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            farewell: None,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.farewell.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        let farewell = this.farewell.get_or_insert_with(|| {
            let now = Instant::now();
            Farewell {
                quiet: Box::pin(sleep_until(now + QUIET)),
                end: now + LONGEST,
                read: 0,
            }
        });
        let mut waste = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut waste);
            match Pin::new(&mut this.stream).poll_read(cx, &mut buffer) {
                // It closes as well, or is gone.
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {
                    farewell.read += buffer.filled().len();
                    let now = Instant::now();
                    if farewell.read > MOST || now >= farewell.end {
                        return Poll::Ready(Ok(()));
                    }
                    let quiet = (now + QUIET).min(farewell.end);
                    farewell.quiet.as_mut().reset(quiet);
                }
                Poll::Pending => {
                    ready!(farewell.quiet.as_mut().as_mut().poll(cx));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.unwrap(), server.unwrap().0)
    }

    #[tokio::test]
    async fn who_is_still_sending_gets_to_read_the_answer() {
        let (mut client, server) = pair().await;
        let serve = async {
            let mut server = Lingering::new(server);
            server.write_all(b"no").await.unwrap();
            server.shutdown().await.unwrap();
        };
        let ask = async {
            let body = vec![b'x'; 4 * 1024 * 1024];
            client.write_all(&body).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let ((), answer) = tokio::join!(serve, ask);
        assert_eq!(answer, "no");
    }

    #[tokio::test]
    async fn who_never_stops_sending_is_not_listened_to_for_ever() {
        let (mut client, server) = pair().await;
        let serve = async move {
            let mut server = Lingering::new(server);
            server.shutdown().await.unwrap();
        };
        let send = async move {
            let body = vec![b'x'; 1024 * 1024];
            while client.write_all(&body).await.is_ok() {}
        };
        tokio::join!(serve, send);
    }

    #[tokio::test]
    async fn who_is_silent_is_left_soon_and_who_closes_at_once() {
        let (client, server) = pair().await;
        Lingering::new(server).shutdown().await.unwrap();
        drop(client);
        let (client, server) = pair().await;
        drop(client);
        Lingering::new(server).shutdown().await.unwrap();
    }
}
