//! A loopback listener whose connections can be dropped for real.
//!
//! A counterparty that dies mid-answer sends no status line at all; the client sees the connection close.
//! A handler cannot do that through HTTP, so each connection carries a switch: once thrown, no byte more
//! leaves, the write fails, and the server closes the socket.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// How many connections are open at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 1024;

/// Throwing it makes the connection close without another byte.
#[derive(Debug, Clone, Default)]
pub struct DropSwitch(Arc<AtomicBool>);

impl DropSwitch {
    /// From now on nothing is written to this connection.
    pub fn throw(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn thrown(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The listener of the lab.
#[derive(Debug)]
pub struct LabListener {
    tcp: TcpListener,
    room: Arc<Semaphore>,
}

impl LabListener {
    /// Serves the connections of a bound socket.
    pub fn new(tcp: TcpListener) -> Self {
        Self {
            tcp,
            room: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }
    }
}

impl Listener for LabListener {
    type Io = LabStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LabStream, SocketAddr) {
        // The semaphore is never closed; without a permit the connection would only be uncounted.
        let permit = Arc::clone(&self.room).acquire_owned().await.ok();
        loop {
            match self.tcp.accept().await {
                Ok((tcp, from)) => {
                    // Small answers should not wait for more; failing to say so costs only time.
                    let _ = tcp.set_nodelay(true);
                    return (
                        LabStream {
                            tcp,
                            switch: DropSwitch::default(),
                            _permit: permit,
                        },
                        from,
                    );
                }
                Err(error) => {
                    // Out of file handles, or a client gone before it was accepted: both pass.
                    tracing::debug!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// One connection with its switch.
#[derive(Debug)]
pub struct LabStream {
    tcp: TcpStream,
    switch: DropSwitch,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connected<IncomingStream<'_, LabListener>> for DropSwitch {
    fn connect_info(stream: IncomingStream<'_, LabListener>) -> Self {
        stream.io().switch.clone()
    }
}

impl AsyncRead for LabStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for LabStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.switch.thrown() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
