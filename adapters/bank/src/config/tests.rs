//! After: a table whose every wrong field is refused by its name and rule, before anything is sent anywhere.

use super::*;

const GOOD: &str = r#"
    url = "lab"
    token_file = "/run/wilco/bank.token"
    debtor_account = "20-00-00/55779911"
    payees = "lab"
    confirmation_of_payee = "lab"
"#;

fn good() -> BankConfig {
    BankConfig::from_toml(GOOD)
        .unwrap_or_else(|e| panic!("{e}"))
        .point_at_lab("http://127.0.0.1:4010/")
}

#[test]
fn the_lab_stands_for_its_addresses() {
    let config = good();
    assert!(!config.wants_lab());
    let checked = config.checked().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(checked.bank.shown(), "http://127.0.0.1:4010");
    let Payees::Url(payees) = checked.payees else {
        panic!("a URL")
    };
    assert_eq!(payees.shown(), "http://127.0.0.1:4010/lab/payees");
    let cop = checked.cop.map(|c| c.shown());
    assert_eq!(
        cop.as_deref(),
        Some("http://127.0.0.1:4010/lab/confirmation-of-payee")
    );
    assert_eq!(checked.debtor.on_line(), "20-00-00/55779911");
}

/// Each case breaks one field of a good table and must be refused by that field's name.
#[test]
fn each_wrong_field_is_named_with_its_rule() {
    type Break = fn(&mut BankConfig);
    let cases: [(&str, &str, Break); 26] = [
        ("url", "loopback only", |c| c.url = "http://bank.example".into()),
        ("url", "loopback only", |c| {
            c.url = "http://127.0.0.1.bank.example".into()
        }),
        ("url", "without user", |c| {
            c.url = "http://me:secret@127.0.0.1:1/".into()
        }),
        ("url", "without user", |c| {
            c.url = "http://127.0.0.1:1/?x=1".into()
        }),
        ("url", "must be a URL", |c| c.url = "lab".into()),
        ("url", "must be a URL", |c| c.url = "ftp://127.0.0.1/".into()),
        ("version", "3.1", |c| c.version = "4.1".into()),
        ("payment_context", "BillingGoodsAndServicesInArrears", |c| {
            c.version = "4.0".into();
            c.payment_context = Some("BillPayment".into());
        }),
        ("done_at", "in_process", |c| c.done_at = "sent".into()),
        ("scheduled_days", "between 1 and 366", |c| c.scheduled_days = 0),
        ("scheduled_days", "between 1 and 366", |c| c.scheduled_days = 367),
        ("name exactly one", "(0 are given)", |c| c.token_file = None),
        ("name exactly one", "(2 are given)", |c| {
            c.token_env = Some("TOKEN".into())
        }),
        ("token_env", "name of an environment variable", |c| {
            c.token_file = None;
            c.token_env = Some(String::new());
        }),
        ("token_command", "must name a program", |c| {
            c.token_file = None;
            c.token_command = Some(Vec::new());
        }),
        ("debtor_account", "20-00-00/55779911", |c| {
            c.debtor_account = "20-00-00-55779911".into()
        }),
        ("payees", "register's URL", |c| c.payees = String::new()),
        ("payees", "loopback only", |c| {
            c.payees = "http://register.example/".into()
        }),
        ("confirmation_of_payee", "must be a URL", |c| {
            c.confirmation_of_payee = Some("cop".into())
        }),
        ("allow_cop", "no_match", |c| c.allow_cop = vec!["maybe".into()]),
        ("authorise_url", "{consent_id}", |c| {
            c.authorise_url = Some("https://bank.example/sca".into())
        }),
        ("payment_context", "BillPayment", |c| {
            c.payment_context = Some("Fun".into())
        }),
        ("timeout_s", "between 1 and 300", |c| c.timeout_s = 0),
        ("settle_window_s", "between 1 and 86400", |c| {
            c.settle_window_s = 0
        }),
        ("concurrency", "between 1 and 1024", |c| c.concurrency = 0),
        ("client_cert_file", "client_key_file", |c| {
            c.client_cert_file = Some("c.pem".into())
        }),
    ];
    for (field, rule, break_it) in cases {
        let mut config = good();
        break_it(&mut config);
        let said = config.checked().map(|_| ()).expect_err(field).to_string();
        assert!(said.contains(field) && said.contains(rule), "{field}: {said}");
    }
    for zone in ["GMT", "+0000", "+15:00", "+00:60", "*00:00", "+0a:00", ""] {
        let mut config = good();
        config.time_zone = zone.into();
        let said = config.checked().map(|_| ()).expect_err(zone).to_string();
        assert!(
            said.contains("time_zone") && said.contains("Europe/London"),
            "{said}"
        );
    }
}

#[test]
fn a_field_nobody_knows_is_refused() {
    let said = BankConfig::from_toml(&format!("{GOOD}\ntoken = \"s3cret\""))
        .map(|_| ())
        .expect_err("unknown")
        .to_string();
    assert!(said.contains("unknown field `token`"), "{said}");
}

#[cfg(not(feature = "tls"))]
#[test]
fn https_without_its_feature_says_what_to_build() {
    let mut config = good();
    config.url = "https://bank.example".into();
    let said = config.checked().map(|_| ()).expect_err("no tls").to_string();
    assert!(said.contains("feature `tls`"), "{said}");
}

/// The window counts from the end of a call, and the operating system may deliver its bytes for one `timeout_s` more.
#[test]
fn the_settle_window_covers_what_the_system_may_still_deliver() {
    let at = |host: &str, timeout_s: u32, settle_window_s: u32| {
        let mut config = good();
        config.url = format!(
            "{}://{host}",
            if host == "127.0.0.1:1" { "http" } else { "https" }
        );
        (config.timeout_s, config.settle_window_s) = (timeout_s, settle_window_s);
        config.checked()
    };
    for (timeout_s, window_s, resending_ms) in [(20, 60, 20_000), (20, 1, 500), (300, 2, 1_000), (1, 1, 500)]
    {
        let checked = at("127.0.0.1:1", timeout_s, window_s).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(checked.resending(), Duration::from_millis(resending_ms));
        assert!(checked.resending() < Duration::from_secs(u64::from(window_s)));
    }
    if cfg!(feature = "tls") {
        for (timeout_s, window_s) in [(20, 40), (20, 60), (300, 600)] {
            let checked = at("bank.example", timeout_s, window_s).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(checked.resending(), Duration::from_secs(u64::from(timeout_s)));
        }
        for (timeout_s, window_s, least) in [(20, 39, "40"), (300, 60, "600")] {
            let said = at("bank.example", timeout_s, window_s)
                .map(|_| ())
                .expect_err("too short");
            let said = said.to_string();
            assert!(
                said.contains("settle_window_s") && said.contains("timeout_s"),
                "{said}"
            );
            assert!(said.contains(least), "{said}");
        }
    }
}

#[test]
fn each_version_has_its_own_word_for_a_bill() {
    for (version, word) in [
        ("3.1", "BillPayment"),
        ("4.0", "BillingGoodsAndServicesInArrears"),
    ] {
        let mut config = good();
        config.version = version.into();
        let checked = config.checked().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(checked.payment_context, word);
    }
}

#[test]
fn scheduled_payments_are_off_unless_they_are_asked_for() {
    let checked = |c: BankConfig| c.checked().map(|c| c.scheduled).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(checked(good()), None);
    let mut config = good();
    (config.scheduled, config.scheduled_days) = (true, 30);
    assert_eq!(checked(config), Some(30));
}

#[test]
fn paths_count_from_the_data_folder_and_addresses_stay() {
    let text = format!(
        "{}\n[signing]\nkey_file = \"k.pem\"\nkey_id = \"k\"\nissuer = \"i\"",
        GOOD.replace("/run/wilco/", "")
    );
    let config = BankConfig::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let config = config.in_folder(Path::new("/data"));
    assert_eq!(config.token_file.as_deref(), Some(Path::new("/data/bank.token")));
    let signing = config.signing.clone().unwrap_or_else(|| panic!("signing"));
    assert_eq!(signing.key_file, Path::new("/data/k.pem"));
    assert_eq!(signing.trust_anchor, "openbanking.org.uk");
    assert_eq!(config.payees, "lab");
    let mut config = good();
    config.payees = "payees.toml".into();
    assert_eq!(config.in_folder(Path::new("/data")).payees, "/data/payees.toml");
}

/// A key that cannot sign, or words that cannot stand in a claim, are found at the start.
#[test]
fn a_signature_that_could_not_be_made_is_refused_by_its_field() {
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jws/key.pem");
    let signed = |key: &str, id: &str, issuer: &str| {
        let mut config = good();
        config.signing = Some(SigningConfig {
            key_file: key.into(),
            key_id: id.into(),
            issuer: issuer.into(),
            trust_anchor: default_trust_anchor(),
        });
        config.checked().map(|_| ()).map_err(|e| e.to_string())
    };
    let said = |key: &str, id: &str, issuer: &str| signed(key, id, issuer).err().unwrap_or_default();
    assert!(said(key, "", "org").contains("signing.key_id"));
    assert!(said(key, "k", "two words").contains("signing.issuer"));
    assert!(said("/nowhere.pem", "k", "org").contains("signing.key_file"));
    if cfg!(feature = "jws") {
        assert_eq!(signed(key, "k", "org"), Ok(()));
        let no_key = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let said = said(no_key, "k", "org");
        assert!(
            said.contains("signing.key_file") && said.contains("RSA"),
            "{said}"
        );
    } else {
        assert!(said(key, "k", "org").contains("feature `jws`"));
    }
}
