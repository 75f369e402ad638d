//! Several keepers on one database: each write is answered as if there were one, and neighbouring versions work beside
//! each other.
#![cfg(feature = "postgres-tests")]

#[path = "support/database.rs"]
mod database;

use std::time::Duration;

use database::Database;
use futures::future::join_all;
use wilco_core::journal::{Entry, first_break};
use wilco_core::write::{Taken, TwinGuard};
use wilco_core::{Act, Change, State, Timestamp, Written};
use wilco_store::suite::{answered, changed, fixed, inserted, inserted_as, read, sample};
use wilco_store::{Keeper, PostgresKeeper, PostgresOptions, StoreError};

const DAY_US: i64 = 86_400_000_000;

async fn two(database: &Database) -> [PostgresKeeper; 2] {
    [
        database.keeper_on_its_clock().await,
        database.keeper_on_its_clock().await,
    ]
}

async fn close(keepers: impl IntoIterator<Item = PostgresKeeper>) {
    for keeper in keepers {
        keeper.close().await;
    }
}

/// The same act claimed at both at once, again and again: one claim is made, and the other is told of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_claims_is_made() {
    let database = Database::new();
    let keepers = two(&database).await;
    for n in 0..40 {
        let act = inserted(&keepers[0], n).await;
        let claims = (0..6_usize).map(|i| {
            let (act, keeper) = (act.clone(), &keepers[i % 2]);
            keeper.write(Box::new(move |at| {
                let an = Entry::line(format!("scheduler-{n}-{i}"), "RW1 k=AN val=Y", "scheduler");
                let mut act = sample::claimed(act.clone(), at);
                act.principal = format!("daemon-{i}");
                vec![sample::update(act, vec![an])]
            }))
        });
        let (mut made, mut told) = (Vec::new(), Vec::new());
        for written in join_all(claims).await {
            match answered(written) {
                Written::Advanced { mut acts, at, .. } => {
                    let act = acts.remove(0);
                    assert_eq!(act.execution().map(|e| e.claim.claimed_at), Some(at));
                    made.push(act);
                }
                Written::Stale { current, .. } => told.push(current.map(|c| *c)),
                other @ Written::Taken(_) => panic!("{other:?}"),
            }
        }
        assert_eq!((made.len(), told.len()), (1, 5));
        assert!(told.iter().all(|t| t.as_ref() == made.first()));
        for keeper in &keepers {
            assert_eq!(read(keeper, act.act_id).await, made[0]);
            let rows = keeper.journal(act.act_id).await.expect("a journal");
            assert_eq!((rows.len(), first_break(&made[0], &rows)), (3, None));
        }
    }
    close(keepers).await;
}

fn like(mut act: Act, likeness: &str) -> Act {
    act.likeness = Some(likeness.to_owned());
    act
}

fn guard(act: &Act, states: &[State]) -> TwinGuard {
    TwinGuard {
        likeness: act.likeness.clone().unwrap_or_default(),
        since: Timestamp(act.created_at.0 - 90 * DAY_US),
        states: states.to_vec(),
        except: vec![act.act_id],
    }
}

const STANDING: [State; 4] = [State::Prepared, State::Executing, State::InDoubt, State::Done];

/// Two that are alike, prepared at both at once: one stands, and the other is told which. Two that only begin alike, and so
/// meet in the same row of the guard, both stand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_twins_stands() {
    let database = Database::new();
    let keepers = two(&database).await;
    for round in 0..60_u64 {
        let alike = round % 3 != 2;
        let likeness = move |i: u64| match alike {
            true => format!("{:04x}{round:060x}", round % 7),
            false => format!("{:04x}{:060x}", round % 7, (1_000_000 + round) * 10 + i),
        };
        let writes = (0..4_u64).map(|i| {
            let keeper = &keepers[usize::try_from(i % 2).unwrap_or(0)];
            keeper.write(Box::new(move |at| {
                let act = like(sample::prepared(100 * round + i, at), &likeness(i));
                let unless_twin = Some(guard(&act, &STANDING));
                vec![Change {
                    unless_twin,
                    ..sample::insert(act)
                }]
            }))
        });
        let (mut made, mut told) = (Vec::new(), Vec::new());
        for written in join_all(writes).await {
            match answered(written) {
                Written::Advanced { mut acts, .. } => made.push(acts.remove(0)),
                Written::Taken(Taken::Twin(twin)) => told.push(*twin),
                other => panic!("{other:?}"),
            }
        }
        if alike {
            assert_eq!((made.len(), told.len()), (1, 3));
            assert!(told.iter().all(|t| *t == made[0]));
        } else {
            assert_eq!((made.len(), told.len()), (4, 0));
        }
    }
    close(keepers).await;
}

/// Two twins that were let stand beside each other are claimed at both at once: one is, the other is told of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_twins_is_claimed() {
    let database = Database::new();
    let keepers = two(&database).await;
    for round in 0..40_u64 {
        let likeness = format!("{round:064x}");
        let mut acts = Vec::new();
        for i in 0..2 {
            let likeness = likeness.clone();
            acts.push(inserted_as(&keepers[0], 10 * round + i, move |act| like(act, &likeness)).await);
        }
        let claims = acts.iter().zip(&keepers).map(|(act, keeper)| {
            let act = act.clone();
            keeper.write(Box::new(move |at| {
                vec![Change {
                    unless_twin: Some(guard(&act, &[State::Executing, State::InDoubt, State::Done])),
                    ..sample::update(sample::claimed(act.clone(), at), Vec::new())
                }]
            }))
        });
        let mut answers = join_all(claims).await.into_iter().map(answered);
        match (answers.next(), answers.next()) {
            (Some(Written::Advanced { acts, .. }), Some(Written::Taken(Taken::Twin(twin))))
            | (Some(Written::Taken(Taken::Twin(twin))), Some(Written::Advanced { acts, .. })) => {
                assert_eq!(acts.first(), Some(&*twin));
            }
            other => panic!("one is claimed, the other is not: {other:?}"),
        }
    }
    close(keepers).await;
}

/// What is decided from an act that was read is decided after it, whichever daemon wrote it, so that a thread reads in the
/// order of its reasons.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_is_earlier_than_what_follows_from_it() {
    let database = Database::new();
    let keepers = two(&database).await;
    let mut last = Timestamp(i64::MIN);
    for n in 0..60_u64 {
        let (here, there) = (&keepers[(n % 2) as usize], &keepers[((n + 1) % 2) as usize]);
        let act = inserted(here, n).await;
        assert!(act.updated_at > last, "{n}");
        assert!(here.now() >= act.updated_at);
        last = act.updated_at;
        // The other reads it, and writes the next.
        assert_eq!(read(there, act.act_id).await, act);
        assert!(there.now() >= act.updated_at);
    }
    close(keepers).await;
}

/// Both purge at once, while one of them goes on with an act: everything old is erased once, by one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_purges_share_the_work() {
    let database = Database::new();
    let keepers = two(&database).await;
    let mut old = Vec::new();
    for n in 0..40 {
        let act = inserted(&keepers[0], n).await;
        old.push(changed(&keepers[1], act, sample::done).await);
    }
    let open = inserted(&keepers[0], 100).await;
    let older_than = keepers[0].now().plus_seconds(1);
    let purges = keepers.iter().map(|keeper| async move {
        let mut acts = 0;
        loop {
            let done = keeper.purge(older_than, 7).await.expect("a purge");
            acts += done.acts;
            if !done.more {
                return acts;
            }
        }
    });
    let counts = join_all(purges).await;
    assert_eq!(counts.iter().sum::<u64>(), 40, "{counts:?}");
    for act in &old {
        let after = read(&keepers[0], act.act_id).await;
        assert!(after.erased_handoff().is_some());
        let rows = keepers[1].journal(act.act_id).await.expect("a journal");
        assert_eq!(first_break(&after, &rows), None);
        assert_eq!(rows.iter().filter(|row| row.body.is_some()).count(), 1);
    }
    assert_eq!(read(&keepers[0], open.act_id).await, open);
    close(keepers).await;
}

/// Each hears of what the other writes, and not of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_hears_of_what_the_other_writes() {
    let database = Database::new();
    let keepers = two(&database).await;
    let mut heard = keepers[0].changes().expect("hints");
    let ours = inserted(&keepers[0], 1).await.act_id;
    let mut n = 10;
    // Until the listener is there, hints go by.
    let theirs = loop {
        let theirs = inserted(&keepers[1], n).await.act_id;
        if let Ok(told) = tokio::time::timeout(Duration::from_millis(100), heard.recv()).await {
            break (told.expect("a hint"), theirs);
        }
        n += 1;
    };
    assert_ne!(theirs.0, ours);
    assert_eq!(theirs.0, theirs.1);
    close(keepers).await;
}

/// A build that lacks the newest migration works beside one that has it, on the same acts, while that one brings the tables
/// up to date; one that lacks more than it may is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbouring_version_works_beside_this_one() {
    let database = Database::new();
    let older = |newest| {
        let mut options = PostgresOptions::new(database.url());
        options.newest_migration = Some(newest);
        PostgresKeeper::open(options)
    };
    let old = older(2).await.expect("it makes the tables as it knows them");
    let before = inserted(&old, 1).await;

    // It works while the tables change under it.
    let working = async {
        for n in 10..60 {
            sample::cycle(&old, n).await.expect("a cycle");
        }
    };
    let (new, ()) = tokio::join!(database.keeper_on_its_clock(), working);

    let now = changed(&new, before, sample::claimed).await;
    let now = changed(&old, now, sample::done).await;
    assert_eq!(read(&new, now.act_id).await, now);
    for n in 100..110 {
        sample::cycle(&old, n).await.expect("a cycle");
        sample::cycle(&new, n + 50).await.expect("a cycle");
    }
    let written = old
        .write(fixed(vec![sample::insert(sample::prepared(100, old.now()))]))
        .await;
    assert!(matches!(written, Ok(Written::Stale { .. })), "{written:?}");
    let purged = old.purge(old.now(), 0).await.expect("a purge");
    assert!(purged.acts > 60);
    close([old, new]).await;

    let again = older(2).await.expect("it starts on the newer tables, too");
    again.close().await;
    match older(1).await {
        Err(StoreError::Refuse(why)) => {
            assert!(why.contains("needs a build that knows migration 2"), "{why}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a build that lets twins pass was let in"),
    }
}

/// Many start at once on an empty database: the tables are made once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_start_at_once() {
    let database = Database::new();
    let opened = join_all((0..8).map(|_| database.keeper_on_its_clock())).await;
    for (n, keeper) in (0..).zip(&opened) {
        sample::cycle(keeper, n).await.expect("a cycle");
    }
    close(opened).await;
}
