//! Lines from a client, each with its limits: so many bytes, so much time, and an end to all of it when the lab stops.

use std::{io, time::Duration};

use tokio::{io::AsyncReadExt, sync::watch, time::Instant};

/// The longest line that is taken, with its end. RFC 5321 asks for 512 (commands) and 1000 (text); AUTH needs more.
pub const LINE_MAX: usize = 4096;

/// One line as it came.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its CRLF.
    Whole(Vec<u8>),
    /// A line that ended in a bare LF, or had a bare CR in it. Passed over: taking it would let one message be
    /// smuggled into another.
    Ragged,
    /// A line longer than [`LINE_MAX`]. Passed over.
    TooLong,
    /// The client is gone.
    Gone,
    /// Nothing came in time.
    TimedOut,
    /// The lab stops.
    Stopping,
}

/// Reads lines.
#[derive(Debug)]
pub struct Lines<R> {
    read: R,
    buffer: Vec<u8>,
    /// Inside a line that was too long.
    skipping: bool,
    stopping: watch::Receiver<bool>,
}

impl<R: tokio::io::AsyncRead + Unpin> Lines<R> {
    /// Reads from `read` until the lab stops.
    pub fn new(read: R, stopping: watch::Receiver<bool>) -> Self {
        Self {
            read,
            buffer: Vec::new(),
            skipping: false,
            stopping,
        }
    }

    /// The next line, if it is whole before `deadline`.
    pub async fn next(&mut self, deadline: Instant) -> Line {
        loop {
            if let Some(at) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=at).collect();
                let too_long = std::mem::take(&mut self.skipping) || line.len() > LINE_MAX;
                line.pop();
                let ended = line.pop() == Some(b'\r');
                return match ended && !line.contains(&b'\r') {
                    true if too_long => Line::TooLong,
                    true => Line::Whole(line),
                    false => Line::Ragged,
                };
            }
            if self.buffer.len() > LINE_MAX {
                self.skipping = true;
                // All but the last byte: it may be the CR of the line's end.
                self.buffer.drain(..self.buffer.len() - 1);
            }
            match self.fill(deadline).await {
                Ok(0) => return Line::Gone,
                Ok(_) => {}
                Err(Filling::Late) => return Line::TimedOut,
                Err(Filling::Stopping) => return Line::Stopping,
                Err(Filling::Io) => return Line::Gone,
            }
        }
    }

    async fn fill(&mut self, deadline: Instant) -> Result<usize, Filling> {
        tokio::select! {
            // An error means that the lab is gone: stop as well.
            _ = self.stopping.wait_for(|stop| *stop) => Err(Filling::Stopping),
            read = tokio::time::timeout_at(deadline, self.read.read_buf(&mut self.buffer)) => match read {
                Ok(Ok(count)) => Ok(count),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(1),
                Ok(Err(_)) => Err(Filling::Io),
                Err(_) => Err(Filling::Late),
            },
        }
    }
}

enum Filling {
    Io,
    Late,
    Stopping,
}

/// The moment `time` from now.
pub fn within(time: Duration) -> Instant {
    Instant::now() + time
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8]) -> Vec<Line> {
        let (_stop, stopping) = watch::channel(false);
        let mut lines = Lines::new(text, stopping);
        let mut read = Vec::new();
        loop {
            match lines.next(within(Duration::from_secs(5))).await {
                Line::Gone => return read,
                line => read.push(line),
            }
        }
    }

    #[tokio::test]
    async fn only_crlf_ends_a_line_and_no_line_is_endless() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(
            lines(b"a\r\n\r\nb\r\nrest").await,
            [whole("a"), whole(""), whole("b")]
        );
        assert_eq!(
            lines(b"a\n.\n\rb\r\nc\r\r\nd\r\n").await,
            [Line::Ragged, Line::Ragged, Line::Ragged, Line::Ragged, whole("d")]
        );
        let mut long = vec![b'x'; 3 * LINE_MAX];
        long.extend_from_slice(b"\r\nnext\r\n");
        assert_eq!(lines(&long).await, [Line::TooLong, whole("next")]);
        for split in LINE_MAX - 2..LINE_MAX + 2 {
            let mut long = vec![b'x'; split];
            long.extend_from_slice(b"\r\nnext\r\n");
            assert_eq!(lines(&long).await.last(), Some(&whole("next")), "{split}");
        }
        let mut long = vec![b'x'; 3 * LINE_MAX];
        long.extend_from_slice(b"\n.\r\n");
        assert_eq!(lines(&long).await, [Line::Ragged, whole(".")]);
    }
}
