//! What a harness provides, so that the kit can try an adapter on a real counterparty.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wilco_core::{ActId, Frozen};

use super::clock::Still;
use super::proxy::FaultProxy;
use crate::{Adapter, Job, Undone};

/// One adapter on one counterparty of its own, made ready to be tried.
///
/// The counterparty is alone with the kit: nobody else acts on it while the suite runs. Its own record is the judge, so
/// [`Bench::effects`] must never ask the adapter, or read anything the adapter wrote down for itself.
///
/// Methods without a body are what every harness has to say. The others have a body that fits a counterparty that is
/// reached by TCP, works at once and fails in no other way than its line.
#[async_trait]
pub trait Bench: Send + Sync {
    /// The adapter as a daemon that has just started would have it: it remembers nothing of earlier instances. Its
    /// traffic goes through [`Bench::proxy`] where there is one, and its clock is [`Bench::clock`].
    ///
    /// Configure it with the shortest time limit it takes (a second or two): some cases wait for it.
    async fn adapter(&self) -> Arc<dyn Adapter>;

    /// The clock that the adapter and the permits read. It moves only when the kit moves it.
    fn clock(&self) -> Arc<Still>;

    /// The `n`-th job, with an act id of its own ([`super::act_id`]), put in place so that it can be resolved and
    /// executed right now. Jobs differ in `n` where they can (another amount, another recipient, another item), so that
    /// the effect of one is never taken for that of another; where they can, they do not stand in each other's way.
    async fn job(&self, n: u32) -> Job;

    /// The effects of this act in the counterparty's own record: one entry for each, none if it did not happen. What the
    /// counterparty refused, or holds ready without having been told to act, is no effect.
    ///
    /// The kit asks before it prepares the next job, unless it runs several at once.
    async fn effects(&self, act: ActId, frozen: &Frozen) -> Vec<Effect>;

    /// How many effects the whole record holds, whoever caused them, if it can be counted: what is there beyond the
    /// acts that were meant (under a mangled reference, say) is found by this.
    async fn effects_in_all(&self) -> Option<usize> {
        None
    }

    /// Returns when whatever is under way at the counterparty has landed: the settle window of the contract has passed for
    /// this harness. Moves [`Bench::clock`] on by that window, unless the record needs it to stay. A harness knows its
    /// counterparty and may wait for much less real time than the window.
    async fn settle(&self);

    /// The line on which the act is sent. None where there is none (files, a local program): then only
    /// [`Bench::arm`] makes things fail.
    fn proxy(&self) -> Option<&FaultProxy>;

    /// The line on which lookups are asked, where it is another (mail: IMAP beside SMTP).
    fn lookup_proxy(&self) -> Option<&FaultProxy> {
        self.proxy()
    }

    /// Arms a fault of the counterparty itself: the next sending of an act meets it, once. False if it has no such fault;
    /// the case is then left out.
    async fn arm(&self, fault: Fault) -> bool {
        let _ = fault;
        false
    }

    /// Takes the counterparty away, so that nothing answers any more; false where that cannot be done. The body here lets
    /// the proxies refuse connections. A harness that really ends its counterparty does both: a proxy without a server
    /// behind it takes connections and drops them, which is something else.
    async fn stop(&self) -> bool {
        let lines = [self.proxy(), self.lookup_proxy()];
        for line in lines.into_iter().flatten() {
            line.refuse(true).await;
        }
        self.proxy().is_some()
    }

    /// Brings it back, with the record it had. If it now listens elsewhere, aims the proxies there.
    async fn start(&self) {
        for line in [self.proxy(), self.lookup_proxy()].into_iter().flatten() {
            line.refuse(false).await;
        }
    }

    /// For counterparties where a person must authorise the act: does so. Called after each resolve.
    async fn authorise(&self, act: ActId, frozen: &Frozen) {
        let _ = (act, frozen);
    }

    /// The job that reverses this act, if the contract has a reversal.
    async fn undo(&self, undone: Undone) -> Option<Job> {
        let _ = undone;
        None
    }

    /// What nobody could read as an answer of this protocol, beside the kit's own garbage: a proxy's page, a reply cut to
    /// its head, an answer about something else. Each is sent in place of the reply to an act.
    fn garbage(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// How long one call may take before the kit says that it hangs. Only a guard; nothing is measured.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// One effect, as the counterparty's own record has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// Every execution slot that the record shows, as written on a line. An adapter that reports a slot which is not here
    /// is asked how it knows.
    pub values: Vec<(String, String)>,
    /// The counterparty's own id for it, if it has one.
    pub receipt: Option<String>,
    /// Whether it is still under way: taken on, not finished.
    pub unfinished: bool,
}

/// A fault of the counterparty itself, for the next sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It refuses explicitly; nothing is done.
    Refuse,
    /// Nothing is done, and nobody says so.
    LoseRequest,
    /// Done; no answer.
    LoseReply,
    /// Done; what it answers cannot be read.
    Garbage,
    /// Done; the answer takes longer than the adapter waits.
    Slow,
    /// Not done when the adapter gives up; done before [`Bench::settle`] returns.
    Late,
    /// The sending arrives twice.
    Duplicate,
    /// Done with other values than it was asked for; record and answer show those.
    WrongValues,
    /// Taken on and answered so; finished before [`Bench::settle`] returns.
    Unfinished,
    /// Taken on and answered so; refused before [`Bench::settle`] returns.
    UnfinishedThenRefused,
    /// Done, the answer lost; the next lookup does not see it, later ones do.
    Lag,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 11] = [
        Fault::Refuse,
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::Garbage,
        Fault::Slow,
        Fault::Late,
        Fault::Duplicate,
        Fault::WrongValues,
        Fault::Unfinished,
        Fault::UnfinishedThenRefused,
        Fault::Lag,
    ];
}
