//! The process dies between the steps. A child of this test does the act and dies at the place it is told; afterwards the
//! table is read, and the act looked up and sent again, as a daemon that starts anew does.

use std::process::Command;

use wilco_adapter::Found;
use wilco_core::{ActId, Frozen};

use crate::house::{Asked, House, NEW, OLD, change, done};

const CHILD: &str = "WILCO_RECORDS_TEST_CHILD";

/// What a child is told.
#[derive(serde::Serialize, serde::Deserialize)]
struct Told {
    path: Option<std::path::PathBuf>,
    url: Option<std::path::PathBuf>,
    act: ActId,
    frozen: Frozen,
    /// 1: right after BEGIN; 2: right before COMMIT; 3: after it, before anybody heard.
    at: u64,
}

/// Not a test of its own: what the child runs.
#[test]
fn the_child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let told = std::fs::read_to_string(told).unwrap_or_else(|e| panic!("{e}"));
    let told: Told = serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}"));
    let mut config = adapter_records::RecordsConfig::default();
    if let Some(path) = told.path {
        config.path = path;
    } else {
        config.database = "postgres".to_owned();
        config.database_url_file = told.url;
    }
    let clock = wilco_adapter::kit::Still::at(crate::house::at("20251002T0900Z"));
    let adapter =
        adapter_records::RecordsAdapter::new(&config, clock.clone()).unwrap_or_else(|e| panic!("{e}"));
    let mut job = wilco_adapter::kit::job(
        told.frozen.not_after.plus_seconds(-3_600),
        "pay",
        "CHGBANK",
        "",
        &[],
        &[],
    );
    job.act_id = told.act;
    let at = told.at;
    let dies = Asked::clock(clock, move |time| {
        if time == at {
            std::process::abort();
        }
    });
    let permit = wilco_adapter::kit::permit(&job, &told.frozen, dies);
    let runtime = tokio::runtime::Runtime::new().unwrap_or_else(|e| panic!("{e}"));
    runtime.block_on(async {
        use wilco_adapter::Adapter;
        done(adapter.execute(permit, &told.frozen).await);
    });
    std::process::abort();
}

async fn killed_at(house: House, at: u64) {
    let job = change(&house);
    let frozen = house.prepare(&job).await;
    let told = Told {
        path: house.is_sqlite().then(|| house.config.path.clone()),
        url: house.config.database_url_file.clone(),
        act: job.act_id,
        frozen: frozen.clone(),
        at,
    };
    let told = serde_json::to_string(&told).unwrap_or_else(|e| panic!("{e}"));
    let file = house.folder.write("told", &told);
    let exe = std::env::current_exe().unwrap_or_else(|e| panic!("{e}"));
    let output = Command::new(exe)
        .args(["--exact", "kill::the_child", "--nocapture"])
        .env(CHILD, file)
        .output()
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(output.status.code().is_none(), "it did not die: {output:?}");

    let stands = at == 3;
    // A server may take a moment to notice that its client is gone, and holds the row until then.
    let expected = if stands { (NEW, 1) } else { (OLD, 0) };
    assert_eq!((house.account("marlow").as_str(), house.acts()), expected);
    match (stands, house.lookup(&job, &frozen).await) {
        (true, Found::Executed(_)) | (false, Found::Absent(_)) => {}
        (_, other) => panic!("killed at {at}: {other:?}"),
    }
    let report = done(house.execute(&job, &frozen).await);
    assert_eq!(report.status, if stands { "changed before" } else { "changed" });
    assert_eq!((house.account("marlow").as_str(), house.acts()), (NEW, 1));
}

#[tokio::test]
async fn a_death_between_any_two_steps_leaves_all_or_nothing() {
    for at in 1..=3 {
        killed_at(House::sqlite(), at).await;
    }
}

#[cfg(feature = "postgres-tests")]
#[tokio::test]
async fn a_death_between_any_two_steps_leaves_all_or_nothing_in_postgres() {
    for at in 1..=3 {
        killed_at(House::postgres().with(|c| c.timeout_s = 20), at).await;
    }
}
