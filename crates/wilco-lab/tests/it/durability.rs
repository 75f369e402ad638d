//! What the bank has said, it still says after a stop, a kill -9 in the middle of things, or a damaged file.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use reqwest::StatusCode;
use serde_json::Value;
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use wilco_lab::{BOOK_FILE, LabError, LabOptions, MailOptions};

use crate::support::{Bench, CONSENTS, Client, Folder, MARLOW, OURS, PAYMENTS, initiation, loopback, ok};

/// Set for the process that is to be killed: the folder of its lab.
const CHILD_FOLDER: &str = "WILCO_LAB_TEST_CHILD";

#[tokio::test]
async fn a_restart_keeps_the_book_the_keys_and_the_clock() {
    let mut bench = Bench::new().await;
    let order = initiation("R1", "10.00");
    bench
        .client
        .knob("/lab/clock", serde_json::json!({ "advance_s": 5 }))
        .await;
    let body = bench.client.allowed("c", &order).await;
    let paid = bench.client.post(PAYMENTS, "p", &body).await;
    let before = bench.client.book().await.0;

    bench = bench.restart().await;
    let client = &bench.client;
    assert_eq!(client.book().await.0, before);
    assert_eq!(client.get("/lab/clock").await.body["ahead_s"], 5);
    let again = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(
        again.text("/Data/DomesticPaymentId"),
        paid.text("/Data/DomesticPaymentId")
    );
    assert_eq!(
        client.post(PAYMENTS, "p2", &body).await.refusal(),
        "UK.OBIE.Resource.InvalidConsentStatus"
    );
    let consent = client
        .post(CONSENTS, "c", &crate::support::consent_body(&order))
        .await;
    assert_eq!(consent.body["Data"]["ConsentId"], body["Data"]["ConsentId"]);
    client.book().await.holds_one("R1", MARLOW, "10.00");
    bench.lab.stop().await;
}

/// The schema and rows of a book as the lab's first version wrote them.
const BOOK_V1: &str = include_str!("../book_v1.sql");
const ROWS_V1: &str = "
    INSERT INTO account (account, name, currency, own) VALUES ('opening', 'Opening balances', 'GBP', 0),
        ('20-00-00/55779911', 'Meridian Works Ltd', 'GBP', 1), ('40-12-88/61102938', 'Marlow Supplies Ltd', 'GBP', 0);
    INSERT INTO entry (kind, account, amount_minor, booked_at) VALUES ('opening', 'opening', -5000, 'then'),
        ('opening', '20-00-00/55779911', 5000, 'then');
    INSERT INTO consent VALUES ('c-1', '{}', '{}', '20-00-00/55779911', 'Consumed', 'then', 'then', 'then', 0),
        ('c-2', '{}', '{}', '20-00-00/55779911', 'Consumed', 'then', 'then', 'then', 0);
    INSERT INTO payment VALUES (1, 'p-1', 'c-1', 'k-1', 'R1', 'act-1', '{\"CreditorAccount\":{\"Name\":\"Marlow\"}}', 1000, 'GBP',
        '20-00-00/55779911', '40-12-88/61102938', 'AcceptedSettlementCompleted', 'then', 'then', 'then', NULL),
        (2, 'p-2', 'c-2', 'k-2', 'R2', 'act-2', '{}', 500, 'GBP', '20-00-00/55779911', '40-12-88/61102938', 'Pending',
        'then', 'then', 'then', 1);
    INSERT INTO entry (kind, payment_id, account, amount_minor, booked_at) VALUES
        ('payment', 'p-1', '20-00-00/55779911', -1000, 'then'), ('payment', 'p-1', '40-12-88/61102938', 1000, 'then'),
        ('payment', 'p-2', '20-00-00/55779911', -500, 'then'), ('payment', 'p-2', '40-12-88/61102938', 500, 'then');
    PRAGMA user_version = 1;";

#[tokio::test]
async fn a_book_of_the_first_version_is_carried_over_whole() {
    let folder = Folder::new();
    ok(std::fs::create_dir_all(&folder.0));
    let file = SqliteConnectOptions::new()
        .filename(folder.0.join(BOOK_FILE))
        .create_if_missing(true);
    let mut old = ok(SqliteConnection::connect_with(&file).await);
    for sql in [BOOK_V1, ROWS_V1] {
        ok(sqlx::raw_sql(sql).execute(&mut old).await);
    }
    ok(old.close().await);

    let lab = ok(wilco_lab::start(LabOptions::new(&folder.0, loopback())).await);
    let client = Client::new(lab.url());
    let book = client.book().await;
    let words: Vec<String> = book
        .payments()
        .iter()
        .map(|line| format!("{} {} {}", line["payment_id"], line["status"], line["code"]))
        .collect();
    // The second one's time to settle has long come.
    let settled = "\"AcceptedSettlementCompleted\" \"ACSC\"";
    assert_eq!(
        words,
        [format!("\"p-1\" {settled}"), format!("\"p-2\" {settled}")]
    );
    assert_eq!(book.balance(MARLOW), Some(1_500));
    assert_eq!(book.balance(OURS), Some(3_500));
    // It is a whole book: it goes on paying, and points where it should.
    let body = client.allowed("c", &initiation("R3", "10.00")).await;
    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.status,
        StatusCode::CREATED
    );
    assert_eq!(client.book().await.balance(OURS), Some(2_500));
    lab.stop().await;
    let mut now = ok(SqliteConnection::connect_with(&file).await);
    let dangling = ok(sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut now).await);
    assert_eq!(dangling.len(), 0, "every row points to one that exists");
}

#[tokio::test]
async fn one_book_one_bank() {
    let bench = Bench::new().await;
    let second = wilco_lab::start(LabOptions::new(&bench.folder.0, loopback())).await;
    assert!(matches!(second.err(), Some(LabError::InUse { .. })));
    // The first one is unharmed, and the folder is free once it stops.
    bench.client.book().await.is_untouched();
    let bench = bench.restart().await;
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_book_that_does_not_add_up_is_not_reported() {
    let bench = Bench::new().await;
    let file = SqliteConnectOptions::new().filename(bench.folder.0.join(BOOK_FILE));
    let mut vandal = ok(SqliteConnection::connect_with(&file).await);
    // Entries cannot be changed or removed even by hand.
    for sql in [
        sqlx::raw_sql("UPDATE entry SET amount_minor = 1"),
        sqlx::raw_sql("DELETE FROM entry"),
    ] {
        assert!(sql.execute(&mut vandal).await.is_err());
    }
    ok(
        sqlx::raw_sql("UPDATE account SET balance_minor = balance_minor + 1 WHERE own = 1")
            .execute(&mut vandal)
            .await,
    );
    let report = bench.client.get("/lab/book").await;
    assert_eq!(report.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(report.text("/error").contains(OURS), "{report:?}");
    ok(
        sqlx::raw_sql("UPDATE account SET balance_minor = balance_minor - 1 WHERE own = 1")
            .execute(&mut vandal)
            .await,
    );

    // One leg without the other.
    let leg = sqlx::raw_sql(
        "INSERT INTO entry (kind, account, amount_minor, booked_at) VALUES ('opening', 'opening', 1, 'x')",
    );
    ok(leg.execute(&mut vandal).await);
    assert_eq!(
        bench.client.get("/lab/book").await.status,
        StatusCode::INTERNAL_SERVER_ERROR
    );
    ok(vandal.close().await);
    bench.lab.stop().await;
}

#[tokio::test]
async fn a_failing_book_says_so_and_recovers() {
    let bench = Bench::new().await;
    let client = &bench.client;
    let body = client.allowed("c", &initiation("R1", "10.00")).await;
    let file = SqliteConnectOptions::new().filename(bench.folder.0.join(BOOK_FILE));
    let mut saboteur = ok(SqliteConnection::connect_with(&file).await);
    // The last write of a payment fails: everything before it must be gone again.
    let trap = sqlx::raw_sql(
        "CREATE TRIGGER trap BEFORE INSERT ON idempotency WHEN NEW.endpoint = 'domestic-payments' \
         BEGIN SELECT RAISE(ABORT, 'trapped'); END",
    );
    ok(trap.execute(&mut saboteur).await);
    let failed = client.post(PAYMENTS, "p", &body).await;
    assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR);
    client.book().await.is_untouched();
    ok(sqlx::raw_sql("DROP TRIGGER trap").execute(&mut saboteur).await);
    ok(saboteur.close().await);
    assert_eq!(
        client.post(PAYMENTS, "p", &body).await.status,
        StatusCode::CREATED
    );
    client.book().await.holds_one("R1", MARLOW, "10.00");
    bench.lab.stop().await;
}

/// Not a test by itself: the process that the next test kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lab_as_a_child() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else {
        return;
    };
    let mut options = LabOptions::new(folder, loopback());
    options.mail = Some(MailOptions::new(loopback()));
    let lab = ok(wilco_lab::start(options).await);
    println!("\nlab-url {}", lab.url());
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_it_has_kept_every_word_and_pays_nothing_twice() {
    let folder = Folder::new();
    let mut promised: Vec<(String, Value)> = Vec::new();
    let mut open: Vec<(String, Value)> = Vec::new();
    for round in 0..3 {
        let (mut child, client) = child_lab(&folder);
        // What an earlier kill left open is sent again with its old key, beside new orders.
        for n in 0..12 {
            let name = format!("r{round}-{n}");
            open.push((
                name.clone(),
                client
                    .allowed(&format!("c-{name}"), &initiation(&name, "1.00"))
                    .await,
            ));
        }
        let mut tasks = tokio::task::JoinSet::new();
        for (key, body) in open.drain(..) {
            let client = client.clone();
            tasks.spawn(async move {
                let reply = client.try_post(PAYMENTS, &key, &body).await;
                (key, body, reply)
            });
        }
        let mut answered = 0;
        while let Some(done) = tasks.join_next().await {
            let (key, body, reply) = ok(done);
            match reply {
                Ok(reply) => {
                    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
                    promised.push((reply.text("/Data/DomesticPaymentId"), body));
                }
                Err(_) => open.push((key, body)),
            }
            answered += 1;
            if answered == 4 + round {
                ok(child.kill());
            }
        }
        ok(child.wait());
    }

    let (mut child, client) = child_lab(&folder);
    let book = client.book().await;
    for (payment_id, body) in &promised {
        let lines: Vec<_> = book
            .payments()
            .into_iter()
            .filter(|line| line["payment_id"] == payment_id.as_str())
            .collect();
        assert_eq!(lines.len(), 1, "promised and kept: {payment_id}");
        assert_eq!(lines[0]["consent_id"], body["Data"]["ConsentId"]);
    }
    // Whatever was left without an answer ends, with its old key, as exactly one payment.
    for (key, body) in &open {
        assert_eq!(client.post(PAYMENTS, key, body).await.status, StatusCode::CREATED);
    }
    let book = client.book().await;
    let mut references: Vec<_> = book
        .payments()
        .iter()
        .map(|line| line["reference"].to_string())
        .collect();
    references.sort();
    references.dedup();
    assert_eq!((references.len(), book.payments().len()), (36, 36));
    assert_eq!(book.balance(MARLOW), Some(3_600));
    ok(child.kill());
    ok(child.wait());
}

/// Starts this test binary again as a lab of its own, to be killed.
pub fn child_lab(folder: &Folder) -> (Child, Client) {
    let mut child = ok(Command::new(ok(std::env::current_exe()))
        .args(["--exact", "durability::the_lab_as_a_child", "--nocapture"])
        .env(CHILD_FOLDER, &folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn());
    let stdout = child
        .stdout
        .take()
        .unwrap_or_else(|| panic!("the child has no output"));
    let url = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("lab-url ").map(str::to_owned));
    let url = url.unwrap_or_else(|| panic!("the child did not start"));
    (child, Client::new(url))
}
