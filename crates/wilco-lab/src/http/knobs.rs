//! The lab's own endpoints: the book, the register, confirmation of payee, faults, the clock, and the hand that
//! authorises consents and moves payments.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::{escape, json_response, page};
use crate::{
    bank::Bank,
    book::{BookError, Consent, ConsentStatus, Holding, Named, Refusal, RegisteredPayee},
    names::{NameMatch, name_match},
    obie::Version,
    values::AccountNo,
};

/// The longest name or short name a knob takes, in characters.
const NAME_MAX: usize = 140;
const SUP_MAX: usize = 64;
/// The furthest one call may move the clock: ten years.
const ADVANCE_MAX_S: u64 = 315_360_000;

type Body = Result<Bytes, BytesRejection>;

/// Why a knob was not turned.
pub enum KnobError {
    /// A field of the body is wrong; answered 422.
    Field {
        field: String,
        problem: String,
        allowed: Vec<&'static str>,
    },
    /// No such thing; answered 404.
    Unknown(String),
    /// Not in its present state; answered 409.
    State(String),
    /// The body could not be read.
    Body(BytesRejection),
    /// The book failed; answered 500.
    Book(BookError),
}

impl From<BookError> for KnobError {
    fn from(error: BookError) -> Self {
        match error {
            BookError::Refused(refusal @ (Refusal::ConsentUnknown | Refusal::PaymentUnknown)) => {
                Self::Unknown(refusal.to_string())
            }
            BookError::Refused(refusal) => Self::State(refusal.to_string()),
            error => Self::Book(error),
        }
    }
}

impl IntoResponse for KnobError {
    fn into_response(self) -> Response {
        let (status, body) = match self {
            Self::Field {
                field,
                problem,
                allowed,
            } => {
                let mut body = json!({ "error": format!("{field}: {problem}"), "field": field });
                if !allowed.is_empty() {
                    body["allowed"] = json!(allowed);
                }
                (StatusCode::UNPROCESSABLE_ENTITY, body)
            }
            Self::Unknown(error) => (StatusCode::NOT_FOUND, json!({ "error": error })),
            Self::State(error) => (StatusCode::CONFLICT, json!({ "error": error })),
            Self::Body(rejection) => (rejection.status(), json!({ "error": rejection.body_text() })),
            Self::Book(error) => {
                tracing::error!(error = %error, source = ?std::error::Error::source(&error), "the lab's book failed");
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    json!({ "error": error.to_string() }),
                )
            }
        };
        json_response(status, &body)
    }
}

/// `GET /lab/book`
pub async fn book_show(State(bank): State<Arc<Bank>>) -> Result<Response, KnobError> {
    let report = bank.book.report(&bank.clock.stamp()).await?;
    Ok(json_response(StatusCode::OK, &json!(report)))
}

/// `GET /lab/payees`
pub async fn payee_list(State(bank): State<Arc<Bank>>) -> Result<Response, KnobError> {
    let payees = bank.book.payee_list().await?;
    Ok(json_response(StatusCode::OK, &json!({ "payees": payees })))
}

/// `GET /lab/payees/{sup}`
pub async fn payee_show(
    State(bank): State<Arc<Bank>>,
    Path(sup): Path<String>,
) -> Result<Response, KnobError> {
    let payee = bank.book.payee_get(&sup).await?;
    let payee = payee.ok_or_else(|| KnobError::Unknown("there is no such payee in the register".into()))?;
    Ok(json_response(StatusCode::OK, &json!(payee)))
}

/// `PUT /lab/payees/{sup}`
pub async fn payee_set(
    State(bank): State<Arc<Bank>>,
    Path(sup): Path<String>,
    body: Body,
) -> Result<Response, KnobError> {
    let fields = Fields::read(body, &["sup", "name", "account"])?;
    let spoken = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if !(1..=SUP_MAX).contains(&sup.len()) || !sup.bytes().all(spoken) {
        return Err(field(
            "sup",
            "must have 1 to 64 letters, digits, hyphens, dots or underscores",
        ));
    }
    if fields
        .0
        .get("sup")
        .is_some_and(|named| named.as_str() != Some(&sup))
    {
        return Err(field("sup", "must be the one in the path, or left out"));
    }
    let account = fields.account("account")?;
    let payee = RegisteredPayee {
        sup,
        name: fields.name("name")?,
        account: account.to_string(),
    };
    bank.book.payee_set(&payee).await?;
    Ok(json_response(StatusCode::OK, &json!(payee)))
}

/// `POST /lab/confirmation-of-payee`
pub async fn payee_confirm(State(bank): State<Arc<Bank>>, body: Body) -> Result<Response, KnobError> {
    let fields = Fields::read(body, &["account", "name"])?;
    let (account, name) = (fields.account("account")?, fields.name("name")?);
    let answer = match bank.book.holder_of(&account).await? {
        Holding::BankUnknown => json!({ "result": "unavailable" }),
        Holding::NoAccount => json!({ "result": "no_match" }),
        Holding::Held(holder) => match name_match(&name, &holder) {
            // Who else holds the account is none of the payer's business.
            NameMatch::NoMatch => json!({ "result": "no_match" }),
            near => json!({ "result": near.word(), "name": holder }),
        },
    };
    Ok(json_response(StatusCode::OK, &answer))
}

/// `GET /lab/clock`
pub async fn clock_show(State(bank): State<Arc<Bank>>) -> Response {
    json_response(StatusCode::OK, &clock_body(&bank))
}

/// `POST /lab/clock`
pub async fn clock_advance(State(bank): State<Arc<Bank>>, body: Body) -> Result<Response, KnobError> {
    let fields = Fields::read(body, &["advance_s"])?;
    let advance_s = fields.count("advance_s", ADVANCE_MAX_S)?;
    let advance_s = advance_s.ok_or_else(|| {
        field(
            "advance_s",
            "is required: by how many seconds to move the clock ahead",
        )
    })?;
    let advance_s = i64::try_from(advance_s).map_err(|_| field("advance_s", "is too large"))?;
    bank.clock.offset_set(bank.book.clock_advance(advance_s).await?);
    Ok(json_response(StatusCode::OK, &clock_body(&bank)))
}

/// `GET /lab/consents/{id}/authorise`
pub async fn consent_page(
    State(bank): State<Arc<Bank>>,
    Path(id): Path<String>,
) -> Result<Html<String>, KnobError> {
    let consent = bank.book.consent_get(&id, None).await?;
    Ok(consent_shown(&consent))
}

/// `POST /lab/consents/{id}/authorise`
pub async fn consent_authorise(
    State(bank): State<Arc<Bank>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, KnobError> {
    consent_answer(&bank, &id, true, &headers).await
}

/// `POST /lab/consents/{id}/reject`
pub async fn consent_reject(
    State(bank): State<Arc<Bank>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, KnobError> {
    consent_answer(&bank, &id, false, &headers).await
}

/// The account holder's page: what would be paid, and, as long as nobody has answered, the two answers.
fn consent_shown(consent: &Consent) -> Html<String> {
    let shown = |at: &str| {
        let text = consent.initiation.pointer(at).and_then(Value::as_str);
        escape(text.unwrap_or("(none)"))
    };
    let id = escape(&consent.consent_id);
    let when = match consent.initiation.get("RequestedExecutionDateTime") {
        None => "at once".to_owned(),
        Some(_) => format!("on {}", shown("/RequestedExecutionDateTime")),
    };
    let answers = if consent.status == ConsentStatus::AwaitingAuthorisation {
        format!(
            "<form method=\"post\" action=\"/lab/consents/{id}/authorise\"><button>Authorise</button></form>\
             <form method=\"post\" action=\"/lab/consents/{id}/reject\"><button>Refuse</button></form>"
        )
    } else {
        String::new()
    };
    Html(page(
        "Wilco lab: authorise a payment",
        &format!(
            "<p>{amount} {currency} to {name}, account {account}, reference {reference}, paid {when} from {debtor}.</p>\
             <p>Status: {status}.</p>{answers}",
            amount = shown("/InstructedAmount/Amount"),
            currency = shown("/InstructedAmount/Currency"),
            name = shown("/CreditorAccount/Name"),
            account = shown("/CreditorAccount/Identification"),
            reference = shown("/EndToEndIdentification"),
            debtor = consent.debtor.0,
            status = consent.status.word(),
        ),
    ))
}

/// `POST /lab/settle/{payment_id}`
pub async fn payment_settle(
    State(bank): State<Arc<Bank>>,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, KnobError> {
    let fields = Fields::read(body, &["status"])?;
    let Named(_, status) = fields.word("status", &Named::ALL, Named::name)?;
    let payment = bank.book.payment_settle(&id, status, &bank.clock.stamp()).await?;
    let word = payment.status.word_in(Version::V3, payment.form.kind);
    let body = json!({ "payment_id": payment.payment_id, "status": word, "code": payment.status.code() });
    Ok(json_response(StatusCode::OK, &body))
}

/// Any path the lab does not know.
pub async fn no_such_route() -> KnobError {
    KnobError::Unknown("the lab has no such page; GET / lists what there is".into())
}

/// A method the path does not take.
pub async fn no_such_method() -> Response {
    let body = json!({ "error": "this path does not take this method" });
    json_response(StatusCode::METHOD_NOT_ALLOWED, &body)
}

async fn consent_answer(
    bank: &Bank,
    id: &str,
    yes: bool,
    headers: &HeaderMap,
) -> Result<Response, KnobError> {
    let consent = bank.book.consent_answer(id, yes, &bank.clock.stamp()).await?;
    // A person's browser asks for a page, a test for JSON.
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|accept| accept.contains("text/html")) {
        return Ok(consent_shown(&consent).into_response());
    }
    let body = json!({ "consent_id": consent.consent_id, "status": consent.status.word() });
    Ok(json_response(StatusCode::OK, &body))
}

fn clock_body(bank: &Bank) -> Value {
    let stamp = bank.clock.stamp();
    json!({ "bank_time": stamp.shown, "cut_off": stamp.cut_off_shown, "ahead_s": bank.clock.offset_s() })
}

fn field(name: &str, problem: impl Into<String>) -> KnobError {
    KnobError::Field {
        field: name.into(),
        problem: problem.into(),
        allowed: Vec::new(),
    }
}

/// The fields of a knob's JSON body, with nothing in it that the knob does not know.
struct Fields(Map<String, Value>);

impl Fields {
    fn read(body: Body, known: &[&'static str]) -> Result<Self, KnobError> {
        let body = body.map_err(KnobError::Body)?;
        let Ok(Value::Object(fields)) = serde_json::from_slice(&body) else {
            return Err(field("body", "must be a JSON object"));
        };
        match fields.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self(fields)),
            Some(name) => Err(KnobError::Field {
                field: name.chars().take(SUP_MAX).collect(),
                problem: "is not a field of this knob".into(),
                allowed: known.to_vec(),
            }),
        }
    }

    fn text(&self, name: &'static str) -> Result<&str, KnobError> {
        let value = self.0.get(name).ok_or_else(|| field(name, "is required"))?;
        value.as_str().ok_or_else(|| field(name, "must be a string"))
    }

    fn name(&self, name: &'static str) -> Result<String, KnobError> {
        let text = self.text(name)?;
        if text.trim().is_empty() || text.chars().count() > NAME_MAX || text.chars().any(char::is_control) {
            return Err(field(
                name,
                "must have 1 to 140 characters and no control characters",
            ));
        }
        Ok(text.to_owned())
    }

    fn account(&self, name: &'static str) -> Result<AccountNo, KnobError> {
        AccountNo::from_text(self.text(name)?).map_err(|error| field(name, error.to_string()))
    }

    fn word<T: Copy>(
        &self,
        name: &'static str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<T, KnobError> {
        let allowed: Vec<_> = all.iter().copied().map(word).collect();
        let found = self.0.get(name).and_then(Value::as_str);
        match all.iter().copied().find(|one| Some(word(*one)) == found) {
            Some(one) => Ok(one),
            None => Err(KnobError::Field {
                field: name.into(),
                problem: format!("must be one of {}", allowed.join(", ")),
                allowed,
            }),
        }
    }

    fn count(&self, name: &'static str, max: u64) -> Result<Option<u64>, KnobError> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(count) if (1..=max).contains(&count) => Ok(Some(count)),
            _ => Err(field(name, format!("must be a whole number from 1 to {max}"))),
        }
    }
}
