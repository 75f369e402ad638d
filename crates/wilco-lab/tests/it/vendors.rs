//! The vendor table, changed as others change it: with SQL on the file. What these tests are after: its history has every
//! account that ever stood there, whoever wrote it, and cannot be tidied; and its faults do what the table says.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::support::{Bench, MARLOW, loopback, ok};

const SLIP: &str = "40-12-88/61102983";

async fn bench() -> Bench {
    Bench::with(|options| options.vendors = true).await
}

/// Somebody else at the same file, who does not wait long.
async fn clerk(bench: &Bench) -> SqliteConnection {
    let path = bench.lab.vendors_path().expect("a vendor table");
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(Duration::ZERO);
    ok(SqliteConnection::connect_with(&options).await)
}

/// A change as the daemon makes it: our row and the swap in one transaction. How many rows it swapped.
async fn swap(
    clerk: &mut SqliteConnection,
    reference: &str,
    prev: &str,
    acct: &str,
) -> Result<u64, sqlx::Error> {
    let mut tx = clerk.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(
        "INSERT INTO wilco_acts (ref, ask, sup, prev, acct, at) VALUES (?, 'CHGBANK', 'marlow', ?, ?, 'now')",
    )
    .bind(reference)
    .bind(prev)
    .bind(acct)
    .execute(&mut *tx)
    .await?;
    let done = sqlx::query("UPDATE vendor SET acct = ?, apref = ? WHERE sup = 'marlow' AND acct = ?")
        .bind(acct)
        .bind(reference)
        .bind(prev)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(done.rows_affected())
}

async fn report(bench: &Bench) -> Value {
    bench.client.get("/lab/vendors").await.body
}

/// What Marlow's account was changed from and to, oldest first.
async fn changes(bench: &Bench) -> Vec<(String, String)> {
    let report = report(bench).await;
    let rows = report["history"].as_array().expect("rows").iter().rev();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    rows.filter(|row| row["sup"] == "marlow")
        .map(|row| (text(&row["old"]), text(&row["new"])))
        .collect()
}

#[tokio::test]
async fn every_account_that_ever_stood_there_is_on_record_whoever_wrote_it() {
    let bench = bench().await;
    let mut clerk = clerk(&bench).await;
    assert_eq!(ok(swap(&mut clerk, "W1", MARLOW, SLIP).await), 1);
    // By hand, and there and back again.
    for acct in [MARLOW, SLIP] {
        ok(sqlx::query("UPDATE vendor SET acct = ? WHERE sup = 'marlow'")
            .bind(acct)
            .execute(&mut clerk)
            .await);
    }
    // Not a change of account.
    ok(sqlx::query("UPDATE vendor SET phone = '1', acct = acct")
        .execute(&mut clerk)
        .await);
    ok(sqlx::query("DELETE FROM vendor WHERE sup = 'marlow'")
        .execute(&mut clerk)
        .await);
    let pair = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    let want = [
        pair("", MARLOW),
        pair(MARLOW, SLIP),
        pair(SLIP, MARLOW),
        pair(MARLOW, SLIP),
        pair(SLIP, ""),
    ];
    assert_eq!(changes(&bench).await, want);
    for tidy in [
        "UPDATE vendor_history SET new = 'x'",
        "DELETE FROM vendor_history",
    ] {
        let refused = sqlx::raw_sql(tidy).execute(&mut clerk).await;
        assert!(
            refused.is_err_and(|e| e.to_string().contains("the history is never")),
            "{tidy}"
        );
    }
    let report = report(&bench).await;
    assert_eq!(report["acts"][0]["ref"], "W1");
    assert_eq!(report["vendors"].as_array().map(Vec::len), Some(3));
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_new_lab_on_the_same_folder_leaves_the_table_alone_and_is_well() {
    let bench = bench().await;
    let mut first = clerk(&bench).await;
    ok(swap(&mut first, "W1", MARLOW, SLIP).await);
    ok(sqlx::query("DELETE FROM vendor WHERE sup <> 'marlow'")
        .execute(&mut first)
        .await);
    ok(first.close().await);
    bench.client.fault("vendors:refuse").await;
    let mut options = wilco_lab::LabOptions::new(&bench.folder.0, loopback());
    options.vendors = true;
    let bench = bench.restart_with(options).await;
    let vendors = report(&bench).await["vendors"].clone();
    assert_eq!(vendors.as_array().map(Vec::len), Some(1), "{vendors}");
    assert_eq!(vendors[0]["acct"], SLIP);
    let mut clerk = clerk(&bench).await;
    assert_eq!(
        ok(swap(&mut clerk, "W2", SLIP, MARLOW).await),
        1,
        "nothing is armed"
    );
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_locked_table_is_read_and_not_written_until_the_lock_ends() {
    let bench = bench().await;
    bench.client.fault("vendors:lock:1:3600").await;
    let mut clerk = clerk(&bench).await;
    let locked = swap(&mut clerk, "W1", MARLOW, SLIP).await;
    assert!(locked.is_err_and(|e| e.to_string().contains("locked")));
    let acct: String = ok(sqlx::query_scalar("SELECT acct FROM vendor WHERE sup = 'marlow'")
        .fetch_one(&mut clerk)
        .await);
    assert_eq!(acct, MARLOW);
    let faults = bench.client.get("/lab/faults").await.body;
    assert_eq!(faults["faults"][0]["fault"], "lock");
    assert!(
        faults["faults"][0]["seconds"]
            .as_f64()
            .is_some_and(|left| left > 3000.0)
    );

    ok(bench
        .client
        .send(
            bench
                .client
                .http
                .delete(format!("{}/lab/faults", bench.client.url)),
        )
        .await);
    assert_eq!(bench.client.faults_left().await, 0);
    assert_eq!(ok(swap(&mut clerk, "W1", MARLOW, SLIP).await), 1);

    // One that ends by itself.
    bench.client.fault("vendors:lock:1:0.2").await;
    let mut turned = swap(&mut clerk, "W2", SLIP, MARLOW).await;
    for _ in 0..500 {
        if turned.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        turned = swap(&mut clerk, "W2", SLIP, MARLOW).await;
    }
    assert_eq!(ok(turned), 1);
    // A lab that stops lets go.
    bench.client.fault("vendors:lock:1:3600").await;
    bench.lab.stop().await;
    assert_eq!(ok(swap(&mut clerk, "W3", MARLOW, SLIP).await), 1);
}

#[tokio::test]
async fn a_refusing_table_takes_no_change_and_keeps_no_trace_of_one() {
    let bench = bench().await;
    let mut clerk = clerk(&bench).await;
    bench.client.fault("vendors:refuse").await;
    for reference in ["W1", "W2"] {
        let refused = swap(&mut clerk, reference, MARLOW, SLIP).await;
        assert!(refused.is_err_and(|e| e.to_string().contains("takes no changes now")));
    }
    let faults = bench.client.get("/lab/faults").await.body;
    let want = json!([{ "counterparty": "vendors", "fault": "refuse", "times": 1, "seconds": null }]);
    assert_eq!(faults["faults"], want);
    assert_eq!(report(&bench).await["acts"], json!([]));
    assert_eq!(changes(&bench).await.len(), 1, "as seeded");
    ok(bench
        .client
        .send(
            bench
                .client
                .http
                .delete(format!("{}/lab/faults", bench.client.url)),
        )
        .await);
    assert_eq!(ok(swap(&mut clerk, "W1", MARLOW, SLIP).await), 1);

    bench.client.fault("vendors:refuse:1:0").await;
    assert_eq!(bench.client.faults_left().await, 0, "it is over already");
    assert_eq!(ok(swap(&mut clerk, "W2", SLIP, MARLOW).await), 1);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_wrong_account_takes_the_place_of_the_right_one_so_many_times() {
    let bench = bench().await;
    let mut clerk = clerk(&bench).await;
    bench.client.fault("vendors:wrong-account:2").await;
    assert_eq!(ok(swap(&mut clerk, "W1", MARLOW, "30-94-21/20417765").await), 1);
    // The last two digits are equal: swapping them would change nothing.
    assert_eq!(
        ok(swap(&mut clerk, "W2", "30-94-21/20417756", "09-01-28/44170999").await),
        1
    );
    assert_eq!(bench.client.faults_left().await, 0);
    assert_eq!(ok(swap(&mut clerk, "W3", "09-01-28/44170990", MARLOW).await), 1);
    let pair = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    let want = [
        pair("", MARLOW),
        pair(MARLOW, "30-94-21/20417765"),
        pair("30-94-21/20417765", "30-94-21/20417756"),
        pair("30-94-21/20417756", "09-01-28/44170999"),
        pair("09-01-28/44170999", "09-01-28/44170990"),
        pair("09-01-28/44170990", MARLOW),
    ];
    assert_eq!(changes(&bench).await, want);
    bench.lab.stop().await;
}
