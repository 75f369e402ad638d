//! The SQLite keeper passes the suite.

mod support;

use std::sync::Arc;

use support::Folder;
use wilco_store::Keeper;
use wilco_store::suite::hand::HandClock;

async fn fresh(clock: Arc<HandClock>) -> (Arc<dyn Keeper>, Folder) {
    let folder = Folder::new();
    (Arc::new(folder.keeper(&clock).await), folder)
}

wilco_store::keeper_suite!(fresh);
