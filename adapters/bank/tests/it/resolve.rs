//! After: a statement that says what the bank froze and the register has, never what the handoff hoped; and jobs that
//! cannot be done, refused by slot and rule with nothing paid.

use serde_json::json;
use wilco_adapter::{Adapter, Job, Ready, ResolveError};
use wilco_core::frozen::Source;
use wilco_core::{Guarantee, Resolved};

use crate::support::{Folder, MARLOW, SLIPPED, Scene, pay, pay_with};

fn value<'a>(resolved: &'a Resolved, slot: &str) -> Option<&'a str> {
    resolved
        .values
        .iter()
        .find(|v| v.slot == slot)
        .map(|v| v.value.as_str())
}

fn extra<'a>(resolved: &'a Resolved, slot: &str) -> Option<&'a str> {
    resolved
        .extra
        .iter()
        .find(|(k, _)| k == slot)
        .map(|(_, v)| v.as_str())
}

async fn refused(scene: &Scene, job: &Job) -> (&'static str, String) {
    match scene.resolve(job).await {
        Err(ResolveError::Refused { why, text }) => (why, text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_execution_slot_is_stated_with_where_it_came_from() {
    let scene = Scene::new().await;
    let job = pay();
    let resolved = scene.resolve(&job).await.unwrap_or_else(|e| panic!("{e}"));
    let stated: Vec<(&str, &str)> = resolved
        .values
        .iter()
        .map(|v| (v.slot.as_str(), v.value.as_str()))
        .collect();
    let want = [
        ("sup", "marlow"),
        ("amt", "5400.00"),
        ("cur", "GBP"),
        ("kind", "GROSS"),
        ("acct", MARLOW),
        ("paid", "20261002"),
        ("ref", "MD-2026-057"),
        ("apref", "FD-0929"),
    ];
    assert_eq!(stated, want);
    for value in &resolved.values {
        let ours = ["sup", "kind", "apref"].contains(&value.slot.as_str());
        let source = if ours { Source::Handoff } else { Source::Resolved };
        assert_eq!(value.source, source, "{}", value.slot);
        assert!(ours || value.evidence.contains("consent"), "{}", value.evidence);
    }
    assert_eq!(extra(&resolved, "x_dbtr"), Some("20-00-00/55779911"));
    assert_eq!(extra(&resolved, "x_cop"), Some("match"));
    assert!(resolved.placed.is_some() && resolved.cut_off.is_some());
    assert_eq!(resolved.authorise_at, None, "the lab authorises at once");
    assert_eq!(
        (resolved.request.method.as_str(), resolved.request.path.as_str()),
        ("POST", "/open-banking/v3.1/pisp/domestic-payments")
    );
    assert!(resolved.request.body.contains(&job.act_id.to_string()));
    assert!(scene.payments().await.is_empty(), "nothing has moved");
}

#[tokio::test]
async fn the_registers_account_is_stated_whatever_the_handoff_says() {
    let scene = Scene::new().await;
    for job in [pay_with("acct", SLIPPED), pay_with("acct", "")] {
        let resolved = scene.resolve(&job).await.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(value(&resolved, "acct"), Some(MARLOW));
    }
    let body = json!({ "name": "Dalton Freight Ltd", "account": SLIPPED });
    scene.put("/lab/payees/marlow", body).await;
    let resolved = scene.resolve(&pay()).await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        value(&resolved, "acct"),
        Some(SLIPPED),
        "the register as it is now"
    );
}

#[tokio::test]
async fn what_the_bank_froze_is_stated_even_if_it_is_not_what_was_asked() {
    let scene = Scene::new().await;
    scene
        .fault("domestic-payment-consents", "wrong-account", 1, 0.0)
        .await;
    let resolved = scene.resolve(&pay()).await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(value(&resolved, "acct"), Some(SLIPPED));
    assert_eq!(
        extra(&resolved, "x_cop"),
        None,
        "the register's account was confirmed, not this one"
    );
    assert!(
        resolved.request.body.contains("40128861102983"),
        "the order would be what is stated"
    );

    scene
        .fault("domestic-payment-consents", "wrong-amount", 1, 0.0)
        .await;
    let resolved = scene.resolve(&pay()).await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(value(&resolved, "amt"), Some("5100.00"));
    assert_eq!(extra(&resolved, "x_cop"), Some("match"));
}

#[tokio::test]
async fn a_job_the_bank_cannot_do_is_refused_by_slot() {
    let scene = Scene::new().await;
    let cases = [
        (
            pay_with("paid", "20261003"),
            "SCOPE",
            ["slot paid", "20261003", "20261002", "scheduled payments"],
        ),
        (
            pay_with("sup", "nobody"),
            "NOCTX",
            ["slot sup", "nobody", "payee register", ""],
        ),
        (
            pay_with("sup", "../book"),
            "NOCTX",
            ["slot sup", "payee register", "", ""],
        ),
        (pay_with("sup", ""), "NOCTX", ["slot sup", "missing", "", ""]),
        (pay_with("amt", ""), "NOCTX", ["slot amt", "missing", "", ""]),
        (pay_with("cur", ""), "NOCTX", ["slot cur", "missing", "", ""]),
        (pay_with("ref", ""), "NOCTX", ["slot ref", "missing", "", ""]),
        (pay_with("kind", ""), "NOCTX", ["slot kind", "missing", "", ""]),
        (pay_with("apref", ""), "NOCTX", ["slot apref", "missing", "", ""]),
        (
            pay_with("amt", "0.00"),
            "SCOPE",
            ["slot amt", "above zero", "", ""],
        ),
        (
            pay_with("amt", "12345678901234.00"),
            "SCOPE",
            ["slot amt", "13 digits", "", ""],
        ),
        (pay_with("cur", "pounds"), "SCOPE", ["slot cur", "pounds", "", ""]),
        (
            pay_with("cur", "EUR"),
            "NOCAP",
            ["refuses the consent", "UK.OBIE.Unsupported.Currency", "", ""],
        ),
        (
            pay_with("ref", &"R".repeat(36)),
            "SCOPE",
            ["slot ref", "36", "35", ""],
        ),
    ];
    for (job, why, needles) in cases {
        let (said, text) = refused(&scene, &job).await;
        assert_eq!(said, why, "{text}");
        assert!(needles.iter().all(|n| text.contains(n)), "{text}");
        assert!(
            text.chars().count() <= 300 && !text.contains('\n'),
            "it is a tail: {text}"
        );
    }
    let mut job = pay();
    job.exec.push("addr".to_owned());
    let (why, text) = refused(&scene, &job).await;
    assert_eq!(why, "NOCTX");
    assert!(text.contains("slot addr"), "{text}");
    for (ask, profile, needle) in [
        ("UNDO", "pay", "no way back"),
        ("CHGBANK", "pay", "vendor records"),
        ("CHGBANK", "vendor", "vendor records"),
        ("SEND", "mail", "ask=PAY"),
    ] {
        let mut job = pay();
        (job.ask, job.profile) = (ask.to_owned(), profile.to_owned());
        let (why, text) = refused(&scene, &job).await;
        assert_eq!(why, "NOCAP");
        assert!(
            text.starts_with(&format!("ask={ask} is not a bank's job")),
            "{text}"
        );
        assert!(text.contains(needle), "{text}");
    }
    assert!(scene.payments().await.is_empty());
}

#[tokio::test]
async fn a_missing_payment_date_is_the_banks_today() {
    let scene = Scene::new().await;
    let resolved = scene
        .resolve(&pay_with("paid", ""))
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(value(&resolved, "paid"), Some("20261002"));
}

#[tokio::test]
async fn a_reference_of_exactly_thirty_five_characters_is_paid_with() {
    let scene = Scene::new().await;
    let reference = "R".repeat(35);
    let resolved = scene
        .resolve(&pay_with("ref", &reference))
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(value(&resolved, "ref"), Some(reference.as_str()));
}

#[tokio::test]
async fn a_bank_that_is_down_or_unsure_is_a_passing_trouble() {
    let scene = Scene::new().await;
    for fault in ["drop-before", "drop-after-accept", "5xx-after-accept"] {
        let job = pay();
        scene.fault("domestic-payment-consents", fault, 1, 0.0).await;
        let said = scene.resolve(&job).await;
        assert!(matches!(said, Err(ResolveError::Passing(_))), "{fault}: {said:?}");
        // The same attempt again finds its own consent and makes no second one.
        let one = scene
            .resolve(&job)
            .await
            .unwrap_or_else(|e| panic!("{fault}: {e}"));
        let two = scene
            .resolve(&job)
            .await
            .unwrap_or_else(|e| panic!("{fault}: {e}"));
        assert_eq!(one.placed, two.placed, "{fault}");
        assert_eq!(one.request, two.request, "{fault}");
        let next = Job { attempt: 2, ..job };
        let three = scene
            .resolve(&next)
            .await
            .unwrap_or_else(|e| panic!("{fault}: {e}"));
        assert_ne!(
            one.placed, three.placed,
            "{fault}: another attempt has a consent of its own"
        );
    }
    scene.fault("domestic-payment-consents", "refuse", 1, 0.0).await;
    let (why, text) = refused(&scene, &pay()).await;
    assert_eq!(why, "SCOPE");
    assert!(text.contains("UK.OBIE.Rules.FailsControlParameters"), "{text}");
    assert!(scene.payments().await.is_empty());
}

#[tokio::test]
async fn a_token_the_bank_does_not_take_is_a_passing_trouble_and_bad_health() {
    let scene = Scene::with(|_| {}, |_| {}).await;
    assert_eq!(scene.bank.health().await, Ok(()));
    std::fs::write(scene.folder().join("token"), "old-token").unwrap_or_else(|e| panic!("{e}"));
    let said = scene.resolve(&pay()).await;
    assert!(
        matches!(&said, Err(ResolveError::Passing(text)) if text.contains("401")),
        "{said:?}"
    );
    assert!(
        scene
            .bank
            .health()
            .await
            .is_err_and(|text| text.contains("token") && !text.contains("old-token"))
    );
}

#[tokio::test]
async fn the_token_comes_from_where_the_table_says() {
    let scene = Scene::with(|lab| lab.token = "adapter-bank".into(), |_| {}).await;
    let mut config = scene.config.clone();
    config.token_file = None;
    config.token_command = Some(vec!["printf".into(), "adapter-%s\\n".into(), "bank".into()]);
    let by_command = crate::support::adapter(&config, &scene.clock);
    assert_eq!(by_command.health().await, Ok(()));
    config.token_command = Some(vec!["false".into()]);
    let said = crate::support::adapter(&config, &scene.clock).health().await;
    assert!(said.is_err_and(|text| text.contains("token_command")));
    // Cargo sets this one for every test it runs.
    config.token_command = None;
    config.token_env = Some("CARGO_PKG_NAME".into());
    assert_eq!(
        crate::support::adapter(&config, &scene.clock).health().await,
        Ok(())
    );
    config.token_env = Some("WILCO_TEST_NO_SUCH_VARIABLE".into());
    let said = crate::support::adapter(&config, &scene.clock).health().await;
    assert!(said.is_err_and(|text| text.contains("WILCO_TEST_NO_SUCH_VARIABLE")));
}

#[tokio::test]
async fn a_payee_whose_name_does_not_hold_the_account_is_refused_unless_allowed() {
    let scene = Scene::new().await;
    // The register was poisoned: Marlow's name, somebody else's account.
    let body = json!({ "name": "Marlow Supplies Ltd", "account": SLIPPED });
    scene.put("/lab/payees/marlow", body).await;
    let (why, text) = refused(&scene, &pay()).await;
    assert_eq!(why, "PERM");
    assert!(text.contains("no_match") && text.contains(SLIPPED), "{text}");

    let mut config = scene.config.clone();
    config.allow_cop = vec!["no_match".into()];
    let allowing = crate::support::adapter(&config, &scene.clock);
    let resolved = allowing.resolve(&pay()).await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        extra(&resolved, "x_cop"),
        Some("no_match"),
        "let through, and stated"
    );

    config.allow_cop = Vec::new();
    config.confirmation_of_payee = Some(format!("{}/lab/nowhere", scene.lab.url()));
    let nobody_there = crate::support::adapter(&config, &scene.clock);
    let said = nobody_there.resolve(&pay()).await;
    assert!(
        matches!(&said, Err(ResolveError::Refused { why: "NOCTX", text }) if text.contains("unavailable")),
        "{said:?}"
    );
}

#[tokio::test]
async fn the_register_may_be_a_file() {
    let folder = Folder::new();
    let path = folder.0.join("payees.toml");
    let write = |text: &str| std::fs::write(&path, text).unwrap_or_else(|e| panic!("{e}"));
    write("[payees.marlow]\nname = \"Marlow Supplies Ltd\"\naccount = \"40-12-88/61102938\"\n");
    let scene = Scene::with(|_| {}, |bank| bank.payees = path.display().to_string()).await;
    let resolved = scene.resolve(&pay()).await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(value(&resolved, "acct"), Some(MARLOW));
    assert_eq!(refused(&scene, &pay_with("sup", "harrow")).await.0, "NOCTX");
    // What is on file when a statement is made is what it says.
    write("[payees.marlow]\nname = \"Dalton Freight Ltd\"\naccount = \"40128861102983\"\n");
    let resolved = scene.resolve(&pay()).await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(value(&resolved, "acct"), Some(SLIPPED));
    for broken in [
        "[payees.marlow]\nname = \"M\"\naccount = \"4012\"\n",
        "payees = 1",
        "[payees.marlow]\nnam = \"M\"",
    ] {
        write(broken);
        let said = scene.resolve(&pay()).await;
        assert!(matches!(said, Err(ResolveError::Passing(_))), "{said:?}");
    }
}

#[tokio::test]
async fn a_consent_that_waits_for_a_person_says_where_and_then_whether() {
    let scene = Scene::with(|lab| lab.manual = true, |_| {}).await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    let consent = frozen.placed.clone().unwrap_or_default();
    let link = format!("{}/lab/consents/{consent}/authorise", scene.lab.url());
    assert_eq!(frozen.authorise_at.as_deref(), Some(link.as_str()));
    let ready = scene.bank.ready(job.act_id, &frozen).await;
    let text = format!("the account holder must authorise consent {consent}");
    assert_eq!(
        ready,
        Ready::Awaiting {
            link: Some(link),
            text
        }
    );
    scene
        .post(&format!("/lab/consents/{consent}/authorise"), json!({}))
        .await;
    assert_eq!(scene.bank.ready(job.act_id, &frozen).await, Ready::Yes);

    let other = pay();
    let frozen = scene.prepare(&other).await;
    let consent = frozen.placed.clone().unwrap_or_default();
    scene
        .post(&format!("/lab/consents/{consent}/reject"), json!({}))
        .await;
    let ready = scene.bank.ready(other.act_id, &frozen).await;
    assert!(
        matches!(&ready, Ready::Refused { text } if text.contains(&consent)),
        "{ready:?}"
    );
}

#[tokio::test]
async fn a_used_or_unseen_consent_is_never_called_ready_or_refused() {
    let scene = Scene::new().await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    scene
        .fault("domestic-payment-consents", "not-found-then-found", 1, 0.0)
        .await;
    let ready = scene.bank.ready(job.act_id, &frozen).await;
    assert!(matches!(ready, Ready::Unknown(_)), "{ready:?}");
    assert_eq!(scene.bank.ready(job.act_id, &frozen).await, Ready::Yes);
    scene.execute(&job, &frozen).await;
    let ready = scene.bank.ready(job.act_id, &frozen).await;
    assert!(
        matches!(&ready, Ready::Unknown(text) if text.contains("Consumed")),
        "{ready:?}"
    );
}

#[tokio::test]
async fn it_describes_what_it_promises() {
    let scene = Scene::with(|_| {}, |bank| bank.settle_window_s = 90).await;
    let description = scene.bank.describe();
    assert_eq!(description.name, "bank");
    let [served] = description.serves.as_slice() else {
        panic!("one ask: {:?}", description.serves)
    };
    assert_eq!((served.profile.as_str(), served.ask.as_str()), ("pay", "PAY"));
    assert_eq!(served.carried, ["sup", "kind", "apref"]);
    assert_eq!(served.contract.guarantee(), Guarantee::Replayable);
    assert!(served.contract.absence_can_be_proved());
    assert_eq!(served.contract.settle_window_s, 90);
}
