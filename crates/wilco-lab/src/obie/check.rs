//! The reader of Open Banking bodies: walks the JSON, keeps what it read, names everything that is wrong.

use serde_json::{Map, Value};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{FieldError, Form, Instruction, Kind, SCHEME, Version};
use crate::values::{AccountNo, AmountError, minor_parse};

const REMITTANCE: &str = "Data.Initiation.RemittanceInformation";
/// How many texts `Unstructured` and `Structured` may hold at this bank.
const REMITTANCE_MAX: usize = 10;

/// Collects complaints; a reader goes on after one, so that a caller hears of all of them at once.
pub(super) struct Check {
    form: Form,
    errors: Vec<FieldError>,
}

impl Check {
    pub(super) fn new(form: Form) -> Self {
        Self {
            form,
            errors: Vec::new(),
        }
    }

    fn complain(&mut self, code: &'static str, path: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError::new(code, path, message));
    }

    /// The value, if there is one and no complaint.
    pub(super) fn finish<T>(mut self, value: impl FnOnce() -> Option<T>) -> Result<T, Vec<FieldError>> {
        if self.errors.is_empty() {
            if let Some(value) = value() {
                return Ok(value);
            }
            self.complain("UK.OBIE.Resource.InvalidFormat", "Data", "must be a JSON object");
        }
        Err(self.errors)
    }

    pub(super) fn document(&mut self, body: &[u8]) -> Result<Map<String, Value>, Vec<FieldError>> {
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

    pub(super) fn initiation(&mut self, data: Option<&Map<String, Value>>) -> (Value, Option<Instruction>) {
        let Some(data) = data else {
            return (Value::Null, None);
        };
        let mut known = vec![
            "InstructionIdentification",
            "EndToEndIdentification",
            "InstructedAmount",
            "DebtorAccount",
            "CreditorAccount",
            "RemittanceInformation",
        ];
        if self.form.kind == Kind::Scheduled {
            known.push("RequestedExecutionDateTime");
        }
        let Some(fields) = self.object(data, "Data", "Initiation", &known) else {
            return (Value::Null, None);
        };
        let instruction = self.instruction(fields);
        (Value::Object(fields.clone()), instruction)
    }

    pub(super) fn instruction(&mut self, fields: &Map<String, Value>) -> Option<Instruction> {
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
            self.remittance(fields);
        }
        let execute_at = match self.form.kind {
            Kind::Domestic => None,
            Kind::Scheduled => Some(self.execute_at(fields)),
        };
        let (creditor, creditor_name) = creditor?;
        Some(Instruction {
            instruction_id: instruction_id?,
            reference: reference?,
            amount_minor: amount_minor?,
            debtor,
            creditor,
            creditor_name: creditor_name?,
            execute_at: match execute_at {
                None => None,
                Some(read) => Some(read?),
            },
        })
    }

    /// `Data.Permission` of a scheduled payment's consent.
    pub(super) fn permission(&mut self, data: Option<&Map<String, Value>>) {
        if let (Kind::Scheduled, Some(data)) = (self.form.kind, data)
            && let Some(word) = self.text(data, "Data", "Permission", 40)
            && word != "Create"
        {
            self.complain("UK.OBIE.Field.Invalid", "Data.Permission", "must be Create");
        }
    }

    fn remittance(&mut self, fields: &Map<String, Value>) {
        const AT: &str = "Data.Initiation";
        match self.form.version {
            Version::V3 => {
                let known = ["Reference", "Unstructured"];
                if let Some(found) = self.object(fields, AT, "RemittanceInformation", &known) {
                    self.optional_text(found, REMITTANCE, "Reference", 35);
                    self.optional_text(found, REMITTANCE, "Unstructured", 140);
                }
            }
            Version::V4 => {
                let known = ["Structured", "Unstructured"];
                if let Some(found) = self.object(fields, AT, "RemittanceInformation", &known) {
                    self.texts(found, "Unstructured", 140);
                    self.structured(found);
                }
            }
        }
    }

    /// A list of texts.
    fn texts(&mut self, fields: &Map<String, Value>, name: &str, max: usize) {
        let Some(value) = fields.get(name) else { return };
        let fits =
            |text: &str| (1..=max).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        let good = value.as_array().is_some_and(|list| {
            list.len() <= REMITTANCE_MAX && list.iter().all(|one| one.as_str().is_some_and(fits))
        });
        if !good {
            let message =
                format!("must be a list of at most {REMITTANCE_MAX} texts of 1 to {max} characters");
            self.complain("UK.OBIE.Field.Invalid", join(REMITTANCE, name), message);
        }
    }

    /// 4.0's structured remittance: this bank takes the creditor's reference and nothing else of it.
    fn structured(&mut self, fields: &Map<String, Value>) {
        let Some(value) = fields.get("Structured") else {
            return;
        };
        let at = join(REMITTANCE, "Structured");
        let list = value.as_array().filter(|list| list.len() <= REMITTANCE_MAX);
        let Some(list) = list else {
            let message = format!("must be a list of at most {REMITTANCE_MAX} objects");
            return self.complain("UK.OBIE.Field.Invalid", at, message);
        };
        for one in list {
            let Some(one) = one.as_object() else {
                self.complain("UK.OBIE.Field.Invalid", at.clone(), "must hold JSON objects");
                continue;
            };
            self.known(one, &at, &["CreditorReferenceInformation"]);
            if let Some(reference) = self.object(one, &at, "CreditorReferenceInformation", &["Reference"]) {
                self.text(
                    reference,
                    &join(&at, "CreditorReferenceInformation"),
                    "Reference",
                    35,
                );
            }
        }
    }

    /// When the money is to move: an instant with its offset, as the standard writes dates.
    fn execute_at(&mut self, fields: &Map<String, Value>) -> Option<OffsetDateTime> {
        const AT: &str = "Data.Initiation";
        let text = self.text(fields, AT, "RequestedExecutionDateTime", 40)?;
        match OffsetDateTime::parse(&text, &Rfc3339) {
            Ok(at) => Some(at),
            Err(_) => {
                let message = "must be a date and time with offset, for example 2026-10-05T12:00:00+01:00";
                self.complain(
                    "UK.OBIE.Field.InvalidDate",
                    join(AT, "RequestedExecutionDateTime"),
                    message,
                );
                None
            }
        }
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

    pub(super) fn risk(&mut self, body: &Map<String, Value>) -> Value {
        let contexts = self.form.version.contexts();
        let known = [
            "PaymentContextCode",
            "MerchantCategoryCode",
            "MerchantCustomerIdentification",
        ];
        let Some(risk) = self.object(body, "", "Risk", &known) else {
            return Value::Null;
        };
        if let Some(context) = self.optional_text(risk, "Risk", "PaymentContextCode", 40)
            && !contexts.contains(&context.as_str())
        {
            let message = format!("must be one of {}", contexts.join(", "));
            self.complain("UK.OBIE.Field.Invalid", "Risk.PaymentContextCode", message);
        }
        self.optional_text(risk, "Risk", "MerchantCategoryCode", 4);
        self.optional_text(risk, "Risk", "MerchantCustomerIdentification", 70);
        Value::Object(risk.clone())
    }

    pub(super) fn object<'a>(
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

    pub(super) fn text(
        &mut self,
        fields: &Map<String, Value>,
        at: &str,
        name: &str,
        max: usize,
    ) -> Option<String> {
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
