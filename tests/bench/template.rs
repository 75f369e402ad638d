//! The life of one act, recorded once, so that the bare store can be given the same rows without anybody deciding
//! anything.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use adapter_sim::{SimAdapter, SimConfig};
use wilco_core::journal::{Entry, Row};
use wilco_core::token::TokenKey;
use wilco_core::{Act, ActId, Clock, State, Timestamp};
use wilco_engine::{Caller, Chance, CommitRequest, Config, Engine, Parts, PrepareRequest, Prepared, Role};
use wilco_store::{Keeper, MemoryKeeper};

use crate::lines::{FIRST_ID, confirmation, handoff};

/// An act as one write left it, and the journal rows that write appended.
pub struct Step {
    pub act: Act,
    pub entries: Vec<Entry>,
}

/// The three writes of a cycle.
pub struct Life {
    pub prepared: Step,
    pub claimed: Step,
    pub done: Step,
}

/// The machine's clock.
pub struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// Not random, and need not be: one act, thrown away.
struct Constant;

impl Chance for Constant {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(0x5a);
    }
}

/// Slow enough that the act can be seen while it is claimed.
const DELAY_MS: u32 = 200;

/// Lets the real engine carry out one act on a store in memory, and takes down what it wrote.
pub async fn record(paid: &str) -> Result<Life, String> {
    let keeper = Arc::new(MemoryKeeper::new(Arc::new(Wall)));
    let sim = SimConfig {
        delay_ms: DELAY_MS,
        ..SimConfig::default()
    };
    let sim = SimAdapter::new(&sim, Arc::new(Wall)).map_err(|e| e.to_string())?;
    let engine = Engine::start(Parts {
        keeper: Arc::clone(&keeper) as Arc<dyn Keeper>,
        adapters: vec![Arc::new(sim)],
        profiles: rw1::Profiles::builtin(),
        token_keys: vec![TokenKey {
            id: "0a0b0c0d".to_owned(),
            secret: [0x5a; 32],
        }],
        chance: Arc::new(Constant),
        config: config(),
    });
    let engine = engine.await.map_err(|e| e.to_string())?;
    let prepared = prepare(&engine, paid).await?;
    let id = prepared.act.act_id;
    let first = seen(&keeper, id, 0).await?;

    let committing = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { commit(&engine, prepared).await })
    };
    let claimed = loop {
        match seen(&keeper, id, first.act.seq).await? {
            step if step.act.state() == State::Executing => break step,
            step if step.act.state() == State::Prepared => tokio::time::sleep(Duration::from_millis(1)).await,
            step => {
                return Err(format!(
                    "the act was not seen executing: it is {:?}",
                    step.act.state()
                ));
            }
        }
    };
    committing.await.map_err(|e| e.to_string())??;
    let done = seen(&keeper, id, claimed.act.seq).await?;
    if done.act.state() != State::Done || done.act.version != 3 {
        let (state, version) = (done.act.state(), done.act.version);
        return Err(format!(
            "the act is {state:?} at version {version}, not done by three writes"
        ));
    }
    engine.drain(Duration::from_secs(1)).await;
    Ok(Life {
        prepared: first,
        claimed,
        done,
    })
}

fn scheduler() -> Caller {
    Caller {
        name: "scheduler".to_owned(),
        roles: vec![Role::Sender],
        speaks_for: vec!["scheduler".to_owned()],
    }
}

async fn prepare(engine: &Arc<Engine>, paid: &str) -> Result<Prepared, String> {
    let request = PrepareRequest {
        thread: "bench-000-00".to_owned(),
        ho: handoff("000-00", FIRST_ID, paid),
        record: None,
    };
    let prepared = engine.prepare(&scheduler(), request).await;
    prepared.map_err(|refusal| refusal.to_string())
}

async fn commit(engine: &Arc<Engine>, prepared: Prepared) -> Result<(), String> {
    let rb_id = prepared.act.offer().map(|o| o.rb_id.clone()).unwrap_or_default();
    let request = CommitRequest {
        token: prepared.token,
        statement_sha256: prepared.statement_sha256,
        confirmation: confirmation(FIRST_ID + 1, &rb_id),
        wait: None,
    };
    let committed = engine.commit(&scheduler(), request).await;
    committed.map(drop).map_err(|refusal| refusal.to_string())
}

/// The act as it stands, with the journal rows after `seq`.
async fn seen(keeper: &MemoryKeeper, id: ActId, seq: u64) -> Result<Step, String> {
    let act = keeper
        .act(id)
        .await
        .map_err(|e| e.to_string())?
        .ok_or("the act is gone")?;
    let rows = keeper.journal(id).await.map_err(|e| e.to_string())?;
    let new = rows.into_iter().filter(|row| row.seq > seq && row.seq <= act.seq);
    Ok(Step {
        entries: new.map(entry).collect(),
        act,
    })
}

fn entry(row: Row) -> Entry {
    Entry {
        kind: row.kind,
        message_id: row.message_id,
        body: row.body.unwrap_or_default(),
        principal: row.principal,
    }
}

fn config() -> Config {
    let seconds = Duration::from_secs;
    Config {
        agents: vec!["payer".to_owned()],
        statement_ttl: seconds(600),
        handoff_age: seconds(86_400),
        default_wait: seconds(30),
        max_wait: seconds(120),
        execution_deadline: seconds(60),
        recovery_interval: seconds(2),
        lookup_pause: seconds(2),
        lookup_pause_max: seconds(300),
        lookups_before_escalation: 10,
        concurrency: 256,
        sole_owner: true,
        house: "bench".to_owned(),
        takeover_allowance: seconds(60),
        health_interval: Duration::from_secs(10),
        poll_interval: Duration::from_millis(500),
        orphan: false,
    }
}
