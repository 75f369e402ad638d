//! An adapter to the till: honest, or broken in one way.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wilco_adapter::{Adapter, Description, Found, Job, Outcome, Permit, Ready, Report, ResolveError, Served};
use wilco_core::contract::{Identity, LateSend, LookupBy, Reversal};
use wilco_core::frozen::{FrozenValue, Request, Source};
use wilco_core::{ActId, Clock, Contract, Frozen, Resolved, Timestamp};

use crate::till::Rules;

/// How long an honest adapter waits for an answer.
const LIMIT: Duration = Duration::from_millis(600);

/// In which way it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// In none.
    None,
    SaysExecutedAlways,
    Retries,
    EchoesThePlan,
    CallsTimeoutsRejected,
    CallsLostConnectionsNotSent,
    SaysAbsentOnErrors,
    IgnoresThePermit,
    AsksThePermitFirst,
    TakesAnythingForDone,
    SendsWhenLookingUp,
    SendsWhenResolving,
    IsAlwaysHealthy,
    UndoesOnRelease,
    HasOnePlaceForTheAct,
    CallsTakenDone,
    WaitsForEver,
    CallsDownRefused,
    CallsDownInDoubt,
    PromisesIdentity,
    SaysNothingForOperators,
    LeavesOutASlot,
    ForgetsWhatItFinds,
    LooksByOrderingAgain,
    DeniesWhatIsOld,
    ReadsOnce,
    UnwrapsWhatComes,
}

pub struct TillAdapter {
    addr: SocketAddr,
    rules: Rules,
    lie: Lie,
    clock: Arc<dyn Clock>,
    place: Mutex<Option<String>>,
}

/// What an exchange came to.
enum Heard {
    NotConnected,
    TooLate(String),
    Nothing,
    Line(String),
}

impl TillAdapter {
    pub fn new(addr: SocketAddr, rules: Rules, lie: Lie, clock: Arc<dyn Clock>) -> TillAdapter {
        TillAdapter {
            addr,
            rules,
            lie,
            clock,
            place: Mutex::default(),
        }
    }

    async fn ask(&self, line: &str, permit: Option<&Permit>) -> Heard {
        if self.lie == Lie::AsksThePermitFirst
            && let Some(late) = permit.and_then(|p| p.may_send().err())
        {
            return Heard::TooLate(late.to_string());
        }
        let Ok(stream) = TcpStream::connect(self.addr).await else {
            return Heard::NotConnected;
        };
        let mut stream = BufReader::new(stream);
        if self.rules.manners {
            let greeted = async {
                let mut said = String::new();
                stream
                    .read_line(&mut said)
                    .await
                    .ok()
                    .filter(|_| said == "READY\n")?;
                stream.write_all(b"HELLO\n").await.ok()?;
                said.clear();
                stream
                    .read_line(&mut said)
                    .await
                    .ok()
                    .filter(|_| said == "WELCOME\n")
            };
            if !matches!(timeout(LIMIT * 8, greeted).await, Ok(Some(_))) {
                return Heard::NotConnected;
            }
        }
        if !matches!(self.lie, Lie::IgnoresThePermit | Lie::AsksThePermitFirst)
            && let Some(late) = permit.and_then(|p| p.may_send().err())
        {
            return Heard::TooLate(late.to_string());
        }
        let answered = async {
            stream.write_all(format!("{line}\n").as_bytes()).await.ok()?;
            let mut answer = Vec::new();
            if self.lie == Lie::ReadsOnce {
                answer.extend_from_slice(stream.fill_buf().await.ok()?);
                return String::from_utf8(answer).ok().map(|t| t.trim().to_owned());
            }
            stream.read_until(b'\n', &mut answer).await.ok()?;
            let text = String::from_utf8_lossy(&answer).into_owned();
            text.strip_suffix('\n')
                .map(str::to_owned)
                .or(Some(text).filter(|t| {
                    // A line that was cut is no line; one liar does not mind.
                    self.lie == Lie::TakesAnythingForDone && !t.is_empty()
                }))
        };
        let limit = match self.lie {
            Lie::WaitsForEver => Duration::from_secs(3_600),
            _ => LIMIT,
        };
        match timeout(limit, answered).await {
            Ok(Some(answer)) => Heard::Line(answer),
            _ => Heard::Nothing,
        }
    }

    fn report(&self, words: &[&str], frozen: &Frozen) -> Option<Report> {
        let [receipt, amt, acct] = words else { return None };
        let mut values = vec![
            ("amt".to_owned(), (*amt).to_owned()),
            ("acct".to_owned(), (*acct).to_owned()),
        ];
        match self.lie {
            Lie::EchoesThePlan => values = plan(frozen).values,
            Lie::LeavesOutASlot => values.truncate(1),
            _ => {}
        }
        Some(Report {
            values,
            receipt: Some((*receipt).to_owned()),
            status: "DONE".to_owned(),
            ..Report::default()
        })
    }

    fn outcome(&self, heard: Heard, frozen: &Frozen) -> Outcome {
        let line = match heard {
            Heard::NotConnected if self.lie == Lie::CallsDownInDoubt => {
                return Outcome::Unknown("no connection".to_owned());
            }
            Heard::NotConnected => return Outcome::NotSent("no connection".to_owned()),
            Heard::TooLate(text) => return Outcome::NotSent(text),
            Heard::Nothing => {
                return match self.lie {
                    Lie::SaysExecutedAlways => Outcome::Executed(plan(frozen)),
                    Lie::CallsTimeoutsRejected => Outcome::Rejected("timed out".to_owned()),
                    Lie::CallsLostConnectionsNotSent => Outcome::NotSent("the connection broke".to_owned()),
                    _ => Outcome::Unknown("no answer".to_owned()),
                };
            }
            Heard::Line(line) => line,
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["DONE", rest @ ..] => match self.report(rest, frozen) {
                Some(report) => Outcome::Executed(report),
                None => Outcome::Unknown(line),
            },
            ["TAKEN", ..] if self.lie == Lie::CallsTakenDone => Outcome::Executed(Report::default()),
            ["TAKEN", receipt] => Outcome::Accepted(Report {
                receipt: Some((*receipt).to_owned()),
                status: "TAKEN".to_owned(),
                ..Report::default()
            }),
            ["REFUSED", ..] => Outcome::Rejected(line),
            _ if self.lie == Lie::UnwrapsWhatComes => panic!("no such word: {line}"),
            _ if self.lie == Lie::TakesAnythingForDone => Outcome::Executed(Report::default()),
            _ => Outcome::Unknown(line),
        }
    }
}

/// What was meant.
fn plan(frozen: &Frozen) -> Report {
    Report {
        values: frozen
            .values
            .iter()
            .map(|v| (v.slot.clone(), v.value.clone()))
            .collect(),
        receipt: None,
        status: "DONE".to_owned(),
        provisional: false,
    }
}

#[async_trait]
impl Adapter for TillAdapter {
    fn describe(&self) -> Description {
        let enforced = self.rules.enforces || self.lie == Lie::PromisesIdentity;
        let words = |text: &str| match self.lie {
            Lie::SaysNothingForOperators => String::new(),
            _ => text.to_owned(),
        };
        Description {
            name: "till".to_owned(),
            counterparty: "a till".to_owned(),
            serves: vec![Served {
                profile: "pay".to_owned(),
                ask: "PAY".to_owned(),
                carried: Vec::new(),
                contract: Contract {
                    identity: if enforced {
                        Identity::Enforced
                    } else {
                        Identity::None
                    },
                    lookup: LookupBy::Reference,
                    settle_window_s: 1,
                    late_send: LateSend::Accepted,
                    reversal: Reversal::None,
                    reversal_until_s: None,
                    cut_off: String::new(),
                    point_of_no_return: words("the first byte of ORDER"),
                    not_found_means: words("no order arrived"),
                },
            }],
            concurrency: 8,
        }
    }

    async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        if job.ask != "PAY" {
            return Err(ResolveError::Refused {
                why: "NOCAP",
                text: "a till takes nothing back".to_owned(),
            });
        }
        if self.lie == Lie::CallsDownRefused && matches!(self.ask("PING", None).await, Heard::NotConnected) {
            return Err(ResolveError::Refused {
                why: "NOCTX",
                text: "there is no till".to_owned(),
            });
        }
        let values = job.exec.iter().map(|slot| FrozenValue {
            slot: slot.clone(),
            value: job.slot(slot).unwrap_or_default().to_owned(),
            source: Source::Handoff,
            evidence: "the handoff".to_owned(),
        });
        let values: Vec<FrozenValue> = values.collect();
        let words: Vec<&str> = values.iter().map(|v| v.value.as_str()).collect();
        let body = format!("ORDER {} {}", job.act_id, words.join(" "));
        if self.lie == Lie::SendsWhenResolving {
            self.ask(&body, None).await;
        }
        Ok(Resolved {
            values,
            extra: Vec::new(),
            request: Request {
                method: "LINE".to_owned(),
                path: String::new(),
                body,
                key: String::new(),
            },
            placed: None,
            cut_off: None,
            authorise_at: None,
            notes: Vec::new(),
        })
    }

    async fn ready(&self, _act: ActId, _frozen: &Frozen) -> Ready {
        Ready::Yes
    }

    async fn execute(&self, permit: Permit, frozen: &Frozen) -> Outcome {
        let mut body = frozen.request.body.clone();
        if self.lie == Lie::HasOnePlaceForTheAct {
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
            tokio::time::sleep(Duration::from_millis(50)).await;
            let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            body = place.clone().unwrap_or_default();
        }
        let mut heard = self.ask(&body, Some(&permit)).await;
        if self.lie == Lie::Retries && matches!(heard, Heard::Nothing | Heard::NotConnected) {
            heard = self.ask(&body, Some(&permit)).await;
        }
        self.outcome(heard, frozen)
    }

    async fn lookup(
        &self,
        act: ActId,
        frozen: &Frozen,
        first_sent_at: Timestamp,
        _receipt: Option<&str>,
    ) -> Found {
        let age_s = self.clock.now().seconds_since(first_sent_at);
        if self.lie == Lie::DeniesWhatIsOld && age_s > 86_400 {
            return Found::Absent("the key is too old".to_owned());
        }
        let mut heard = match self.lie {
            // Finds what is there, and makes what is not.
            Lie::LooksByOrderingAgain => self.ask(&frozen.request.body, None).await,
            _ => self.ask(&format!("FIND {act}"), None).await,
        };
        if self.lie == Lie::ForgetsWhatItFinds {
            heard = Heard::Nothing;
        }
        if self.lie == Lie::SendsWhenLookingUp && matches!(&heard, Heard::Line(l) if l == "NONE") {
            heard = self.ask(&frozen.request.body, None).await;
        }
        let Heard::Line(line) = heard else {
            return match self.lie {
                Lie::SaysAbsentOnErrors => Found::Absent("not found".to_owned()),
                _ => Found::Unknown("no answer".to_owned()),
            };
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["DONE", rest @ ..] => match self.report(rest, frozen) {
                Some(report) => Found::Executed(report),
                None => Found::Unknown(line),
            },
            ["TAKEN", ..] => Found::Accepted(Report::default()),
            ["NONE"] => Found::Absent(line),
            _ => Found::Unknown(line),
        }
    }

    async fn release(&self, act: ActId, _frozen: &Frozen) {
        if self.lie == Lie::UndoesOnRelease {
            self.ask(&format!("CANCEL {act}"), None).await;
        }
    }

    async fn health(&self) -> Result<(), String> {
        match self.ask("PING", None).await {
            Heard::Line(line) if line == "OK" => Ok(()),
            _ if self.lie == Lie::IsAlwaysHealthy => Ok(()),
            _ => Err("the till does not answer".to_owned()),
        }
    }
}
