//! Postfix and Dovecot for one test, on ports and in a folder of its own; and smtp-sink.
//!
//! They come from Debian: `apt-get install -y --no-install-recommends postfix dovecot-imapd dovecot-lmtpd` (debconf:
//! "No configuration"). Only root can start them, because they give each of their parts a user of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::Folder;

/// How long a server may take to answer, in tenths of a second.
const PATIENCE: usize = 300;

/// A mail system of one's own: submission with STARTTLS and AUTH, and mailboxes.
pub struct Mail {
    pub smtp: u16,
    pub imap: u16,
    folder: Folder,
    postfix: Child,
    dovecot: Child,
}

/// smtp-sink, with the options under test.
pub struct Sink {
    pub port: u16,
    folder: PathBuf,
    child: Child,
}

impl Mail {
    pub async fn start() -> Mail {
        for _ in 0..3 {
            // A port that was free may be somebody's by the time it is used; then again, with others.
            if let Some(mail) = Mail::try_start().await {
                return mail;
            }
        }
        panic!("Postfix and Dovecot do not come up");
    }

    async fn try_start() -> Option<Mail> {
        let ports = free_ports(4);
        let (smtp, lmtp, auth, imap) = (ports[0], ports[1], ports[2], ports[3]);
        let folder = Folder::new();
        let root = folder.0.display().to_string();
        for part in ["queue", "data", "etc", "mail", "dove"] {
            std::fs::create_dir_all(folder.0.join(part)).expect("a folder");
        }
        open_to_all(&folder.0);
        owned_by("postfix", &folder.0.join("data"));
        owned_by("mail:mail", &folder.0.join("mail"));
        for file in ["server.pem", "server.key.pem"] {
            std::fs::copy(crate::tls::file(file), folder.0.join("etc").join(file)).expect("copied");
        }
        let fill = |text: &str| {
            text.replace("{root}", &root)
                .replace("{smtp}", &smtp.to_string())
                .replace("{lmtp}", &lmtp.to_string())
                .replace("{auth}", &auth.to_string())
                .replace("{imap}", &imap.to_string())
        };
        folder.write("etc/main.cf", fill(MAIN_CF).as_bytes());
        folder.write("etc/master.cf", fill(MASTER_CF).as_bytes());
        folder.write("etc/dovecot.conf", fill(DOVECOT_CONF).as_bytes());
        let mut dovecot = Command::new(program("setpriv"));
        dovecot.args(["--pdeathsig", "TERM"]).arg(program("dovecot"));
        let dovecot = quiet(dovecot.args(["-F", "-c", &format!("{root}/etc/dovecot.conf")]));
        let mut postfix = Command::new(program("setpriv"));
        postfix.args(["--pdeathsig", "TERM"]).arg(program("postfix"));
        let postfix = quiet(postfix.args(["-c", &format!("{root}/etc"), "start-fg"]));
        let mail = Mail {
            smtp,
            imap,
            folder,
            postfix,
            dovecot,
        };
        for port in [imap, lmtp, smtp] {
            if !greets(port).await {
                eprintln!("port {port} is silent\n{}", mail.log());
                return None;
            }
        }
        Some(mail)
    }

    /// The mails of a mailbox, once it has so many.
    pub async fn mailbox(&self, user: &str, least: usize) -> Vec<String> {
        for _ in 0..PATIENCE {
            let mails = self.everything(user);
            if mails.len() >= least {
                return mails;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{user} has not {least} mails\n{}", self.log());
    }

    /// The mails of a mailbox now.
    pub fn everything(&self, user: &str) -> Vec<String> {
        let mailbox = self.folder.0.join("mail").join(user);
        ["new", "cur"]
            .iter()
            .flat_map(|part| texts(&mailbox.join(part)))
            .collect()
    }

    /// Every mail of a domain now.
    pub fn everything_at(&self, domain: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.folder.0.join("mail")) else {
            return Vec::new();
        };
        let users = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
        let users = users.filter(|user| user.ends_with(domain));
        users.flat_map(|user| self.everything(&user)).collect()
    }

    /// Returns when Postfix has nothing left to do with what it has taken on.
    pub async fn quiet(&self) {
        for _ in 0..PATIENCE * 5 {
            if !["incoming", "active", "deferred"]
                .iter()
                .any(|part| self.holds(part))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("Postfix does not come to rest\n{}", self.log());
    }

    /// Whether a queue holds a whole message. One that is still being written has no execute bit yet (Postfix QMGR(8)).
    fn holds(&self, part: &str) -> bool {
        use std::os::unix::fs::PermissionsExt;
        let Ok(entries) = std::fs::read_dir(self.folder.0.join("queue").join(part)) else {
            return false;
        };
        let mut entries = entries.filter_map(|e| e.ok()?.metadata().ok());
        entries.any(|meta| meta.is_file() && meta.permissions().mode() & 0o100 != 0)
    }

    /// What the servers say of themselves.
    pub fn log(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.folder.0.join(name)).unwrap_or_default();
        format!("{}\n{}", read("log"), read("dovecot.log"))
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        let root = self.folder.0.display();
        // In order first, so that their parts end too; then for certain.
        let _ = Command::new(program("postfix"))
            .args(["-c", &format!("{root}/etc"), "stop"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let _ = Command::new(program("dovecot"))
            .args(["-c", &format!("{root}/etc/dovecot.conf"), "stop"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        for child in [&mut self.postfix, &mut self.dovecot] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Sink {
    pub async fn start(folder: &Folder, options: &[&str]) -> Sink {
        let port = free_ports(1)[0];
        open_to_all(&folder.0);
        owned_by("mail", &folder.0);
        let mut command = Command::new(program("setpriv"));
        command.args(["--pdeathsig", "TERM"]).arg(program("smtp-sink"));
        let child = quiet(
            command
                .args(["-u", "mail", "-d", &format!("{}/%H%M%S.", folder.0.display())])
                .args(options)
                .args([&format!("127.0.0.1:{port}"), "10"]),
        );
        let sink = Sink {
            port,
            folder: folder.0.clone(),
            child,
        };
        for _ in 0..PATIENCE {
            // Some of these greet nobody; that they listen is enough.
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return sink;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("smtp-sink {options:?} does not come up");
    }

    /// What it wrote down, one text a conversation.
    pub fn captured(&self) -> Vec<String> {
        texts(&self.folder)
            .iter()
            .map(|t| t.replace("\r\n", "\n"))
            .collect()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn texts(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let files = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.is_file());
    files
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            String::from_utf8_lossy(&bytes).into_owned()
        })
        .collect()
}

fn program(name: &str) -> PathBuf {
    let places = [
        "/usr/sbin",
        "/usr/bin",
        "/usr/local/sbin",
        "/usr/local/bin",
        "/sbin",
        "/bin",
    ];
    let found = places
        .iter()
        .map(|p| Path::new(p).join(name))
        .find(|p| p.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "{name} is not installed; the tests of the feature `servers` need: apt-get install -y \
             --no-install-recommends postfix dovecot-imapd dovecot-lmtpd util-linux"
        )
    })
}

fn quiet(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("set");
}

fn owned_by(whom: &str, folder: &Path) {
    let status = Command::new("chown").arg(whom).arg(folder).status();
    assert!(
        status.is_ok_and(|s| s.success()),
        "{} cannot be given to {whom}: these tests start Postfix and Dovecot, which only root can",
        folder.display()
    );
}

/// So many ports nobody has now. All are held until all are known, so that they differ.
fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"))
        .collect();
    held.iter()
        .map(|l| l.local_addr().expect("bound").port())
        .collect()
}

async fn greets(port: u16) -> bool {
    for _ in 0..PATIENCE {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
            let mut byte = [0u8; 1];
            let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut byte)).await;
            if matches!(read, Ok(Ok(1))) {
                return true;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    false
}

const MAIN_CF: &str = "\
compatibility_level = 3.6
queue_directory = {root}/queue
data_directory = {root}/data
maillog_file_prefixes = {root}
maillog_file = {root}/log
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mail.acme.example
mydestination =
mynetworks =
alias_maps =
alias_database =
virtual_mailbox_domains = acme.example, marlow.example, customer.example
virtual_mailbox_maps = inline:{ {pay@acme.example=x} {archive@acme.example=x} {@marlow.example=x} \
{anna@customer.example=x} {grey@customer.example=x} }
virtual_transport = lmtp:inet:127.0.0.1:{lmtp}
smtpd_tls_security_level = may
smtpd_tls_cert_file = {root}/etc/server.pem
smtpd_tls_key_file = {root}/etc/server.key.pem
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:127.0.0.1:{auth}
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_recipient_restrictions = check_recipient_access inline:{ {grey@customer.example = 450 4.7.1 Greylisted} }
";

const MASTER_CF: &str = "\
127.0.0.1:{smtp} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
smtp unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
";

const DOVECOT_CONF: &str = "\
base_dir = {root}/dove/run
state_dir = {root}/dove/state
log_path = {root}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login
first_valid_uid = 1
mail_location = maildir:{root}/mail/%u
passdb {
  driver = static
  args = password=s3cret
}
userdb {
  driver = static
  args = uid=mail gid=mail home={root}/mail/%u allow_all_users=yes
}
service imap-login {
  inet_listener imap {
    address = 127.0.0.1
    port = {imap}
  }
  inet_listener imaps {
    port = 0
  }
}
service lmtp {
  inet_listener lmtp {
    address = 127.0.0.1
    port = {lmtp}
  }
}
service auth {
  inet_listener auth {
    address = 127.0.0.1
    port = {auth}
  }
}
";
