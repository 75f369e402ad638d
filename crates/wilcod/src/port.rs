//! The one port: connections in, one router behind them.
//!
//! gRPC (HTTP/2 without TLS) and JSON arrive on the same socket; the first bytes of a connection tell which. TLS is
//! not spoken yet, so nothing but loopback is served.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// How long a connection may take to say its first byte, and a request to say its headers.
const HEADERS_TIME: Duration = Duration::from_secs(10);
/// What HTTP/2 begins with (RFC 9113 §3.4).
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long to wait for more of it.
const PEEK_PAUSE: Duration = Duration::from_millis(10);
/// How many headers a request may have.
const HEADERS_MAX: usize = 64;
/// How many bytes of headers a request may have.
const HEADER_BYTES_MAX: u32 = 32 * 1024;
/// How many calls one gRPC connection may have under way.
const STREAMS_MAX: u32 = 1024;
/// How often a silent gRPC connection is asked whether it still lives.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long open connections get to end once the work is done.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// Why the port cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Others could reach it, and what travels is not encrypted.
    #[error(
        "{0} is not a loopback address: keys and payments would travel unencrypted. Listen on 127.0.0.1 or [::1] until \
         TLS is built in"
    )]
    NotLoopback(SocketAddr),
    /// Somebody else has it.
    #[error("{0} is in use: stop what listens there, choose another port, or 0 for a free one")]
    InUse(SocketAddr),
    /// The system refused.
    #[error("cannot listen on {listen}: {source}")]
    Bind {
        /// Where.
        listen: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Takes the port.
///
/// # Errors
/// [`PortError`].
pub async fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), PortError> {
    if !listen.ip().is_loopback() {
        return Err(PortError::NotLoopback(listen));
    }
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => PortError::InUse(listen),
        _ => PortError::Bind { listen, source },
    };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Serves connections until `stop` says so, then lets the open ones end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    mut stop: watch::Receiver<bool>,
) {
    let builder = Arc::new(builder());
    let room = Arc::new(Semaphore::new(connections_max));
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &room) => accepted,
            // An error means that nobody can say it any more.
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file handles, or a client gone before it was accepted: both pass.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Answers are small and awaited: waiting for more bytes to send along costs 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let (builder, service, watcher) = (
            Arc::clone(&builder),
            TowerToHyperService::new(router.clone()),
            open.watcher(),
        );
        tokio::spawn(async move {
            let _place = place;
            // The protocol is read off the first bytes, so a connection that never says one would stay for ever.
            if !matches!(
                tokio::time::timeout(HEADERS_TIME, says_protocol(&stream)).await,
                Ok(Ok(true))
            ) {
                return;
            }
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            if let Err(error) = watcher.watch(connection.into_owned()).await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(CLOSE_TIME, open.shutdown()).await.is_err() {
        tracing::debug!("connections were still open at the end");
    }
}

async fn next(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
    // The semaphore is never closed; without a place the connection would only be uncounted.
    let place = Arc::clone(room).acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// Waits until the first bytes tell which protocol is spoken; `false` for a connection that ends before.
async fn says_protocol(stream: &TcpStream) -> io::Result<bool> {
    let mut said = [0; HTTP2_PREFACE.len()];
    loop {
        let n = stream.peek(&mut said).await?;
        if n == 0 {
            return Ok(false);
        }
        if n == HTTP2_PREFACE.len() || said[..n] != HTTP2_PREFACE[..n] {
            return Ok(true);
        }
        // Peeking returns at once while the same few bytes wait there.
        tokio::time::sleep(PEEK_PAUSE).await;
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIME)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(PING_EVERY);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// Whether the protocol is known once `said` has arrived and no more comes for a while.
    async fn known(said: &[u8], patience: Duration) -> bool {
        let (listener, address) = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        let mut client = TcpStream::connect(address).await.expect("connects");
        let (stream, _) = listener.accept().await.expect("accepted");
        client.write_all(said).await.expect("sent");
        tokio::select! {
            told = says_protocol(&stream) => told.expect("open"),
            // Patient where an answer is due, as machines can be slow.
            () = tokio::time::sleep(patience) => false,
        }
    }

    #[tokio::test]
    async fn a_connection_that_begins_like_both_protocols_is_not_let_in_yet() {
        for early in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
            assert!(!known(early, Duration::from_millis(200)).await, "{early:?}");
        }
        for told in [&b"POST"[..], b"G", HTTP2_PREFACE] {
            assert!(known(told, Duration::from_secs(60)).await, "{told:?}");
        }
    }
}
