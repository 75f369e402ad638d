//! A mail server that follows a script and keeps a record: what it was told, and which messages it took.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// What the server does at the final dot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dot {
    /// Takes the message and says this.
    Takes(&'static str),
    /// Does not take it and says this.
    Refuses(&'static str),
    /// Takes it and closes the connection.
    TakesAndCloses,
    /// Takes it and says nothing.
    TakesAndIsSilent,
    /// Does not take it, and closes the connection.
    Closes,
}

/// A server's script.
#[derive(Clone)]
pub struct Script {
    pub greeting: &'static str,
    /// The answer to EHLO; the first line greets.
    pub offers: Vec<&'static str>,
    /// Other answers than the usual ones, by the beginning of the command; an empty answer closes the connection.
    pub answers: Vec<(&'static str, &'static str)>,
    /// Said right after `354`, before anybody asked.
    pub early: &'static str,
    /// Closes after so many bytes of data.
    pub hangs_up_in_data: Option<usize>,
    pub dot: Dot,
    /// What the server does at the next final dot instead, once.
    pub next_dot: Arc<Mutex<Option<Dot>>>,
    /// Called when DATA is answered, before the message comes.
    pub at_data: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Every conversation begins again after STARTTLS with this acceptor.
    #[cfg(feature = "tls")]
    pub tls: Option<tokio_rustls::TlsAcceptor>,
    /// TLS from the first byte.
    #[cfg(feature = "tls")]
    pub tls_from_start: bool,
}

impl Script {
    pub fn new() -> Script {
        Script {
            greeting: "220 mail.example ESMTP",
            offers: vec![
                "mail.example",
                "SIZE 10000000",
                "DSN",
                "8BITMIME",
                "AUTH PLAIN LOGIN",
            ],
            answers: Vec::new(),
            early: "",
            hangs_up_in_data: None,
            dot: Dot::Takes("250 2.0.0 Ok: queued as 4F1A2"),
            next_dot: Arc::default(),
            at_data: None,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "tls")]
            tls_from_start: false,
        }
    }

    pub fn answering(command: &'static str, answer: &'static str) -> Script {
        let mut script = Script::new();
        script.answers.push((command, answer));
        script
    }

    pub fn at_dot(dot: Dot) -> Script {
        Script { dot, ..Script::new() }
    }
}

/// What the server was told and took.
#[derive(Default, Clone)]
pub struct Record {
    pub commands: Vec<String>,
    /// Whether the final dot was seen, by conversation.
    pub dots: usize,
    pub taken: Vec<String>,
}

/// The running server. It ends with the test's runtime.
pub struct Server {
    pub port: u16,
    record: Arc<Mutex<Record>>,
}

impl Server {
    pub async fn start(script: Script) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let record = Arc::new(Mutex::new(Record::default()));
        let kept = record.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (script, record) = (script.clone(), kept.clone());
                tokio::spawn(async move {
                    #[cfg(feature = "tls")]
                    if script.tls_from_start
                        && let Some(tls) = &script.tls
                    {
                        if let Ok(stream) = tls.accept(tcp).await {
                            let _ = talk(stream, &script, &record, true).await;
                        }
                        return;
                    }
                    let _ = converse(tcp, &script, &record).await;
                });
            }
        });
        Server { port, record }
    }

    /// The record as it grows.
    pub fn shared(&self) -> Arc<Mutex<Record>> {
        self.record.clone()
    }

    pub fn record(&self) -> Record {
        self.record.lock().expect("a record").clone()
    }
}

async fn converse(
    tcp: tokio::net::TcpStream,
    script: &Script,
    record: &Mutex<Record>,
) -> std::io::Result<()> {
    let wants_tls = talk(tcp, script, record, true).await?;
    #[cfg(feature = "tls")]
    if let (Some(tcp), Some(tls)) = (wants_tls, &script.tls) {
        talk(tls.accept(tcp).await?, script, record, false).await?;
    }
    #[cfg(not(feature = "tls"))]
    drop(wants_tls);
    Ok(())
}

/// Speaks until the client leaves, or, with the stream as the answer, until it wants TLS.
async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    script: &Script,
    record: &Mutex<Record>,
    greets: bool,
) -> std::io::Result<Option<S>> {
    let mut stream = BufReader::new(stream);
    if greets {
        say(&mut stream, script.greeting).await?;
    }
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let command = line.trim_end().to_owned();
        record.lock().expect("a record").commands.push(command.clone());
        let scripted = script
            .answers
            .iter()
            .find(|(begins, _)| command.starts_with(begins));
        if let Some((_, answer)) = scripted {
            if answer.is_empty() {
                return Ok(None);
            }
            say(&mut stream, answer).await?;
            if !answer.starts_with("354") {
                continue;
            }
        } else {
            match command.split(' ').next().unwrap_or_default() {
                "EHLO" => {
                    let last = script.offers.len() - 1;
                    for (n, offer) in script.offers.iter().enumerate() {
                        let mark = if n == last { ' ' } else { '-' };
                        say(&mut stream, &format!("250{mark}{offer}")).await?;
                    }
                    continue;
                }
                "STARTTLS" => {
                    say(&mut stream, "220 go ahead").await?;
                    return Ok(Some(stream.into_inner()));
                }
                "DATA" => say(&mut stream, "354 go on").await?,
                "QUIT" => {
                    say(&mut stream, "221 bye").await?;
                    return Ok(None);
                }
                "AUTH" if command == "AUTH LOGIN" => {
                    for question in ["334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"] {
                        say(&mut stream, question).await?;
                        let mut answer = String::new();
                        stream.read_line(&mut answer).await?;
                        record
                            .lock()
                            .expect("a record")
                            .commands
                            .push(answer.trim_end().to_owned());
                    }
                    say(&mut stream, "235 in").await?;
                    continue;
                }
                "AUTH" => {
                    say(&mut stream, "235 in").await?;
                    continue;
                }
                _ => {
                    say(&mut stream, "250 2.1.0 Ok").await?;
                    continue;
                }
            }
        }
        if let Some(at_data) = &script.at_data {
            at_data();
        }
        if !script.early.is_empty() {
            say(&mut stream, script.early).await?;
        }
        let Some(message) = data(&mut stream, script).await? else {
            return Ok(None);
        };
        let take = |record: &Mutex<Record>| record.lock().expect("a record").taken.push(message.clone());
        record.lock().expect("a record").dots += 1;
        let next = script.next_dot.lock().expect("the next").take();
        match next.unwrap_or(script.dot) {
            Dot::Takes(answer) => {
                take(record);
                say(&mut stream, answer).await?;
            }
            Dot::Refuses(answer) => say(&mut stream, answer).await?,
            Dot::TakesAndCloses => {
                take(record);
                return Ok(None);
            }
            Dot::Closes => return Ok(None),
            Dot::TakesAndIsSilent => {
                take(record);
                // Until the client gives up.
                let mut rest = String::new();
                stream.read_line(&mut rest).await?;
                return Ok(None);
            }
        }
    }
}

/// The message as a server keeps it (RFC 5321 §4.5.2), or `None` if it never ends.
async fn data<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
    script: &Script,
) -> std::io::Result<Option<String>> {
    let mut message = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if line == ".\r\n" {
            return Ok(Some(message));
        }
        message.push_str(line.strip_prefix('.').unwrap_or(&line));
        if script.hangs_up_in_data.is_some_and(|most| message.len() > most) {
            return Ok(None);
        }
    }
}

async fn say<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
    line: &str,
) -> std::io::Result<()> {
    stream.write_all(format!("{line}\r\n").as_bytes()).await?;
    stream.flush().await
}
