//! After: translation that loses nothing and invents nothing. What a bank writes stands in `tests/golden`, in our own
//! words, shaped as OBIE R/W 3.1 has it.

use serde_json::Value;
use wilco_core::ActId;

use super::*;

const CONSENT_REQUEST: &str = include_str!("../../tests/golden/consent_request.json");
const CONSENT_ANSWER: &str = include_str!("../../tests/golden/consent_answer.json");
const PAYMENT_REQUEST: &str = include_str!("../../tests/golden/payment_request.json");
const PAYMENT_ANSWER: &str = include_str!("../../tests/golden/payment_answer.json");
const ERROR_FIELD: &str = include_str!("../../tests/golden/error_field.json");
const ERROR_CONSENT_USED: &str = include_str!("../../tests/golden/error_consent_used.json");
const ERROR_KEY_REUSED: &str = include_str!("../../tests/golden/error_key_reused.json");

const V3: Form = form(Version::V3, Kind::Domestic);
const V3_SCHEDULED: Form = form(Version::V3, Kind::Scheduled);
const V4: Form = form(Version::V4, Kind::Domestic);
const V4_SCHEDULED: Form = form(Version::V4, Kind::Scheduled);

const fn form(version: Version, kind: Kind) -> Form {
    Form { version, kind }
}

fn act() -> ActId {
    "019a3b5c7d00701112131415161718ff"
        .parse()
        .unwrap_or_else(|e| panic!("{e}"))
}

fn account(text: &str) -> Account {
    Account::from_text(text).unwrap_or_else(|| panic!("{text}"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}"))
}

fn consent() -> Consent {
    consent_answer(CONSENT_ANSWER.as_bytes(), V3).unwrap_or_else(|e| panic!("{e}"))
}

/// A golden answer with one place changed; a null removes it.
fn with(golden: &str, pointer: &str, value: Value) -> Vec<u8> {
    let mut answer = json(golden);
    if value.is_null() {
        let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
        let parent = answer.pointer_mut(parent).and_then(Value::as_object_mut);
        parent.unwrap_or_else(|| panic!("{pointer}")).remove(field);
    } else {
        *answer.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
    }
    answer.to_string().into_bytes()
}

#[test]
fn a_consent_asks_for_exactly_the_order() {
    let asked = |form: Form, golden: &str| {
        let request = consent_request(&Order {
            form,
            act_id: act(),
            amount: "5400.00",
            currency: "GBP",
            debtor: &account("20-00-00/55779911"),
            payee: &Payee {
                name: "Marlow Supplies Ltd".to_owned(),
                account: account("40-12-88/61102938"),
            },
            reference: "MD-2026-057",
            payment_context: form.version.contexts()[0],
            execute_at: match form.kind {
                Kind::Domestic => None,
                Kind::Scheduled => Some(time::macros::datetime!(2026-10-05 12:00 +01:00)),
            },
        });
        assert_eq!(json(&request), json(golden), "{form:?}");
    };
    asked(V3, CONSENT_REQUEST);
    asked(
        V3_SCHEDULED,
        include_str!("../../tests/golden/scheduled_consent_request.json"),
    );
    asked(V4, include_str!("../../tests/golden/v4_consent_request.json"));
    asked(
        V4_SCHEDULED,
        include_str!("../../tests/golden/v4_scheduled_consent_request.json"),
    );
}

/// An answer of each other form, and the order made from it.
#[test]
fn each_form_is_read_and_ordered_from_as_the_bank_wrote_it() {
    let cases = [
        (
            V3_SCHEDULED,
            include_str!("../../tests/golden/scheduled_consent_answer.json"),
            include_str!("../../tests/golden/scheduled_payment_request.json"),
            include_str!("../../tests/golden/scheduled_payment_answer.json"),
            "InitiationCompleted",
        ),
        (
            V4,
            include_str!("../../tests/golden/v4_consent_answer.json"),
            include_str!("../../tests/golden/v4_payment_request.json"),
            include_str!("../../tests/golden/v4_payment_answer.json"),
            "ACSP",
        ),
        (
            V4_SCHEDULED,
            include_str!("../../tests/golden/v4_scheduled_consent_answer.json"),
            include_str!("../../tests/golden/v4_scheduled_payment_request.json"),
            include_str!("../../tests/golden/v4_scheduled_payment_answer.json"),
            "RCVD",
        ),
    ];
    for (form, agreed, ordered, answered, status) in cases {
        let consent = consent_answer(agreed.as_bytes(), form).unwrap_or_else(|e| panic!("{form:?}: {e}"));
        assert_eq!(consent.standing(), ConsentStanding::Authorised, "{form:?}");
        assert_eq!(consent.debtor.as_deref(), Some("20-00-00/55779911"));
        assert_eq!(json(&payment_request(&consent)), json(ordered), "{form:?}");
        let payment = payment_answer(answered.as_bytes(), form).unwrap_or_else(|e| panic!("{form:?}: {e}"));
        assert_eq!(payment.status, status);
        assert_eq!(payment.consent_id, consent.id);
        let want = [
            ("amt", "5400.00"),
            ("cur", "GBP"),
            ("acct", "40-12-88/61102938"),
            ("ref", "MD-2026-057"),
        ];
        let want = want.map(|(s, v)| (s.to_owned(), v.to_owned()));
        assert_eq!(consent.shown.pairs(), want, "{form:?}");
        assert_eq!(payment.shown.pairs(), want, "{form:?}");
        // An answer of another kind has no id where this kind's would be.
        let other = match form.kind {
            Kind::Domestic => V4_SCHEDULED,
            Kind::Scheduled => V4,
        };
        assert!(payment_answer(answered.as_bytes(), other).is_err(), "{form:?}");
    }
}

#[test]
fn the_day_is_what_the_bank_expects_or_else_what_was_asked() {
    let golden = include_str!("../../tests/golden/scheduled_consent_answer.json");
    let asked = consent_answer(golden.as_bytes(), V3_SCHEDULED).map(|c| c.execute_at);
    assert_eq!(asked, Ok(Some(time::macros::datetime!(2026-10-05 12:00 +01:00))));
    let mut moved = json(golden);
    moved["Data"]["ExpectedExecutionDateTime"] = "2026-10-06T00:00:00+01:00".into();
    let moved = consent_answer(moved.to_string().as_bytes(), V3_SCHEDULED).map(|c| c.execute_at);
    assert_eq!(moved, Ok(Some(time::macros::datetime!(2026-10-06 00:00 +01:00))));
    // A payment at once that was ordered after the bank's hours.
    let mut late = json(PAYMENT_ANSWER);
    late["Data"]["ExpectedExecutionDateTime"] = "2026-10-05T09:00:00+01:00".into();
    let late = payment_answer(late.to_string().as_bytes(), V3).map(|p| p.execute_at);
    assert_eq!(late, Ok(Some(time::macros::datetime!(2026-10-05 09:00 +01:00))));
    assert_eq!(
        payment_answer(PAYMENT_ANSWER.as_bytes(), V3).map(|p| p.execute_at),
        Ok(None)
    );
    let silent = with(golden, "/Data/Initiation/RequestedExecutionDateTime", Value::Null);
    assert_eq!(
        consent_answer(&silent, V3_SCHEDULED).map(|c| c.execute_at),
        Ok(None)
    );
}

#[test]
fn two_references_are_none() {
    let golden = include_str!("../../tests/golden/v4_payment_answer.json");
    let at = "/Data/Initiation/RemittanceInformation/Structured/0/CreditorReferenceInformation/Reference";
    let shown = payment_answer(&with(golden, at, "OTHER".into()), V4).map(|p| p.shown.reference);
    assert_eq!(shown, Ok(None));
}

#[test]
fn a_consents_answer_is_read_as_the_bank_wrote_it() {
    let consent = consent();
    assert_eq!(consent.id, "58923");
    assert_eq!(consent.status, "AwaitingAuthorisation");
    assert_eq!(consent.created, time::macros::datetime!(2026-10-02 09:15:04 UTC));
    assert_eq!(
        consent.cut_off,
        Some(time::macros::datetime!(2026-10-02 16:30 UTC))
    );
    assert_eq!(consent.debtor.as_deref(), Some("20-00-00/55779911"));
    assert_eq!(consent.authorise_at, None);
    let pairs = consent.shown.pairs();
    let want = [
        ("amt", "5400.00"),
        ("cur", "GBP"),
        ("acct", "40-12-88/61102938"),
        ("ref", "MD-2026-057"),
    ];
    assert_eq!(pairs, want.map(|(s, v)| (s.to_owned(), v.to_owned())));
}

#[test]
fn a_payment_asks_for_what_the_bank_froze_word_for_word() {
    let request = payment_request(&consent());
    assert_eq!(
        json(&request),
        json(PAYMENT_REQUEST),
        "5400.0 stays as the bank wrote it, LocalInstrument too"
    );
    // The order of fields is the bank's as well: these bytes are frozen, and their key with them.
    assert_eq!(request, payment_request(&consent()));
    assert!(request.find("LocalInstrument") < request.find("InstructedAmount"));
}

#[test]
fn keys_are_short_and_follow_the_bytes() {
    let body = payment_request(&consent());
    let key = payment_key(act(), &body);
    assert_eq!(key, "w4jjldj7qenjk4uwx3ygak2szbylk362l");
    assert_ne!(key, payment_key(act(), &body.replace("5400.0", "5400.1")));
    assert_ne!(
        key,
        payment_key(ActId::new(wilco_core::Timestamp(1), [1; 10]), &body)
    );
    let consent = consent_key(act(), 1, &body);
    assert_ne!(consent, consent_key(act(), 2, &body));
    assert_ne!(consent, key);
    for key in [key, consent] {
        assert!(
            key.len() <= 40 && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
            "{key}"
        );
    }
}

#[test]
fn a_payments_answer_is_read_as_the_bank_wrote_it() {
    let payment = payment_answer(PAYMENT_ANSWER.as_bytes(), V3).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (payment.id.as_str(), payment.consent_id.as_str()),
        ("58923-001", "58923")
    );
    assert_eq!(payment.status, "AcceptedSettlementInProcess");
    assert_eq!(payment.created, time::macros::datetime!(2026-10-02 23:20:04 UTC));
    assert_eq!(payment.shown.amt.as_deref(), Some("5400.00"));
}

#[test]
fn an_answer_without_what_counts_is_no_answer() {
    for (pointer, field) in [
        ("/Data", "Data"),
        ("/Data/ConsentId", "Data.ConsentId"),
        ("/Data/Status", "Data.Status"),
        ("/Data/CreationDateTime", "Data.CreationDateTime"),
        ("/Data/Initiation", "Data.Initiation"),
        ("/Risk", "Risk"),
    ] {
        let said = consent_answer(&with(CONSENT_ANSWER, pointer, Value::Null), V3);
        assert_eq!(said, Err(WireError::Field(field)));
    }
    for (pointer, field) in [
        ("/Data/DomesticPaymentId", "Data.DomesticPaymentId"),
        ("/Data/ConsentId", "Data.ConsentId"),
        ("/Data/Status", "Data.Status"),
        ("/Data/CreationDateTime", "Data.CreationDateTime"),
        ("/Data/Initiation", "Data.Initiation"),
    ] {
        let said = payment_answer(&with(PAYMENT_ANSWER, pointer, Value::Null), V3);
        assert_eq!(said, Err(WireError::Field(field)));
    }
    for bad in ["yesterday", "2026-10-02", "2026-13-02T09:15:04Z", ""] {
        let bytes = with(CONSENT_ANSWER, "/Data/CutOffDateTime", bad.into());
        assert_eq!(
            consent_answer(&bytes, V3),
            Err(WireError::Field("Data.CutOffDateTime")),
            "{bad}"
        );
    }
    for bad in ["", "a b", "..", "a\nb"] {
        let bytes = with(PAYMENT_ANSWER, "/Data/DomesticPaymentId", bad.into());
        assert!(payment_answer(&bytes, V3).is_err(), "{bad:?}");
    }
    assert!(matches!(
        payment_answer(b"<html>", V3),
        Err(WireError::NotJson(_))
    ));
    assert!(matches!(
        consent_answer(&[0xff, 0x00], V3),
        Err(WireError::NotJson(_))
    ));
}

#[test]
fn a_value_no_line_can_hold_is_left_out_and_not_filled_in() {
    let shown = |pointer: &str, value: Value| {
        let bytes = with(PAYMENT_ANSWER, &format!("/Data/Initiation{pointer}"), value);
        payment_answer(&bytes, V3)
            .map(|p| p.shown)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    assert_eq!(shown("/InstructedAmount/Amount", "5400.001".into()).amt, None);
    assert_eq!(shown("/InstructedAmount/Amount", 5400.into()).amt, None);
    assert_eq!(
        shown("/InstructedAmount/Amount", "5100".into()).amt.as_deref(),
        Some("5100.00")
    );
    assert_eq!(shown("/InstructedAmount/Currency", "pounds".into()).cur, None);
    assert_eq!(
        shown("/CreditorAccount/SchemeName", "UK.OBIE.IBAN".into()).acct,
        None
    );
    assert_eq!(
        shown("/CreditorAccount/Identification", "4012886110293".into()).acct,
        None
    );
    assert_eq!(shown("/CreditorAccount", Value::Null).acct, None);
    assert_eq!(
        shown("/EndToEndIdentification", "two words".into()).reference,
        None
    );
    assert_eq!(
        shown("/EndToEndIdentification", "OTHER".into()).reference,
        None,
        "it shows two references"
    );
    assert_eq!(
        shown("/RemittanceInformation", Value::Null).reference.as_deref(),
        Some("MD-2026-057")
    );
    assert_eq!(
        shown("/EndToEndIdentification", Value::Null).reference.as_deref(),
        Some("MD-2026-057")
    );
}

#[test]
fn a_complaint_says_whether_an_order_may_exist() {
    let read = |text: &str| Complaint::read(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
    let field = read(ERROR_FIELD);
    assert!(field.proves_nothing_was_created() && field.is_unsupported());
    assert_eq!(
        field.text,
        "UK.OBIE.Field.Invalid: The amount is invalid (Data.Initiation.InstructedAmount.Amount) [400 BadRequest]"
    );
    assert!(
        !read(ERROR_CONSENT_USED).proves_nothing_was_created(),
        "one code that leaves room is enough"
    );
    assert!(!read(ERROR_KEY_REUSED).proves_nothing_was_created());
    for (code, proves) in [
        ("UK.OBIE.Resource.ConsentMismatch", true),
        ("UK.OBIE.Rules.AfterCutOffDateTime", true),
        ("UK.OBIE.Rules.FailsControlParameters", true),
        ("UK.OBIE.Header.Missing", true),
        ("UK.OBIE.Signature.Missing", true),
        ("U004", true),
        ("U008", true),
        ("U012", true),
        ("U015", true),
        ("U019", true),
        ("U027", true),
        ("U000", false),
        ("U009", false),
        ("U011", false),
        ("U013", false),
        ("U029", false),
        ("U030", false),
        ("U999", false),
        ("UK.OBIE.Resource.NotFound", false),
        ("UK.OBIE.Rules.DuplicateReference", false),
        ("UK.OBIE.UnexpectedError", false),
        ("BANK.Own.Code", false),
    ] {
        let body = format!(r#"{{"Code":"400","Errors":[{{"ErrorCode":"{code}"}}]}}"#);
        assert_eq!(read(&body).proves_nothing_was_created(), proves, "{code}");
    }
    let four =
        read(r#"{"Errors":[{"ErrorCode":"U027","Path":"Data.Initiation.CreditorAccount.SchemeName"}]}"#);
    assert!(four.is_unsupported() && four.proves_nothing_was_created());
    assert_eq!(
        four.text,
        "U027 UK.OBIE.Unsupported.Scheme:  (Data.Initiation.CreditorAccount.SchemeName)"
    );
    let key = read(r#"{"Errors":[{"ErrorCode":"U006","Path":"x-idempotency-key"}]}"#);
    assert!(!key.proves_nothing_was_created());
    for no_complaint in [
        "",
        "{}",
        r#"{"Errors":[]}"#,
        r#"{"error":"no"}"#,
        "<html>no</html>",
    ] {
        assert_eq!(Complaint::read(no_complaint.as_bytes()), None, "{no_complaint}");
    }
}

#[test]
fn the_register_and_confirmation_of_payee_are_read_strictly() {
    let entry = br#"{"sup":"marlow","name":"Marlow Supplies Ltd","account":"40-12-88/61102938"}"#;
    let payee = payee_answer("marlow", entry).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(payee.account.on_line(), "40-12-88/61102938");
    assert_eq!(
        payee_answer("harrow", entry),
        Err(WireError::Field("sup")),
        "an entry of somebody else"
    );
    let bad = br#"{"sup":"marlow","name":"Marlow Supplies Ltd","account":"40-12-88"}"#;
    assert_eq!(payee_answer("marlow", bad), Err(WireError::Field("account")));
    let bad = br#"{"sup":"marlow","name":"","account":"40-12-88/61102938"}"#;
    assert_eq!(payee_answer("marlow", bad), Err(WireError::Field("name")));
    for word in ["match", "close_match", "no_match", "unavailable"] {
        assert_eq!(
            cop_answer(format!(r#"{{"result":"{word}"}}"#).as_bytes()),
            Ok(word)
        );
    }
    assert_eq!(
        cop_answer(br#"{"result":"perhaps"}"#),
        Err(WireError::Field("result"))
    );
}

#[test]
fn a_name_in_a_path_stays_in_its_segment() {
    assert_eq!(segment("marlow").as_deref(), Some("marlow"));
    assert_eq!(segment("a/b?c#d e").as_deref(), Some("a%2Fb%3Fc%23d%20e"));
    assert_eq!(segment("é").as_deref(), Some("%C3%A9"));
    for bad in ["", ".", ".."] {
        assert_eq!(segment(bad), None, "{bad:?}");
    }
}
