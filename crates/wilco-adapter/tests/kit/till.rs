//! A counterparty small enough to read at one sitting: a till that takes orders by lines of text over TCP.
//!
//! ```text
//! (a till with manners)  < READY            > HELLO           < WELCOME
//! > ORDER <reference> <amt> <acct>          < DONE <receipt> <amt> <acct> | TAKEN <receipt> | REFUSED <text>
//! > FIND <reference>                        < DONE ... | TAKEN ... | NONE
//! > CANCEL <reference>                      < OK
//! ```

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use wilco_adapter::kit::Fault;

/// What the till does, and what it is told to do wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// The same reference again has no second effect.
    pub enforces: bool,
    /// It speaks first and wants to be greeted.
    pub manners: bool,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub reference: String,
    pub amt: String,
    pub acct: String,
    pub receipt: String,
    pub unfinished: bool,
}

#[derive(Default)]
struct Book {
    entries: Vec<Entry>,
    armed: Option<Fault>,
    hidden: u32,
}

pub struct Till {
    pub addr: SocketAddr,
    rules: Rules,
    book: Mutex<Book>,
}

impl Till {
    pub async fn open(rules: Rules) -> Arc<Till> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let till = Arc::new(Till {
            addr: listener.local_addr().expect("bound"),
            rules,
            book: Mutex::default(),
        });
        let serving = Arc::downgrade(&till);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Some(till) = serving.upgrade() else { return };
                tokio::spawn(async move {
                    // Whoever hangs up is not waited for.
                    let _ = till.serve(stream).await;
                });
            }
        });
        till
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.book().entries.clone()
    }

    pub fn arm(&self, fault: Fault) {
        self.book().armed = Some(fault);
    }

    /// What was taken on is finished, or refused.
    pub fn finish(&self, refuse: bool) {
        let mut book = self.book();
        if refuse {
            book.entries.retain(|e| !e.unfinished);
        }
        for entry in &mut book.entries {
            entry.unfinished = false;
        }
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        if self.rules.manners {
            stream.write_all(b"READY\n").await?;
            if stream.read_until(b'\n', &mut Vec::new()).await? == 0 {
                return Ok(());
            }
            stream.write_all(b"WELCOME\n").await?;
        }
        let mut line = String::new();
        while stream.read_line(&mut line).await? > 0 && line.ends_with('\n') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let answer = match words.as_slice() {
                ["ORDER", reference, amt, acct] => {
                    let fault = self.book().armed.take();
                    match self.order(fault, reference, amt, acct).await {
                        Some(answer) => answer,
                        None => return Ok(()),
                    }
                }
                ["FIND", reference] => self.find(reference),
                ["CANCEL", reference] => {
                    self.book().entries.retain(|e| e.reference != *reference);
                    "OK".to_owned()
                }
                ["PING"] => "OK".to_owned(),
                _ => "WHAT".to_owned(),
            };
            stream.write_all(format!("{answer}\n").as_bytes()).await?;
            line.clear();
        }
        Ok(())
    }

    async fn order(&self, fault: Option<Fault>, reference: &str, amt: &str, acct: &str) -> Option<String> {
        match fault {
            Some(Fault::Refuse) => return Some("REFUSED not today".to_owned()),
            Some(Fault::LoseRequest) => return None,
            Some(Fault::WrongValues) => return Some(self.enter(reference, amt, "99", false)),
            Some(Fault::Unfinished | Fault::UnfinishedThenRefused) => {
                return Some(self.enter(reference, amt, acct, true));
            }
            Some(Fault::Duplicate) => {
                self.enter(reference, amt, acct, false);
            }
            _ => {}
        }
        let answer = self.enter(reference, amt, acct, false);
        match fault {
            Some(Fault::LoseReply) => None,
            Some(Fault::Lag) => {
                self.book().hidden = 1;
                None
            }
            Some(Fault::Garbage) => Some("RHUBARB".to_owned()),
            Some(Fault::Slow) => {
                tokio::time::sleep(Duration::from_secs(2)).await;
                Some(answer)
            }
            _ => Some(answer),
        }
    }

    fn enter(&self, reference: &str, amt: &str, acct: &str, unfinished: bool) -> String {
        let mut book = self.book();
        let known = book.entries.iter().find(|e| e.reference == reference);
        if let Some(entry) = known.filter(|_| self.rules.enforces) {
            return told(entry);
        }
        let entry = Entry {
            reference: reference.to_owned(),
            amt: amt.to_owned(),
            acct: acct.to_owned(),
            receipt: format!("r{}", book.entries.len() + 1),
            unfinished,
        };
        book.entries.push(entry.clone());
        told(&entry)
    }

    fn find(&self, reference: &str) -> String {
        let mut book = self.book();
        if book.hidden > 0 {
            book.hidden -= 1;
            return "NONE".to_owned();
        }
        let entry = book.entries.iter().find(|e| e.reference == reference);
        entry.map_or("NONE".to_owned(), told)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(entry: &Entry) -> String {
    if entry.unfinished {
        format!("TAKEN {}", entry.receipt)
    } else {
        format!("DONE {} {} {}", entry.receipt, entry.amt, entry.acct)
    }
}
