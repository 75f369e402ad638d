//! Open Banking's words (OBIE Read/Write 3.1 and 4.0, domestic payments at once and scheduled) and ours, translated. Pure:
//! bytes in, values out.
//!
//! A bank's answer is read once, into one JSON value, and everything is taken from that value: what the statement
//! shows and what the payment will ask for cannot come from two readings of the same bytes.

mod complaint;
mod form;
mod values;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wilco_core::ActId;

pub(crate) use complaint::Complaint;
pub(crate) use form::{ConsentStanding, DoneAt, Form, Kind, Standing, Version};
pub(crate) use values::{Account, amount_can_be_asked, clean};
use values::{SCHEME, amount_on_line};

/// A text of the bank's that is not what the standard says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the answer is not JSON: {0}")]
    NotJson(String),
    #[error("the answer has no usable {0}")]
    Field(&'static str),
}

/// A payee as the register has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payee {
    pub name: String,
    pub account: Account,
}

/// What a consent is asked for.
pub(crate) struct Order<'a> {
    pub form: Form,
    pub act_id: ActId,
    pub amount: &'a str,
    pub currency: &'a str,
    pub debtor: &'a Account,
    pub payee: &'a Payee,
    pub reference: &'a str,
    pub payment_context: &'a str,
    /// When a scheduled payment is to be made.
    pub execute_at: Option<OffsetDateTime>,
}

/// The slots an `Initiation` shows, as a line writes them. What it does not show, or shows in a form no line has, is
/// `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shown {
    pub amt: Option<String>,
    pub cur: Option<String>,
    pub acct: Option<String>,
    pub reference: Option<String>,
    pub instruction_id: Option<String>,
}

/// A consent as the bank has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Consent {
    pub id: String,
    pub form: Form,
    pub status: String,
    pub created: OffsetDateTime,
    /// When the payment will be made, as far as the bank says.
    pub execute_at: Option<OffsetDateTime>,
    pub cut_off: Option<OffsetDateTime>,
    /// The account that pays, as a line writes it.
    pub debtor: Option<String>,
    pub shown: Shown,
    /// A link for the account holder, where the bank gives one (not part of the standard).
    pub authorise_at: Option<String>,
    initiation: Value,
    risk: Value,
}

/// A payment as the bank has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payment {
    pub id: String,
    pub consent_id: String,
    pub status: String,
    pub created: OffsetDateTime,
    /// When the payment will be made, as far as the bank says.
    pub execute_at: Option<OffsetDateTime>,
    pub shown: Shown,
}

/// The body that asks for a consent.
pub(crate) fn consent_request(order: &Order<'_>) -> String {
    let account = |account: &Account| json!({ "SchemeName": SCHEME, "Identification": account.digits() });
    let mut creditor = account(&order.payee.account);
    creditor["Name"] = json!(order.payee.name);
    let remittance = match order.form.version {
        Version::V3 => json!({ "Reference": order.reference }),
        Version::V4 => {
            json!({ "Structured": [{ "CreditorReferenceInformation": { "Reference": order.reference } }] })
        }
    };
    let mut initiation = json!({
        "InstructionIdentification": order.act_id.to_string(),
        "EndToEndIdentification": order.reference,
        "InstructedAmount": { "Amount": order.amount, "Currency": order.currency },
        "DebtorAccount": account(order.debtor),
        "CreditorAccount": creditor,
        "RemittanceInformation": remittance,
    });
    // A date of four digits' year and whole seconds always has this form.
    if let Some(Ok(at)) = order.execute_at.map(|at| at.format(&Rfc3339)) {
        initiation["RequestedExecutionDateTime"] = json!(at);
    }
    let data = match order.form.kind {
        Kind::Domestic => json!({ "Initiation": initiation }),
        Kind::Scheduled => json!({ "Permission": "Create", "Initiation": initiation }),
    };
    json!({ "Data": data, "Risk": { "PaymentContextCode": order.payment_context } }).to_string()
}

/// The key of a consent: the same attempt with the same body always has the same one (at most 40 characters).
pub(crate) fn consent_key(act_id: ActId, attempt: u32, body: &str) -> String {
    key("c", &[act_id.as_bytes(), &attempt.to_be_bytes(), body.as_bytes()])
}

/// The key of a payment: the same bytes always have the same one, other bytes another.
pub(crate) fn payment_key(act_id: ActId, body: &str) -> String {
    key("w", &[act_id.as_bytes(), body.as_bytes()])
}

fn key(prefix: &str, parts: &[&[u8]]) -> String {
    let digest = parts
        .iter()
        .fold(Sha256::new(), |hash, part| hash.chain_update(part))
        .finalize();
    let mut text = data_encoding::BASE32_NOPAD.encode(&digest).to_ascii_lowercase();
    text.truncate(32);
    format!("{prefix}{text}")
}

/// Reads a consent's answer, of a POST or a GET.
pub(crate) fn consent_answer(body: &[u8], form: Form) -> Result<Consent, WireError> {
    let answer = document(body)?;
    let data = answer.get("Data").ok_or(WireError::Field("Data"))?;
    let initiation = data.get("Initiation").filter(|i| i.is_object());
    let initiation = initiation.ok_or(WireError::Field("Data.Initiation"))?;
    let risk = answer
        .get("Risk")
        .filter(|r| r.is_object())
        .ok_or(WireError::Field("Risk"))?;
    let cut_off = match data.get("CutOffDateTime") {
        None | Some(Value::Null) => None,
        Some(_) => Some(instant(data, "CutOffDateTime").ok_or(WireError::Field("Data.CutOffDateTime"))?),
    };
    let debtor = account_of(initiation.get("DebtorAccount")).or_else(|| account_of(data.get("Debtor")));
    let link = answer.pointer("/Links/Authorise").and_then(Value::as_str);
    let link = link.filter(|l| l.starts_with("https://") || l.starts_with("http://"));
    Ok(Consent {
        id: resource_id(data, "ConsentId").ok_or(WireError::Field("Data.ConsentId"))?,
        form,
        status: text(data, "Status").ok_or(WireError::Field("Data.Status"))?,
        created: instant(data, "CreationDateTime").ok_or(WireError::Field("Data.CreationDateTime"))?,
        execute_at: execute_at(data, initiation),
        cut_off,
        debtor,
        shown: Shown::read(initiation),
        authorise_at: link
            .filter(|l| l.len() <= 2_000 && l.chars().all(|c| c.is_ascii_graphic()))
            .map(str::to_owned),
        initiation: initiation.clone(),
        risk: risk.clone(),
    })
}

/// The body of the order: what the bank itself froze, word for word, since it compares the two.
pub(crate) fn payment_request(consent: &Consent) -> String {
    json!({
        "Data": { "ConsentId": consent.id, "Initiation": consent.initiation },
        "Risk": consent.risk,
    })
    .to_string()
}

/// Reads a payment's answer, of a POST or a GET.
pub(crate) fn payment_answer(body: &[u8], form: Form) -> Result<Payment, WireError> {
    let answer = document(body)?;
    let data = answer.get("Data").ok_or(WireError::Field("Data"))?;
    let initiation = data.get("Initiation").filter(|i| i.is_object());
    let initiation = initiation.ok_or(WireError::Field("Data.Initiation"))?;
    let (id, at) = form.payment_id();
    Ok(Payment {
        id: resource_id(data, id).ok_or(WireError::Field(at))?,
        consent_id: resource_id(data, "ConsentId").ok_or(WireError::Field("Data.ConsentId"))?,
        status: text(data, "Status").ok_or(WireError::Field("Data.Status"))?,
        created: instant(data, "CreationDateTime").ok_or(WireError::Field("Data.CreationDateTime"))?,
        execute_at: execute_at(data, initiation),
        shown: Shown::read(initiation),
    })
}

/// When the bank will make the payment: what it expects (after its hours that may be another day), or else what a scheduled
/// one was asked for. A payment at once of which nothing is said is made when it is ordered.
fn execute_at(data: &Value, initiation: &Value) -> Option<OffsetDateTime> {
    instant(data, "ExpectedExecutionDateTime").or_else(|| instant(initiation, "RequestedExecutionDateTime"))
}

/// The answer of confirmation of payee, as one of `match`, `close_match`, `no_match`, `unavailable`.
pub(crate) fn cop_answer(body: &[u8]) -> Result<&'static str, WireError> {
    let answer = document(body)?;
    match answer.get("result").and_then(Value::as_str) {
        Some("match") => Ok("match"),
        Some("close_match") => Ok("close_match"),
        Some("no_match") => Ok("no_match"),
        Some("unavailable") => Ok("unavailable"),
        _ => Err(WireError::Field("result")),
    }
}

/// Reads a register entry; it must be the one asked for.
pub(crate) fn payee_answer(sup: &str, body: &[u8]) -> Result<Payee, WireError> {
    let answer = document(body)?;
    if text(&answer, "sup").as_deref() != Some(sup) {
        return Err(WireError::Field("sup"));
    }
    let account = text(&answer, "account").and_then(|a| Account::from_text(&a));
    payee(text(&answer, "name"), account)
}

/// A register entry's name and account, checked.
pub(crate) fn payee(name: Option<String>, account: Option<Account>) -> Result<Payee, WireError> {
    let fits =
        |name: &String| (1..=350).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    Ok(Payee {
        name: name.filter(fits).ok_or(WireError::Field("name"))?,
        account: account.ok_or(WireError::Field("account"))?,
    })
}

/// One segment of a path, percent-encoded (RFC 3986 §2.3); `None` for what could climb out of its folder.
pub(crate) fn segment(text: &str) -> Option<String> {
    if text.is_empty() || text == "." || text == ".." || text.len() > 128 {
        return None;
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    let encode = |b: u8| {
        if plain(b) {
            char::from(b).to_string()
        } else {
            format!("%{b:02X}")
        }
    };
    Some(text.bytes().map(encode).collect())
}

impl Consent {
    /// What its status word means.
    pub fn standing(&self) -> ConsentStanding {
        self.form.version.consent_standing(&self.status)
    }

    /// What is said of a word nobody listed.
    pub fn strange(&self) -> String {
        format!("consent {} is {}", self.id, clean(&self.status, 40))
    }
}

impl Shown {
    fn read(initiation: &Value) -> Shown {
        let amount = initiation.get("InstructedAmount");
        let amt = amount
            .and_then(|a| text(a, "Amount"))
            .and_then(|a| amount_on_line(&a));
        let cur = amount.and_then(|a| text(a, "Currency"));
        // The payee sees one of them; where they differ there is no one reference to show.
        let mut references = references(initiation);
        references.dedup();
        let reference = match references.as_slice() {
            [one] => Some(one.clone()),
            _ => None,
        };
        let on_line = |value: &String| !value.is_empty() && value.chars().all(|c| c.is_ascii_graphic());
        Shown {
            amt,
            cur: cur.filter(|c| c.len() == 3 && c.bytes().all(|b| b.is_ascii_uppercase())),
            acct: account_of(initiation.get("CreditorAccount")),
            reference: reference.filter(on_line),
            instruction_id: text(initiation, "InstructionIdentification"),
        }
    }

    /// The slots as pairs, in the profile's order, what is not shown left out.
    pub fn pairs(&self) -> Vec<(String, String)> {
        [
            ("amt", &self.amt),
            ("cur", &self.cur),
            ("acct", &self.acct),
            ("ref", &self.reference),
        ]
        .into_iter()
        .filter_map(|(slot, value)| value.as_ref().map(|v| (slot.to_owned(), v.clone())))
        .collect()
    }
}

/// Every text that refers the payee to what is paid: 3.1 has one place for it besides `EndToEndIdentification`, 4.0 a list.
fn references(initiation: &Value) -> Vec<String> {
    let mut found: Vec<String> = text(initiation, "EndToEndIdentification").into_iter().collect();
    let Some(remittance) = initiation.get("RemittanceInformation") else {
        return found;
    };
    found.extend(text(remittance, "Reference"));
    let structured = remittance.get("Structured").and_then(Value::as_array);
    let information = structured.into_iter().flatten();
    let information = information.filter_map(|one| one.get("CreditorReferenceInformation"));
    found.extend(information.filter_map(|one| text(one, "Reference")));
    found
}

fn document(body: &[u8]) -> Result<Value, WireError> {
    serde_json::from_slice(body).map_err(|e| WireError::NotJson(e.to_string()))
}

fn text(parent: &Value, field: &str) -> Option<String> {
    parent.get(field)?.as_str().map(str::to_owned)
}

/// A bank's own id of a thing: what can stand in a path and a row (OBIE: 1 to 128 characters).
fn resource_id(parent: &Value, field: &str) -> Option<String> {
    text(parent, field).filter(|id| segment(id).is_some() && id.chars().all(|c| c.is_ascii_graphic()))
}

fn instant(parent: &Value, field: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(parent.get(field)?.as_str()?, &Rfc3339).ok()
}

fn account_of(account: Option<&Value>) -> Option<String> {
    let account = account?;
    if account.get("SchemeName").and_then(Value::as_str) != Some(SCHEME) {
        return None;
    }
    let digits = text(account, "Identification").filter(|d| d.len() == 14)?;
    Account::from_text(&digits).map(|a| a.on_line())
}
