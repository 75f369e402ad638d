//! What only a file can suffer: locked by others, gone, not a database, or made without a journal that lasts.

use std::time::Duration;

use rusqlite::Connection;
use wilco_adapter::{Adapter, Found, Ready, ResolveError};

use crate::house::{House, NEW, OLD, change, done, not_sent, rejected};

#[tokio::test]
async fn a_locked_file_is_waited_for_and_then_left_alone() {
    let house = House::sqlite().with(|c| c.timeout_s = 1);
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    house.sql("PRAGMA journal_mode = WAL");
    let other = Connection::open(&house.config.path).unwrap_or_else(|e| panic!("{e}"));
    other
        .execute_batch("BEGIN IMMEDIATE")
        .unwrap_or_else(|e| panic!("{e}"));
    // Reading goes on; changing does not.
    assert!(house.adapter().resolve(&job).await.is_ok());
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));
    let text = not_sent(house.execute(&job, &frozen).await);
    assert!(text.contains("locked"), "{text}");
    other.execute_batch("ROLLBACK").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    done(house.execute(&job, &frozen).await);
}

#[tokio::test]
async fn a_lock_that_is_let_go_in_time_is_no_trouble() {
    let house = House::sqlite().with(|c| c.timeout_s = 60);
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let other = Connection::open(&house.config.path).unwrap_or_else(|e| panic!("{e}"));
    other
        .execute_batch("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE")
        .unwrap_or_else(|e| panic!("{e}"));
    let letting_go = tokio::task::spawn_blocking(move || {
        std::thread::sleep(Duration::from_millis(300));
        other.execute_batch("ROLLBACK")
    });
    done(house.execute(&job, &frozen).await);
    assert!(letting_go.await.is_ok_and(|r| r.is_ok()));
    assert_eq!((house.account("marlow"), house.acts()), (NEW.to_owned(), 1));
}

#[tokio::test]
async fn a_file_that_is_gone_proves_nothing_and_is_not_made_anew() {
    let house = House::sqlite();
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let path = house.config.path.clone();
    let away = house.folder.0.join("away");
    std::fs::rename(&path, &away).unwrap_or_else(|e| panic!("{e}"));
    assert!(
        matches!(house.adapter().resolve(&job).await, Err(ResolveError::Passing(t)) if t.contains("no such file"))
    );
    assert!(matches!(
        house.adapter().ready(job.act_id, &frozen).await,
        Ready::Unknown(_)
    ));
    not_sent(house.execute(&job, &frozen).await);
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Unknown(_)));
    assert!(
        house
            .adapter()
            .health()
            .await
            .is_err_and(|t| t.contains("no such file"))
    );
    assert!(!path.exists(), "it was made anew");

    std::fs::write(
        &path,
        "not a database, whatever its name says, and longer than a header would be",
    )
    .unwrap_or_else(|e| panic!("{e}"));
    not_sent(house.execute(&job, &frozen).await);
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Unknown(_)));
    std::fs::write(&path, "").unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Unknown(_)));

    std::fs::rename(&away, &path).unwrap_or_else(|e| panic!("{e}"));
    done(house.execute(&job, &frozen).await);
    assert_eq!((house.account("marlow"), house.acts()), (NEW.to_owned(), 1));
}

#[tokio::test]
async fn the_file_gets_a_journal_that_is_flushed_at_each_commit() {
    let house = House::sqlite();
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    done(house.execute(&job, &frozen).await);
    assert_eq!(
        crate::house::asked(&house.config.path, "SELECT journal_mode FROM pragma_journal_mode")
            .unwrap_or_default(),
        "wal"
    );
}

#[tokio::test]
async fn a_column_of_numbers_is_noticed_before_it_swallows_an_account() {
    let house = House::sqlite().with(|c| c.account = "any".to_owned());
    house.sql("ALTER TABLE vendor RENAME TO put_away");
    house.sql("CREATE TABLE vendor (sup TEXT, name TEXT, acct INTEGER, eff TEXT, phone TEXT, apref TEXT)");
    house.sql("INSERT INTO vendor (sup, acct) VALUES ('marlow', 11223344)");
    // A number as text reads well; what is written loses its zeros, and that is what stops it.
    let job = crate::house::change_to(&house, "marlow", "00112233");
    let frozen = house.prepare(&job).await;
    assert_eq!(frozen.value("prev"), Some("11223344"));
    let text = rejected(house.execute(&job, &frozen).await);
    assert!(
        text.contains("would show acct as 112233, not as 00112233"),
        "{text}"
    );
    assert_eq!(
        (house.account("marlow"), house.acts()),
        ("11223344".to_owned(), 0)
    );
    // A row without an account, and one in other letters.
    house.sql("INSERT INTO vendor (sup, acct) VALUES ('tate', NULL), ('caps', 'Abc')");
    let (why, text) = house.refusal(&crate::house::change_to(&house, "tate", "1")).await;
    assert!(why == "NOCTX" && text.contains("no account on file"), "{text}");
    house.sql("INSERT INTO vendor (sup, acct) VALUES ('blob', x'ff00')");
    match house
        .adapter()
        .resolve(&crate::house::change_to(&house, "blob", "1"))
        .await
    {
        Err(_) => {}
        Ok(resolved) => panic!("{resolved:?}"),
    }
}

#[tokio::test]
async fn letters_are_compared_byte_by_byte() {
    let house = House::sqlite().with(|c| c.account = "any".to_owned());
    house.sql("ALTER TABLE vendor RENAME TO put_away");
    house.sql(
        "CREATE TABLE vendor (sup TEXT COLLATE NOCASE, name TEXT, acct TEXT COLLATE NOCASE, eff TEXT, phone TEXT, apref TEXT)",
    );
    house.sql("INSERT INTO vendor (sup, acct) VALUES ('marlow', 'gb33abcd')");
    let (why, text) = house
        .refusal(&crate::house::change_to(&house, "Marlow", "X1"))
        .await;
    assert!(why == "NOCTX" && text.contains("writes it marlow"), "{text}");
    let job = crate::house::change_to(&house, "marlow", "X1");
    let frozen = house.prepare(&job).await;
    house.sql("UPDATE vendor SET acct = 'GB33ABCD'");
    rejected(house.execute(&job, &frozen).await);
    assert_eq!(
        (house.account("marlow"), house.acts()),
        ("GB33ABCD".to_owned(), 0)
    );
}

/// A copy of the table from before the change is put in its place: it has no trace of the change, and that proves nothing.
#[tokio::test]
async fn another_file_at_the_same_path_is_another_table() {
    let house = House::sqlite();
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let path = house.config.path.clone();
    let before = house.folder.0.join("before");
    std::fs::copy(&path, &before).unwrap_or_else(|e| panic!("{e}"));
    done(house.execute(&job, &frozen).await);
    // Beside it until it takes its place, so that it is a file of its own.
    std::fs::rename(&before, &path).unwrap_or_else(|e| panic!("{e}"));
    let found = house.lookup(&job, &frozen).await;
    assert!(matches!(found, Found::Unknown(_)), "{found:?}");
    assert_eq!(house.acts(), 0);
}
