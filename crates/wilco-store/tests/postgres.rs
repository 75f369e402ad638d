//! The Postgres keeper passes the suite, on a real server.
#![cfg(feature = "postgres-tests")]

#[path = "support/schema.rs"]
mod schema;

use std::sync::Arc;

use schema::Schema;
use wilco_store::Keeper;
use wilco_store::suite::hand::HandClock;

async fn fresh(clock: Arc<HandClock>) -> (Arc<dyn Keeper>, Schema) {
    let schema = Schema::new().await;
    (Arc::new(schema.keeper(&clock).await), schema)
}

wilco_store::keeper_suite!(fresh);
