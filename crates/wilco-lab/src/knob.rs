//! What a fault is called: `COUNTERPARTY[/ENDPOINT]:FAULT[:TIMES[:SECONDS]]` on the command line, the same words in
//! `POST /lab/faults` and on the page. Pure.

use std::{fmt, str::FromStr, time::Duration};

use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    fault::{Endpoint, Fault},
    git::GitFault,
    mail::MailFault,
    releases::ReleaseFault,
    shots::SHOTS_MAX,
    vendors::VendorFault,
};

/// How often one armed fault may happen.
const TIMES_MAX: u64 = 10_000;
/// The longest delay.
const SECONDS_MAX: f64 = 3_600.0;
/// The delay of those that delay, unless another is asked for.
const DELAY: Duration = Duration::from_secs(1);

/// Whom a fault belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counterparty {
    /// The bank; its faults wait at an endpoint.
    Bank,
    /// The vendor table.
    Vendors,
    /// The mail drop.
    Mail,
    /// The git remote.
    Git,
    /// The release folder.
    Releases,
}

impl Counterparty {
    /// Every counterparty, in the order the README lists them.
    pub const ALL: [Self; 5] = [Self::Bank, Self::Vendors, Self::Mail, Self::Git, Self::Releases];

    /// Its name in flags and bodies.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bank => "bank",
            Self::Vendors => "vendors",
            Self::Mail => "mail",
            Self::Git => "git",
            Self::Releases => "releases",
        }
    }

    /// The words of its faults.
    pub fn faults(self) -> Vec<&'static str> {
        match self {
            Self::Bank => Fault::ALL.map(Fault::word).to_vec(),
            Self::Vendors => VendorFault::ALL.map(VendorFault::word).to_vec(),
            Self::Mail => MailFault::ALL.map(MailFault::word).to_vec(),
            Self::Git => GitFault::ALL.map(GitFault::word).to_vec(),
            Self::Releases => ReleaseFault::ALL.map(ReleaseFault::word).to_vec(),
        }
    }
}

/// One fault of one counterparty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knob {
    Bank(Endpoint, Fault),
    Vendors(VendorFault),
    Mail(MailFault),
    Git(GitFault),
    Releases(ReleaseFault),
}

impl Knob {
    /// The fault that these words name; `endpoint` for the bank only.
    pub fn named(
        counterparty: &str,
        endpoint: Option<&str>,
        fault: Option<&str>,
    ) -> Result<Self, FaultProblem> {
        let counterparty = word(
            "counterparty",
            Some(counterparty),
            &Counterparty::ALL,
            Counterparty::word,
        )?;
        if counterparty != Counterparty::Bank && endpoint.is_some() {
            return Err(FaultProblem::new("endpoint", "is for the bank only"));
        }
        match counterparty {
            Counterparty::Bank => {
                let endpoint = word("endpoint", endpoint, &Endpoint::ALL, Endpoint::word)?;
                let fault = word("fault", fault, &Fault::ALL, Fault::word)?;
                if fault == Fault::RejectLater && endpoint != Endpoint::payments(endpoint.kind()) {
                    let problem = "reject-later is for payments, not for their consents";
                    return Err(FaultProblem::new("fault", problem));
                }
                Ok(Self::Bank(endpoint, fault))
            }
            Counterparty::Vendors => {
                word("fault", fault, &VendorFault::ALL, VendorFault::word).map(Self::Vendors)
            }
            Counterparty::Mail => word("fault", fault, &MailFault::ALL, MailFault::word).map(Self::Mail),
            Counterparty::Git => word("fault", fault, &GitFault::ALL, GitFault::word).map(Self::Git),
            Counterparty::Releases => {
                word("fault", fault, &ReleaseFault::ALL, ReleaseFault::word).map(Self::Releases)
            }
        }
    }

    /// Whose it is.
    pub const fn counterparty(self) -> Counterparty {
        match self {
            Self::Bank(..) => Counterparty::Bank,
            Self::Vendors(_) => Counterparty::Vendors,
            Self::Mail(_) => Counterparty::Mail,
            Self::Git(_) => Counterparty::Git,
            Self::Releases(_) => Counterparty::Releases,
        }
    }

    const fn endpoint(self) -> Option<&'static str> {
        match self {
            Self::Bank(endpoint, _) => Some(endpoint.word()),
            _ => None,
        }
    }

    const fn fault(self) -> &'static str {
        match self {
            Self::Bank(_, fault) => fault.word(),
            Self::Vendors(fault) => fault.word(),
            Self::Mail(fault) => fault.word(),
            Self::Git(fault) => fault.word(),
            Self::Releases(fault) => fault.word(),
        }
    }

    /// Whether it lasts for a time instead of happening so many times.
    const fn lasts(self) -> bool {
        matches!(self, Self::Vendors(VendorFault::Lock | VendorFault::Refuse))
    }

    const fn times_max(self) -> u64 {
        match self {
            Self::Git(_) | Self::Releases(_) => SHOTS_MAX as u64,
            _ => TIMES_MAX,
        }
    }
}

/// A fault to arm, or one that is armed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultSpec {
    pub(crate) knob: Knob,
    /// How often; 1 for one that lasts.
    pub(crate) times: u32,
    /// The delay, or how long it lasts; none: as long as it lasts by itself.
    pub(crate) seconds: Option<Duration>,
}

/// A word or number that names no fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct FaultProblem {
    /// Which part.
    pub field: &'static str,
    /// What is wrong with it, and what there is.
    pub problem: String,
    /// The words there are, where it is a word.
    pub allowed: Vec<&'static str>,
}

impl FaultProblem {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
            allowed: Vec::new(),
        }
    }
}

impl FaultSpec {
    /// A fault that happens `times` (once, unless said otherwise), by so many seconds where it delays or lasts.
    pub(crate) fn new(knob: Knob, times: Option<u64>, seconds: Option<f64>) -> Result<Self, FaultProblem> {
        let max = knob.times_max();
        let times = times.unwrap_or(1);
        let count = u32::try_from(times).ok().filter(|_| (1..=max).contains(&times));
        let Some(count) = count else {
            let problem = format!("must be a whole number from 1 to {max}");
            return Err(FaultProblem::new("times", problem));
        };
        if knob.lasts() && count != 1 {
            let problem = "must be 1: this fault is on from now, for so many seconds";
            return Err(FaultProblem::new("times", problem));
        }
        let seconds = match seconds {
            None => None,
            Some(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Some(Duration::from_secs_f64(seconds)),
            Some(_) => {
                let problem = format!("must be a number from 0 to {SECONDS_MAX}");
                return Err(FaultProblem::new("seconds", problem));
            }
        };
        Ok(Self {
            knob,
            times: count,
            seconds,
        })
    }

    /// Whose it is.
    pub fn counterparty(&self) -> Counterparty {
        self.knob.counterparty()
    }

    pub(crate) fn delay(&self) -> Duration {
        self.seconds.unwrap_or(DELAY)
    }

    /// As `GET /lab/faults` shows it.
    pub(crate) fn to_json(self) -> Value {
        let mut body = json!({ "counterparty": self.counterparty().word() });
        if let Some(endpoint) = self.knob.endpoint() {
            body["endpoint"] = json!(endpoint);
        }
        body["fault"] = json!(self.knob.fault());
        body["times"] = json!(self.times);
        // None: until it is cleared.
        let seconds = if self.knob.lasts() {
            self.seconds
        } else {
            Some(self.delay())
        };
        body["seconds"] = json!(seconds.map(|seconds| seconds.as_secs_f64()));
        body
    }
}

/// As `--fault` takes it.
impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.counterparty().word())?;
        if let Some(endpoint) = self.knob.endpoint() {
            write!(f, "/{endpoint}")?;
        }
        write!(f, ":{}:{}", self.knob.fault(), self.times)?;
        match self.seconds {
            Some(seconds) => write!(f, ":{}", seconds.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl FromStr for FaultSpec {
    type Err = FaultProblem;

    fn from_str(text: &str) -> Result<Self, FaultProblem> {
        let mut parts = text.split(':');
        let whose = parts.next().unwrap_or("");
        let (counterparty, endpoint) = match whose.split_once('/') {
            Some((counterparty, endpoint)) => (counterparty, Some(endpoint)),
            None => (whose, None),
        };
        let knob = Knob::named(counterparty, endpoint, parts.next())?;
        // Not a number: no number that is allowed.
        let times = parts.next().map(|times| times.parse().unwrap_or(0));
        let seconds = parts.next().map(|seconds| seconds.parse().unwrap_or(-1.0));
        if parts.next().is_some() {
            let problem = "nothing may follow: COUNTERPARTY[/ENDPOINT]:FAULT[:TIMES[:SECONDS]]";
            return Err(FaultProblem::new("seconds", problem));
        }
        Self::new(knob, times, seconds)
    }
}

fn word<T: Copy>(
    field: &'static str,
    found: Option<&str>,
    all: &[T],
    word: fn(T) -> &'static str,
) -> Result<T, FaultProblem> {
    match all.iter().copied().find(|one| Some(word(*one)) == found) {
        Some(one) => Ok(one),
        None => {
            let allowed: Vec<_> = all.iter().copied().map(word).collect();
            Err(FaultProblem {
                field,
                problem: format!("must be one of {}", allowed.join(", ")),
                allowed,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_meant() {
        for text in [
            "bank/domestic-payments:drop-after-accept:1",
            "mail:drop-after-accept:2",
            "mail:slow:1:0.5",
            "vendors:lock:1:5",
            "vendors:refuse:1",
            "git:refuse:100",
            "releases:unhealthy:3:0",
        ] {
            let spec: FaultSpec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(spec.to_string(), text);
        }
        let spec: FaultSpec = "git:refuse".parse().expect("a fault");
        assert_eq!(
            spec.to_json(),
            json!({ "counterparty": "git", "fault": "refuse", "times": 1, "seconds": 1.0 })
        );
    }

    #[test]
    fn unknown_words_are_named_with_what_there_is() {
        for (text, want) in [
            (
                "",
                "counterparty: must be one of bank, vendors, mail, git, releases",
            ),
            ("post:late", "counterparty: must be one of bank"),
            (
                "bank:late",
                "endpoint: must be one of domestic-payment-consents, domestic-payments",
            ),
            ("bank/payments:late", "endpoint: must be one of"),
            ("mail/inbox:late", "endpoint: is for the bank only"),
            (
                "mail",
                "fault: must be one of drop-before, drop-at-dot, drop-after-accept",
            ),
            (
                "vendors:drop-before",
                "fault: must be one of lock, refuse, wrong-account",
            ),
            (
                "git:lock",
                "fault: must be one of drop-before, drop-after-accept, refuse, slow",
            ),
            (
                "bank/domestic-payment-consents:reject-later",
                "fault: reject-later is for payments",
            ),
            ("git:refuse:0", "times: must be a whole number from 1 to 100"),
            ("git:refuse:101", "times: must be a whole number from 1 to 100"),
            ("mail:late:10001", "times: must be a whole number from 1 to 10000"),
            ("mail:late:1:x", "seconds: must be a number from 0 to 3600"),
            ("mail:late:1:NaN", "seconds: must be a number"),
            ("mail:late:1:5:6", "seconds: nothing may follow"),
            ("vendors:lock:2:5", "times: must be 1"),
        ] {
            let problem = text.parse::<FaultSpec>().expect_err(text).to_string();
            assert!(problem.starts_with(want), "{text}: {problem}");
        }
    }
}
