//! What a bank says when it says no (OBIE R/W, `OBErrorResponse1`). 3.1 spells its codes out, 4.0 has four characters for
//! each (`OBExternalStatusReason1Code`); here they all have the long name.

use serde::Deserialize;

use super::values::clean;

/// An error body, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// Every `ErrorCode`, by its long name, with its `Path`, in order.
    pub codes: Vec<(String, String)>,
    /// Code, message and path of the first error, fit for a tail.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorBody {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorEntry {
    error_code: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    path: Option<String>,
}

impl Complaint {
    /// Reads an error body; `None` if it is none.
    pub fn read(body: &[u8]) -> Option<Complaint> {
        let read: ErrorBody = serde_json::from_slice(body).ok()?;
        let first = read.errors.first()?;
        let words = first
            .message
            .as_deref()
            .or(read.message.as_deref())
            .unwrap_or_default();
        let code = clean(&first.error_code, 60);
        let mut text = match long_name(&first.error_code) {
            Some(name) => format!("{code} {name}: {}", clean(words, 120)),
            None => format!("{code}: {}", clean(words, 120)),
        };
        if let Some(path) = &first.path {
            text.push_str(&format!(" ({})", clean(path, 60)));
        }
        if let Some(code) = &read.code {
            text.push_str(&format!(" [{}]", clean(code, 20)));
        }
        let place = |e: ErrorEntry| {
            let code = long_name(&e.error_code).map_or(e.error_code, str::to_owned);
            (code, e.path.unwrap_or_default())
        };
        let codes = read.errors.into_iter().map(place).collect();
        Some(Complaint { codes, text })
    }

    /// Whether a refused payment says for certain that this request created nothing and that no earlier one did:
    /// every code must be one a bank can only say about the request itself. Codes about the consent's state, about
    /// repeats, or of a kind nobody listed leave room for an order that exists.
    pub fn proves_nothing_was_created(&self) -> bool {
        !self.codes.is_empty()
            && self
                .codes
                .iter()
                .all(|(code, path)| is_about_the_request(code, path))
    }

    /// Whether it speaks of what only an order leaves behind: a consent that is used, a reference or key that is known.
    pub fn speaks_of_an_order(&self) -> bool {
        const CODES: [&str; 3] = [
            "UK.OBIE.Resource.InvalidConsentStatus",
            "UK.OBIE.Rules.DuplicateReference",
            "UK.OBIE.Rules.ResourceAlreadyExists",
        ];
        self.codes
            .iter()
            .any(|(code, path)| CODES.contains(&code.as_str()) || is_the_key(path))
    }

    /// Whether it is the day of a scheduled payment that the bank does not take.
    pub fn is_about_the_day(&self) -> bool {
        self.codes.iter().any(|(code, path)| {
            code == "UK.OBIE.Field.InvalidDate" || path.ends_with("RequestedExecutionDateTime")
        })
    }

    /// Whether the bank says that it cannot do this kind of thing, rather than that a value is wrong.
    pub fn is_unsupported(&self) -> bool {
        self.codes
            .iter()
            .any(|(code, _)| code.starts_with("UK.OBIE.Unsupported."))
    }
}

fn is_about_the_request(code: &str, path: &str) -> bool {
    const FAMILIES: [&str; 3] = ["UK.OBIE.Field.", "UK.OBIE.Signature.", "UK.OBIE.Unsupported."];
    const CODES: [&str; 7] = [
        "UK.OBIE.Header.Missing",
        "UK.OBIE.Header.Invalid",
        "UK.OBIE.Reauthenticate",
        "UK.OBIE.Resource.ConsentMismatch",
        "UK.OBIE.Resource.InvalidFormat",
        "UK.OBIE.Rules.AfterCutOffDateTime",
        "UK.OBIE.Rules.FailsControlParameters",
    ];
    // A key the bank knows from another body was used by somebody, for something.
    if is_the_key(path) {
        return false;
    }
    FAMILIES.iter().any(|f| code.starts_with(f)) || CODES.contains(&code)
}

fn is_the_key(path: &str) -> bool {
    path.to_ascii_lowercase().contains("idempotency-key")
}

/// The long name of a code of 4.0.
fn long_name(code: &str) -> Option<&'static str> {
    const NAMES: [&str; 30] = [
        "UK.OBIE.UnexpectedError",
        "UK.OBIE.Field.Expected",
        "UK.OBIE.Field.Invalid",
        "UK.OBIE.Field.InvalidDate",
        "UK.OBIE.Field.Missing",
        "UK.OBIE.Field.Unexpected",
        "UK.OBIE.Header.Invalid",
        "UK.OBIE.Header.Missing",
        "UK.OBIE.Resource.ConsentMismatch",
        "UK.OBIE.Resource.InvalidConsentStatus",
        "UK.OBIE.Resource.InvalidFormat",
        "UK.OBIE.Resource.NotFound",
        "UK.OBIE.Rules.AfterCutOffDateTime",
        "UK.OBIE.Rules.DuplicateReference",
        "UK.OBIE.Rules.FailsControlParameters",
        "UK.OBIE.Signature.Invalid",
        "UK.OBIE.Signature.InvalidClaim",
        "UK.OBIE.Signature.MissingClaim",
        "UK.OBIE.Signature.Malformed",
        "UK.OBIE.Signature.Missing",
        "UK.OBIE.Signature.Unexpected",
        "UK.OBIE.Unsupported.AccountIdentifier",
        "UK.OBIE.Unsupported.AccountSecondaryIdentifier",
        "UK.OBIE.Unsupported.Currency",
        "UK.OBIE.Unsupported.EventType",
        "UK.OBIE.Unsupported.Frequency",
        "UK.OBIE.Unsupported.LocalInstrument",
        "UK.OBIE.Unsupported.Scheme",
        "UK.OBIE.Reauthenticate",
        "UK.OBIE.Rules.ResourceAlreadyExists",
    ];
    let digits = code.strip_prefix('U').filter(|d| d.len() == 3)?;
    digits.parse::<usize>().ok().and_then(|at| NAMES.get(at)).copied()
}
