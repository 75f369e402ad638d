//! UK Open Banking payment initiation, 3.1 and 4.0, as this bank reads it: request bodies in, named complaints out. Pure.
//!
//! The bank is strict: a field it does not know is refused rather than ignored, because an ignored field is a
//! payment other than the one that was asked for.

mod check;
mod form;
pub mod signature;

use serde_json::Value;
use time::OffsetDateTime;

use crate::values::{AccountNo, minor_format, minor_parse, minor_slipped};
use check::Check;
pub use form::{Form, Kind, Version};

/// The account scheme this bank pays to.
pub const SCHEME: &str = "UK.OBIE.SortCodeAccountNumber";

/// One entry of an OBIE error's `Errors`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// OBIE's code, for example `UK.OBIE.Field.Invalid`.
    pub code: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
    /// Where, for example `Data.Initiation.InstructedAmount.Amount`.
    pub path: String,
}

impl FieldError {
    /// A complaint about one place.
    pub fn new(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            path: path.into(),
        }
    }
}

/// What a consent or payment says, read from its `Initiation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// `InstructionIdentification`
    pub instruction_id: String,
    /// `EndToEndIdentification`
    pub reference: String,
    /// Pence.
    pub amount_minor: i64,
    /// The account that pays, where the order names it.
    pub debtor: Option<AccountNo>,
    /// The account to be paid.
    pub creditor: AccountNo,
    /// The name given for it.
    pub creditor_name: String,
    /// `RequestedExecutionDateTime` of a scheduled payment.
    pub execute_at: Option<OffsetDateTime>,
}

/// A body of `POST /domestic-payment-consents` or `POST /domestic-scheduled-payment-consents`, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsentBody {
    /// `Data.Initiation`
    pub initiation: Value,
    /// The same, read.
    pub instruction: Instruction,
    /// `Risk`
    pub risk: Value,
}

/// A body of `POST /domestic-payments` or `POST /domestic-scheduled-payments`, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct PaymentBody {
    /// `Data.ConsentId`
    pub consent_id: String,
    /// `Data.Initiation`
    pub initiation: Value,
    /// `Risk`
    pub risk: Value,
}

/// A wrong value that an armed fault makes the bank record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distortion {
    /// Another amount.
    Amount,
    /// Another creditor account.
    Account,
}

impl Distortion {
    /// The initiation with the wrong value in it. What cannot be read is left as it is.
    pub fn apply(self, initiation: &Value) -> Value {
        let mut wrong = initiation.clone();
        let at = match self {
            Self::Amount => "/InstructedAmount/Amount",
            Self::Account => "/CreditorAccount/Identification",
        };
        if let Some(place) = wrong.pointer_mut(at)
            && let Some(text) = place.as_str()
        {
            let slipped = match self {
                Self::Amount => minor_parse(text)
                    .ok()
                    .map(|minor| minor_format(minor_slipped(minor))),
                Self::Account => AccountNo::from_digits(text)
                    .ok()
                    .map(|account| account.slipped().digits().to_owned()),
            };
            if let Some(slipped) = slipped {
                *place = Value::String(slipped);
            }
        }
        wrong
    }
}

impl ConsentBody {
    /// Reads and checks a body.
    pub fn read(body: &[u8], form: Form) -> Result<Self, Vec<FieldError>> {
        let mut check = Check::new(form);
        let body = check.document(body)?;
        let known: &[&str] = match form.kind {
            Kind::Domestic => &["Initiation"],
            Kind::Scheduled => &["Permission", "Initiation"],
        };
        let data = check.object(&body, "", "Data", known);
        check.permission(data);
        let (initiation, instruction) = check.initiation(data);
        let risk = check.risk(&body);
        check.finish(|| {
            Some(Self {
                initiation,
                instruction: instruction?,
                risk,
            })
        })
    }
}

impl PaymentBody {
    /// Reads and checks a body.
    pub fn read(body: &[u8], form: Form) -> Result<Self, Vec<FieldError>> {
        let mut check = Check::new(form);
        let body = check.document(body)?;
        let data = check.object(&body, "", "Data", &["ConsentId", "Initiation"]);
        let consent_id = data.and_then(|data| check.text(data, "Data", "ConsentId", 128));
        let (initiation, _) = check.initiation(data);
        let risk = check.risk(&body);
        check.finish(|| {
            Some(Self {
                consent_id: consent_id?,
                initiation,
                risk,
            })
        })
    }
}

impl Instruction {
    /// Reads an `Initiation`, naming everything that is wrong with it.
    pub fn read(initiation: &Value, form: Form) -> Result<Self, Vec<FieldError>> {
        let mut check = Check::new(form);
        let instruction = initiation
            .as_object()
            .and_then(|fields| check.instruction(fields));
        check.finish(|| instruction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "Data": { "Initiation": {
                "InstructionIdentification": "0192f0a1b2c3d4e5f60718293a4b5c6d",
                "EndToEndIdentification": "MD-2026-057",
                "InstructedAmount": { "Amount": "5400.00", "Currency": "GBP" },
                "CreditorAccount": { "SchemeName": SCHEME, "Identification": "40128861102938", "Name": "Marlow Supplies Ltd" },
                "RemittanceInformation": { "Reference": "MD-2026-057" }
            }},
            "Risk": { "PaymentContextCode": "BillPayment" }
        })
    }

    #[test]
    fn a_good_consent_is_read() {
        let body =
            ConsentBody::read(good().to_string().as_bytes(), Form::PLAIN).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(body.instruction.amount_minor, 540_000);
        assert_eq!(body.instruction.creditor.to_string(), "40-12-88/61102938");
        assert_eq!(body.instruction.debtor, None);
        assert_eq!(body.risk, good()["Risk"]);
    }

    /// Each case breaks one place of a good body and expects exactly one complaint, naming that place.
    #[test]
    fn each_broken_field_is_named() {
        let remove = Value::Null;
        let cases = [
            (
                "/Data/Initiation/InstructionIdentification",
                remove.clone(),
                "UK.OBIE.Field.Missing",
            ),
            (
                "/Data/Initiation/InstructionIdentification",
                json!("x".repeat(36)),
                "UK.OBIE.Field.Invalid",
            ),
            (
                "/Data/Initiation/EndToEndIdentification",
                json!(""),
                "UK.OBIE.Field.Invalid",
            ),
            (
                "/Data/Initiation/EndToEndIdentification",
                json!("a\nb"),
                "UK.OBIE.Field.Invalid",
            ),
            (
                "/Data/Initiation/InstructedAmount/Amount",
                json!(5400),
                "UK.OBIE.Field.Invalid",
            ),
            (
                "/Data/Initiation/InstructedAmount/Amount",
                json!("5400.001"),
                "UK.OBIE.Field.Invalid",
            ),
            (
                "/Data/Initiation/InstructedAmount/Amount",
                json!("0"),
                "UK.OBIE.Field.Invalid",
            ),
            (
                "/Data/Initiation/InstructedAmount/Currency",
                json!("EUR"),
                "UK.OBIE.Unsupported.Currency",
            ),
            (
                "/Data/Initiation/InstructedAmount/Currency",
                json!("gbp"),
                "UK.OBIE.Field.Invalid",
            ),
            (
                "/Data/Initiation/CreditorAccount/SchemeName",
                json!("UK.OBIE.IBAN"),
                "UK.OBIE.Unsupported.Scheme",
            ),
            (
                "/Data/Initiation/CreditorAccount/Identification",
                json!("4012886110293"),
                "UK.OBIE.Unsupported.AccountIdentifier",
            ),
            (
                "/Data/Initiation/CreditorAccount/Name",
                remove.clone(),
                "UK.OBIE.Field.Missing",
            ),
            (
                "/Data/Initiation/CreditorAccount",
                remove.clone(),
                "UK.OBIE.Field.Missing",
            ),
            (
                "/Data/Initiation/RemittanceInformation/Reference",
                json!("x".repeat(36)),
                "UK.OBIE.Field.Invalid",
            ),
            (
                "/Data/Initiation/LocalInstrument",
                json!("UK.OBIE.BACS"),
                "UK.OBIE.Field.Unexpected",
            ),
            ("/Data/Extra", json!(1), "UK.OBIE.Field.Unexpected"),
            ("/Data/Initiation", json!([]), "UK.OBIE.Field.Invalid"),
            ("/Risk", remove.clone(), "UK.OBIE.Field.Missing"),
            (
                "/Risk/PaymentContextCode",
                json!("Gambling"),
                "UK.OBIE.Field.Invalid",
            ),
        ];
        for (at, value, code) in cases {
            let mut body = good();
            let (parent, name) = at.rsplit_once('/').unwrap_or_else(|| panic!("{at}"));
            let parent = body
                .pointer_mut(parent)
                .and_then(Value::as_object_mut)
                .unwrap_or_else(|| panic!("{at}"));
            if value.is_null() {
                parent.remove(name);
            } else {
                parent.insert(name.into(), value);
            }
            let errors = ConsentBody::read(body.to_string().as_bytes(), Form::PLAIN)
                .err()
                .unwrap_or_default();
            let path = at.trim_start_matches('/').replace('/', ".");
            assert_eq!(
                errors
                    .iter()
                    .map(|e| (e.code, e.path.as_str()))
                    .collect::<Vec<_>>(),
                [(code, path.as_str())]
            );
        }
    }

    fn errors(body: &Value, version: Version, kind: Kind) -> Vec<(&'static str, String)> {
        let read = ConsentBody::read(body.to_string().as_bytes(), Form { version, kind });
        let errors = read.err().unwrap_or_default();
        errors.into_iter().map(|e| (e.code, e.path)).collect()
    }

    /// Each version has its own remittance information and its own contexts, and neither takes the other's.
    #[test]
    fn the_versions_are_told_apart() {
        let mut four = good();
        four["Data"]["Initiation"]["RemittanceInformation"] = json!({
            "Structured": [{ "CreditorReferenceInformation": { "Reference": "MD-2026-057" } }],
            "Unstructured": ["for paper", "and ink"],
        });
        four["Risk"]["PaymentContextCode"] = json!("BillingGoodsAndServicesInArrears");
        assert_eq!(errors(&four, Version::V4, Kind::Domestic), []);
        let said = errors(&good(), Version::V4, Kind::Domestic);
        let invalid = |path: &str| ("UK.OBIE.Field.Invalid", path.to_owned());
        let reference = "Data.Initiation.RemittanceInformation.Reference".to_owned();
        assert_eq!(
            said,
            [
                ("UK.OBIE.Field.Unexpected", reference),
                invalid("Risk.PaymentContextCode")
            ]
        );
        assert_eq!(errors(&four, Version::V3, Kind::Domestic).len(), 3);
        let remittance = "Data.Initiation.RemittanceInformation";
        for (at, wrong, path) in [
            (
                "Unstructured",
                json!("one text"),
                format!("{remittance}.Unstructured"),
            ),
            ("Unstructured", json!([1]), format!("{remittance}.Unstructured")),
            (
                "Unstructured",
                json!(["x".repeat(141)]),
                format!("{remittance}.Unstructured"),
            ),
            ("Structured", json!({}), format!("{remittance}.Structured")),
        ] {
            let mut body = four.clone();
            body["Data"]["Initiation"]["RemittanceInformation"][at] = wrong;
            assert_eq!(errors(&body, Version::V4, Kind::Domestic), [invalid(&path)]);
        }
    }

    #[test]
    fn a_scheduled_payment_says_when_and_asks_to_be_created() {
        let mut body = good();
        body["Data"]["Permission"] = json!("Create");
        body["Data"]["Initiation"]["RequestedExecutionDateTime"] = json!("2026-10-05T12:00:00+01:00");
        assert_eq!(errors(&body, Version::V3, Kind::Scheduled), []);
        assert_eq!(
            errors(&body, Version::V3, Kind::Domestic),
            [
                ("UK.OBIE.Field.Unexpected", "Data.Permission".to_owned()),
                (
                    "UK.OBIE.Field.Unexpected",
                    "Data.Initiation.RequestedExecutionDateTime".to_owned()
                )
            ]
        );
        body["Data"]["Permission"] = json!("Update");
        body["Data"]["Initiation"]["RequestedExecutionDateTime"] = json!("5 October");
        assert_eq!(
            errors(&body, Version::V3, Kind::Scheduled),
            [
                ("UK.OBIE.Field.Invalid", "Data.Permission".to_owned()),
                (
                    "UK.OBIE.Field.InvalidDate",
                    "Data.Initiation.RequestedExecutionDateTime".to_owned()
                )
            ]
        );
        assert_eq!(
            errors(&good(), Version::V3, Kind::Scheduled),
            [
                ("UK.OBIE.Field.Missing", "Data.Permission".to_owned()),
                (
                    "UK.OBIE.Field.Missing",
                    "Data.Initiation.RequestedExecutionDateTime".to_owned()
                )
            ]
        );
    }

    #[test]
    fn what_is_not_a_json_object_is_refused() {
        for body in ["", "nonsense", "[]", "null", "{\"Data\":"] {
            let errors = PaymentBody::read(body.as_bytes(), Form::PLAIN)
                .err()
                .unwrap_or_default();
            assert_eq!(
                errors.first().map(|e| e.code),
                Some("UK.OBIE.Resource.InvalidFormat"),
                "{body}"
            );
        }
    }

    #[test]
    fn a_payment_needs_its_consent() {
        let errors = PaymentBody::read(good().to_string().as_bytes(), Form::PLAIN)
            .err()
            .unwrap_or_default();
        assert_eq!(
            errors.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(),
            ["Data.ConsentId"]
        );
    }

    #[test]
    fn distortions_touch_one_value() {
        let initiation = good()["Data"]["Initiation"].clone();
        let mut want = initiation.clone();
        want["InstructedAmount"]["Amount"] = json!("5100.00");
        assert_eq!(Distortion::Amount.apply(&initiation), want);
        let mut want = initiation.clone();
        want["CreditorAccount"]["Identification"] = json!("40128861102983");
        assert_eq!(Distortion::Account.apply(&initiation), want);
    }
}
