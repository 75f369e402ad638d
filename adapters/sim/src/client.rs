//! The line to the counterparty: where sendings are counted, delayed, lost, doubled and answered.

use std::sync::Arc;

use async_trait::async_trait;

use crate::fault::{Fault, Odds};
use crate::world::{Manner, SimOrder, SimWorld};
use wilco_adapter::Permit;

/// How time passes during a call. The default passes it for real; a simulation moves its clock instead, or does
/// nothing.
#[async_trait]
pub trait Pause: Send + Sync {
    /// Returns once so many microseconds have passed.
    async fn pause(&self, micros: i64);
}

/// Sleeps.
pub struct RealPause;

#[async_trait]
impl Pause for RealPause {
    async fn pause(&self, micros: i64) {
        let micros = u64::try_from(micros).unwrap_or(0);
        tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
    }
}

/// Passes no time at all.
pub struct NoPause;

#[async_trait]
impl Pause for NoPause {
    async fn pause(&self, _micros: i64) {}
}

const SECOND: i64 = 1_000_000;

pub(crate) struct Client {
    pub world: Arc<SimWorld>,
    pub pause: Arc<dyn Pause>,
    pub odds: Odds,
    pub delay_us: i64,
}

/// What came of a sending, seen from here.
pub(crate) enum Heard {
    NotSent(String),
    Answer(Box<SimOrder>),
    Nothing(&'static str),
}

impl Client {
    /// Any call's own duration.
    pub async fn travel(&self) {
        if self.delay_us > 0 {
            self.pause.pause(self.delay_us).await;
        }
    }

    /// Sends the frozen bytes, once.
    pub async fn send(&self, permit: &Permit, key: &str, body: &str) -> Heard {
        self.travel().await;
        if self.world.is_down() {
            return Heard::NotSent("the simulated counterparty is down".to_owned());
        }
        if let Err(late) = permit.may_send() {
            return Heard::NotSent(late.to_string());
        }
        let act = permit.act_id();
        let (n, scripted) = self.world.sending(act);
        let arrive = |manner| Box::new(self.world.arrive(key, body, manner));
        match scripted.unwrap_or_else(|| self.odds.draw(act, n)) {
            Fault::Fine => Heard::Answer(arrive(Manner::default())),
            Fault::NotConnected => Heard::NotSent("no connection".to_owned()),
            Fault::LostBefore => Heard::Nothing("no answer"),
            Fault::LostAfter => {
                arrive(Manner::default());
                Heard::Nothing("no answer")
            }
            Fault::Garbage => {
                arrive(Manner::default());
                Heard::Nothing("the answer cannot be read")
            }
            Fault::Hidden(lookups) => {
                arrive(Manner::default());
                self.world.hide(act, lookups);
                Heard::Nothing("no answer")
            }
            Fault::Late(after_s) => {
                self.world.arrive_later(key, body, after_s);
                Heard::Nothing("no answer")
            }
            Fault::Duplicate => {
                let first = arrive(Manner::default());
                arrive(Manner::default());
                Heard::Answer(first)
            }
            Fault::WrongValue(slot, value) => Heard::Answer(arrive(Manner {
                wrong: Some((slot, value)),
                ..Manner::default()
            })),
            Fault::Slow(for_s) => {
                let order = arrive(Manner::default());
                self.pause.pause(for_s.saturating_mul(SECOND)).await;
                Heard::Answer(order)
            }
            Fault::Stalled(for_s) => {
                self.pause.pause(for_s.saturating_mul(SECOND)).await;
                Heard::Answer(arrive(Manner::default()))
            }
            Fault::Unfinished(for_s) => Heard::Answer(arrive(Manner {
                finish: Some((for_s, true)),
                ..Manner::default()
            })),
            Fault::UnfinishedThenRejected(for_s) => Heard::Answer(arrive(Manner {
                finish: Some((for_s, false)),
                ..Manner::default()
            })),
            Fault::Reject => Heard::Answer(arrive(Manner {
                reject: true,
                ..Manner::default()
            })),
        }
    }
}
