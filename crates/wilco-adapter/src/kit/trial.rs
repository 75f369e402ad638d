//! One adapter under trial: the steps every case is made of, as the daemon takes them. Each step has an adapter of its own,
//! as after a restart, so that nothing is known from the step before but what is frozen.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wilco_core::contract::LookupBy;
use wilco_core::{Clock, Frozen, Timestamp};

use super::bench::{Bench, Effect};
use super::findings::{Stop, failed};
use super::judge;
use super::patience::patiently;
use super::props::{frozen_of, permit, served};
use crate::{Adapter, Description, Found, Job, Outcome, Ready, Served};

/// How many lookups after the settle window may say that they do not know.
const LOOKUPS: usize = 4;

/// The adapter under trial.
pub(super) struct Trial<'a> {
    pub bench: &'a dyn Bench,
    pub description: Description,
    /// How it serves the bench's jobs.
    pub served: Served,
    next: AtomicU32,
}

/// An act that has been prepared and may be sent.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub job: Job,
    pub frozen: Frozen,
    /// When it is sent first: the bench's clock stands still until it is settled.
    pub first_sent_at: Timestamp,
    /// How many effects the whole record held before.
    pub all_before: Option<usize>,
}

impl<'a> Trial<'a> {
    /// The trial, if the adapter serves the bench's jobs.
    pub async fn of(bench: &'a dyn Bench) -> Result<Trial<'a>, Stop> {
        let description = bench.adapter().await.describe();
        let job = bench.job(0).await;
        let Some(served) = served(&job, &description).cloned() else {
            return failed(format!(
                "describe() lists no {}/{}, which the bench's jobs are",
                job.profile, job.ask
            ));
        };
        Ok(Trial {
            bench,
            description,
            served,
            next: AtomicU32::new(1),
        })
    }

    /// Lets nothing hang for ever, nor a panic end the suite.
    pub async fn patiently<T>(&self, what: &str, call: impl Future<Output = T>) -> Result<T, Stop> {
        patiently(what, self.bench.patience(), call).await
    }

    /// The next job.
    pub async fn job(&self) -> Job {
        self.bench.job(self.next.fetch_add(1, Ordering::Relaxed)).await
    }

    /// Resolves the next job and makes it ready to be sent.
    pub async fn prepare(&self) -> Result<Prepared, Stop> {
        let job = self.job().await;
        self.prepare_this(job).await
    }

    /// Resolves this job and makes it ready to be sent.
    pub async fn prepare_this(&self, job: Job) -> Result<Prepared, Stop> {
        let all_before = self.bench.effects_in_all().await;
        let adapter = self.bench.adapter().await;
        let resolved = match self.patiently("resolve", adapter.resolve(&job)).await? {
            Ok(resolved) => resolved,
            Err(why) => return failed(format!("resolve refuses the bench's job: {why}")),
        };
        let frozen = frozen_of(&job, resolved, &self.description);
        self.bench.authorise(job.act_id, &frozen).await;
        match self
            .patiently("ready", adapter.ready(job.act_id, &frozen))
            .await?
        {
            Ready::Yes => {}
            other => return failed(format!("the bench's job is not ready to be sent: {other:?}")),
        }
        Ok(Prepared {
            first_sent_at: self.bench.clock().now(),
            job,
            frozen,
            all_before,
        })
    }

    /// Sends it, once.
    pub async fn execute(&self, act: &Prepared) -> Result<Outcome, Stop> {
        self.execute_by(act, self.bench.clock()).await
    }

    /// Sends it with a permit that asks this clock.
    pub async fn execute_by(&self, act: &Prepared, clock: Arc<dyn Clock>) -> Result<Outcome, Stop> {
        let adapter = self.bench.adapter().await;
        let permit = permit(&act.job, &act.frozen, clock);
        self.patiently("execute", adapter.execute(permit, &act.frozen))
            .await
    }

    /// Looks it up.
    pub async fn lookup(&self, act: &Prepared) -> Result<Found, Stop> {
        let adapter: Arc<dyn Adapter> = self.bench.adapter().await;
        let asked = adapter.lookup(act.job.act_id, &act.frozen, act.first_sent_at, None);
        self.patiently("lookup", asked).await
    }

    /// Withdraws what resolve put in place.
    pub async fn release(&self, act: &Prepared) -> Result<(), Stop> {
        let adapter = self.bench.adapter().await;
        self.patiently("release", adapter.release(act.job.act_id, &act.frozen))
            .await
    }

    /// Compares what was said of an act with the record: at once, by lookups, after the settle window, and by lookups
    /// again. Returns the effects it has in the end. `lags`: the counterparty was told to hide the act for a while.
    pub async fn aftermath(
        &self,
        act: &Prepared,
        outcome: &Outcome,
        lags: bool,
    ) -> Result<Vec<Effect>, Stop> {
        let contract = &act.frozen.contract;
        self.lines().for_each(super::FaultProxy::disarm);
        judge::outcome(outcome, &self.effects(act).await, judge::AT_ONCE)?;
        let hidden = lags || contract.lookup == LookupBy::Evidence;
        for _ in 0..2 {
            self.look(act, hidden).await?;
        }
        self.settle().await;
        let settled = self.effects(act).await;
        judge::outcome(outcome, &settled, "after the settle window")?;
        let mut found = Vec::new();
        for _ in 0..LOOKUPS {
            let now = self.look(act, false).await?;
            let conclusive = judge::concludes(&now, &settled, contract);
            found.push(now);
            if conclusive {
                break;
            }
        }
        if !found
            .last()
            .is_some_and(|f| judge::concludes(f, &settled, contract))
        {
            return failed(format!(
                "after the settle window the record has {} effects, and {LOOKUPS} lookups do not find that: {found:?}",
                settled.len()
            ));
        }
        let in_the_end = self.effects(act).await;
        if in_the_end != settled {
            return failed(format!(
                "lookups changed the record from {settled:?} to {in_the_end:?}"
            ));
        }
        let all = self.bench.effects_in_all().await;
        judge::grew_by(settled.len(), act.all_before, all)?;
        Ok(settled)
    }

    /// One lookup, compared with the record before and after it.
    async fn look(&self, act: &Prepared, hidden: bool) -> Result<Found, Stop> {
        let before = self.effects(act).await;
        let found = self.lookup(act).await?;
        let after = self.effects(act).await;
        judge::found(&found, &before, &after, &act.frozen.contract, hidden)?;
        Ok(found)
    }

    /// What the counterparty's record has of it.
    pub async fn effects(&self, act: &Prepared) -> Vec<Effect> {
        self.bench.effects(act.job.act_id, &act.frozen).await
    }

    /// Lets everything land that can still land.
    pub async fn settle(&self) {
        for line in self.lines() {
            // What a broken connection still does is over within the proxy's own limits.
            line.disarm();
            line.release();
            line.quiet().await;
        }
        self.bench.settle().await;
    }

    /// Every proxy, once.
    pub fn lines(&self) -> impl Iterator<Item = &super::FaultProxy> {
        let (act, look) = (self.bench.proxy(), self.bench.lookup_proxy());
        let other = look.filter(|l| act.is_none_or(|a| a.addr() != l.addr()));
        act.into_iter().chain(other)
    }

    /// Mends every line and begins to count anew.
    pub fn mend(&self) {
        self.lines().for_each(super::FaultProxy::begin);
    }
}
