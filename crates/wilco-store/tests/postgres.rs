//! The Postgres keeper passes the suite, on a real server.
#![cfg(feature = "postgres-tests")]

#[path = "support/database.rs"]
mod database;

use std::sync::Arc;

use database::Database;
use wilco_store::Keeper;
use wilco_store::suite::hand::HandClock;

async fn fresh(clock: Arc<HandClock>) -> (Arc<dyn Keeper>, Database) {
    let database = Database::new();
    (Arc::new(database.keeper(&clock).await), database)
}

wilco_store::keeper_suite!(fresh);
