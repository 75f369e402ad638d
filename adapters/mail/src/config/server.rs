//! The mail server and the archive mailbox: where they are, and how we show who we are.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use wilco_adapter::secret::SecretSource;
use wilco_adapter::tls::TlsFiles;

use super::{ConfigError, between, wrong};
use crate::wire::address::Address;
use crate::wire::imap::quoted;

/// The `[adapters.mail.smtp]` table: the server mail is handed to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmtpConfig {
    /// The server's name or address.
    pub host: String,
    /// Its port; without it 465, 587 or 25, by `tls`.
    pub port: Option<u16>,
    /// `tls` (from the first byte), `starttls`, or `none`, which is for loopback only. Without it `none` on loopback, else
    /// `tls` where the port is 465 and `starttls` where it is not.
    pub tls: Option<String>,
    /// How we greet; without it the domain of Message-IDs.
    pub helo: Option<String>,
    /// Who logs in; left out, nobody does.
    pub username: Option<String>,
    /// A file that holds the password, read anew for each sending.
    pub password_file: Option<PathBuf>,
    /// An environment variable that holds it.
    pub password_env: Option<String>,
    /// A program and its arguments that print it; no shell is involved.
    pub password_command: Option<Vec<String>>,
    /// A second address of the envelope, ours, that gets each message too, unseen by the first.
    pub archive_bcc: Option<String>,
    /// Whether the server is asked to tell of delivery and failure (RFC 3461), where it offers to.
    #[serde(default = "yes")]
    pub dsn: bool,
    /// Certificates (PEM) that may vouch for the server, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Seconds each step before the final dot may take, 1 to 300; all of them together have ten times as long.
    #[serde(default = "thirty")]
    pub timeout_s: u32,
    /// Seconds to wait for the answer to the final dot, 1 to 3600. RFC 5321 §4.5.3.2.6 says ten minutes: giving up early is
    /// what leaves acts in doubt.
    #[serde(default = "ten_minutes")]
    pub reply_timeout_s: u32,
    /// Seconds after the last byte in which a message may still be taken on, 1 to 86400. Off loopback at least twice
    /// `timeout_s`.
    #[serde(default = "ten_minutes")]
    pub settle_window_s: u32,
}

impl SmtpConfig {
    /// A server on loopback, with nobody logged in and every other setting as where it is left out.
    pub(crate) fn at(at: SocketAddr) -> SmtpConfig {
        SmtpConfig {
            host: at.ip().to_string(),
            port: Some(at.port()),
            tls: None,
            helo: None,
            username: None,
            password_file: None,
            password_env: None,
            password_command: None,
            archive_bcc: None,
            dsn: yes(),
            ca_file: None,
            timeout_s: thirty(),
            reply_timeout_s: ten_minutes(),
            settle_window_s: ten_minutes(),
        }
    }
}

/// The `[adapters.mail.imap]` table: a mailbox of ours into which a copy of each message goes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImapConfig {
    /// The server's name or address.
    pub host: String,
    /// Its port; without it 993 or 143, by `tls`.
    pub port: Option<u16>,
    /// `tls`, `starttls`, or `none`, which is for loopback only. Without it `none` on loopback, else `tls`.
    pub tls: Option<String>,
    /// Who logs in.
    pub username: String,
    /// A file that holds the password, read anew for each look.
    pub password_file: Option<PathBuf>,
    /// An environment variable that holds it.
    pub password_env: Option<String>,
    /// A program and its arguments that print it; no shell is involved.
    pub password_command: Option<Vec<String>>,
    /// The mailbox, in ASCII.
    #[serde(default = "inbox")]
    pub mailbox: String,
    /// Certificates (PEM) that may vouch for the server, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Seconds one look may take, 1 to 300.
    #[serde(default = "thirty")]
    pub timeout_s: u32,
}

/// How a connection is kept from being read on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tls {
    FromStart,
    /// By STARTTLS.
    Upgraded,
    Off,
}

/// A server to connect to.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub host: String,
    pub port: u16,
    pub tls: Tls,
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub files: TlsFiles,
    /// How long the operating system goes on delivering bytes that nobody acknowledges.
    pub resending: Duration,
}

/// Who logs in, and where the password is.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub username: String,
    pub password: SecretSource,
}

#[derive(Debug, Clone)]
pub(crate) struct SmtpChecked {
    pub server: Server,
    pub helo: Option<String>,
    pub login: Option<Login>,
    pub archive_bcc: Option<Address>,
    pub dsn: bool,
    pub step: Duration,
    pub reply: Duration,
    pub settle_window_s: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct ImapChecked {
    pub server: Server,
    pub login: Login,
    pub mailbox: String,
    pub timeout: Duration,
}

impl SmtpConfig {
    pub(super) fn checked(
        &self,
        address: impl Fn(&'static str, &str) -> Result<Address, ConfigError>,
    ) -> Result<SmtpChecked, ConfigError> {
        between("smtp.timeout_s", self.timeout_s, 1, 300)?;
        between("smtp.reply_timeout_s", self.reply_timeout_s, 1, 3_600)?;
        between("smtp.settle_window_s", self.settle_window_s, 1, 86_400)?;
        let tls = tls(
            "smtp.tls",
            "smtp.host",
            &self.host,
            self.tls.as_deref(),
            || match self.port {
                Some(465) => Tls::FromStart,
                _ => Tls::Upgraded,
            },
        )?;
        let least = self.timeout_s * WINDOW_TIMEOUTS;
        if !is_loopback(&self.host) && self.settle_window_s < least {
            let rule = format!(
                "must be at least {WINDOW_TIMEOUTS} times timeout_s, which is {least}: for one timeout_s the system may \
                 still deliver the last bytes after the call"
            );
            return Err(wrong(
                "smtp.settle_window_s",
                &rule,
                &self.settle_window_s.to_string(),
            ));
        }
        if let Some(helo) = &self.helo
            && Address::parse(&format!("a@{helo}"), false).is_err()
            && !(helo.starts_with('[') && helo.ends_with(']') && helo.bytes().all(|b| b.is_ascii_graphic()))
        {
            let rule = "must be a domain, or an address in brackets";
            return Err(wrong("smtp.helo", rule, helo));
        }
        let named = [
            self.password_file.is_some(),
            self.password_env.is_some(),
            self.password_command.is_some(),
        ];
        let login = match &self.username {
            None if named.contains(&true) => {
                let rule = "must be given with a password";
                return Err(wrong("smtp.username", rule, ""));
            }
            None => None,
            Some(username) => Some(Login {
                username: user("smtp.username", username)?,
                password: SecretSource::named(
                    "password",
                    self.password_file.as_deref(),
                    self.password_env.as_deref(),
                    self.password_command.as_deref(),
                )
                .map_err(|source| ConfigError::Password {
                    table: "smtp",
                    source,
                })?,
            }),
        };
        let archive = self.archive_bcc.as_deref();
        let timeout = Duration::from_secs(u64::from(self.timeout_s));
        let window = Duration::from_secs(u64::from(self.settle_window_s));
        Ok(SmtpChecked {
            server: Server {
                host: self.host.clone(),
                port: self.port.unwrap_or(match tls {
                    Tls::FromStart => 465,
                    Tls::Upgraded => 587,
                    Tls::Off => 25,
                }),
                tls,
                files: TlsFiles {
                    ca: self.ca_file.clone(),
                    client: None,
                },
                resending: timeout.min(window / WINDOW_TIMEOUTS),
            },
            helo: self.helo.clone(),
            login,
            archive_bcc: archive.map(|a| address("smtp.archive_bcc", a)).transpose()?,
            dsn: self.dsn,
            step: timeout,
            reply: Duration::from_secs(u64::from(self.reply_timeout_s)),
            settle_window_s: self.settle_window_s,
        })
    }
}

impl ImapConfig {
    pub(super) fn checked(&self) -> Result<ImapChecked, ConfigError> {
        between("imap.timeout_s", self.timeout_s, 1, 300)?;
        let tls = tls("imap.tls", "imap.host", &self.host, self.tls.as_deref(), || {
            Tls::FromStart
        })?;
        // Names outside ASCII have an encoding of their own in IMAP (RFC 3501 §5.1.3), which is not spoken here.
        if self.mailbox.is_empty() || self.mailbox.len() > 200 || quoted(&self.mailbox).is_none() {
            let rule = "must be 1 to 200 printable ASCII characters";
            return Err(wrong("imap.mailbox", rule, &self.mailbox));
        }
        let timeout = Duration::from_secs(u64::from(self.timeout_s));
        Ok(ImapChecked {
            server: Server {
                host: self.host.clone(),
                port: self.port.unwrap_or(if tls == Tls::FromStart { 993 } else { 143 }),
                tls,
                files: TlsFiles {
                    ca: self.ca_file.clone(),
                    client: None,
                },
                resending: timeout,
            },
            login: Login {
                username: user("imap.username", &self.username)?,
                password: SecretSource::named(
                    "password",
                    self.password_file.as_deref(),
                    self.password_env.as_deref(),
                    self.password_command.as_deref(),
                )
                .map_err(|source| ConfigError::Password {
                    table: "imap",
                    source,
                })?,
            },
            mailbox: self.mailbox.clone(),
            timeout,
        })
    }
}

impl Server {
    /// As operators read it.
    pub fn shown(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// How many times `timeout_s` the settle window holds: once for the operating system, which goes on delivering what it was
/// given, and once for the server.
const WINDOW_TIMEOUTS: u32 = 2;

fn tls(
    field: &'static str,
    host_field: &'static str,
    host: &str,
    said: Option<&str>,
    otherwise: impl Fn() -> Tls,
) -> Result<Tls, ConfigError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':');
    if host.is_empty() || host.len() > 253 || !host.bytes().all(plain) {
        return Err(wrong(host_field, "must be a server's name or address", host));
    }
    let tls = match said {
        Some("tls") => Tls::FromStart,
        Some("starttls") => Tls::Upgraded,
        Some("none") => Tls::Off,
        Some(other) => return Err(wrong(field, "must be \"tls\", \"starttls\" or \"none\"", other)),
        None if is_loopback(host) => Tls::Off,
        None => otherwise(),
    };
    if tls == Tls::Off && !is_loopback(host) {
        let rule = "\"none\" is for loopback only, because mail and password would travel in the clear";
        return Err(wrong(field, rule, "none"));
    }
    if tls != Tls::Off && cfg!(not(feature = "tls")) {
        let rule = "needs a build with the feature `tls` of the crate adapter-mail";
        return Err(wrong(field, rule, said.unwrap_or("the default for this server")));
    }
    Ok(tls)
}

fn user(field: &'static str, name: &str) -> Result<String, ConfigError> {
    if name.is_empty() || name.len() > 200 || quoted(name).is_none() {
        return Err(wrong(field, "must be 1 to 200 printable ASCII characters", name));
    }
    Ok(name.to_owned())
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn yes() -> bool {
    true
}

fn thirty() -> u32 {
    30
}

fn ten_minutes() -> u32 {
    600
}

fn inbox() -> String {
    "INBOX".to_owned()
}
