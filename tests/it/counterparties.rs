//! The counterparties beside the bank, each with its own record as the judge; and what the daemon does while one of them is down,
//! of another mind later.

use serde_json::Value;
use wilco_api::v1::{Act, State};
use wilco_tests::lines::slot;
use wilco_tests::{Caller, Daemon, Setup, WIRES, Wire, until};

use crate::support::{act, committed_act, ok, prepared_act, refused, thread_passes};

/// A daemon with every counterparty of the lab.
fn everybody() -> Setup {
    let target = "adapters.deploy.targets.api-prod";
    Setup::quick()
        .set("agents", "[\"payer\", \"operator\", \"mailer\"]")
        .set("adapters.mail.transport", "\"lab\"")
        .set("adapters.records.path", "\"lab\"")
        .set(&format!("{target}.kind"), "\"folder\"")
        .set(&format!("{target}.service"), "\"api\"")
        .set(&format!("{target}.env"), "\"PROD\"")
        .set(&format!("{target}.folder"), "\"lab\"")
        .set(&format!("{target}.artefacts"), "\"lab\"")
}

/// States and confirms a handoff, and is told that it was done as stated.
async fn done(caller: &Caller, ho: &str, an_id: &str) -> (String, Act) {
    let prepared = ok(caller.prepare(ho).await);
    assert_eq!(prepared.problems, [], "{}", prepared.statement);
    let checked = rw1::check_rb(
        &rw1::Profiles::builtin(),
        None,
        ho,
        &prepared.statement,
        rw1::RbCheck::default(),
    );
    assert_eq!(checked.problems, [], "{}", prepared.statement);
    let rb = &prepared.statement;
    let said = |key| slot(rb, key);
    let mut request = wilco_tests::caller::yes(&prepared, an_id);
    request.confirmation = format!(
        "RW1 AN {an_id} re={} from={} to={} item={} val=Y p={}",
        id(rb),
        said("to"),
        said("from"),
        said("item"),
        said("p")
    );
    let committed = ok(caller.commit(request).await);
    let act = committed_act(&committed);
    assert_eq!(
        (act.state(), act.verdict.as_str()),
        (State::Done, "match"),
        "{committed:#?}"
    );
    (committed.reply, act)
}

fn id(line: &str) -> &str {
    line.split(' ').nth(2).unwrap_or_default()
}

fn account(vendors: &Value, sup: &str) -> String {
    let all = vendors["vendors"].as_array().cloned().unwrap_or_default();
    let row = all.iter().find(|v| v["sup"] == sup).cloned();
    row.map(|v| v["acct"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

/// How often the account of a supplier was changed, as the table's own triggers noted it.
fn changes(vendors: &Value, sup: &str) -> usize {
    let history = vendors["history"].as_array().cloned().unwrap_or_default();
    let theirs = history.iter().filter(|h| h["sup"] == sup && !h["old"].is_null());
    theirs.count()
}

/// A supplier's account is changed once, and changed back by an act of its own.
#[tokio::test]
async fn bank_details_are_changed_and_changed_back() {
    let daemon = Daemon::start_with(everybody()).await;
    for (round, wire) in WIRES.into_iter().enumerate() {
        let scheduler = daemon.caller("scheduler", wire);
        let n = 10 * (round + 1);
        let before = account(&daemon.bank().get("/lab/vendors").await, "marlow");
        let ho = format!(
            "RW1 HO scheduler-{n} from=scheduler to=payer item=sup:marlow ask=CHGBANK p=pay rb=exec sup=marlow \
             acct=40-12-88/61102999 apref=FD-0929"
        );
        let (dn, changed) = done(&scheduler, &ho, &format!("scheduler-{}", n + 1)).await;
        assert_eq!(
            (slot(&dn, "acct"), slot(&dn, "prev")),
            ("40-12-88/61102999", before.as_str())
        );
        let vendors = daemon.bank().get("/lab/vendors").await;
        assert_eq!(account(&vendors, "marlow"), "40-12-88/61102999");
        assert_eq!(changes(&vendors, "marlow"), 2 * round + 1);
        assert_eq!(
            (changed.adapter.as_str(), changed.guarantee.as_str()),
            ("records", "replayable")
        );

        let undo = format!(
            "RW1 HO scheduler-{} from=scheduler to=payer item=sup:marlow ask=UNDO p=pay rb=exec ctx={} apref=FD-0930",
            n + 2,
            id(&dn)
        );
        let (undone, _) = done(&scheduler, &undo, &format!("scheduler-{}", n + 3)).await;
        assert_eq!(
            (slot(&undone, "acct"), slot(&undone, "prev")),
            (before.as_str(), "40-12-88/61102999")
        );
        let vendors = daemon.bank().get("/lab/vendors").await;
        assert_eq!(account(&vendors, "marlow"), before);
        assert_eq!(changes(&vendors, "marlow"), 2 * round + 2);
    }
    thread_passes(&daemon.scheduler(), "scheduler").await;
}

/// A release goes live, and comes back by an act of its own; what is live is what the link says.
#[tokio::test]
async fn a_release_goes_live_and_comes_back() {
    let daemon = Daemon::start_with(everybody()).await;
    let release = daemon.caller("release", Wire::Grpc);
    let live = async || {
        let releases = daemon.bank().get("/lab/releases").await;
        let runs = releases["targets"][0]["runs"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        runs.trim_start_matches("releases/").to_owned()
    };
    assert_eq!(live().await, "v2.4.0");
    let ho = "RW1 HO release-1 from=release to=operator item=svc:api ask=DEPLOY p=deploy rb=exec env=PROD ver=v2.4.1 apref=CAB-0931";
    let (dn, _) = done(&release, ho, "release-2").await;
    assert_eq!((slot(&dn, "ver"), slot(&dn, "prev")), ("v2.4.1", "v2.4.0"));
    assert!(live().await.starts_with("v2.4.1"));

    let undo = format!(
        "RW1 HO release-3 from=release to=operator item=svc:api ask=UNDO p=deploy rb=exec ctx={} apref=CAB-0932",
        id(&dn)
    );
    let (undone, _) = done(&release, &undo, "release-4").await;
    assert_eq!(
        (slot(&undone, "ver"), slot(&undone, "prev")),
        ("v2.4.0", "v2.4.1")
    );
    assert!(live().await.starts_with("v2.4.0"));
    thread_passes(&release, "release").await;
}

/// A mail goes out once, with the text that was stated; nothing takes it back.
#[tokio::test]
async fn a_mail_goes_out_once_and_is_not_called_back() {
    let daemon = Daemon::start_with(everybody()).await;
    let scheduler = daemon.scheduler();
    let ho = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7731 ask=SEND p=pay rb=exec sup=marlow \
              addr=ar@marlow.example amt=5400.00 cur=GBP paid=20261002 ref=MD-2026-057";
    let prepared = ok(scheduler.prepare(ho).await);
    let digest = slot(&prepared.statement, "x_body").to_owned();
    assert!(digest.starts_with("sha256:"), "{}", prepared.statement);
    assert_eq!(
        daemon.bank().get("/lab/mail").await["mails"],
        serde_json::json!([]),
        "nothing has left"
    );
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    assert_eq!(committed_act(&committed).state(), State::Done, "{committed:#?}");
    let mails = daemon.bank().get("/lab/mail").await["mails"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert_eq!(mails.len(), 1, "{mails:#?}");
    let sha256 = mails[0]["sha256"].as_str().unwrap_or_default();
    assert_eq!(
        digest,
        format!("sha256:{sha256}"),
        "the very bytes that were stated"
    );

    let undo = format!(
        "RW1 HO scheduler-3 from=scheduler to=payer item=inv:7731 ask=UNDO p=pay rb=exec ctx={} apref=FD-0930",
        id(&committed.reply)
    );
    let refused = ok(scheduler.prepare(&undo).await);
    assert_eq!(slot(&refused.reply, "why"), "NOCAP", "{}", refused.reply);
    assert!(
        refused.reply.contains("a correction is an act of its own"),
        "{}",
        refused.reply
    );
}

/// What the mail server took on without saying so is in doubt, for a person: nobody sends it again.
#[tokio::test]
async fn a_mail_whose_answer_was_lost_is_in_doubt_and_never_sent_again() {
    let daemon = Daemon::start_with(everybody()).await;
    let scheduler = daemon.scheduler();
    let knob = serde_json::json!({ "counterparty": "mail", "fault": "drop-after-accept", "times": 1 });
    daemon.bank().post("/lab/faults", &knob).await;
    let ho = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7731 ask=SEND p=pay rb=exec sup=marlow \
              addr=ar@marlow.example amt=5400.00 cur=GBP paid=20261002 ref=MD-2026-057";
    let prepared = ok(scheduler.prepare(ho).await);
    let mut confirm = wilco_tests::caller::yes(&prepared, "scheduler-2");
    confirm.wait_s = 1;
    ok(scheduler.commit(confirm).await);
    let act_id = prepared_act(&prepared).act_id;
    let doubted = scheduler.until_state(&act_id, &[State::InDoubt]).await;
    assert_eq!(doubted.guarantee, "blind");
    // Rounds of recovery go by.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let mails = daemon.bank().get("/lab/mail").await["mails"]
        .as_array()
        .map_or(0, Vec::len);
    assert_eq!(mails, 1);
    assert_eq!(act(ok(scheduler.act(&act_id).await).act).state(), State::InDoubt);
}

/// One counterparty is not there at the start: the daemon starts, says so, serves the others, and finds it when it comes.
#[tokio::test]
async fn a_counterparty_that_is_down_stops_only_its_own_acts() {
    let setup = everybody()
        .set("adapters.records.path", "\"elsewhere.sqlite\"")
        .set("recovery.health_interval_ms", "200");
    let daemon = Daemon::start_with(setup).await;
    let scheduler = daemon.scheduler();
    let up = async |name: &str| {
        let figures = daemon.stranger(Wire::Json).read("/metrics").await.text;
        let line = format!("wilco_adapter_up{{adapter=\"{name}\"}} ");
        figures
            .lines()
            .find_map(|l| l.strip_prefix(&line).map(|n| n == "1"))
    };
    until("the vendor table is found to be down", async || {
        (up("records").await == Some(false)).then_some(())
    })
    .await;
    assert_eq!(up("bank").await, Some(true));
    assert_eq!(daemon.stranger(Wire::Json).read("/readyz").await.status, 200);
    let ho = "RW1 HO scheduler-1 from=scheduler to=payer item=sup:marlow ask=CHGBANK p=pay rb=exec sup=marlow \
              acct=40-12-88/61102999 apref=FD-0929";
    let down = refused(scheduler.prepare(ho).await, "ADAPTER_DOWN");
    assert!(
        down.retry_after_s.is_some() && down.text.contains("records"),
        "{down:#?}"
    );
    let mail = "RW1 HO scheduler-2 from=scheduler to=payer item=inv:7731 ask=SEND p=pay rb=exec sup=marlow \
                addr=ar@marlow.example amt=5400.00 cur=GBP paid=20261002 ref=MD-2026-057";
    done(&scheduler, mail, "scheduler-3").await;

    // It comes, and is found by itself.
    let mut theirs = Daemon::start_with(everybody()).await;
    theirs.stop().await;
    let vendors = theirs.data().join("lab/vendors.sqlite");
    std::fs::copy(vendors, daemon.data().join("elsewhere.sqlite")).expect("copied");
    until("the vendor table is found again", async || {
        (up("records").await == Some(true)).then_some(())
    })
    .await;
    let prepared = ok(scheduler.prepare(ho).await);
    assert_eq!(slot(&prepared.statement, "prev"), "40-12-88/61102938");
}

/// A payment is reported at settlement in process; the bank sends it back later: the act is marked, people are called, the
/// line stands.
#[tokio::test]
async fn a_payment_that_the_bank_rejects_later_calls_people() {
    let daemon = Daemon::start_with(everybody()).await;
    let scheduler = daemon.scheduler();
    daemon
        .bank()
        .fault("domestic-payments", "reject-later", 1, 1.0)
        .await;
    let payment = wilco_tests::Payment::seed();
    let prepared = ok(scheduler.prepare(&payment.ho()).await);
    let committed = ok(scheduler.confirm(&prepared, "scheduler-2").await);
    let paid = committed_act(&committed);
    assert_eq!(
        (paid.state(), paid.verdict.as_str()),
        (State::Done, "match"),
        "{committed:#?}"
    );
    let marked = until("the rejection is seen", async || {
        let now = act(ok(scheduler.act(&paid.act_id).await).act);
        (now.verdict == "contradicted").then_some(now)
    })
    .await;
    assert_eq!(marked.state(), State::Done);
    assert_eq!(marked.close, committed.reply);
    assert!(
        marked
            .notes
            .iter()
            .any(|n| n.contains("later evidence contradicts")),
        "{:#?}",
        marked.notes
    );
    assert!(daemon.log().contains("a person must look"));
    thread_passes(&scheduler, "scheduler").await;
}

/// Everybody with a key sees what each counterparty promises; an operator tries one, and nothing moves.
#[tokio::test]
async fn adapters_are_seen_and_tried() {
    let daemon = Daemon::start_with(everybody()).await;
    let seen = daemon
        .scheduler()
        .over(Wire::Json)
        .read("/v1/adapters")
        .await
        .json();
    let names: Vec<&str> = seen["adapters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|a| a["name"].as_str())
        .collect();
    assert_eq!(names, ["bank", "mail", "records", "deploy"]);
    for adapter in seen["adapters"].as_array().into_iter().flatten() {
        assert_eq!(adapter["up"], true, "{adapter:#}");
        for service in adapter["serves"].as_array().into_iter().flatten() {
            for field in [
                "guarantee",
                "identity",
                "lookup",
                "point_of_no_return",
                "not_found_means",
            ] {
                assert!(
                    service[field].as_str().is_some_and(|s| !s.is_empty()),
                    "{field}: {service:#}"
                );
            }
        }
    }
    let sample = r#"{"ho":"RW1 HO scheduler-1 from=scheduler to=payer item=sup:marlow ask=CHGBANK p=pay rb=exec sup=marlow acct=40-12-88/61102999 apref=FD-0929"}"#;
    let duty = daemon.caller("duty", Wire::Json);
    let checked = duty.raw("/v1/adapters/records/check", sample).await.json();
    assert_eq!(checked["sound"], true, "{checked:#}");
    let scheduler = daemon.scheduler().over(Wire::Json);
    let no = scheduler
        .raw("/v1/adapters/records/check", sample)
        .await
        .refused();
    assert_eq!(no.reason, "NOT_YOURS");
    let vendors = daemon.bank().get("/lab/vendors").await;
    assert_eq!(changes(&vendors, "marlow"), 0);
    assert_eq!(
        ok(daemon.caller("duty", Wire::Grpc).acts(&[]).await).acts.len(),
        0
    );
}
