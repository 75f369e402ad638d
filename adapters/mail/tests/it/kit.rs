//! After: the mail adapter by the suite that every adapter is held to: a Maildir, and SMTP with an archive over IMAP, both
//! lines broken at every turn. The judge is the mail that lies in the Maildir, or that the server took.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapter_mail::{MailAdapter, MailConfig};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use wilco_adapter::kit::{self, Bench, Effect, Fault, FaultProxy, Finding, Still};
use wilco_adapter::{Adapter, Job};
use wilco_core::{ActId, Clock, Frozen};

use crate::script::{Dot, Record, Script, Server};
use crate::support::{Folder, start};

/// A remittance advice; each goes to an address of its own.
pub fn remittance(clock: &Still, addr: &str) -> Job {
    let slots = [
        ("sup", "marlow"),
        ("addr", addr),
        ("amt", "5400.00"),
        ("cur", "GBP"),
        ("paid", "20261002"),
        ("ref", "MD-2026-057"),
    ];
    let exec = ["sup", "addr", "amt", "cur", "paid", "ref"];
    kit::job(clock.now(), "pay", "SEND", "inv:MD-2026-057", &slots, &exec)
}

/// A mail of any other kind, to an address of its own.
fn note(clock: &Still, addr: &str) -> Job {
    let slots = [
        ("addr", addr),
        ("subj", "Your_order_4711"),
        ("txt", "It_is_on_its_way."),
    ];
    let exec = ["addr", "tpl", "subj", "txt", "att", "apref"];
    kit::job(clock.now(), "mail", "SEND", "mail:order-4711", &slots, &exec)
}

/// What a mail shows of the act, read without the adapter.
pub fn effect_of(mail: &str) -> Effect {
    let mail = mail.replace("\r\n", "\n");
    let head = mail.split("\n\n").next().unwrap_or_default();
    let to = head.lines().find_map(|line| line.strip_prefix("To: "));
    Effect {
        values: to
            .map(|to| ("addr".to_owned(), to.to_owned()))
            .into_iter()
            .collect(),
        ..Effect::default()
    }
}

pub fn is_of(mail: &str, act: ActId) -> bool {
    mail.contains(&format!("\nWilco-Act: {act}"))
}

// ---- a Maildir

struct MaildirBench {
    job: fn(&Still, &str) -> Job,
    folder: Folder,
    config: MailConfig,
    clock: Arc<Still>,
}

impl MaildirBench {
    fn new(job: fn(&Still, &str) -> Job) -> MaildirBench {
        let folder = Folder::new();
        MaildirBench {
            job,
            config: MailConfig::default().in_folder(&folder.0),
            folder,
            clock: Still::at(start()),
        }
    }

    fn mails(&self) -> Vec<String> {
        let parts = ["new", "cur"].into_iter();
        let entries = parts.flat_map(|part| {
            std::fs::read_dir(self.config.path.join(part))
                .into_iter()
                .flatten()
        });
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        entries
            .map(|entry| read(entry.expect("an entry").path()))
            .collect()
    }
}

#[async_trait::async_trait]
impl Bench for MaildirBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        let mail = MailAdapter::new(&self.config, self.clock.clone());
        Arc::new(mail.unwrap_or_else(|e| panic!("{e}")))
    }

    fn clock(&self) -> Arc<Still> {
        self.clock.clone()
    }

    async fn job(&self, n: u32) -> Job {
        (self.job)(&self.clock, &format!("ar{n}@marlow.example"))
    }

    async fn effects(&self, act: ActId, _frozen: &Frozen) -> Vec<Effect> {
        let mails = self.mails().into_iter().filter(|mail| is_of(mail, act));
        let effects = mails.map(|mail| Effect {
            receipt: Some(format!("{act}.wilco")),
            ..effect_of(&mail)
        });
        effects.collect()
    }

    async fn effects_in_all(&self) -> Option<usize> {
        Some(self.mails().len())
    }

    async fn settle(&self) {
        self.clock.pass(5);
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        None
    }

    async fn stop(&self) -> bool {
        std::fs::rename(&self.config.path, self.folder.0.join("away")).expect("moved away");
        true
    }

    async fn start(&self) {
        std::fs::rename(self.folder.0.join("away"), &self.config.path).expect("moved back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maildir() {
    for job in [remittance, note] {
        let findings = kit::run(&MaildirBench::new(job)).await;
        findings.assert_sound();
        let again = findings.finding("the same bytes again: no second effect");
        assert_eq!(again, Some(&Finding::Passed), "{findings}");
    }
}

// ---- SMTP, with an archive

struct SmtpBench {
    server: Server,
    next_dot: Arc<Mutex<Option<Dot>>>,
    smtp: FaultProxy,
    imap: FaultProxy,
    config: MailConfig,
    clock: Arc<Still>,
}

impl SmtpBench {
    async fn open(with_archive: bool) -> SmtpBench {
        let script = Script::new();
        let next_dot = script.next_dot.clone();
        let server = Server::start(script).await;
        let archive = archive_of(server.shared()).await;
        let line = async |port: u16| {
            let to = std::net::SocketAddr::from(([127, 0, 0, 1], port));
            FaultProxy::to(to).await.unwrap_or_else(|e| panic!("{e}"))
        };
        let (smtp, imap) = (line(server.port).await, line(archive).await);
        let more = "archive_bcc = \"archive@acme.example\"\ntimeout_s = 1\nreply_timeout_s = 1\nsettle_window_s = 2\n";
        let mut table = crate::support::smtp_table(smtp.addr().port(), more);
        if with_archive {
            table.push_str(&format!(
                "[imap]\nhost = \"127.0.0.1\"\nport = {}\nusername = \"archive\"\n\
                 password_command = [\"printf\", \"s3cret\"]\ntimeout_s = 1\n",
                imap.addr().port()
            ));
        }
        SmtpBench {
            server,
            next_dot,
            smtp,
            imap,
            config: MailConfig::from_toml(&table).unwrap_or_else(|e| panic!("{e}")),
            clock: Still::at(start()),
        }
    }
}

#[async_trait::async_trait]
impl Bench for SmtpBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        let mail = MailAdapter::new(&self.config, self.clock.clone());
        Arc::new(mail.unwrap_or_else(|e| panic!("{e}")))
    }

    fn clock(&self) -> Arc<Still> {
        self.clock.clone()
    }

    async fn job(&self, n: u32) -> Job {
        remittance(&self.clock, &format!("ar{n}@marlow.example"))
    }

    async fn effects(&self, act: ActId, _frozen: &Frozen) -> Vec<Effect> {
        let taken = self.server.record().taken;
        taken
            .iter()
            .filter(|mail| is_of(mail, act))
            .map(|mail| effect_of(mail))
            .collect()
    }

    async fn effects_in_all(&self) -> Option<usize> {
        Some(self.server.record().taken.len())
    }

    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.clock.pass(2);
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.smtp)
    }

    fn lookup_proxy(&self) -> Option<&FaultProxy> {
        self.config.imap.as_ref().map(|_| &self.imap)
    }

    async fn arm(&self, fault: Fault) -> bool {
        let dot = match fault {
            Fault::Refuse => Dot::Refuses("554 5.7.1 refused"),
            Fault::LoseRequest => Dot::Closes,
            Fault::LoseReply => Dot::TakesAndCloses,
            Fault::Garbage => Dot::Takes("ok, queued"),
            Fault::Slow => Dot::TakesAndIsSilent,
            _ => return false,
        };
        self.next_dot.lock().expect("the next").replace(dot);
        true
    }

    fn garbage(&self) -> Vec<Vec<u8>> {
        [
            "250x queued\r\n",
            "ok\r\n",
            "* OK IMAP4rev1\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "250-half an answer\r\n",
            "250-one\r\n550 two\r\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    }
}

/// An archive over IMAP that has whatever the server took, as a mailbox to which a copy of each mail goes has.
async fn archive_of(record: Arc<Mutex<Record>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let record = record.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(tcp);
                let _ = stream.write_all(b"* OK archive\r\n").await;
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                    let answer = archive_says(&record.lock().expect("a record").taken, line.trim_end());
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    port
}

fn archive_says(mails: &[String], line: &str) -> String {
    let (tag, command) = line.split_once(' ').unwrap_or((line, ""));
    let id = command.split('"').nth(1).unwrap_or_default();
    let said = if command.starts_with("UID SEARCH") {
        let hits = mails.iter().enumerate().filter(|(_, mail)| mail.contains(id));
        let hits: String = hits.map(|(n, _)| format!(" {}", n + 1)).collect();
        format!("* SEARCH{hits}\r\n")
    } else if let Some(rest) = command.strip_prefix("UID FETCH ") {
        let uid: usize = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let head = uid
            .checked_sub(1)
            .and_then(|n| mails.get(n))
            .map(String::as_str)
            .unwrap_or_default();
        let wanted = |l: &&str| l.starts_with("Message-ID:") || l.starts_with("To:");
        let lines: String = head
            .split("\r\n")
            .filter(wanted)
            .map(|l| format!("{l}\r\n"))
            .collect();
        format!(
            "* {uid} FETCH (UID {uid} BODY[] {{{}}}\r\n{lines}\r\n)\r\n",
            lines.len() + 2
        )
    } else {
        String::new()
    };
    format!("{said}{tag} OK done\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smtp_with_an_archive() {
    let bench = SmtpBench::open(true).await;
    let findings = kit::run(&bench).await;
    findings.assert_sound();
    for case in [
        "cut before the reply",
        "a lookup that breaks never denies what is there",
    ] {
        assert_eq!(findings.finding(case), Some(&Finding::Passed), "{findings}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smtp_without_one() {
    let findings = kit::run(&SmtpBench::open(false).await).await;
    findings.assert_sound();
}
