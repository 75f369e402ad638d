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
    consent_answer(CONSENT_ANSWER.as_bytes()).unwrap_or_else(|e| panic!("{e}"))
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
    let request = consent_request(&Order {
        act_id: act(),
        amount: "5400.00",
        currency: "GBP",
        debtor: &account("20-00-00/55779911"),
        payee: &Payee {
            name: "Marlow Supplies Ltd".to_owned(),
            account: account("40-12-88/61102938"),
        },
        reference: "MD-2026-057",
        payment_context: "BillPayment",
    });
    assert_eq!(json(&request), json(CONSENT_REQUEST));
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
    let payment = payment_answer(PAYMENT_ANSWER.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
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
        let said = consent_answer(&with(CONSENT_ANSWER, pointer, Value::Null));
        assert_eq!(said, Err(WireError::Field(field)));
    }
    for (pointer, field) in [
        ("/Data/DomesticPaymentId", "Data.DomesticPaymentId"),
        ("/Data/ConsentId", "Data.ConsentId"),
        ("/Data/Status", "Data.Status"),
        ("/Data/CreationDateTime", "Data.CreationDateTime"),
        ("/Data/Initiation", "Data.Initiation"),
    ] {
        let said = payment_answer(&with(PAYMENT_ANSWER, pointer, Value::Null));
        assert_eq!(said, Err(WireError::Field(field)));
    }
    for bad in ["yesterday", "2026-10-02", "2026-13-02T09:15:04Z", ""] {
        let bytes = with(CONSENT_ANSWER, "/Data/CutOffDateTime", bad.into());
        assert_eq!(
            consent_answer(&bytes),
            Err(WireError::Field("Data.CutOffDateTime")),
            "{bad}"
        );
    }
    for bad in ["", "a b", "..", "a\nb"] {
        let bytes = with(PAYMENT_ANSWER, "/Data/DomesticPaymentId", bad.into());
        assert!(payment_answer(&bytes).is_err(), "{bad:?}");
    }
    assert!(matches!(payment_answer(b"<html>"), Err(WireError::NotJson(_))));
    assert!(matches!(
        consent_answer(&[0xff, 0x00]),
        Err(WireError::NotJson(_))
    ));
}

#[test]
fn a_value_no_line_can_hold_is_left_out_and_not_filled_in() {
    let shown = |pointer: &str, value: Value| {
        let bytes = with(PAYMENT_ANSWER, &format!("/Data/Initiation{pointer}"), value);
        payment_answer(&bytes)
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
fn only_listed_status_words_mean_something() {
    for (word, standing) in [
        ("AcceptedSettlementInProcess", Standing::Executed),
        ("AcceptedSettlementCompleted", Standing::Executed),
        ("AcceptedWithoutPosting", Standing::Executed),
        ("AcceptedCreditSettlementCompleted", Standing::Executed),
        ("Pending", Standing::Accepted),
        ("Rejected", Standing::Rejected),
        ("rejected", Standing::Unlisted),
        ("ACSC", Standing::Unlisted),
        ("RJCT", Standing::Unlisted),
        ("Accepted", Standing::Unlisted),
        ("", Standing::Unlisted),
    ] {
        assert_eq!(payment_standing(word), standing, "{word}");
    }
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
        ("UK.OBIE.Resource.NotFound", false),
        ("UK.OBIE.Rules.DuplicateReference", false),
        ("UK.OBIE.UnexpectedError", false),
        ("BANK.Own.Code", false),
    ] {
        let body = format!(r#"{{"Code":"400","Errors":[{{"ErrorCode":"{code}"}}]}}"#);
        assert_eq!(read(&body).proves_nothing_was_created(), proves, "{code}");
    }
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
