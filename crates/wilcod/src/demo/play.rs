//! The four plays.
//!
//! Every line is printed as it travels. The sender's checks are the public ones (`rw1::check_ho`, `check_rb`,
//! `check_dn`); what the daemon says of its own lines is not taken for them.

use std::time::{Duration, Instant};

use rw1::{Draft, Kind, Problem, Profiles, RbCheck, Record};
use serde_json::json;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Request, Status};
use tonic_types::StatusExt;
use wilco_api::v1;

use super::house::House;
use super::{DemoError, bank, say};

/// Which play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Play {
    /// All goes well.
    Payment,
    /// The bank states another account.
    Fault,
    /// The sender thinks again.
    Cancel,
    /// The daemon is killed at the worst moment.
    Crash,
}

/// Seconds the bank's answer is held back in the crash play: the daemon dies in between.
const SLOW_S: u32 = 5;
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

const FROM: &str = "scheduler";
const TO: &str = "payer";
const ITEM: &str = "inv:MD-2026-057";

/// Plays it to its end.
///
/// # Errors
/// [`DemoError`]: it ended otherwise than it should.
pub async fn play(play: Play, house: &mut House) -> Result<(), DemoError> {
    let mut scene = Scene::open(house).await?;
    match play {
        Play::Payment => scene.payment().await,
        Play::Fault => scene.fault().await,
        Play::Cancel => scene.cancel().await,
        Play::Crash => scene.crash().await,
    }
}

struct Scene<'h> {
    house: &'h mut House,
    profiles: Profiles,
    record: Record,
    ho: String,
}

/// A statement the sender may confirm.
struct Stated {
    rb: String,
    commit: v1::CommitRequest,
}

impl<'h> Scene<'h> {
    async fn open(house: &'h mut House) -> Result<Scene<'h>, DemoError> {
        say(&format!(
            "The practice bank answers at {}, the daemon at {}.",
            house.lab_url, house.url
        ));
        if !bank::book(&house.lab_url).await?.is_empty() {
            return Err(DemoError::Other(
                "the bank's book was not empty at the start".to_owned(),
            ));
        }
        let record = json!({
            "to": TO, "item": ITEM, "ask": "PAY", "sup": "marlow", "amt": "5400.00", "cur": "GBP", "kind": "GROSS",
            "acct": "40-12-88/61102938", "paid": house.today, "ref": "MD-2026-057", "apref": "FD-0929",
        });
        let record = record.as_object().cloned().unwrap_or_default();
        let profiles = Profiles::builtin();
        let mut draft = Draft::new(Kind::Ho, format!("{FROM}-1"), FROM, TO).item(ITEM);
        draft = draft.slot("p", "pay").slot("rb", "exec");
        for (key, value) in record
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "to" | "item"))
        {
            draft = draft.slot(key, value.as_str().unwrap_or_default());
        }
        let ho = rw1::encode(&profiles, None, &draft).map_err(|problems| wrong("the handoff", &problems))?;
        Ok(Scene {
            house,
            profiles,
            record,
            ho,
        })
    }

    async fn payment(&mut self) -> Result<(), DemoError> {
        let prepared = self.prepare().await?;
        let stated = self.check_statement(&prepared)?;
        line(
            "the scheduler confirms: yes to exactly this statement, by its digest",
            &stated.commit.confirmation,
        );
        let reply = self.commit(&stated).await.map_err(|e| refused("commit", &e))?;
        self.check_report(&stated, &reply)?;
        self.roger(&reply.reply, 1).await
    }

    async fn fault(&mut self) -> Result<(), DemoError> {
        bank::arm(
            &self.house.lab_url,
            "domestic-payment-consents",
            "wrong-account",
            0,
        )
        .await?;
        say(
            "\nA fault is armed: the bank will write another account into its consent than the one it is asked for.",
        );
        let prepared = self.prepare().await?;
        let checked = self.check_rb(&prepared.reply);
        if checked.is_empty() {
            return Err(DemoError::Other(
                "a statement with another account passed the sender's check".to_owned(),
            ));
        }
        let state = prepared.act.as_ref().map(v1::Act::state);
        if state != Some(v1::State::Held) {
            return Err(DemoError::Other(format!(
                "the daemon should hold this statement, and says {state:?}"
            )));
        }
        say("\nThe daemon's own check says the same: the statement is held, and nobody can confirm it.");
        say(&format!("\nheld: [{}]", texts(&checked)));
        self.count(0).await
    }

    async fn cancel(&mut self) -> Result<(), DemoError> {
        let prepared = self.prepare().await?;
        self.check_statement(&prepared)?;
        let draft = Draft::new(Kind::Cx, format!("{FROM}-2"), FROM, TO)
            .re(format!("{FROM}-1"))
            .item(ITEM)
            .slot("p", "pay")
            .slot("why", "REVOKED")
            .tail("FD-0929 withdrawn");
        let cx =
            rw1::encode(&self.profiles, None, &draft).map_err(|problems| wrong("the cancel", &problems))?;
        line("the scheduler cancels: the approval was withdrawn", &cx);
        let request = self.with_key(v1::CancelRequest {
            cx: cx.clone(),
            ..v1::CancelRequest::default()
        })?;
        let reply = self
            .house
            .client()
            .await?
            .cancel(request)
            .await
            .map_err(|e| refused("cancel", &e))?
            .into_inner();
        line("the payer answers: abandoned", &reply.reply);
        let acknowledged = rw1::parse(&self.profiles, None, &reply.reply)
            .accepted()
            .is_ok_and(|an| {
                an.kind == Kind::An && an.re == Some("scheduler-2") && an.text("val") == Some("Y")
            });
        if !acknowledged {
            return Err(DemoError::Other(format!(
                "the cancel was not acknowledged: {}",
                reply.reply
            )));
        }
        say(&format!("\ncancelled: {}", reply.reply));
        self.count(0).await
    }

    async fn crash(&mut self) -> Result<(), DemoError> {
        let prepared = self.prepare().await?;
        let stated = self.check_statement(&prepared)?;
        bank::arm(&self.house.lab_url, "domestic-payments", "slow", SLOW_S).await?;
        say(&format!(
            "\nA fault is armed: the bank will pay at once and answer only {SLOW_S} s later."
        ));
        line(
            "the scheduler confirms: yes to exactly this statement, by its digest",
            &stated.commit.confirmation,
        );

        let mut client = self.house.client().await?;
        let request = self.with_key(stated.commit.clone())?;
        let waiting = tokio::spawn(async move { client.commit(request).await });
        self.until_paid().await?;
        say(
            "\nThe money has left: the payment stands in the bank's book, and the bank has not answered yet.",
        );
        self.house.daemon_kill().await?;
        say("The daemon is killed (SIGKILL): it never heard the bank's answer and reported nothing.");
        match waiting.await {
            Ok(Err(_)) => say("The scheduler's call broke off: all it knows is that it does not know."),
            Ok(Ok(_)) => {
                return Err(DemoError::Other(
                    "the killed daemon had answered already".to_owned(),
                ));
            }
            Err(error) => return Err(DemoError::Other(error.to_string())),
        }

        self.house.daemon_restart().await?;
        say(
            "The daemon is started again. It finds the claim it had written before the first byte, and asks the bank.",
        );
        let reply = self.ask_again(&stated).await?;
        self.check_report(&stated, &reply)?;
        let again = self.commit(&stated).await.map_err(|e| refused("commit", &e))?;
        if again.reply != reply.reply {
            return Err(DemoError::Other(
                "asked once more, the daemon gave another report".to_owned(),
            ));
        }
        self.roger(&reply.reply, 1).await
    }

    /// Checks the handoff against the record, and hands it over.
    async fn prepare(&mut self) -> Result<v1::PrepareReply, DemoError> {
        let record = serde_json::Value::Object(self.record.clone()).to_string();
        line("the approved record, as the books have it", &record);
        line(
            "the scheduler's handoff: the whole job in one typed line",
            &self.ho,
        );
        let checked = rw1::check_ho(&self.profiles, None, &self.ho, &self.record);
        if !checked.ok() {
            return Err(wrong("the handoff", &checked.problems));
        }
        say("  check_ho: the line says what the record says");
        let request = self.with_key(v1::PrepareRequest {
            ho: self.ho.clone(),
            record,
            ..v1::PrepareRequest::default()
        })?;
        let reply = self
            .house
            .client()
            .await?
            .prepare(request)
            .await
            .map_err(|e| refused("prepare", &e))?
            .into_inner();
        let reply_line = without_secret(&reply.reply, &reply.token);
        line(
            "the payer reads back what the bank would do; nothing has moved",
            &reply_line,
        );
        let values = reply.act.iter().flat_map(|act| &act.values);
        for value in values.filter(|value| value.source == "resolved") {
            say(&format!(
                "  looked up, not copied: {}={} ({})",
                value.slot, value.value, value.evidence
            ));
        }
        Ok(reply)
    }

    /// The sender's own check of the statement, and its yes.
    fn check_statement(&self, prepared: &v1::PrepareReply) -> Result<Stated, DemoError> {
        let problems = self.check_rb(&prepared.reply);
        if !problems.is_empty() {
            return Err(wrong("the statement", &problems));
        }
        say("  check_rb: the statement says what the handoff says, account and amount included");
        let rb = rw1::parse(&self.profiles, None, &prepared.statement)
            .accepted()
            .map_err(|problems| wrong("the statement", &problems))?;
        let draft = Draft::new(Kind::An, format!("{FROM}-2"), FROM, TO)
            .re(rb.id.to_string())
            .item(ITEM)
            .slot("p", "pay")
            .slot("val", "Y");
        let confirmation = rw1::encode(&self.profiles, None, &draft)
            .map_err(|problems| wrong("the confirmation", &problems))?;
        // Of the bytes that were checked, not of what the daemon says they hash to.
        let statement_sha256 = wilco_core::journal::sha256_hex(prepared.statement.as_bytes());
        Ok(Stated {
            rb: prepared.reply.clone(),
            commit: v1::CommitRequest {
                token: prepared.token.clone(),
                statement_sha256,
                confirmation,
                wait_s: 0,
            },
        })
    }

    fn check_rb(&self, rb: &str) -> Vec<Problem> {
        let now = time::OffsetDateTime::now_utc().unix_timestamp();
        let now = rw1::unix_to_minute(now);
        let with = RbCheck {
            expect_acc: None,
            now: Some(&now),
        };
        rw1::check_rb(&self.profiles, None, &self.ho, rb, with).problems
    }

    async fn commit(&mut self, stated: &Stated) -> Result<v1::CommitReply, Status> {
        let failed = |e: DemoError| Status::unavailable(e.to_string());
        let request = self.with_key(stated.commit.clone()).map_err(failed)?;
        let mut client = self.house.client().await.map_err(failed)?;
        client.commit(request).await.map(tonic::Response::into_inner)
    }

    /// The same commit, again and again, until there is a report.
    async fn ask_again(&mut self, stated: &Stated) -> Result<v1::CommitReply, DemoError> {
        let began = Instant::now();
        loop {
            let reply = self.commit(stated).await.map_err(|e| refused("commit", &e))?;
            if !reply.reply.is_empty() {
                return Ok(reply);
            }
            if began.elapsed() > PATIENCE {
                let doubt = reply.act.map(|act| act.doubt).unwrap_or_default();
                return Err(DemoError::Other(format!("the act is still in doubt: {doubt}")));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The sender's own check of the report.
    fn check_report(&self, stated: &Stated, reply: &v1::CommitReply) -> Result<(), DemoError> {
        if reply.reply.is_empty() {
            let doubt = reply
                .act
                .as_ref()
                .map(|act| act.doubt.clone())
                .unwrap_or_default();
            return Err(DemoError::Other(format!("there is no report yet: {doubt}")));
        }
        line(
            "the payer reports what was really done, in the bank's own words",
            &reply.reply,
        );
        let checked = rw1::check_dn(
            &self.profiles,
            None,
            &self.ho,
            &reply.reply,
            Some(&stated.rb),
            None,
        );
        if !checked.ok() {
            return Err(wrong("recall the payment: the report", &checked.problems));
        }
        say("  check_dn: what was done is what was stated");
        Ok(())
    }

    async fn roger(&self, dn: &str, payments: usize) -> Result<(), DemoError> {
        say(&format!("\nroger, wilco: {dn}"));
        self.count(payments).await
    }

    /// The bank's own book has the last word.
    async fn count(&self, expected: usize) -> Result<(), DemoError> {
        let payments = bank::book(&self.house.lab_url).await?;
        say(&match payments.len() {
            0 => "the bank's own book: no payment".to_owned(),
            1 => "the bank's own book: one payment".to_owned(),
            n => format!("the bank's own book: {n} payments"),
        });
        for payment in &payments {
            let reference = payment.reference.as_deref().unwrap_or_default();
            say(&format!(
                "  {} {} to {}, reference {reference}, {}, key {}",
                payment.amount,
                payment.currency,
                payment.creditor_account,
                payment.status,
                payment.idempotency_key
            ));
        }
        if payments.len() != expected {
            return Err(DemoError::Other(format!(
                "the bank's book should show {expected} payments and shows {}",
                payments.len()
            )));
        }
        match payments
            .iter()
            .find(|p| p.amount != "5400.00" || p.creditor_account != "40-12-88/61102938")
        {
            Some(wrong) => Err(DemoError::Other(format!(
                "the bank paid {} to {}",
                wrong.amount, wrong.creditor_account
            ))),
            None => Ok(()),
        }
    }

    async fn until_paid(&self) -> Result<(), DemoError> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if !bank::book(&self.house.lab_url).await?.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(DemoError::Other(
            "the payment never reached the bank's book".to_owned(),
        ))
    }

    fn with_key<T>(&self, message: T) -> Result<Request<T>, DemoError> {
        let mut request = Request::new(message);
        let value: AsciiMetadataValue = format!("Bearer {}", self.house.key)
            .parse()
            .map_err(|_| DemoError::House("the scheduler's key is not plain ASCII".to_owned()))?;
        request.metadata_mut().insert("authorization", value);
        Ok(request)
    }
}

fn line(what: &str, line: &str) {
    say(&format!("\n{what}:\n  {line}"));
}

// A token is worth a payment together with a yes: it is not printed whole, not even here.
fn without_secret(line: &str, token: &str) -> String {
    match token.rsplit_once('.') {
        Some((public, _)) => line.replace(token, &format!("{public}.…")),
        None => line.to_owned(),
    }
}

fn texts(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|p| p.text.as_str())
        .collect::<Vec<_>>()
        .join("; ")
}

fn wrong(what: &str, problems: &[Problem]) -> DemoError {
    DemoError::Other(format!("{what}: {}", texts(problems)))
}

fn refused(call: &'static str, status: &Status) -> DemoError {
    let details = status.get_error_details();
    let reason = details
        .error_info()
        .map(|info| info.reason.as_str())
        .unwrap_or_default();
    DemoError::Refused {
        call,
        status: format!("{reason} {}", status.message()),
    }
}
