//! A connection of lines: what is read has a limit, each step has an end.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use wilco_adapter::dial::dial;

use crate::config::{Server, Tls};

/// How long a connection may take to stand, at most.
const CONNECT: Duration = Duration::from_secs(10);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What connects to one server.
pub(crate) struct Dialler {
    server: Server,
    #[cfg(feature = "tls")]
    tls: Option<wilco_adapter::tls::Connector>,
}

/// One connection. Dropping it throws away what was not sent and resets it.
pub(crate) struct Conn {
    stream: Wire,
    buffer: Vec<u8>,
    read_to: usize,
}

enum Wire {
    Plain(tokio::net::TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<dyn Stream>),
    /// Between the two, while hands are shaken, and for good if that fails.
    Gone,
}

impl Dialler {
    pub fn new(server: &Server) -> Result<Dialler, String> {
        Ok(Dialler {
            #[cfg(feature = "tls")]
            tls: match server.tls {
                Tls::Off => None,
                Tls::FromStart | Tls::Upgraded => Some(wilco_adapter::tls::Connector::new(&server.files)?),
            },
            server: server.clone(),
        })
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Connects, and shakes hands where TLS is from the start.
    pub async fn connect(&self, deadline: Instant) -> Result<Conn, String> {
        let server = &self.server;
        let deadline = deadline.min(Instant::now() + CONNECT);
        let dialled = timeout_at(deadline, dial(&server.host, server.port, server.resending)).await;
        let tcp = match dialled {
            Ok(Ok(tcp)) => tcp,
            Ok(Err(e)) => return Err(format!("{} cannot be reached: {e}", server.shown())),
            Err(_) => return Err(format!("{}: no connection in time", server.shown())),
        };
        let mut conn = Conn {
            stream: Wire::Plain(tcp),
            buffer: Vec::new(),
            read_to: 0,
        };
        if server.tls == Tls::FromStart {
            self.secure(&mut conn, deadline).await?;
        }
        Ok(conn)
    }

    /// Goes on in TLS. What the server said before it is not carried over: somebody else may have said it.
    pub async fn secure(&self, conn: &mut Conn, deadline: Instant) -> Result<(), String> {
        if conn.unread() {
            return Err(format!("{} speaks before TLS stands", self.server.shown()));
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls
            && let Wire::Plain(tcp) = std::mem::replace(&mut conn.stream, Wire::Gone)
        {
            let shaken = timeout_at(deadline, tls.connect(&self.server.host, tcp)).await;
            let stream = shaken.map_err(|_| format!("{}: no TLS in time", self.server.shown()))??;
            conn.stream = Wire::Tls(Box::new(stream));
            return Ok(());
        }
        let _ = deadline;
        conn.stream = Wire::Gone;
        Err("TLS needs a build with the feature `tls` of the crate adapter-mail".to_owned())
    }
}

impl Conn {
    /// One line without its end, CRLF or LF.
    pub async fn line(&mut self, longest: usize, deadline: Instant) -> Result<Vec<u8>, String> {
        loop {
            let unread = &self.buffer[self.read_to..];
            if let Some(end) = unread.iter().position(|b| *b == b'\n') {
                let mut line = unread[..end].to_vec();
                self.read_to += end + 1;
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return if line.len() > longest {
                    Err(format!("the server sends a line of more than {longest} bytes"))
                } else {
                    Ok(line)
                };
            }
            if unread.len() > longest {
                return Err(format!("the server sends a line of more than {longest} bytes"));
            }
            self.more(deadline).await?;
        }
    }

    /// Exactly so many bytes.
    pub async fn bytes(&mut self, count: usize, deadline: Instant) -> Result<Vec<u8>, String> {
        while self.buffer.len() - self.read_to < count {
            self.more(deadline).await?;
        }
        let bytes = self.buffer[self.read_to..self.read_to + count].to_vec();
        self.read_to += count;
        Ok(bytes)
    }

    /// Writes all of it, and through whatever keeps it.
    pub async fn write(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), String> {
        let stream = self.stream.open()?;
        let written = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        match timeout_at(deadline, written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(format!("the connection broke: {e}")),
            Err(_) => Err("the server did not take what was sent in time".to_owned()),
        }
    }

    /// Whether the server has said anything that nobody read: what is here, and what has arrived.
    pub async fn spoke(&mut self) -> Result<bool, String> {
        if self.unread() {
            return Ok(true);
        }
        let mut byte = [0u8; 1];
        let stream = self.stream.open()?;
        // A read that takes only what is there already: the other branch is ready at once.
        tokio::select! {
            biased;
            read = stream.read(&mut byte) => match read {
                Ok(0) => Err("the server closed the connection".to_owned()),
                Ok(_) => {
                    self.buffer.push(byte[0]);
                    Ok(true)
                }
                Err(e) => Err(format!("the connection broke: {e}")),
            },
            () = std::future::ready(()) => Ok(false),
        }
    }

    fn unread(&self) -> bool {
        self.buffer.len() > self.read_to
    }

    async fn more(&mut self, deadline: Instant) -> Result<(), String> {
        self.buffer.drain(..self.read_to);
        self.read_to = 0;
        let stream = self.stream.open()?;
        let mut chunk = [0u8; 4_096];
        match timeout_at(deadline, stream.read(&mut chunk)).await {
            Ok(Ok(0)) => Err("the server closed the connection".to_owned()),
            Ok(Ok(read)) => {
                self.buffer.extend_from_slice(&chunk[..read]);
                Ok(())
            }
            Ok(Err(e)) => Err(format!("the connection broke: {e}")),
            Err(_) => Err("the server did not answer in time".to_owned()),
        }
    }
}

impl Wire {
    fn open(&mut self) -> Result<&mut dyn Stream, String> {
        match self {
            Wire::Plain(tcp) => Ok(tcp),
            #[cfg(feature = "tls")]
            Wire::Tls(stream) => Ok(stream.as_mut()),
            Wire::Gone => Err("the connection is gone".to_owned()),
        }
    }
}
