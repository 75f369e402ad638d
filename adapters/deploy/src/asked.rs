//! What a handoff asks of a target: read, checked against the configuration, and turned into the values of a statement.

use wilco_adapter::{Job, ResolveError};
use wilco_core::frozen::{FrozenValue, Request, Source};
use wilco_core::{Resolved, Timestamp};

use crate::config::{Place, WindowRule, is_version};
use crate::plan::{Form, Plan, clean};
use crate::window::Window;

/// How long what nobody gave a window is good for, in minutes.
const OPEN_MINUTES: i64 = 60;

/// What should run afterwards.
#[derive(Debug, Clone)]
pub(crate) enum Want {
    /// The version of this name.
    Version(String),
    /// Whatever ran before what runs now.
    Before,
    /// Whatever ran before this act.
    Undo(Box<Plan>),
}

/// A handoff, read.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub want: Want,
    pub form: Form,
    pub env: String,
    pub window: Window,
    win: String,
    win_from: Source,
    apref: Option<String>,
    /// How the sender calls what runs now, where it says so.
    pub calls_it: Option<String>,
    /// How it calls what ran before and will run again, where it says so.
    pub calls_next: Option<String>,
}

/// Which of the two a value came with.
pub(crate) struct Evidence {
    /// Who says what will run.
    pub ver: String,
    /// Who says what runs now.
    pub prev: String,
}

/// The item and environment a job is about. An `UNDO` is about those of the act it reverses.
pub(crate) fn place_of(job: &Job) -> Result<(String, String, Option<Plan>), ResolveError> {
    let Some(undone) = &job.undo else {
        let env = job
            .slot("env")
            .ok_or_else(|| refused("NOCTX", "slot env is missing: it says where to deploy".to_owned()))?;
        return Ok((job.item.clone(), env.to_owned(), None));
    };
    let plan = crate::plan_of(&undone.frozen)
        .map_err(|text| refused("NOCAP", format!("the act to reverse cannot be read: {text}")))?;
    if plan.item != job.item {
        let text = format!("item: the act to reverse was about {}", clean(&plan.item, 60));
        return Err(refused("SCOPE", text));
    }
    Ok((plan.item.clone(), plan.env.clone(), Some(plan)))
}

impl Asked {
    pub fn read(job: &Job, place: &Place, env: String, undone: Option<Plan>) -> Result<Asked, ResolveError> {
        if let Some(slot) = job.exec.iter().find(|s| !KNOWN.contains(&s.as_str())) {
            let text = format!("slot {slot}: no target can state it, and this adapter does not know it");
            return Err(refused("NOCTX", text));
        }
        let needs = |slot: &str| job.exec.iter().any(|s| s == slot);
        let undoing = undone.is_some();
        let form = match job.ask.as_str() {
            "ROLLBACK" => Form::Rollback,
            // An UNDO has the slots of a deployment whatever it reverses: what runs afterwards, and what ran before.
            _ => Form::Deploy,
        };
        let want = match (undone, form) {
            (Some(plan), _) => Want::Undo(Box::new(plan)),
            (None, Form::Rollback) => Want::Before,
            (None, Form::Deploy) => Want::Version(version(job, "ver")?),
        };
        let (window, win, win_from) = window(job, place, needs("win"), form == Form::Deploy && !undoing)?;
        let apref = match job.slot("apref") {
            Some(apref) => Some(apref.to_owned()),
            None => job
                .undo
                .as_ref()
                .and_then(|u| u.frozen.value("apref").map(str::to_owned)),
        };
        if needs("apref") && apref.is_none() {
            let text = "slot apref is missing: it says under which approval the change is made".to_owned();
            return Err(refused("NOCTX", text));
        }
        let calls_it = match form {
            Form::Deploy => job.slot("prev").map(str::to_owned),
            Form::Rollback => None,
        };
        let calls_next = match &want {
            Want::Version(_) => None,
            Want::Before => job.slot("prev").map(str::to_owned),
            Want::Undo(_) => job.slot("ver").map(str::to_owned),
        };
        Ok(Asked {
            want,
            form,
            env,
            window,
            win,
            win_from,
            apref,
            calls_it,
            calls_next,
        })
    }

    /// The statement's values for a plan, in the profile's order.
    pub fn resolved(&self, job: &Job, plan: &Plan, evidence: &Evidence, request: Request) -> Resolved {
        let place = format!("target {}", plan.target);
        let one = |slot: &String| {
            let (value, source, evidence) = match (slot.as_str(), self.form) {
                ("env", _) => (
                    plan.env.clone(),
                    Source::Resolved,
                    format!("the configuration of {place}"),
                ),
                ("ver", _) => (plan.ver.clone(), Source::Resolved, evidence.ver.clone()),
                ("prev", Form::Deploy) => (plan.prev.clone(), Source::Resolved, evidence.prev.clone()),
                ("prev", Form::Rollback) => (plan.ver.clone(), Source::Resolved, evidence.ver.clone()),
                ("win", _) => (
                    self.win.clone(),
                    self.win_from,
                    "the window that is kept to".to_owned(),
                ),
                _ => (
                    self.apref.clone().unwrap_or_default(),
                    Source::Handoff,
                    "the handoff".to_owned(),
                ),
            };
            FrozenValue {
                slot: slot.clone(),
                value,
                source,
                evidence,
            }
        };
        let mut extra = vec![
            ("x_target".to_owned(), plan.target.clone()),
            (plan.identity_slot().to_owned(), plan.to.clone()),
        ];
        if self.form == Form::Rollback {
            extra.push(("x_from".to_owned(), plan.prev.clone()));
        }
        Resolved {
            values: job.exec.iter().map(one).collect(),
            extra,
            request,
            placed: None,
            cut_off: Some(self.window.closes).filter(|at| *at != Timestamp::MAX),
            authorise_at: None,
            notes: vec![format!("{place}: {} takes the place of {}", plan.ver, plan.prev)],
        }
    }

    /// The plan of this job, before its target adds what only it knows.
    pub fn plan(&self, job: &Job, place: &Place, at: &str, runs: Named, will_run: Named) -> Plan {
        Plan {
            act: job.act_id,
            ask: job.ask.clone(),
            form: self.form,
            item: job.item.clone(),
            env: self.env.clone(),
            target: place.name.clone(),
            place: at.to_owned(),
            ver: will_run.name,
            to: will_run.id,
            prev: runs.name,
            from: runs.id,
            opens: self.window.opens,
            closes: self.window.closes,
            tag: false,
            push_option: false,
            release: String::new(),
            tree: String::new(),
            folder_id: String::new(),
        }
    }
}

/// Something that runs or can run, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub name: String,
    pub id: String,
}

/// The execution slots this adapter can state.
const KNOWN: [&str; 5] = ["env", "ver", "prev", "win", "apref"];

/// Slots no target can know. The done report carries them.
pub(crate) fn carried(ask: &str) -> impl Iterator<Item = &'static str> {
    let window = (ask == "DEPLOY").then_some("win");
    window.into_iter().chain(["apref"])
}

fn version(job: &Job, slot: &str) -> Result<String, ResolveError> {
    match job.slot(slot) {
        None => Err(refused(
            "NOCTX",
            format!("slot {slot} is missing: it says what to bring in"),
        )),
        Some(text) if is_version(text) && text != crate::plan::NOTHING => Ok(text.to_owned()),
        Some(text) => {
            let rule = "a version is made of letters, digits and '._-/', as v2.4.1 or 6ce3c90";
            Err(refused(
                "SCOPE",
                format!("slot {slot}: {} is none; {rule}", clean(text, 60)),
            ))
        }
    }
}

/// `stated`: the statement says when it may be done. `by_rule`: a target may demand that the handoff says so.
fn window(
    job: &Job,
    place: &Place,
    stated: bool,
    by_rule: bool,
) -> Result<(Window, String, Source), ResolveError> {
    let Some(win) = job.slot("win") else {
        if !stated {
            let window = Window {
                opens: job.now.minute_down(),
                closes: Timestamp::MAX,
            };
            return Ok((window, String::new(), Source::Resolved));
        }
        if by_rule && place.window == WindowRule::Required {
            let text = format!(
                "slot win is missing: target {} is changed in a named window only",
                place.name
            );
            return Err(refused("SCOPE", text));
        }
        let (text, window) = Window::from_now(job.now, OPEN_MINUTES, place.zone).ok_or_else(|| {
            ResolveError::Passing("the clocks change within this hour; try again after it".to_owned())
        })?;
        return Ok((window, text, Source::Resolved));
    };
    let window = Window::parse(win, place.zone).ok_or_else(|| {
        let rule = "a window is YYYYMMDDTHHMM-HHMM in the target's own time and begins before it ends";
        refused("SCOPE", format!("slot win: {} is none; {rule}", clean(win, 40)))
    })?;
    over(job.now, window, win)?;
    Ok((window, win.to_owned(), Source::Handoff))
}

fn over(now: Timestamp, window: Window, win: &str) -> Result<(), ResolveError> {
    if now < window.closes {
        return Ok(());
    }
    let text = format!(
        "slot win: {} ended at {}",
        clean(win, 40),
        window.closes.to_rfc3339()
    );
    Err(refused("EXPIRED", text))
}

pub(crate) fn refused(why: &'static str, text: String) -> ResolveError {
    ResolveError::Refused { why, text }
}

pub(crate) fn passing(text: impl Into<String>) -> ResolveError {
    ResolveError::Passing(text.into())
}
