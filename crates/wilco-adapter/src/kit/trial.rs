//! One adapter under trial: the steps every case is made of, as the daemon takes them. Each step has an adapter of its own,
//! as after a restart, so that nothing is known from the step before but what is frozen.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wilco_core::{Clock, Frozen, Timestamp};

use super::bench::{Bench, Effect};
use super::findings::{Stop, failed};
use super::props::{frozen_of, permit, served};
use crate::{Adapter, Description, Found, Job, Outcome, Ready, Served};

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
    /// When it was sent first; the clock's now, until then.
    pub first_sent_at: Timestamp,
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

    /// Lets nothing hang for ever.
    pub async fn patiently<T>(&self, what: &str, call: impl Future<Output = T>) -> Result<T, Stop> {
        match tokio::time::timeout(self.bench.patience(), call).await {
            Ok(done) => Ok(done),
            Err(_) => failed(format!("{what} did not return: every call must end by itself")),
        }
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
        let asked = adapter.lookup(act.job.act_id, &act.frozen, act.first_sent_at);
        self.patiently("lookup", asked).await
    }

    /// What the counterparty's record has of it.
    pub async fn effects(&self, act: &Prepared) -> Vec<Effect> {
        self.bench.effects(act.job.act_id, &act.frozen).await
    }

    /// Lets everything land that can still land.
    pub async fn settle(&self) {
        for line in self.lines() {
            // What a broken connection still does is over within the proxy's own limits.
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
