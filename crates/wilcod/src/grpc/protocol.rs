//! `wilco.v1.Protocol`: the RW1 functions, stateless and open to everyone, as the JSON endpoints at the root.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rw1::{Checked, Gate, MakeRb, Problem, RbCheck};
use tonic::{Request, Response, Status};
use wilco_api::v1::protocol_server::Protocol;
use wilco_api::{convert, v1};
use wilco_core::Refusal;
use wilco_core::act::StoredProblem;

use crate::app::App;
use crate::{errors, verbs};

/// The service.
pub struct Service(pub Arc<App>);

impl Service {
    fn profiles(&self) -> &rw1::Profiles {
        &self.0.profiles
    }

    /// The profile to judge by: none when none is given, and then the line's own `p=` decides.
    fn known<'a>(&self, profile: &'a str) -> Result<Option<&'a str>, Status> {
        let name = given(profile);
        match self.profiles().find(name) {
            Ok(_) => Ok(name),
            Err(problem) => Err(refused("profile", std::slice::from_ref(&problem))),
        }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Protocol for Service {
    async fn check_ho(&self, request: Request<v1::CheckHoRequest>) -> Answer<v1::CheckReply> {
        let asked = request.into_inner();
        let record = verbs::record(&asked.record)
            .map_err(|refusal| errors::status(&refusal))?
            .unwrap_or_default();
        checked(rw1::check_ho(
            self.profiles(),
            self.known(&asked.profile)?,
            &asked.ho,
            &record,
        ))
    }

    async fn check_rb(&self, request: Request<v1::CheckRbRequest>) -> Answer<v1::CheckReply> {
        let asked = request.into_inner();
        let now = instant("now", &asked.now)?.map_or_else(this_minute, str::to_owned);
        let with = RbCheck {
            expect_acc: (!asked.expect_acc.is_empty()).then_some(asked.expect_acc.as_slice()),
            now: Some(&now),
        };
        checked(rw1::check_rb(
            self.profiles(),
            self.known(&asked.profile)?,
            &asked.ho,
            &asked.rb,
            with,
        ))
    }

    async fn check_dn(&self, request: Request<v1::CheckDnRequest>) -> Answer<v1::CheckReply> {
        let asked = request.into_inner();
        let (profile, rb) = (self.known(&asked.profile)?, given(&asked.rb));
        let at = instant("at", &asked.at)?;
        checked(rw1::check_dn(
            self.profiles(),
            profile,
            &asked.ho,
            &asked.dn,
            rb,
            at,
        ))
    }

    async fn check_thread(&self, request: Request<v1::CheckThreadRequest>) -> Answer<v1::CheckReply> {
        let asked = request.into_inner();
        let now = instant("now", &asked.now)?.map_or_else(this_minute, str::to_owned);
        checked(rw1::check_thread(
            self.profiles(),
            self.known(&asked.profile)?,
            &asked.lines,
            Some(&now),
        ))
    }

    async fn make_rb(&self, request: Request<v1::MakeRbRequest>) -> Answer<v1::LineReply> {
        let asked = request.into_inner();
        let text = |text: String| (!text.is_empty()).then_some(text);
        let with = MakeRb {
            acc: asked.acc,
            do_: text(asked.r#do),
            eta: text(asked.eta),
            hash: !asked.no_hash,
        };
        let line = rw1::make_rb(
            self.profiles(),
            self.known(&asked.profile)?,
            &asked.ho,
            &asked.id,
            &with,
        )
        .map_err(|problems| refused("ho", &problems))?;
        Ok(Response::new(v1::LineReply { line }))
    }

    async fn validate(&self, request: Request<v1::LineRequest>) -> Answer<v1::ValidateReply> {
        let asked = request.into_inner();
        let parsed = rw1::parse(self.profiles(), self.known(&asked.profile)?, &asked.line);
        Ok(Response::new(v1::ValidateReply {
            ok: parsed.errors.is_empty(),
            message: parsed
                .message
                .as_ref()
                .map(rw1::message_to_json)
                .unwrap_or_default(),
            errors: on_the_wire(&parsed.errors),
            warnings: on_the_wire(&parsed.warnings),
        }))
    }

    async fn digest(&self, request: Request<v1::LineRequest>) -> Answer<v1::DigestReply> {
        let asked = request.into_inner();
        let digest = rw1::digest(self.profiles(), self.known(&asked.profile)?, &asked.line)
            .map_err(|problems| refused("line", &problems))?;
        Ok(Response::new(v1::DigestReply { digest }))
    }

    async fn to_json(&self, request: Request<v1::LineRequest>) -> Answer<v1::MessageReply> {
        let asked = request.into_inner();
        let message = rw1::to_json(self.profiles(), self.known(&asked.profile)?, &asked.line)
            .map_err(|problems| refused("line", &problems))?;
        Ok(Response::new(v1::MessageReply { message }))
    }

    async fn from_json(&self, request: Request<v1::FromJsonRequest>) -> Answer<v1::LineReply> {
        let asked = request.into_inner();
        let line = rw1::from_json(self.profiles(), self.known(&asked.profile)?, &asked.message)
            .map_err(|problems| refused("message", &problems))?;
        Ok(Response::new(v1::LineReply { line }))
    }

    async fn gate(&self, request: Request<v1::GateRequest>) -> Answer<v1::GateReply> {
        let asked = request.into_inner();
        let record = verbs::record(&asked.record).map_err(|refusal| errors::status(&refusal))?;
        let now = this_minute();
        let given_lines = Gate {
            record: record.as_ref(),
            ho: &asked.ho,
            rb: given(&asked.rb),
            dn: given(&asked.dn),
            expect_acc: None,
            now: Some(&now),
            at: None,
        };
        let gated = rw1::gate(self.profiles(), self.known(&asked.profile)?, given_lines);
        Ok(Response::new(v1::GateReply {
            go: gated.go,
            stage: gated.stage.to_owned(),
            problems: on_the_wire(&gated.problems),
            notes: on_the_wire(&gated.notes),
        }))
    }

    async fn legend(&self, request: Request<v1::LegendRequest>) -> Answer<v1::LegendReply> {
        let asked = request.into_inner();
        let legend = rw1::legend(self.profiles(), self.known(&asked.profile)?, asked.lean)
            .map_err(|problem| refused("profile", std::slice::from_ref(&problem)))?;
        Ok(Response::new(v1::LegendReply { legend }))
    }
}

fn checked(checked: Checked) -> Answer<v1::CheckReply> {
    Ok(Response::new(v1::CheckReply {
        ok: checked.ok(),
        problems: on_the_wire(&checked.problems),
        notes: on_the_wire(&checked.notes),
    }))
}

fn on_the_wire(problems: &[Problem]) -> Vec<v1::Problem> {
    problems
        .iter()
        .map(|problem| convert::problem(&StoredProblem::from(problem)))
        .collect()
}

fn refused(field: &str, problems: &[Problem]) -> Status {
    let text = problems
        .first()
        .map_or_else(|| "not valid".to_owned(), |p| p.text.clone());
    let stored = problems.iter().map(StoredProblem::from).collect();
    errors::status(&Refusal::malformed(field, format!("{field}: {text}")).with_problems(stored))
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn instant<'a>(field: &str, text: &'a str) -> Result<Option<&'a str>, Status> {
    match given(text) {
        Some(text) if !rw1::is_minute(text) => {
            let refusal = Refusal::malformed(field, format!("{field}: a time is YYYYMMDDTHHMMZ, in UTC"));
            Err(errors::status(&refusal))
        }
        other => Ok(other),
    }
}

/// The minute it is, as a line writes it.
fn this_minute() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    rw1::unix_to_minute(i64::try_from(seconds).unwrap_or(i64::MAX))
}
