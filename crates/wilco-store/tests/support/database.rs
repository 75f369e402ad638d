//! A database of its own in the server that `WILCO_TEST_POSTGRES` names.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use wilco_store::suite::hand::HandClock;
use wilco_store::{PostgresKeeper, PostgresOptions};

#[path = "../../../../tests/harness/postgres.rs"]
pub mod cluster;

/// The server's address.
pub fn server() -> String {
    std::env::var("WILCO_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!(
            "WILCO_TEST_POSTGRES is not set: run these tests by `cargo xtask test`, or give the address of a PostgreSQL \
             server on which databases may be made"
        )
    })
}

/// A database nobody else has, removed when dropped.
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// One in the tests' server.
    pub async fn new() -> Database {
        Database::on(server()).await
    }

    /// One in the server at this address.
    pub async fn on(server: String) -> Database {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
        let name = format!("wilco_{}_{}_{n}", std::process::id(), now.as_micros());
        run(&server, format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        Database { server, name }
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.at(&self.server)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address through another door to the server.
    pub fn at(&self, server: &str) -> String {
        cluster::other_database(server, &self.name)
    }

    /// Opens a keeper on it that runs on `clock`.
    pub async fn keeper(&self, clock: &Arc<HandClock>) -> PostgresKeeper {
        let mut options = PostgresOptions::new(self.url());
        options.clock = Some(Arc::clone(clock) as _);
        PostgresKeeper::open(options).await.expect("the database opens")
    }

    /// Opens a keeper on it that runs on the database's clock.
    pub async fn keeper_on_its_clock(&self) -> PostgresKeeper {
        PostgresKeeper::open(PostgresOptions::new(self.url()))
            .await
            .expect("the database opens")
    }

    /// A connection that is not a keeper's.
    pub async fn raw(&self) -> PgConnection {
        PgConnection::connect(&self.url())
            .await
            .expect("the server answers")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let drop = format!("DROP DATABASE {name} WITH (FORCE)");
            runtime.expect("a runtime").block_on(run(&server, drop));
        });
        drop(dropped.join());
    }
}

async fn run(server: &str, statement: String) {
    let mut db = PgConnection::connect(server).await.expect("the server answers");
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut db)
        .await
        .expect("done");
    db.close().await.expect("closed");
}
