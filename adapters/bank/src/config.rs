//! What an operator writes under `[adapters.bank]`, and what it means once checked. The file's text never holds a
//! secret: it says where the token is.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Uri;
use serde::Deserialize;
use wilco_adapter::field::{Broken, between};
use wilco_adapter::secret::{SecretPlaceError, SecretSource};
use wilco_adapter::tls::TlsFiles;
use wilco_adapter::zone::{ZONE_RULE, Zone};

use crate::sign::Signer;
use crate::wire::{Account, DoneAt, Version};

/// The word that stands for "the lab this daemon started" in `url`, `payees` and `confirmation_of_payee`.
pub const LAB: &str = "lab";

/// The `[adapters.bank]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankConfig {
    /// The bank's base URL, before `/open-banking/v3.1/pisp` or `/open-banking/v4.0/pisp`.
    pub url: String,
    /// The version of the OBIE Read/Write standard: `3.1` or `4.0`. An act prepared in one is finished in it.
    #[serde(default = "default_version")]
    pub version: String,
    /// A file that holds the bearer token, read anew for each sending.
    pub token_file: Option<PathBuf>,
    /// An environment variable that holds it.
    pub token_env: Option<String>,
    /// A program and its arguments that print it; no shell is involved.
    pub token_command: Option<Vec<String>>,
    /// The account that pays, `20-00-00/55779911` or its 14 digits.
    pub debtor_account: String,
    /// The payee register: a URL (asked as `<url>/<sup>`) or the path of a TOML file with
    /// `[payees.marlow] name = "...", account = "..."`.
    pub payees: String,
    /// Where confirmation of payee is asked (`POST {account, name}`); left out, it is not asked.
    pub confirmation_of_payee: Option<String>,
    /// Which answers of confirmation of payee are let through besides `match` and `close_match`.
    #[serde(default)]
    pub allow_cop: Vec<String>,
    /// Where the account holder authorises a consent; `{consent_id}` stands for its id.
    pub authorise_url: Option<String>,
    /// OBIE's `Risk.PaymentContextCode`; left out, the version's word for paying a bill.
    pub payment_context: Option<String>,
    /// From which of the bank's words on a payment counts as done: `in_process` (accepted for execution) or `settled`
    /// (settled on the account that pays).
    #[serde(default = "default_done_at")]
    pub done_at: String,
    /// Whether a `paid` after the bank's today is ordered as a scheduled payment. Done then means that the order stands.
    #[serde(default)]
    pub scheduled: bool,
    /// How many days ahead a scheduled payment may be, 1 to 366.
    #[serde(default = "default_scheduled_days")]
    pub scheduled_days: u32,
    /// Signs what is posted to the bank (`x-jws-signature`). Needs the feature `jws`.
    pub signing: Option<SigningConfig>,
    /// Seconds one call may take, 1 to 300.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: u32,
    /// Seconds after the last byte in which an order may still land, 1 to 86400. At a bank that is not on loopback at
    /// least twice `timeout_s`.
    #[serde(default = "default_settle_window_s")]
    pub settle_window_s: u32,
    /// The bank's time zone: an offset such as `+00:00`, or `Europe/London`.
    #[serde(default = "default_time_zone")]
    pub time_zone: String,
    /// How many acts may be under way at this bank at once, 1 to 1024.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// Certificates (PEM) that may vouch for the bank, instead of the system's. Only with `https://`.
    pub ca_file: Option<PathBuf>,
    /// Our certificate (PEM) for banks that ask for one. Only with `https://`.
    pub client_cert_file: Option<PathBuf>,
    /// The key (PEM) of `client_cert_file`.
    pub client_key_file: Option<PathBuf>,
}

/// The `[adapters.bank.signing]` table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SigningConfig {
    /// An RSA private key, 2048 to 4096 bits, PEM (PKCS#8), read anew for each sending.
    pub key_file: PathBuf,
    /// Its `kid` at the trust anchor.
    pub key_id: String,
    /// Who signs: `<organisation id>/<software statement id>` at the Open Banking directory.
    pub issuer: String,
    /// The domain of the trust anchor that holds the public key.
    #[serde(default = "default_trust_anchor")]
    pub trust_anchor: String,
}

/// A field of `[adapters.bank]` is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// One field breaks its rule.
    #[error("[adapters.bank] {field}: {rule} (it says {got:?})")]
    Field {
        /// Which.
        field: &'static str,
        /// What it may be.
        rule: String,
        /// What it says.
        got: String,
    },
    /// Not exactly one place for the token, or one that cannot be.
    #[error("[adapters.bank] {0}")]
    Token(#[from] SecretPlaceError),
    /// The table is not TOML, misses a field or has one nobody knows.
    #[error("[adapters.bank]: {0}")]
    Table(String),
}

/// Where payees are looked up.
#[derive(Debug, Clone)]
pub(crate) enum Payees {
    Url(Base),
    File(PathBuf),
}

/// Something that is asked over HTTP: everything of a URL but what comes after its path.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub tls: bool,
    pub host: String,
    pub port: u16,
    /// As the `Host` header says it.
    pub authority: String,
    /// Without a final slash.
    pub path: String,
}

/// The table, checked.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub bank: Base,
    pub token: SecretSource,
    pub debtor: Account,
    pub payees: Payees,
    pub cop: Option<Base>,
    pub allow_cop: Vec<String>,
    pub authorise_url: Option<String>,
    pub version: Version,
    pub payment_context: String,
    pub done_at: DoneAt,
    /// How many days ahead scheduled payments may be, where there are any.
    pub scheduled: Option<u32>,
    pub signer: Option<Signer>,
    pub timeout_s: u32,
    pub settle_window_s: u32,
    pub zone: Zone,
    pub concurrency: u32,
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub tls: TlsFiles,
}

fn default_version() -> String {
    "3.1".to_owned()
}

fn default_done_at() -> String {
    "in_process".to_owned()
}

fn default_scheduled_days() -> u32 {
    90
}

fn default_trust_anchor() -> String {
    "openbanking.org.uk".to_owned()
}

fn default_timeout_s() -> u32 {
    20
}

fn default_settle_window_s() -> u32 {
    60
}

fn default_time_zone() -> String {
    "+00:00".to_owned()
}

fn default_concurrency() -> u32 {
    16
}

impl BankConfig {
    /// Reads the table from TOML text (its fields at the top).
    ///
    /// # Errors
    /// [`ConfigError::Table`] where it is not TOML or has a field missing, unknown or of another type.
    pub fn from_toml(text: &str) -> Result<BankConfig, ConfigError> {
        toml::from_str(text).map_err(|e| ConfigError::Table(e.message().to_owned()))
    }

    /// The same table with every relative path counted from the data folder.
    #[must_use]
    pub fn in_folder(mut self, data: &Path) -> BankConfig {
        let files = [
            &mut self.token_file,
            &mut self.ca_file,
            &mut self.client_cert_file,
            &mut self.client_key_file,
        ];
        let key = self.signing.as_mut().map(|signing| &mut signing.key_file);
        for path in files.into_iter().flatten().chain(key) {
            *path = data.join(&*path);
        }
        if self.payees != LAB && !self.payees.contains("://") && !self.payees.is_empty() {
            self.payees = data.join(&self.payees).to_string_lossy().into_owned();
        }
        self
    }

    /// Whether any field points at the lab and needs [`BankConfig::point_at_lab`].
    #[must_use]
    pub fn wants_lab(&self) -> bool {
        self.url == LAB || self.payees == LAB || self.confirmation_of_payee.as_deref() == Some(LAB)
    }

    /// The same table with `"lab"` replaced by the lab's own addresses. `lab_url` is its base URL.
    #[must_use]
    pub fn point_at_lab(mut self, lab_url: &str) -> BankConfig {
        let lab_url = lab_url.trim_end_matches('/');
        if self.url == LAB {
            lab_url.clone_into(&mut self.url);
            let page = || format!("{lab_url}/lab/consents/{{consent_id}}/authorise");
            self.authorise_url.get_or_insert_with(page);
        }
        if self.payees == LAB {
            self.payees = format!("{lab_url}/lab/payees");
        }
        if self.confirmation_of_payee.as_deref() == Some(LAB) {
            self.confirmation_of_payee = Some(format!("{lab_url}/lab/confirmation-of-payee"));
        }
        self
    }

    /// Checks every field.
    pub(crate) fn checked(&self) -> Result<Checked, ConfigError> {
        let version = Version::ALL.into_iter().find(|v| v.word() == self.version);
        let rule = "must be \"3.1\" or \"4.0\"";
        let version = version.ok_or_else(|| wrong("version", rule, &self.version))?;
        let debtor = Account::from_text(&self.debtor_account).ok_or_else(|| {
            let rule = "must be a sort code and account number such as 20-00-00/55779911, or its 14 digits";
            wrong("debtor_account", rule, &self.debtor_account)
        })?;
        let payees = if self.payees.contains("://") {
            Payees::Url(Base::parse("payees", &self.payees)?)
        } else if self.payees.is_empty() || self.payees == LAB {
            let rule = "must be the register's URL or the path of a TOML file";
            return Err(wrong("payees", rule, &self.payees));
        } else {
            Payees::File(PathBuf::from(&self.payees))
        };
        let cop = self.confirmation_of_payee.as_deref();
        let cop = cop
            .map(|url| Base::parse("confirmation_of_payee", url))
            .transpose()?;
        if let Some(word) = self
            .allow_cop
            .iter()
            .find(|w| !["no_match", "unavailable"].contains(&w.as_str()))
        {
            let rule =
                "may hold \"no_match\" and \"unavailable\"; match and close_match are always let through";
            return Err(wrong("allow_cop", rule, word));
        }
        if let Some(url) = &self.authorise_url
            && (!url.contains("{consent_id}") || Base::parse_words("authorise_url", url).is_err())
        {
            return Err(wrong(
                "authorise_url",
                "must be a URL that holds {consent_id}",
                url,
            ));
        }
        let contexts = version.contexts();
        let context = self.payment_context.as_deref().unwrap_or(contexts[0]);
        if !contexts.contains(&context) {
            let rule = format!(
                "must in version {} be one of {}",
                version.word(),
                contexts.join(", ")
            );
            return Err(wrong("payment_context", &rule, context));
        }
        let done_at = match self.done_at.as_str() {
            "in_process" => DoneAt::InProcess,
            "settled" => DoneAt::Settled,
            other => return Err(wrong("done_at", "must be \"in_process\" or \"settled\"", other)),
        };
        between("scheduled_days", self.scheduled_days, 1, 366)?;
        between("timeout_s", self.timeout_s, 1, 300)?;
        between("settle_window_s", self.settle_window_s, 1, 86_400)?;
        between("concurrency", self.concurrency, 1, 1024)?;
        let bank = Base::parse("url", &self.url)?;
        let least = self.timeout_s * WINDOW_TIMEOUTS;
        if !bank.is_loopback() && self.settle_window_s < least {
            let rule = format!(
                "must be at least {WINDOW_TIMEOUTS} times timeout_s, which is {least}: for one timeout_s the system may \
                 still deliver an order after its call; raise it, or lower timeout_s"
            );
            return Err(wrong("settle_window_s", &rule, &self.settle_window_s.to_string()));
        }
        Ok(Checked {
            bank,
            token: self.token()?,
            debtor,
            payees,
            cop,
            allow_cop: self.allow_cop.clone(),
            authorise_url: self.authorise_url.clone(),
            version,
            payment_context: context.to_owned(),
            done_at,
            scheduled: self.scheduled.then_some(self.scheduled_days),
            signer: self.signer()?,
            timeout_s: self.timeout_s,
            settle_window_s: self.settle_window_s,
            zone: Zone::parse(&self.time_zone)
                .ok_or_else(|| wrong("time_zone", ZONE_RULE, &self.time_zone))?,
            concurrency: self.concurrency,
            tls: self.tls_files()?,
        })
    }

    fn token(&self) -> Result<SecretSource, ConfigError> {
        Ok(SecretSource::named(
            "token",
            self.token_file.as_deref(),
            self.token_env.as_deref(),
            self.token_command.as_deref(),
        )?)
    }

    fn signer(&self) -> Result<Option<Signer>, ConfigError> {
        let Some(signing) = &self.signing else {
            return Ok(None);
        };
        let named = [
            ("signing.key_id", &signing.key_id),
            ("signing.issuer", &signing.issuer),
            ("signing.trust_anchor", &signing.trust_anchor),
        ];
        for (field, text) in named {
            let length = text.chars().count();
            if !(1..=200).contains(&length) || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return Err(wrong(field, "must have 1 to 200 characters and no spaces", text));
            }
        }
        let key = signing.key_file.display().to_string();
        let signer = Signer::new(signing).map_err(|rule| wrong("signing.key_file", &rule, &key))?;
        Ok(Some(signer))
    }

    fn tls_files(&self) -> Result<TlsFiles, ConfigError> {
        let client = match (&self.client_cert_file, &self.client_key_file) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None) => None,
            (Some(cert), None) => {
                let rule = "needs client_key_file beside it";
                return Err(wrong("client_cert_file", rule, &cert.display().to_string()));
            }
            (None, Some(key)) => {
                let rule = "needs client_cert_file beside it";
                return Err(wrong("client_key_file", rule, &key.display().to_string()));
            }
        };
        Ok(TlsFiles {
            ca: self.ca_file.clone(),
            client,
        })
    }
}

/// How many times `timeout_s` the settle window of a bank over a network holds: once for the operating system, which goes
/// on delivering what it was given, and once for the bank.
const WINDOW_TIMEOUTS: u32 = 2;

impl Checked {
    /// How long the operating system goes on delivering bytes that nobody acknowledges: no longer than a call may take, and
    /// always less than the settle window, however small that is set for a lab.
    pub fn resending(&self) -> Duration {
        let timeout = Duration::from_secs(u64::from(self.timeout_s));
        let window = Duration::from_secs(u64::from(self.settle_window_s));
        timeout.min(window / WINDOW_TIMEOUTS)
    }
}

impl Base {
    fn parse(field: &'static str, url: &str) -> Result<Base, ConfigError> {
        let base = Base::parse_words(field, url)?;
        if base.tls && cfg!(not(feature = "tls")) {
            let rule = "https:// needs a build with the feature `tls` of the crate adapter-bank";
            return Err(wrong(field, rule, url));
        }
        if !base.tls && !base.is_loopback() {
            let rule = "http:// is allowed on loopback only, because the token would travel in the clear; use https://";
            return Err(wrong(field, rule, url));
        }
        Ok(base)
    }

    /// The address read, whether or not it may be used.
    fn parse_words(field: &'static str, url: &str) -> Result<Base, ConfigError> {
        let rule = "must be a URL such as https://bank.example/base, without user, query or fragment";
        let bad = || wrong(field, rule, url);
        // The placeholder of `authorise_url` is no URL character; a letter stands in for it.
        let plain = url.replace("{consent_id}", "c");
        if url.len() > 2_000 || plain.contains(['#', '?', '@', '\\']) && field != "authorise_url" {
            return Err(bad());
        }
        let uri: Uri = plain.parse().map_err(|_| bad())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(bad());
        }
        Ok(Base {
            tls,
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self
                .host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback())
    }

    /// As operators read it.
    pub fn shown(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

impl From<Broken> for ConfigError {
    fn from(broken: Broken) -> ConfigError {
        wrong(broken.field, &broken.rule, &broken.got)
    }
}

fn wrong(field: &'static str, rule: &str, got: &str) -> ConfigError {
    ConfigError::Field {
        field,
        rule: rule.to_owned(),
        got: got.to_owned(),
    }
}
