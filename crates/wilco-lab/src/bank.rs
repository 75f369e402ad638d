//! The bank without its counter: what one request does to the book, whoever is still there to hear the answer.

use std::{net::SocketAddr, sync::Arc};

use axum::http::StatusCode;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::{
    book::{
        Book, BookError, Consent, ConsentOrder, ConsentStatus, KeyUse, Payment, PaymentOrder, PaymentStatus,
        Placed, Refusal,
    },
    clock::Clock,
    fault::{Endpoint, FaultBoard},
    obie::{
        ConsentBody, Distortion, FieldError, Form, Instruction, Kind, PaymentBody, SCHEME, Version,
        signature::{self, Known},
    },
};

/// Everything a request may touch.
#[derive(Debug)]
pub struct Bank {
    pub book: Book,
    pub clock: Clock,
    pub faults: FaultBoard,
    pub token: String,
    pub manual: bool,
    pub settle_after_s: u64,
    /// Whose signatures are asked for.
    pub signing: Option<Known>,
    pub addr: SocketAddr,
    /// True, or its sender gone, once the lab stops.
    pub stopping: watch::Receiver<bool>,
}

/// A POST that passed the door: authorised, with a good key.
#[derive(Debug, Clone)]
pub struct Order {
    pub version: Version,
    pub endpoint: Endpoint,
    pub key: String,
    pub body: Vec<u8>,
    pub distortion: Option<Distortion>,
    /// What an armed fault makes of a payment, so many microseconds later.
    pub reject_after_us: Option<i64>,
}

impl Order {
    fn form(&self) -> Form {
        Form {
            version: self.version,
            kind: self.endpoint.kind(),
        }
    }
}

/// An answer not yet on its way.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Value,
}

impl Bank {
    /// Carries out an order to its end and says what the bank answers.
    pub async fn carry_out(self: Arc<Self>, order: Order) -> Answer {
        let key = KeyUse {
            body_sha256: HEXLOWER.encode(&Sha256::digest(&order.body)),
            key: order.key.clone(),
        };
        let done = match order.endpoint {
            Endpoint::Consents | Endpoint::ScheduledConsents => self.consent_place(key, &order).await,
            Endpoint::Payments | Endpoint::ScheduledPayments => self.payment_place(key, &order).await,
        };
        done.unwrap_or_else(|answer| answer)
    }

    /// Whether the signature a request came with is the one it must have; without `signing` none is asked for.
    pub fn signed(&self, header: Option<&[u8]>, body: &[u8]) -> Result<(), Answer> {
        let Some(known) = &self.signing else {
            return Ok(());
        };
        let now_s = self.clock.stamp().instant_us / 1_000_000;
        signature::check(header, body, &known.signing, known.key.as_ref(), now_s)
            .map_err(|error| invalid(&[error]))
    }

    /// `GET` of a consent.
    pub async fn consent_show(&self, consent_id: &str, form: Form) -> Result<Answer, Answer> {
        let mut consent = self
            .book
            .consent_get(consent_id, Some(form))
            .await
            .map_err(failed)?;
        // Only a consent that is there can be hidden: a question for none must not use the knob up.
        if self.faults.take_read(Endpoint::consents(form.kind)) {
            return Err(refused(&Refusal::ConsentUnknown));
        }
        // A lagging rail hides the payment and with it that the consent is used. Asked only when there is
        // something to hide, so that the knob counts the reads that matter.
        if consent.status == ConsentStatus::Consumed && self.faults.take_read(Endpoint::payments(form.kind)) {
            consent.status = ConsentStatus::Authorised;
        }
        Ok(Answer {
            status: StatusCode::OK,
            body: self.consent_body(&consent),
        })
    }

    /// `GET /domestic-payment-consents/{id}/funds-confirmation`
    pub async fn consent_funds(&self, consent_id: &str, version: Version) -> Result<Answer, Answer> {
        let form = Form {
            version,
            kind: Kind::Domestic,
        };
        let available = self.book.consent_funds(consent_id, form).await.map_err(failed)?;
        let body = json!({
            "Data": { "FundsAvailableResult": {
                "FundsAvailableDateTime": self.clock.stamp().shown,
                "FundsAvailable": available,
            }},
            "Links": { "Self": self.link(version, Endpoint::Consents, &format!("{consent_id}/funds-confirmation")) },
            "Meta": { "TotalPages": 1 },
        });
        Ok(Answer {
            status: StatusCode::OK,
            body,
        })
    }

    /// `GET` of a payment.
    pub async fn payment_show(&self, payment_id: &str, form: Form) -> Result<Answer, Answer> {
        let payment = self
            .book
            .payment_get(payment_id, form, &self.clock.stamp())
            .await
            .map_err(failed)?;
        if self.faults.take_read(Endpoint::payments(form.kind)) {
            return Err(refused(&Refusal::PaymentUnknown));
        }
        Ok(Answer {
            status: StatusCode::OK,
            body: self.payment_body(&payment, payment.status),
        })
    }

    /// Where a person answers a waiting consent.
    pub fn authorise_url(&self, consent_id: &str) -> String {
        format!("http://{}/lab/consents/{consent_id}/authorise", self.addr)
    }

    async fn consent_place(&self, key: KeyUse, order: &Order) -> Result<Answer, Answer> {
        let form = order.form();
        let mut body = ConsentBody::read(&order.body, form).map_err(|errors| invalid(&errors))?;
        if let Some(distortion) = order.distortion {
            body.initiation = distortion.apply(&body.initiation);
            body.instruction =
                Instruction::read(&body.initiation, form).map_err(|errors| invalid(&errors))?;
        }
        let order = ConsentOrder {
            form,
            key,
            initiation: body.initiation,
            instruction: body.instruction,
            risk: body.risk,
            manual: self.manual,
        };
        let consent = self
            .book
            .consent_create(&order, &self.clock.stamp())
            .await
            .map_err(failed)?;
        Ok(Answer {
            status: StatusCode::CREATED,
            body: self.consent_body(&consent),
        })
    }

    async fn payment_place(&self, key: KeyUse, order: &Order) -> Result<Answer, Answer> {
        let form = order.form();
        let body = PaymentBody::read(&order.body, form).map_err(|errors| invalid(&errors))?;
        let order = PaymentOrder {
            form,
            key,
            consent_id: body.consent_id,
            initiation: body.initiation,
            risk: body.risk,
            distortion: order.distortion,
            settle_after_s: self.settle_after_s,
            reject_after_us: order.reject_after_us,
        };
        let placed = self
            .book
            .payment_create(&order, &self.clock.stamp())
            .await
            .map_err(failed)?;
        Ok(Answer {
            status: StatusCode::CREATED,
            body: self.payment_body(&placed.payment, first_shown(&placed)),
        })
    }

    fn consent_body(&self, consent: &Consent) -> Value {
        let Form { version, kind } = consent.form;
        let link = self.link(version, Endpoint::consents(kind), &consent.consent_id);
        let mut links = json!({ "Self": link });
        if consent.status == ConsentStatus::AwaitingAuthorisation {
            // Not OBIE's: a real bank is reached through its own sign-in pages, the lab has only this one.
            links["Authorise"] = Value::String(self.authorise_url(&consent.consent_id));
        }
        let mut data = json!({
            "ConsentId": consent.consent_id,
            "CreationDateTime": consent.created_at,
            "Status": consent.status.word_in(version),
            "StatusUpdateDateTime": consent.updated_at,
            "CutOffDateTime": consent.cut_off,
            "Initiation": consent.initiation,
            "Debtor": debtor_body(consent.debtor.0.digits(), &consent.debtor.1),
        });
        if kind == Kind::Scheduled {
            data["Permission"] = json!("Create");
        }
        json!({ "Data": data, "Risk": consent.risk, "Links": links, "Meta": { "TotalPages": 1 } })
    }

    fn payment_body(&self, payment: &Payment, shown: PaymentStatus) -> Value {
        let Form { version, kind } = payment.form;
        let id = match kind {
            Kind::Domestic => "DomesticPaymentId",
            Kind::Scheduled => "DomesticScheduledPaymentId",
        };
        json!({
            "Data": {
                id: payment.payment_id,
                "ConsentId": payment.consent_id,
                "CreationDateTime": payment.created_at,
                "Status": shown.word_in(version, kind),
                "StatusUpdateDateTime": payment.updated_at,
                "Initiation": payment.initiation,
                "Debtor": debtor_body(payment.debtor.0.digits(), &payment.debtor.1),
            },
            "Links": { "Self": self.link(version, Endpoint::payments(kind), &payment.payment_id) },
            "Meta": { "TotalPages": 1 },
        })
    }

    fn link(&self, version: Version, endpoint: Endpoint, rest: &str) -> String {
        format!(
            "http://{}{}/{}/{rest}",
            self.addr,
            version.prefix(),
            endpoint.word()
        )
    }
}

/// What the answer to an order shows: in 4.0 a payment that has just been made is Received or Rejected, whatever became
/// of it in the same moment; a repeat of the order shows how it stands.
fn first_shown(placed: &Placed) -> PaymentStatus {
    let status = placed.payment.status;
    let made_now = placed.new && placed.payment.form.version == Version::V4;
    if made_now && status != PaymentStatus::Rejected {
        PaymentStatus::Received
    } else {
        status
    }
}

impl Answer {
    /// The same answer with its errors in the words of `version`.
    pub fn spoken(mut self, version: Version) -> Self {
        let errors = self.body.get_mut("Errors").and_then(Value::as_array_mut);
        for error in errors.into_iter().flatten() {
            if let Some(code) = error.get("ErrorCode").and_then(Value::as_str) {
                let code = version.error_code(code).to_owned();
                error["ErrorCode"] = Value::String(code);
            }
        }
        self
    }
}

/// An OBIE error answer (`OBErrorResponse1`).
pub fn error_answer(status: StatusCode, message: &str, errors: &[FieldError]) -> Answer {
    let reason = status.canonical_reason().unwrap_or("Error");
    let errors: Vec<Value> = errors
        .iter()
        .map(|error| {
            // The standard bounds both texts at 500 characters.
            let message: String = error.message.chars().take(500).collect();
            let mut body = json!({ "ErrorCode": error.code, "Message": message });
            if !error.path.is_empty() {
                body["Path"] = Value::String(error.path.chars().take(500).collect());
            }
            body
        })
        .collect();
    let body = json!({
        "Code": format!("{} {reason}", status.as_u16()),
        "Id": uuid::Uuid::now_v7().to_string(),
        "Message": message,
        "Errors": errors,
    });
    Answer { status, body }
}

/// A 400 for what a body or header says.
pub fn invalid(errors: &[FieldError]) -> Answer {
    error_answer(
        StatusCode::BAD_REQUEST,
        "the request was refused, nothing was created",
        errors,
    )
}

/// A 400 for a rule of the bank.
pub fn refused(refusal: &Refusal) -> Answer {
    let (code, path) = match refusal {
        Refusal::KeyReused => ("UK.OBIE.Header.Invalid", "x-idempotency-key"),
        Refusal::ConsentUnknown => ("UK.OBIE.Resource.NotFound", "ConsentId"),
        Refusal::PaymentUnknown => ("UK.OBIE.Resource.NotFound", "DomesticPaymentId"),
        Refusal::ConsentStatus(_) => ("UK.OBIE.Resource.InvalidConsentStatus", "Data.ConsentId"),
        Refusal::Differs { path } => ("UK.OBIE.Resource.ConsentMismatch", *path),
        Refusal::AfterCutOff => ("UK.OBIE.Rules.AfterCutOffDateTime", "Data.ConsentId"),
        Refusal::DebtorUnknown => (
            "UK.OBIE.Field.Invalid",
            "Data.Initiation.DebtorAccount.Identification",
        ),
        Refusal::PaysItself => (
            "UK.OBIE.Field.Invalid",
            "Data.Initiation.CreditorAccount.Identification",
        ),
        Refusal::PaymentRejected | Refusal::NothingToCancel => ("UK.OBIE.Field.Invalid", "status"),
        Refusal::Day { .. } => (
            "UK.OBIE.Field.InvalidDate",
            "Data.Initiation.RequestedExecutionDateTime",
        ),
    };
    invalid(&[FieldError::new(code, path, refusal.to_string())])
}

/// A 500 that says nothing about whether something was done.
pub fn unexpected() -> Answer {
    let error = FieldError::new(
        "UK.OBIE.UnexpectedError",
        "",
        "the bank cannot say what became of this request",
    );
    error_answer(StatusCode::INTERNAL_SERVER_ERROR, "internal error", &[error])
}

fn failed(error: BookError) -> Answer {
    match error {
        BookError::Refused(refusal) => refused(&refusal),
        error => {
            tracing::error!(error = %error, source = ?std::error::Error::source(&error), "the lab's book failed");
            unexpected()
        }
    }
}

fn debtor_body(digits: &str, name: &str) -> Value {
    json!({ "SchemeName": SCHEME, "Identification": digits, "Name": name })
}
