//! Commit at a git remote: one push, and what the remote shows after it.

use wilco_adapter::{Outcome, Permit, ResolveError};
use wilco_core::Frozen;

use super::gate::{Gate, Move};
use super::parse::{self, NO_OBJECT, Pushed};
use super::{Git, READ, Standing};
use crate::asked::passing;
use crate::plan::Plan;
use crate::program::{Ended, Failure};

/// How far a push came.
#[derive(Debug)]
enum Passage {
    /// It ended before it would have sent anything.
    NotAsked,
    /// It was not let on: nothing was sent.
    Stopped(Stop),
    /// It was let on.
    Open,
}

#[derive(Debug)]
enum Stop {
    /// Too late, or the gate failed.
    Ours(String),
    /// The remote is not as it was stated.
    Moved(String),
}

impl Git {
    pub async fn execute(&self, permit: &Permit, frozen: &Frozen, plan: &Plan) -> Outcome {
        if let Err(text) = self.get_ready(frozen, plan).await {
            return Outcome::NotSent(text);
        }
        let mut gate = match self.gate().await {
            Ok(gate) => gate,
            Err(text) => return Outcome::NotSent(text),
        };
        if let Err(late) = permit.may_send() {
            return Outcome::NotSent(late.to_string());
        }
        let record = self.record(plan.act);
        let wanted = vec![
            Move {
                name: self.config.branch.clone(),
                from: plan.from.clone(),
                to: plan.to.clone(),
            },
            Move {
                name: record.clone(),
                from: NO_OBJECT.to_owned(),
                to: frozen.request.key.clone(),
            },
        ];
        let arguments = arguments(&self.config.remote, plan, &wanted, false);
        let may_send = || {
            wilco_failpoint::reach!("send.connected");
            let said = permit.may_send();
            wilco_failpoint::reach!("send.may_send");
            said.map_err(|late| late.to_string())
        };
        let (passage, ended) = self.push(&arguments, &mut gate, &wanted, may_send).await;
        wilco_failpoint::reach!("send.answered");
        match passage {
            Passage::NotAsked => Outcome::NotSent(match ended {
                Ok(ended) => format!(
                    "the push ended before anything was sent: {}",
                    parse::complaint(&ended.err)
                ),
                Err(failure) => format!("before anything was sent: {failure}"),
            }),
            Passage::Stopped(Stop::Ours(text)) => Outcome::NotSent(text),
            // Nothing was sent now; but the same act may have been sent before, and be what moved it.
            Passage::Stopped(Stop::Moved(text)) => match self.seen(frozen, plan, READ).await {
                Ok(Standing::Done(seen)) => Outcome::Executed(plan.report(seen)),
                Ok(Standing::Foreign(strange)) => Outcome::Unknown(format!("{text}; {strange}")),
                Ok(Standing::Nothing { head }) => {
                    let head = head.as_deref().unwrap_or("nothing");
                    Outcome::NotSent(format!(
                        "the remote is not as stated: {} is at {head} now, not at {}",
                        self.config.branch, plan.from
                    ))
                }
                Ok(Standing::Strange(more)) => {
                    Outcome::NotSent(format!("the remote is not as stated: {text}; {more}"))
                }
                Err(_) => Outcome::NotSent(format!("the remote is not as stated: {text}")),
            },
            Passage::Open => match verdict(&ended, &self.config.branch, &record) {
                Verdict::Taken => self.read_back(frozen, plan, None).await,
                Verdict::Refused(text) => {
                    let elsewhere = ended.as_ref().ok().and_then(|ended| {
                        parse::lost_to(&ended.err, &self.config.branch, &plan.from)
                            .filter(|at| *at != plan.to)
                    });
                    self.read_back(
                        frozen,
                        plan,
                        Some(Refusal {
                            text,
                            elsewhere: elsewhere.is_some(),
                        }),
                    )
                    .await
                }
                Verdict::Unsaid(text) => Outcome::Unknown(format!("the push ended unclearly: {text}")),
            },
        }
    }

    /// Whether the remote would take the push: asked with everything but the sending. Says whether it takes push options.
    pub(super) async fn probe(&self, plan: &Plan) -> Result<bool, ResolveError> {
        let wanted = vec![Move {
            name: self.config.branch.clone(),
            from: plan.from.clone(),
            to: plan.to.clone(),
        }];
        for option in [true, false] {
            let mut gate = self.gate().await.map_err(passing)?;
            let plan = Plan {
                push_option: option,
                ..plan.clone()
            };
            let arguments = arguments(&self.config.remote, &plan, &wanted, true);
            let (passage, ended) = self.push(&arguments, &mut gate, &wanted, || Ok(())).await;
            let ended = ended.map_err(|e| passing(format!("the remote: {e}")))?;
            let said = parse::complaint(&ended.err);
            match passage {
                Passage::Stopped(Stop::Ours(text)) => return Err(passing(text)),
                Passage::Stopped(Stop::Moved(text)) => {
                    return Err(passing(format!(
                        "the remote changed while it was read ({text}); try again"
                    )));
                }
                Passage::Open if option && said.contains("push options") => {}
                Passage::Open if went_through(&ended) => return Ok(option),
                Passage::Open | Passage::NotAsked => {
                    return Err(passing(format!("the remote would not take the push: {said}")));
                }
            }
        }
        Ok(false)
    }

    /// Everything a push needs, here: the record, and the commit. Another daemon on the same store may have prepared it.
    async fn get_ready(&self, frozen: &Frozen, plan: &Plan) -> Result<(), String> {
        let _one = self.one.lock().await;
        self.ensure().await?;
        let id = self.keep(&frozen.request.body).await?;
        if id != frozen.request.key {
            return Err(format!(
                "the frozen record has the id {id}, not the stated {}",
                frozen.request.key
            ));
        }
        if !self.has(&plan.to).await {
            self.fetch_source().await.map_err(|e| e.to_string())?;
            if !self.has(&plan.to).await {
                return Err(format!("the source has no commit {} any more", plan.to));
            }
        }
        Ok(())
    }

    /// Runs a push up to the gate, and on if what it would move is `wanted` and `may_send` says so.
    async fn push(
        &self,
        arguments: &[String],
        gate: &mut Gate,
        wanted: &[Move],
        may_send: impl Fn() -> Result<(), String>,
    ) -> (Passage, Result<Ended, Failure>) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let push = self.git_with(&arguments, "", self.timeout, vec![gate.variable()]);
        tokio::pin!(push);
        let mut passage = Passage::NotAsked;
        let ended = loop {
            tokio::select! {
                biased;
                asked = gate.asked(), if matches!(passage, Passage::NotAsked) => {
                    let go = asked.map_err(Stop::Ours).and_then(|moves| compare(&moves, wanted));
                    let go = go.and_then(|()| may_send().map_err(Stop::Ours));
                    passage = match go {
                        // ---- past this line a byte may leave, and no failure proves anything
                        Ok(()) => Passage::Open,
                        Err(stop) => Passage::Stopped(stop),
                    };
                    if let Err(text) = gate.answer(matches!(passage, Passage::Open)).await {
                        tracing::warn!(%text, "the gate could not answer; the push ends by its time limit");
                    }
                }
                ended = &mut push => break ended,
            }
        };
        (passage, ended)
    }

    /// What the remote shows now.
    async fn read_back(&self, frozen: &Frozen, plan: &Plan, refused: Option<Refusal>) -> Outcome {
        let said = refused.as_ref().map_or("the push was taken", |r| r.text.as_str());
        match self.seen(frozen, plan, READ).await {
            Ok(Standing::Done(seen)) => Outcome::Executed(plan.report(seen)),
            Ok(Standing::Nothing { .. }) => match refused {
                Some(refused) => Outcome::Rejected(refused.text),
                None => Outcome::Unknown(format!("{said}, and the remote does not show its ref")),
            },
            Ok(Standing::Strange(text)) => match &refused {
                Some(Refusal { elsewhere: true, .. }) => Outcome::Rejected(format!("{said}; then: {text}")),
                _ => Outcome::Unknown(format!("{said}; then: {text}")),
            },
            Ok(Standing::Foreign(text)) => Outcome::Unknown(format!("{said}; then: {text}")),
            Err(text) => Outcome::Unknown(format!(
                "{said}, and the remote could not be read after it: {text}"
            )),
        }
    }
}

/// A push that was certainly refused.
struct Refusal {
    text: String,
    /// The remote says that the branch had been moved between our reading and its lock, and not to where we would have brought
    /// it. So neither this push nor an earlier one of this act has moved it, and what the remote shows is not needed.
    elsewhere: bool,
}

fn arguments(remote: &str, plan: &Plan, wanted: &[Move], probe: bool) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "push",
        "--porcelain",
        "--atomic",
        "--no-signed",
        "--no-follow-tags",
        "--recurse-submodules=no",
    ]
    .map(str::to_owned)
    .to_vec();
    if probe {
        arguments.push("--dry-run".to_owned());
    }
    if plan.push_option {
        arguments.push(format!("--push-option=wilco={}", plan.act));
    }
    for one in wanted {
        // An empty expectation says that it must not exist.
        let from = if one.from == NO_OBJECT { "" } else { &one.from };
        arguments.push(format!("--force-with-lease={}:{from}", one.name));
    }
    arguments.extend(["--".to_owned(), remote.to_owned()]);
    arguments.extend(wanted.iter().map(|m| format!("{}:{}", m.to, m.name)));
    arguments
}

/// Pure: whether nothing spoke against a push that was only tried. A remote that is told of no ref may hang up before git has
/// said its push options: then a signal ends git, or it says that it could not write.
fn went_through(ended: &Ended) -> bool {
    const BROKEN_PIPE: i32 = 128 + 13;
    let says = |l: &str| l.starts_with("fatal:") || l.starts_with("error:");
    let mut complaints = ended.err.lines().filter(|l| says(l));
    match ended.code {
        Some(0) => true,
        None | Some(BROKEN_PIPE) => complaints.next().is_none(),
        Some(_) => {
            complaints.next().is_some_and(|l| l.contains("unable to write")) && complaints.next().is_none()
        }
    }
}

/// Pure: whether a push would move exactly what it should, from where it should.
fn compare(moves: &[Move], wanted: &[Move]) -> Result<(), Stop> {
    for want in wanted {
        match moves.iter().find(|m| m.name == want.name) {
            Some(found) if found == want => {}
            Some(found) => {
                return Err(Stop::Moved(format!(
                    "{} is at {} now, not at {}",
                    want.name, found.from, want.from
                )));
            }
            // What git leaves out has moved, or is where we would bring it.
            None => {
                return Err(Stop::Moved(format!(
                    "{} is not at {} any more",
                    want.name, want.from
                )));
            }
        }
    }
    if moves.len() == wanted.len() {
        Ok(())
    } else {
        Err(Stop::Ours("the push would move more than it should".to_owned()))
    }
}

/// What a push that was let on came to, by its own words.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Taken,
    Refused(String),
    Unsaid(String),
}

/// Pure: both refs were moved, or both were certainly refused, or nobody can say.
fn verdict(ended: &Result<Ended, Failure>, branch: &str, record: &str) -> Verdict {
    let ended = match ended {
        Ok(ended) => ended,
        Err(failure) => return Verdict::Unsaid(failure.to_string()),
    };
    let said = parse::complaint(&ended.err);
    match (
        parse::pushed(&ended.out, branch),
        parse::pushed(&ended.out, record),
    ) {
        (Some(Pushed::Taken), Some(Pushed::Taken)) if ended.code == Some(0) => Verdict::Taken,
        (Some(Pushed::Refused(one)), Some(Pushed::Refused(other))) => {
            let words = if one == other {
                one
            } else {
                format!("{one}, {other}")
            };
            Verdict::Refused(format!("the remote refuses the push: {words}; {said}"))
        }
        _ => Verdict::Unsaid(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_move(name: &str, from: &str) -> Move {
        Move {
            name: name.to_owned(),
            from: from.to_owned(),
            to: "b".to_owned(),
        }
    }

    #[test]
    fn only_what_was_stated_may_be_moved() {
        let wanted = [a_move("refs/heads/prod", "a"), a_move("refs/wilco/x", NO_OBJECT)];
        assert!(compare(&wanted, &wanted).is_ok());
        let moved = [a_move("refs/heads/prod", "c"), a_move("refs/wilco/x", NO_OBJECT)];
        assert!(matches!(compare(&moved, &wanted), Err(Stop::Moved(_))));
        // Somebody else has brought the branch to the same commit: git leaves it out and would go on.
        assert!(matches!(compare(&wanted[1..], &wanted), Err(Stop::Moved(_))));
        assert!(matches!(compare(&[], &wanted), Err(Stop::Moved(_))));
    }

    #[test]
    fn a_refusal_is_certain_only_for_both() {
        let ended = |out: &str| {
            Ok(Ended {
                code: Some(1),
                out: out.to_owned(),
                err: String::new(),
            })
        };
        let of = |out: &str| verdict(&ended(out), "refs/heads/prod", "refs/wilco/x");
        let both = "!\tb:refs/heads/prod\t[remote rejected] (declined)\n!\tb:refs/wilco/x\t[remote rejected] (declined)\n";
        assert!(matches!(of(both), Verdict::Refused(_)));
        let one = "!\tb:refs/heads/prod\t[remote rejected] (declined)\n*\tb:refs/wilco/x\t[new reference]\n";
        assert!(matches!(of(one), Verdict::Unsaid(_)));
        let unsaid = "!\tb:refs/heads/prod\t[remote failure] (x)\n!\tb:refs/wilco/x\t[remote failure] (x)\n";
        assert!(matches!(of(unsaid), Verdict::Unsaid(_)));
        assert!(matches!(of(""), Verdict::Unsaid(_)));
        let taken = " \tb:refs/heads/prod\ta..b\n*\tb:refs/wilco/x\t[new reference]\n";
        assert!(
            matches!(of(taken), Verdict::Unsaid(_)),
            "it ended with 1, so something went wrong"
        );
    }
}
