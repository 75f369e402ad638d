//! The memory keeper passes the suite.

use std::sync::Arc;

use wilco_store::suite::hand::HandClock;
use wilco_store::{Keeper, MemoryKeeper};

async fn fresh(clock: Arc<HandClock>) -> (Arc<dyn Keeper>, ()) {
    (Arc::new(MemoryKeeper::new(clock)), ())
}

wilco_store::keeper_suite!(fresh);
