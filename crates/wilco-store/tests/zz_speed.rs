#![cfg(feature = "postgres-tests")]
#[path = "support/schema.rs"]
mod schema;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wilco_core::write::TwinGuard;
use wilco_core::{Change, State, Timestamp};
use wilco_store::Keeper;
use wilco_store::suite::sample;

async fn guarded(keeper: &dyn Keeper, n: u64) -> Result<(), wilco_store::StoreError> {
    let guard = move |a: &wilco_core::Act, states: &[State]| TwinGuard {
        likeness: a.likeness.clone().unwrap(),
        since: Timestamp(a.created_at.0 - 90 * 86_400_000_000),
        states: states.to_vec(),
        except: vec![a.act_id],
    };
    let act = sample::one(
        keeper
            .write(Box::new(move |at| {
                let a = sample::prepared(n, at);
                let g = guard(
                    &a,
                    &[State::Prepared, State::Executing, State::InDoubt, State::Done],
                );
                vec![Change {
                    unless_twin: Some(g),
                    ..sample::insert(a)
                }]
            }))
            .await,
    )?;
    let act = sample::one(
        keeper
            .write(Box::new(move |at| {
                let c = wilco_core::journal::Entry::line(
                    format!("scheduler-c{n}"),
                    "RW1 k=AN val=Y",
                    "scheduler",
                );
                let g = guard(&act, &[State::Executing, State::InDoubt, State::Done]);
                vec![Change {
                    unless_twin: Some(g),
                    ..sample::update(sample::claimed(act.clone(), at), vec![c])
                }]
            }))
            .await,
    )?;
    sample::one(
        keeper
            .write(Box::new(move |at| {
                let act = sample::done(act.clone(), at);
                let line = act
                    .closed()
                    .map(|c| wilco_core::journal::Entry::line(&c.line_id, &c.line, "wilco"));
                vec![sample::update(act, line.into_iter().collect())]
            }))
            .await,
    )?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn speed() {
    let schema = schema::Schema::new().await;
    let keeper = Arc::new(schema.keeper_on_its_clock().await);
    let base = std::sync::atomic::AtomicU64::new(1);
    let base = Arc::new(base);
    for g in [false, true] {
        for n in [1usize, 16, 64] {
            let until = Instant::now() + Duration::from_secs(4);
            let mut tasks = Vec::new();
            for _ in 0..n {
                let (k, b) = (Arc::clone(&keeper), Arc::clone(&base));
                tasks.push(tokio::spawn(async move {
                    let mut lat = Vec::new();
                    while Instant::now() < until {
                        let i = b.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let t = Instant::now();
                        let r = if g {
                            guarded(&*k, i).await
                        } else {
                            sample::cycle(&*k, i).await
                        };
                        r.unwrap();
                        lat.push(t.elapsed().as_micros() as u64);
                    }
                    lat
                }));
            }
            let mut lat = Vec::new();
            for t in tasks {
                lat.extend(t.await.unwrap());
            }
            lat.sort();
            println!(
                "guarded={g} n={n} cycles/s={} p50={}us p99={}us max={}us {:?}",
                lat.len() / 4,
                lat[lat.len() / 2],
                lat[lat.len() * 99 / 100],
                lat[lat.len() - 1],
                keeper.counters()
            );
        }
    }
    keeper.close().await;
}
