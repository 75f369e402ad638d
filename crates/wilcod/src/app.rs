//! What every request needs, in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wilco_core::{Reason, Refusal};
use wilco_engine::{Caller, Engine};

use crate::identity::Identity;
use crate::metrics::{Metrics, Verb};

/// The longest text of a client that a log line repeats.
const LOGGED_MAX: usize = 128;

/// The running daemon, as requests see it.
pub struct App {
    /// The executor.
    pub engine: Arc<Engine>,
    /// Who may call.
    pub identity: Identity,
    /// What happened since start.
    pub metrics: Metrics,
    /// The profiles in force.
    pub profiles: Arc<rw1::Profiles>,
    draining: AtomicBool,
}

impl App {
    /// Ready to answer.
    #[must_use]
    pub fn new(engine: Arc<Engine>, identity: Identity, profiles: Arc<rw1::Profiles>) -> App {
        App {
            engine,
            identity,
            metrics: Metrics::default(),
            profiles,
            draining: AtomicBool::new(false),
        }
    }

    /// From here on no new work is taken; reads go on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Why no work is taken; `Ok` when it is.
    ///
    /// # Errors
    /// One sentence for operators.
    pub fn ready(&self) -> Result<(), String> {
        if self.draining.load(Ordering::SeqCst) {
            return Err("shutting down".to_owned());
        }
        self.engine.ready()
    }

    /// Refuses new work while shutting down.
    ///
    /// # Errors
    /// `HALTED`.
    pub fn open(&self) -> Result<(), Refusal> {
        if self.draining.load(Ordering::SeqCst) {
            let text =
                "wilcod is shutting down; ask again when it is back: the same request gets the same answer";
            return Err(Refusal::new(Reason::Halted, text));
        }
        Ok(())
    }

    /// The caller of a request.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`.
    pub fn caller(&self, authorization: Option<&[u8]>, seen: &mut Seen) -> Result<&Caller, Refusal> {
        let caller = self.identity.caller(authorization)?;
        seen.principal.clone_from(&caller.name);
        Ok(caller)
    }

    /// Counts and logs a request: verb, act, thread, principal and reason, never what it carried.
    pub fn report<T>(&self, seen: &Seen, answer: &Result<T, Refusal>) {
        let reason = answer.as_ref().err().map(|refusal| refusal.reason);
        self.metrics.count(seen.verb, reason);
        let (verb, act_id, thread) = (seen.verb.as_str(), seen.act_id.as_str(), shorten(&seen.thread));
        let (principal, reason) = (seen.principal.as_str(), reason.map_or("OK", Reason::as_str));
        if seen.verb.changes() {
            tracing::info!(verb, act_id, thread, principal, reason, "request");
        } else {
            tracing::debug!(verb, act_id, thread, principal, reason, "request");
        }
    }
}

/// What a request is known by in logs and metrics.
#[derive(Debug)]
pub struct Seen {
    /// Which verb.
    pub verb: Verb,
    /// The act it concerned, once known.
    pub act_id: String,
    /// The thread.
    pub thread: String,
    /// Who called, once proved.
    pub principal: String,
}

impl Seen {
    /// A request of this kind.
    #[must_use]
    pub fn new(verb: Verb) -> Seen {
        Seen {
            verb,
            act_id: String::new(),
            thread: String::new(),
            principal: String::new(),
        }
    }

    /// Notes the act.
    pub fn act(&mut self, act: &wilco_core::Act) {
        self.act_id = act.act_id.to_string();
        self.thread.clone_from(&act.thread);
    }
}

fn shorten(text: &str) -> &str {
    let end = text
        .char_indices()
        .nth(LOGGED_MAX)
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}
