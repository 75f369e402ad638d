//! The line to the server breaks in the middle. Whatever the adapter says, the table decides whether it may say it; and a
//! COMMIT that comes too late changes nothing.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use wilco_adapter::kit::{Break, FaultProxy};
use wilco_adapter::{Adapter, Found, Outcome, ResolveError};

use crate::house::{House, NEW, OLD, Place, change, cluster, done, not_sent};

/// A line over TCP to the tests' server, which may listen on a socket only.
pub async fn tcp_to_the_server() -> FaultProxy {
    let server = cluster::server().unwrap_or_else(|why| panic!("{why}"));
    let server = PgConnectOptions::from_str(&server).unwrap_or_else(|e| panic!("{e}"));
    let bridge = TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    let addr = bridge.local_addr().unwrap_or_else(|e| panic!("{e}"));
    let server = Arc::new(server);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = bridge.accept().await {
            let server = server.clone();
            tokio::spawn(async move {
                // Either end may go at any time: that is what is tried.
                let _ = match server.get_socket().cloned().or_else(|| folder_of(&server)) {
                    Some(folder) => {
                        let socket = folder.join(format!(".s.PGSQL.{}", server.get_port()));
                        let mut there = UnixStream::connect(socket).await?;
                        tokio::io::copy_bidirectional(&mut client, &mut there).await
                    }
                    None => {
                        let mut there = TcpStream::connect((server.get_host(), server.get_port())).await?;
                        tokio::io::copy_bidirectional(&mut client, &mut there).await
                    }
                };
                Ok::<(), std::io::Error>(())
            });
        }
    });
    FaultProxy::to(addr).await.unwrap_or_else(|e| panic!("{e}"))
}

fn folder_of(server: &PgConnectOptions) -> Option<std::path::PathBuf> {
    let host = server.get_host();
    host.starts_with('/').then(|| host.into())
}

/// The house's database, at another address.
pub fn url_through(house: &House, addr: SocketAddr) -> String {
    let Place::Postgres(database) = &house.place else {
        panic!("not on a server")
    };
    let options = PgConnectOptions::from_str(&database.url()).unwrap_or_else(|e| panic!("{e}"));
    format!("postgres://{}@{addr}/{}", options.get_username(), database.name())
}

async fn behind_a_line() -> (House, FaultProxy) {
    let line = tcp_to_the_server().await;
    let house = House::postgres();
    let url = house
        .folder
        .write("url-through", &url_through(&house, line.addr()));
    let house = house.with(|c| {
        c.database_url_file = Some(url);
        c.timeout_s = 1;
    });
    (house, line)
}

/// The turn in which COMMIT is said.
fn turn_of_commit(line: &FaultProxy) -> usize {
    let conversations = line.conversations();
    let turns = &conversations
        .last()
        .unwrap_or_else(|| panic!("a conversation"))
        .turns;
    let commit = |said: &[u8]| said.windows(6).any(|w| w == b"COMMIT");
    turns
        .iter()
        .rposition(|t| commit(&t.said))
        .unwrap_or_else(|| panic!("no COMMIT in {} turns", turns.len()))
}

/// How COMMIT goes by on a good day, on a supplier nobody needs afterwards.
async fn learn(house: &House, line: &FaultProxy) -> usize {
    let job = crate::house::change_to(house, "tate", NEW);
    let frozen = house.prepare(&job).await;
    line.begin();
    done(house.execute(&job, &frozen).await);
    let turn = turn_of_commit(line);
    line.begin();
    turn
}

/// Returns when the server has ended every session of ours.
pub async fn quiet(house: &House) {
    let Place::Postgres(database) = &house.place else {
        return;
    };
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'wilco-records'",
        database.name()
    );
    // Within the second or two that it was given; the limit is for a server that never does.
    for _ in 0..1_500 {
        if house.sql(&busy) == "0" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server still has sessions of ours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_leaves_doubt_which_a_lookup_settles() {
    let (house, line) = behind_a_line().await;
    let commit = learn(&house, &line).await;
    for (n, how) in [
        Break::CutReply,
        Break::Hold,
        Break::Garbage(b"HTTP/1.1 502 Bad Gateway\r\n\r\n".to_vec()),
    ]
    .into_iter()
    .enumerate()
    {
        let sup = format!("lost-{n}");
        house.sql(&format!(
            "INSERT INTO vendor (sup, acct) VALUES ('{sup}', '{OLD}')"
        ));
        let job = crate::house::change_to(&house, &sup, NEW);
        let frozen = house.prepare(&job).await;
        line.begin();
        line.arm(0, commit, how.clone());
        match house.execute(&job, &frozen).await {
            Outcome::Unknown(text) => assert!(text.contains("at COMMIT"), "{text}"),
            other => panic!("{how:?}: {other:?}"),
        }
        assert!(line.hit(), "{how:?}");
        line.begin();
        assert!(
            matches!(house.lookup(&job, &frozen).await, Found::Executed(_)),
            "{how:?}"
        );
        assert_eq!(done(house.execute(&job, &frozen).await).status, "changed before");
        assert_eq!(house.account(&sup), NEW);
    }
    assert_eq!(house.acts(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_comes_after_the_servers_patience_changes_nothing() {
    let (house, line) = behind_a_line().await;
    let commit = learn(&house, &line).await;
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    line.begin();
    line.arm(0, commit, Break::CutBefore);
    assert!(matches!(house.execute(&job, &frozen).await, Outcome::Unknown(_)));
    assert!(line.hit());
    line.begin();
    quiet(&house).await;
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 1));
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));

    // By hand, as a daemon that was paused for long: the session is gone when it comes back.
    let clock = crate::house::Asked::clock(house.clock.clone(), |time| {
        if time == 2 {
            std::thread::sleep(Duration::from_millis(1_600));
        }
    });
    match house.execute_by(&job, &frozen, clock).await {
        Outcome::Unknown(_) | Outcome::NotSent(_) => {}
        other => panic!("{other:?}"),
    }
    quiet(&house).await;
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 1));
    done(house.execute(&job, &frozen).await);
    assert_eq!((house.account("marlow"), house.acts()), (NEW.to_owned(), 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_commit_a_line_that_breaks_is_certainly_no_change() {
    let (house, line) = behind_a_line().await;
    let commit = learn(&house, &line).await;
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    for turn in 0..commit {
        for how in [Break::CutBefore, Break::CutReply] {
            line.begin();
            line.arm(0, turn, how.clone());
            let text = not_sent(house.execute(&job, &frozen).await);
            assert!(line.hit() && !text.is_empty(), "turn {turn}, {how:?}: {text}");
            quiet(&house).await;
            assert_eq!(
                (house.account("marlow"), house.acts()),
                (OLD.to_owned(), 1),
                "turn {turn}, {how:?}"
            );
        }
    }
    line.begin();
    done(house.execute(&job, &frozen).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_holds_is_waited_for_and_then_left_alone() {
    let house = House::postgres().with(|c| c.timeout_s = 1);
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let Place::Postgres(database) = &house.place else {
        return;
    };
    let mut other = <sqlx::PgConnection as sqlx::Connection>::connect(&database.url())
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    let lock = "BEGIN; UPDATE vendor SET name = name WHERE sup = 'marlow'";
    sqlx::raw_sql(lock)
        .execute(&mut other)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    not_sent(house.execute(&job, &frozen).await);
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Absent(_)));
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut other)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    quiet(&house).await;
    assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    done(house.execute(&job, &frozen).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_only_read_is_enough_to_prepare_and_not_to_change() {
    let house = House::postgres();
    let Place::Postgres(database) = &house.place else {
        return;
    };
    let role = format!("reader_{}", database.name());
    house.sql(&format!("CREATE ROLE {role} LOGIN"));
    house.sql(&format!("GRANT SELECT ON vendor TO {role}"));
    let mine = database.url();
    let options = PgConnectOptions::from_str(&mine).unwrap_or_else(|e| panic!("{e}"));
    let reader = mine.replacen(
        &format!("//{}@", options.get_username()),
        &format!("//{role}@"),
        1,
    );
    let both = house.config.clone();
    let file = house.folder.write("reader", &reader);
    let house = house.with(|c| c.read_url_file = Some(file.clone()));
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    assert_eq!(house.adapter().health().await, Ok(()));
    done(house.execute(&job, &frozen).await);

    // The wrong way round: it may not write, and that is said before anything is tried.
    let house = house.with(|c| {
        *c = both;
        c.database_url_file = Some(file);
    });
    let undo = house.undo_of(&job, &frozen, &wilco_adapter::Report::default());
    let reversal = house.prepare(&undo).await;
    match house.execute(&undo, &reversal).await {
        Outcome::Rejected(text) | Outcome::NotSent(text) => {
            assert!(text.contains("permission denied"), "{text}")
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(house.lookup(&undo, &reversal).await, Found::Unknown(_)));
    assert_eq!((house.account("marlow"), house.acts()), (NEW.to_owned(), 1));
    house.sql(&format!("DROP OWNED BY {role}"));
    house.sql(&format!("DROP ROLE {role}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_prepare_reads_and_commit_changes_is_one_database() {
    let (house, other) = (House::postgres(), House::postgres());
    let elsewhere = other.config.database_url_file.clone();
    let house = house.with(|c| c.read_url_file = elsewhere);
    let text = house.adapter().health().await.err().unwrap_or_default();
    assert!(text.contains("another database"), "{text}");
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let text = not_sent(house.execute(&job, &frozen).await);
    assert!(text.contains("stated from the database"), "{text}");
    assert!(matches!(house.lookup(&job, &frozen).await, Found::Unknown(_)));
    for house in [&house, &other] {
        assert_eq!((house.account("marlow"), house.acts()), (OLD.to_owned(), 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_in_no_message_and_crosses_no_network_in_the_clear() {
    let house = House::postgres();
    let job = change(&house);
    for (url, words) in [
        (
            "postgres://wilco:hunter2@db.example.com/purchasing",
            "in the clear",
        ),
        (
            "postgres://wilco:hunter2@127.0.0.1:1/purchasing",
            "cannot be reached",
        ),
        ("postgres://wilco:hunter2@[broken/purchasing", "no address"),
        ("wilco:hunter2", "no address"),
    ] {
        let file = house.folder.write("other", url);
        let mut config = house.config.clone();
        config.database_url_file = Some(file);
        let adapter = adapter_records::RecordsAdapter::new(&config, house.clock.clone());
        let adapter = adapter.unwrap_or_else(|e| panic!("{e}"));
        match adapter.resolve(&job).await {
            Err(ResolveError::Passing(text)) => {
                assert!(text.contains(words) && !text.contains("hunter2"), "{text}")
            }
            other => panic!("{url}: {other:?}"),
        }
        let health = adapter.health().await.err().unwrap_or_default();
        assert!(health.contains(words) && !health.contains("hunter2"), "{health}");
        let shown = format!("{:?}", adapter.describe());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
