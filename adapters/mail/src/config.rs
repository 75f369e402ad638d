//! What an operator writes under `[adapters.mail]`, and what it means once checked. The file's text never holds a
//! secret: it says where the passwords are.

mod server;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wilco_adapter::field::Broken;
pub(crate) use wilco_adapter::field::between;
use wilco_adapter::secret::SecretPlaceError;

pub(crate) use server::{ImapChecked, Login, Server, SmtpChecked, Tls};
pub use server::{ImapConfig, SmtpConfig};

use crate::slots::{self, Kind};
use crate::template::{TEMPLATE_MAX, TEMPLATES_MAX, Template, is_name};
use crate::wire::address::Address;
use crate::wire::message::{HeaderText, Mailbox};

/// The `[adapters.mail]` table. Without one, mail goes to a Maildir in the data folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MailConfig {
    /// `maildir`, or `smtp` (then `[adapters.mail.smtp]` says where).
    pub transport: String,
    /// The Maildir, with `transport = "maildir"`.
    pub path: PathBuf,
    /// The address mail is from. Needed with `smtp`; a Maildir has `wilco@localhost` without it.
    pub from: Option<String>,
    /// The name shown with it.
    pub from_name: Option<String>,
    /// Where answers go, if not to `from`.
    pub reply_to: Option<String>,
    /// What stands after the `@` of each Message-ID; without it the domain of `from`.
    pub domain: Option<String>,
    /// A folder with templates of your own, `NAME.txt` and perhaps `NAME.html`; one named as a built-in one replaces it.
    pub templates: Option<PathBuf>,
    /// A folder with the files that `att` and `txt` name by their digest.
    pub attachments: Option<PathBuf>,
    /// A TOML file with `[contacts.marlow] addr = "..."`: where mail about payments goes, whatever the handoff says.
    pub contacts: Option<PathBuf>,
    /// The template of mail about payments (`p=pay ask=SEND`).
    pub pay_template: String,
    /// Domains mail may go to (`example.com` is itself, `.example.com` what ends in it); empty: any.
    pub allow_domains: Vec<String>,
    /// The largest message made, in bytes, 1000 to 25000000.
    pub max_message_bytes: u32,
    /// Whether addresses may hold characters outside ASCII (RFC 6531). The server must offer SMTPUTF8.
    pub smtputf8: bool,
    /// How many acts may be under way at once, 1 to 256.
    pub concurrency: u32,
    /// The mail server, with `transport = "smtp"`.
    pub smtp: Option<SmtpConfig>,
    /// The archive mailbox in which a lost answer is looked up, with `transport = "smtp"`.
    pub imap: Option<ImapConfig>,
}

/// A field of `[adapters.mail]` is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// One field breaks its rule.
    #[error("[adapters.mail] {field}: {rule} (it says {got:?})")]
    Field {
        /// Which.
        field: &'static str,
        /// What it may be.
        rule: String,
        /// What it says.
        got: String,
    },
    /// A password has no place, or one that cannot be.
    #[error("[adapters.mail] {table}.{source}")]
    Password {
        /// `smtp` or `imap`.
        table: &'static str,
        /// What is wrong with it.
        source: SecretPlaceError,
    },
    /// A template breaks a rule.
    #[error("[adapters.mail] templates: {0}")]
    Template(String),
    /// The table is not TOML, or has a field nobody knows.
    #[error("[adapters.mail]: {0}")]
    Table(String),
}

/// The table, checked.
pub(crate) struct Checked {
    pub transport: Transport,
    pub from: Mailbox,
    pub reply_to: Option<Address>,
    pub domain: String,
    pub templates: BTreeMap<String, Template>,
    pub pay_template: Template,
    pub attachments: Option<PathBuf>,
    pub contacts: Option<PathBuf>,
    pub allow_domains: Vec<String>,
    pub max_message_bytes: usize,
    pub smtputf8: bool,
    pub concurrency: u32,
}

/// Where mail goes.
pub(crate) enum Transport {
    Maildir(PathBuf),
    Smtp(Box<SmtpChecked>, Option<ImapChecked>),
}

impl Default for MailConfig {
    fn default() -> MailConfig {
        MailConfig {
            transport: "maildir".to_owned(),
            path: PathBuf::from("mail"),
            from: None,
            from_name: None,
            reply_to: None,
            domain: None,
            templates: None,
            attachments: None,
            contacts: None,
            pay_template: "remittance".to_owned(),
            allow_domains: Vec::new(),
            max_message_bytes: 2_000_000,
            smtputf8: false,
            concurrency: 8,
            smtp: None,
            imap: None,
        }
    }
}

impl MailConfig {
    /// Reads the table from TOML text (its fields at the top).
    ///
    /// # Errors
    /// [`ConfigError::Table`] where it is not TOML or has a field missing, unknown or of another type.
    pub fn from_toml(text: &str) -> Result<MailConfig, ConfigError> {
        toml::from_str(text).map_err(|e| ConfigError::Table(e.message().to_owned()))
    }

    /// The same table with relative paths counted from the data folder.
    #[must_use]
    pub fn in_folder(mut self, data: &Path) -> MailConfig {
        let place = |path: &mut PathBuf| *path = data.join(&*path);
        place(&mut self.path);
        self.templates.as_mut().map(place);
        self.attachments.as_mut().map(place);
        self.contacts.as_mut().map(place);
        if let Some(smtp) = &mut self.smtp {
            smtp.password_file.as_mut().map(place);
            smtp.ca_file.as_mut().map(place);
        }
        if let Some(imap) = &mut self.imap {
            imap.password_file.as_mut().map(place);
            imap.ca_file.as_mut().map(place);
        }
        self
    }

    /// Has mail handed to the server that listens at this loopback address, with nobody logged in: a mail drop to try things
    /// out with.
    pub fn point_at(&mut self, at: SocketAddr) {
        self.transport = "smtp".to_owned();
        self.smtp = Some(SmtpConfig::at(at));
        self.from.get_or_insert_with(|| "wilco@localhost".to_owned());
    }

    /// Checks every field, and reads the templates.
    pub(crate) fn checked(&self) -> Result<Checked, ConfigError> {
        between("max_message_bytes", self.max_message_bytes, 1_000, 25_000_000)?;
        between("concurrency", self.concurrency, 1, 256)?;
        let from = self.sender()?;
        let domain = self.domain.as_deref().unwrap_or(from.address.domain()).to_owned();
        // Message-IDs stay in seven bits, whatever addresses may be.
        if Address::parse(&format!("a@{domain}"), false).is_err() {
            let rule = "must be a domain of ASCII labels; with an address outside ASCII, name one";
            return Err(wrong("domain", rule, &domain));
        }
        let reply_to = self.reply_to.as_deref();
        let reply_to = reply_to.map(|a| self.address("reply_to", a)).transpose()?;
        let allow_domains = self.allowed()?;
        for (field, folder) in [("attachments", &self.attachments), ("templates", &self.templates)] {
            if let Some(folder) = folder
                && !folder.is_dir()
            {
                return Err(wrong(
                    field,
                    "must be a folder that exists",
                    &folder.display().to_string(),
                ));
            }
        }
        let (templates, pay_template) = self.read_templates()?;
        Ok(Checked {
            transport: self.transport()?,
            from,
            reply_to,
            domain,
            templates,
            pay_template,
            attachments: self.attachments.clone(),
            contacts: self.contacts.clone(),
            allow_domains,
            max_message_bytes: self.max_message_bytes as usize,
            smtputf8: self.smtputf8,
            concurrency: self.concurrency,
        })
    }

    fn transport(&self) -> Result<Transport, ConfigError> {
        match (self.transport.as_str(), &self.smtp) {
            ("maildir", None) if self.imap.is_some() => {
                Err(wrong("imap", "is for transport = \"smtp\"", "a table"))
            }
            ("maildir", None) if self.path.as_os_str().is_empty() => {
                Err(wrong("path", "must be the Maildir's folder", ""))
            }
            ("maildir", None) => Ok(Transport::Maildir(self.path.clone())),
            ("maildir", Some(_)) => Err(wrong(
                "transport",
                "must be \"smtp\" where [adapters.mail.smtp] is given",
                "maildir",
            )),
            ("smtp", None) => Err(wrong(
                "smtp",
                "the table [adapters.mail.smtp] must say which server",
                "",
            )),
            ("smtp", Some(smtp)) => {
                let imap = self.imap.as_ref().map(ImapConfig::checked).transpose()?;
                let smtp = smtp.checked(|field, address| self.address(field, address))?;
                Ok(Transport::Smtp(Box::new(smtp), imap))
            }
            (other, _) => Err(wrong("transport", "must be \"maildir\" or \"smtp\"", other)),
        }
    }

    fn sender(&self) -> Result<Mailbox, ConfigError> {
        let from = match (self.from.as_deref(), self.transport.as_str()) {
            (Some(from), _) => from,
            (None, "smtp") => return Err(wrong("from", "must be the address mail is from", "")),
            (None, _) => "wilco@localhost",
        };
        let name = match self.from_name.as_deref() {
            None => None,
            Some(name) if name.is_empty() || name.chars().count() > 100 => {
                return Err(wrong(
                    "from_name",
                    "must have 1 to 100 characters, or be left out",
                    name,
                ));
            }
            Some(name) => Some(HeaderText::new(name).map_err(|rule| wrong("from_name", &rule, name))?),
        };
        Ok(Mailbox {
            name,
            address: self.address("from", from)?,
        })
    }

    fn address(&self, field: &'static str, text: &str) -> Result<Address, ConfigError> {
        Address::parse(text, self.smtputf8)
            .map_err(|e| wrong(field, &format!("must be a mail address: {e}"), text))
    }

    fn allowed(&self) -> Result<Vec<String>, ConfigError> {
        let one = |domain: &String| {
            let bare = domain.strip_prefix('.').unwrap_or(domain);
            if Address::parse(&format!("a@{bare}"), self.smtputf8).is_err() {
                let rule = "must be domains, as \"example.com\" or \".example.com\"";
                return Err(wrong("allow_domains", rule, domain));
            }
            Ok(domain.to_lowercase())
        };
        self.allow_domains.iter().map(one).collect()
    }

    fn read_templates(&self) -> Result<(BTreeMap<String, Template>, Template), ConfigError> {
        let mut texts: BTreeMap<String, (String, Option<String>)> = BUILT_IN
            .iter()
            .map(|(name, txt, html)| ((*name).to_owned(), ((*txt).to_owned(), Some((*html).to_owned()))))
            .collect();
        if let Some(folder) = &self.templates {
            texts.extend(folder_templates(folder).map_err(ConfigError::Template)?);
        }
        let Some((txt, html)) = texts.get(&self.pay_template) else {
            let known: Vec<&str> = texts.keys().map(String::as_str).collect();
            let rule = format!("must name a template; there are {}", known.join(", "));
            return Err(wrong("pay_template", &rule, &self.pay_template));
        };
        let read = |kind: Kind, name: &str, txt: &str, html: Option<&str>| {
            Template::read(name, txt, html, |slot| slots::can_be_shown(kind, slot))
                .map_err(|e| ConfigError::Template(e.to_string()))
        };
        let pay = read(Kind::Pay, &self.pay_template, txt, html.as_deref())?;
        let mut general = BTreeMap::new();
        for (name, (txt, html)) in &texts {
            // The template of payments, and the built-in one for them, speak of slots that general mail has not.
            if *name != self.pay_template && name != "remittance" {
                general.insert(name.clone(), read(Kind::General, name, txt, html.as_deref())?);
            }
        }
        Ok((general, pay))
    }
}

const BUILT_IN: [(&str, &str, &str); 2] = [
    (
        "note",
        include_str!("../templates/note.txt"),
        include_str!("../templates/note.html"),
    ),
    (
        "remittance",
        include_str!("../templates/remittance.txt"),
        include_str!("../templates/remittance.html"),
    ),
];

type Texts = BTreeMap<String, (String, Option<String>)>;

fn folder_templates(folder: &Path) -> Result<Texts, String> {
    let failed = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let mut names = Vec::new();
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| failed(folder, &e))? {
        let path = entry.map_err(|e| failed(folder, &e))?.path();
        let stem = path
            .file_stem()
            .and_then(|s| s.to_str())
            .unwrap_or_default()
            .to_owned();
        let list = match path.extension().and_then(|e| e.to_str()) {
            Some("txt") => &mut names,
            Some("html") => &mut pages,
            _ => continue,
        };
        if !is_name(&stem) {
            let rule = "a template is called by lowercase letters, digits, - and _";
            return Err(failed(&path, &rule));
        }
        list.push(stem);
        if names.len() > TEMPLATES_MAX {
            return Err(failed(folder, &format!("more than {TEMPLATES_MAX} templates")));
        }
    }
    if let Some(page) = pages.iter().find(|page| !names.contains(page)) {
        let rule = "has no .txt beside it; every mail has a plain text";
        return Err(failed(&folder.join(format!("{page}.html")), &rule));
    }
    let read = |file: String| {
        let path = folder.join(file);
        let size = std::fs::metadata(&path).map_err(|e| failed(&path, &e))?.len();
        if size > TEMPLATE_MAX as u64 {
            return Err(failed(&path, &format!("it is larger than {TEMPLATE_MAX} bytes")));
        }
        std::fs::read_to_string(&path).map_err(|e| failed(&path, &e))
    };
    let mut texts = Texts::new();
    for name in names {
        let html = match pages.contains(&name) {
            true => Some(read(format!("{name}.html"))?),
            false => None,
        };
        texts.insert(name.clone(), (read(format!("{name}.txt"))?, html));
    }
    Ok(texts)
}

impl From<Broken> for ConfigError {
    fn from(broken: Broken) -> ConfigError {
        wrong(broken.field, &broken.rule, &broken.got)
    }
}

pub(crate) fn wrong(field: &'static str, rule: &str, got: &str) -> ConfigError {
    ConfigError::Field {
        field,
        rule: rule.to_owned(),
        got: got.to_owned(),
    }
}
