//! A database of its own for a test, and keepers on it.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::sync::Arc;

use sqlx::{Connection, PgConnection};
use wilco_store::suite::hand::HandClock;
use wilco_store::{PostgresKeeper, PostgresOptions};

#[path = "../../../../tests/harness/postgres.rs"]
pub mod cluster;

/// A database nobody else has, removed when dropped.
pub struct Database(cluster::Database);

impl Database {
    /// One in the tests' server.
    pub fn new() -> Database {
        Database::on(&cluster::server().unwrap_or_else(|why| panic!("{why}")))
    }

    /// One in the server at this address.
    pub fn on(server: &str) -> Database {
        Database(cluster::Database::create(server).expect("a database"))
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Its address through another door to the server.
    pub fn at(&self, server: &str) -> String {
        self.0.at(server)
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
