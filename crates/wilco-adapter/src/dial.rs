//! A TCP connection whose bytes have an end.
//!
//! The settle window counts from the end of a call. But a request the network has not taken stays with the operating
//! system, which tries to deliver it for minutes, also after the call has given up or its process was killed. So every
//! connection is told two things before its first byte:
//!
//! | option | what it bounds |
//! |---|---|
//! | `SO_LINGER` 0 | closing it, however it is closed, throws away what was not sent and resets it |
//! | `TCP_USER_TIMEOUT` | while it stands, also in a process that is paused: bytes not acknowledged for this long end it |

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

/// Connects; the system gives bytes up that are not acknowledged within `resending`.
///
/// # Errors
/// Nobody listens there, or the system does not take the options: then nothing may be sent over it.
pub async fn dial(host: &str, port: u16, resending: Duration) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect((host, port)).await?;
    // A request is one small write; failing to say so costs only time.
    let _ = tcp.set_nodelay(true);
    tcp.set_zero_linger()?;
    give_up_after(&tcp, resending)?;
    Ok(tcp)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn give_up_after(tcp: &TcpStream, resending: Duration) -> io::Result<()> {
    socket2::SockRef::from(tcp).set_tcp_user_timeout(Some(resending))
}

/// Other systems have no such option by this name: there only the closing bounds it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn give_up_after(_: &TcpStream, _: Duration) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (ours, theirs) = tokio::join!(
            dial("127.0.0.1", port, Duration::from_millis(7_500)),
            listener.accept()
        );
        (ours.expect("connected"), theirs.expect("accepted").0)
    }

    #[tokio::test]
    async fn the_system_holds_both_bounds_before_the_first_byte() {
        let (ours, _theirs) = connected().await;
        assert_eq!(ours.linger().expect("asked"), Some(Duration::ZERO));
        #[cfg(any(target_os = "linux", target_os = "android"))]
        assert_eq!(
            socket2::SockRef::from(&ours).tcp_user_timeout().expect("asked"),
            Some(Duration::from_millis(7_500))
        );
    }

    #[tokio::test]
    async fn a_connection_that_is_dropped_sends_nothing_more() {
        let (mut ours, mut theirs) = connected().await;
        // More than the system takes in at once, and the other side reads none of it: the rest waits to be sent.
        let chunk = vec![b'x'; 1 << 16];
        let mut taken = 0usize;
        while let Ok(wrote) = tokio::time::timeout(Duration::from_millis(200), ours.write(&chunk)).await {
            taken += wrote.expect("written");
        }
        drop(ours);
        let mut arrived = 0usize;
        let mut buffer = vec![0; 1 << 16];
        let end = loop {
            match theirs.read(&mut buffer).await {
                Ok(0) => break None,
                Ok(read) => arrived += read,
                Err(error) => break Some(error.kind()),
            }
        };
        assert_eq!(
            end,
            Some(ErrorKind::ConnectionReset),
            "it was not closed in order"
        );
        assert!(
            arrived < taken,
            "{arrived} of {taken} bytes arrived after the end"
        );
    }
}
