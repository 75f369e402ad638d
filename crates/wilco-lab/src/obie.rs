//! UK Open Banking payment initiation 3.1 as this bank reads it: request bodies in, named complaints out. Pure.
//!
//! The bank is strict: a field it does not know is refused rather than ignored, because an ignored field is a
//! payment other than the one that was asked for.

use serde_json::{Map, Value};

use crate::values::{AccountNo, AmountError, minor_format, minor_parse, minor_slipped};

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
}

/// A body of `POST /domestic-payment-consents`, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsentBody {
    /// `Data.Initiation`
    pub initiation: Value,
    /// The same, read.
    pub instruction: Instruction,
    /// `Risk`
    pub risk: Value,
}

/// A body of `POST /domestic-payments`, checked.
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
    pub fn read(body: &[u8]) -> Result<Self, Vec<FieldError>> {
        let mut check = Check::default();
        let body = check.document(body)?;
        let data = check.object(&body, "", "Data", &["Initiation"]);
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
    pub fn read(body: &[u8]) -> Result<Self, Vec<FieldError>> {
        let mut check = Check::default();
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
    pub fn read(initiation: &Value) -> Result<Self, Vec<FieldError>> {
        let mut check = Check::default();
        let instruction = initiation
            .as_object()
            .and_then(|fields| check.instruction(fields));
        check.finish(|| instruction)
    }
}

/// Collects complaints; a reader goes on after one, so that a caller hears of all of them at once.
#[derive(Default)]
struct Check {
    errors: Vec<FieldError>,
}

impl Check {
    fn complain(&mut self, code: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError::new(code, path, message));
    }

    /// The value, if there is one and no complaint.
    fn finish<T>(mut self, value: impl FnOnce() -> Option<T>) -> Result<T, Vec<FieldError>> {
        if self.errors.is_empty() {
            if let Some(value) = value() {
                return Ok(value);
            }
            self.complain("UK.OBIE.Resource.InvalidFormat", "Data", "must be a JSON object");
        }
        Err(self.errors)
    }

    fn document(&mut self, body: &[u8]) -> Result<Map<String, Value>, Vec<FieldError>> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => {
                self.known(&fields, "", &["Data", "Risk"]);
                Ok(fields)
            }
            Ok(_) => Err(vec![FieldError::new(
                "UK.OBIE.Resource.InvalidFormat",
                "body",
                "must be a JSON object",
            )]),
            Err(error) => Err(vec![FieldError::new(
                "UK.OBIE.Resource.InvalidFormat",
                "body",
                format!("is not JSON: {error}"),
            )]),
        }
    }

    fn initiation(&mut self, data: Option<&Map<String, Value>>) -> (Value, Option<Instruction>) {
        let Some(data) = data else {
            return (Value::Null, None);
        };
        let known = [
            "InstructionIdentification",
            "EndToEndIdentification",
            "InstructedAmount",
            "DebtorAccount",
            "CreditorAccount",
            "RemittanceInformation",
        ];
        let Some(fields) = self.object(data, "Data", "Initiation", &known) else {
            return (Value::Null, None);
        };
        let instruction = self.instruction(fields);
        (Value::Object(fields.clone()), instruction)
    }

    fn instruction(&mut self, fields: &Map<String, Value>) -> Option<Instruction> {
        const AT: &str = "Data.Initiation";
        let instruction_id = self.text(fields, AT, "InstructionIdentification", 35);
        let reference = self.text(fields, AT, "EndToEndIdentification", 35);
        let amount_minor = self.amount(fields);
        let debtor = if fields.contains_key("DebtorAccount") {
            self.account(fields, "DebtorAccount").map(|(account, _)| account)
        } else {
            None
        };
        let creditor = self.account(fields, "CreditorAccount");
        if fields.contains_key("RemittanceInformation") {
            let known = ["Reference", "Unstructured"];
            if let Some(remittance) = self.object(fields, AT, "RemittanceInformation", &known) {
                self.optional_text(
                    remittance,
                    "Data.Initiation.RemittanceInformation",
                    "Reference",
                    35,
                );
                self.optional_text(
                    remittance,
                    "Data.Initiation.RemittanceInformation",
                    "Unstructured",
                    140,
                );
            }
        }
        let (creditor, creditor_name) = creditor?;
        Some(Instruction {
            instruction_id: instruction_id?,
            reference: reference?,
            amount_minor: amount_minor?,
            debtor,
            creditor,
            creditor_name: creditor_name?,
        })
    }

    fn amount(&mut self, fields: &Map<String, Value>) -> Option<i64> {
        const AT: &str = "Data.Initiation.InstructedAmount";
        let amount = self.object(
            fields,
            "Data.Initiation",
            "InstructedAmount",
            &["Amount", "Currency"],
        )?;
        let currency = self.text(amount, AT, "Currency", 3);
        if let Some(currency) = currency
            && currency != "GBP"
        {
            let iso = currency.len() == 3 && currency.bytes().all(|b| b.is_ascii_uppercase());
            let code = if iso {
                "UK.OBIE.Unsupported.Currency"
            } else {
                "UK.OBIE.Field.Invalid"
            };
            self.complain(code, format!("{AT}.Currency"), "this bank books GBP only");
        }
        // 13 digits, a point and 5 more.
        let text = self.text(amount, AT, "Amount", 19)?;
        match minor_parse(&text) {
            Ok(minor) => Some(minor),
            Err(error @ (AmountError::Form | AmountError::Fraction | AmountError::Zero)) => {
                self.complain("UK.OBIE.Field.Invalid", format!("{AT}.Amount"), error.to_string());
                None
            }
        }
    }

    /// An account and its `Name`; only a creditor's name is required.
    fn account(&mut self, fields: &Map<String, Value>, name: &str) -> Option<(AccountNo, Option<String>)> {
        let at = format!("Data.Initiation.{name}");
        let account = self.object(
            fields,
            "Data.Initiation",
            name,
            &["SchemeName", "Identification", "Name"],
        )?;
        let scheme = self.text(account, &at, "SchemeName", 40);
        let holder = if name == "CreditorAccount" {
            self.text(account, &at, "Name", 350)
        } else {
            self.optional_text(account, &at, "Name", 350)
        };
        let identification = self.text(account, &at, "Identification", 256)?;
        if scheme? != SCHEME {
            let message = format!("this bank knows only {SCHEME}");
            self.complain("UK.OBIE.Unsupported.Scheme", format!("{at}.SchemeName"), message);
            return None;
        }
        match AccountNo::from_digits(&identification) {
            Ok(number) => Some((number, holder)),
            Err(_) => {
                let message = "must be 14 digits, sort code and account number";
                self.complain(
                    "UK.OBIE.Unsupported.AccountIdentifier",
                    format!("{at}.Identification"),
                    message,
                );
                None
            }
        }
    }

    fn risk(&mut self, body: &Map<String, Value>) -> Value {
        const CONTEXTS: [&str; 5] = [
            "BillPayment",
            "EcommerceGoods",
            "EcommerceServices",
            "Other",
            "PartyToParty",
        ];
        let known = [
            "PaymentContextCode",
            "MerchantCategoryCode",
            "MerchantCustomerIdentification",
        ];
        let Some(risk) = self.object(body, "", "Risk", &known) else {
            return Value::Null;
        };
        if let Some(context) = self.optional_text(risk, "Risk", "PaymentContextCode", 40)
            && !CONTEXTS.contains(&context.as_str())
        {
            let message = format!("must be one of {}", CONTEXTS.join(", "));
            self.complain("UK.OBIE.Field.Invalid", "Risk.PaymentContextCode", message);
        }
        self.optional_text(risk, "Risk", "MerchantCategoryCode", 4);
        self.optional_text(risk, "Risk", "MerchantCustomerIdentification", 70);
        Value::Object(risk.clone())
    }

    fn object<'a>(
        &mut self,
        parent: &'a Map<String, Value>,
        at: &str,
        name: &str,
        known: &[&str],
    ) -> Option<&'a Map<String, Value>> {
        let path = join(at, name);
        match parent.get(name) {
            Some(Value::Object(fields)) => {
                self.known(fields, &path, known);
                Some(fields)
            }
            Some(_) => {
                self.complain("UK.OBIE.Field.Invalid", path, "must be a JSON object");
                None
            }
            None => {
                self.complain("UK.OBIE.Field.Missing", path, "is required");
                None
            }
        }
    }

    fn known(&mut self, fields: &Map<String, Value>, at: &str, known: &[&str]) {
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            let shown: String = name.chars().take(64).collect();
            let message = "this bank does not take this field; leave it out";
            self.complain("UK.OBIE.Field.Unexpected", join(at, &shown), message);
        }
    }

    fn text(&mut self, fields: &Map<String, Value>, at: &str, name: &str, max: usize) -> Option<String> {
        if fields.contains_key(name) {
            return self.optional_text(fields, at, name, max);
        }
        self.complain("UK.OBIE.Field.Missing", join(at, name), "is required");
        None
    }

    fn optional_text(
        &mut self,
        fields: &Map<String, Value>,
        at: &str,
        name: &str,
        max: usize,
    ) -> Option<String> {
        let path = join(at, name);
        let Some(text) = fields.get(name)?.as_str() else {
            self.complain("UK.OBIE.Field.Invalid", path, "must be a JSON string");
            return None;
        };
        let length = text.chars().count();
        if length == 0 || length > max {
            let message = format!("must have 1 to {max} characters, has {length}");
            self.complain("UK.OBIE.Field.Invalid", path, message);
            return None;
        }
        if text.chars().any(char::is_control) {
            self.complain("UK.OBIE.Field.Invalid", path, "must not hold control characters");
            return None;
        }
        Some(text.to_owned())
    }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() {
        name.to_owned()
    } else {
        format!("{at}.{name}")
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
        let body = ConsentBody::read(good().to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}"));
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
            let errors = ConsentBody::read(body.to_string().as_bytes())
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

    #[test]
    fn what_is_not_a_json_object_is_refused() {
        for body in ["", "nonsense", "[]", "null", "{\"Data\":"] {
            let errors = PaymentBody::read(body.as_bytes()).err().unwrap_or_default();
            assert_eq!(
                errors.first().map(|e| e.code),
                Some("UK.OBIE.Resource.InvalidFormat"),
                "{body}"
            );
        }
    }

    #[test]
    fn a_payment_needs_its_consent() {
        let errors = PaymentBody::read(good().to_string().as_bytes())
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
