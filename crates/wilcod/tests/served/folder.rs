//! The folder and the address a daemon runs on.

use super::*;

/// One folder, one daemon; and what a run leaves behind fits the next.
#[tokio::test]
async fn a_folder_has_one_daemon_and_says_where() {
    let house = House::new("", "").await;
    let run: Value = serde_json::from_str(&read(&house.folder.0, "run.json")).expect("JSON");
    assert_eq!(
        (&run["url"], &run["pid"]),
        (&json!(house.running.url), &json!(std::process::id()))
    );
    let second = wilcod::start(ServeOptions::new(&house.folder.0))
        .await
        .map(|_| ())
        .expect_err("in use");
    assert!(second.to_string().contains("in use"), "{second}");
    assert!(
        house.folder.0.join("run.json").exists(),
        "the second one left the first one's file alone"
    );

    let (key, House { running, folder }) = (house.key("viewer"), house);
    running.stop().await;
    assert!(!folder.0.join("run.json").exists());
    let running = wilcod::start(ServeOptions::new(&folder.0))
        .await
        .expect("starts again");
    let house = House { running, folder };
    assert_eq!(house.key("viewer"), key);
    house.end().await;
}

/// A call that outlives the grace may still send, until the process ends. So long nobody may say that it is over.
#[tokio::test]
async fn a_folder_stays_locked_while_a_call_of_its_daemon_may_still_send() {
    let house = House::new("", "delay_ms = 0").await;
    let ho = HO.replace("paid=20261002", &format!("paid={}", today()));
    let (_, stated) = house.post("/v1/prepare", &json!({ "ho": ho })).await;
    let rb = stated["statement"].as_str().expect("a statement");
    let yes = format!(
        "RW1 AN scheduler-2 re={} from=scheduler to=payer p=pay val=Y",
        rb.split(' ').nth(2).expect("an id")
    );
    let House { running, folder } = house;
    running.stop().await;

    // Nothing was left: it starts again, and from here on a call takes a minute.
    let slow = read(&folder.0, "wilcod.toml").replace("delay_ms = 0", "delay_ms = 60000");
    std::fs::write(folder.0.join("wilcod.toml"), slow).expect("written");
    let mut options = ServeOptions::new(&folder.0);
    options.grace = Some(std::time::Duration::ZERO);
    let running = wilcod::start(options).await.expect("starts again");
    let house = House { running, folder };
    let commit = json!({
        "token": stated["token"], "statement_sha256": stated["statement_sha256"], "confirmation": yes, "wait_s": 1
    });
    let (_, reply) = house.post("/v1/commit", &commit).await;
    assert_eq!(
        reply["act"]["state"], "executing",
        "the call is under way: {reply}"
    );

    let House { running, folder } = house;
    running.stop().await;
    let second = wilcod::start(ServeOptions::new(&folder.0)).await.map(|_| ());
    let said = second.expect_err("the call may still send").to_string();
    assert!(said.contains("in use"), "{said}");
}

/// In a folder that others may look into, what the daemon makes is its owner's alone.
#[tokio::test]
async fn what_is_made_is_the_owners_alone() {
    let folder = Folder(std::env::temp_dir().join(format!("wilcod-served-{}", uuid())));
    std::fs::create_dir(&folder.0).expect("a folder");
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    // As at a first start, with the lab.
    let running = wilcod::start(ServeOptions::new(&folder.0)).await.expect("starts");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder.0).expect("reads") {
        let entry = entry.expect("reads");
        let mode = entry.metadata().expect("there").permissions().mode();
        let name = entry.file_name().into_string().expect("UTF-8");
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
        names.push(name);
    }
    for name in [
        "wilco.sqlite",
        "wilco.sqlite-wal",
        "wilco.sqlite-shm",
        "lab",
        "run.json",
        "wilcod.toml",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    running.stop().await;
}

/// Open acts need the key their tokens were made with: without it nothing starts, and nothing takes its place.
#[tokio::test]
async fn a_lost_token_key_is_missed_by_name() {
    let house = House::new("", "").await;
    let (status, body) = house.post("/v1/prepare", &json!({"ho": HO})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let served: Value = serde_json::from_str(&read(&house.folder.0, "served.json")).expect("JSON");
    assert_eq!(served["adapters"], json!(["sim"]));
    let House { running, folder } = house;
    running.stop().await;
    let path = folder.0.join("token.key");
    let kept = read(&folder.0, "token.key");
    let id = kept
        .lines()
        .find_map(|line| line.split_once(' ').filter(|(id, _)| *id != "#"))
        .expect("a key")
        .0;
    std::fs::remove_file(&path).expect("removed");

    for _ in 0..2 {
        let refused = wilcod::start(ServeOptions::new(&folder.0))
            .await
            .map(|_| ())
            .expect_err("the key is lost")
            .to_string();
        assert!(
            refused.contains(&format!("token key {id}")) && refused.contains("token.key"),
            "{refused}"
        );
        assert!(!refused.contains('\n') && !path.exists(), "{refused}");
    }
    // Put back, it serves the same token.
    std::fs::write(&path, &kept).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("chmod");
    let running = wilcod::start(ServeOptions::new(&folder.0)).await.expect("starts");
    let house = House { running, folder };
    let (_, again) = house.post("/v1/prepare", &json!({"ho": HO})).await;
    assert_eq!(
        (&again["token"], &again["replayed"]),
        (&body["token"], &json!(true))
    );
    house.end().await;
}

/// Nothing beyond loopback is served, and the folder stays untouched.
#[tokio::test]
async fn another_address_than_loopback_is_refused_by_name() {
    let folder = std::env::temp_dir().join(format!("wilcod-served-{}", uuid()));
    let mut options = ServeOptions::new(&folder);
    options.listen = "0.0.0.0:0".parse().expect("an address");
    let refused = wilcod::start(options)
        .await
        .map(|_| ())
        .expect_err("not loopback");
    assert!(
        refused
            .to_string()
            .contains("0.0.0.0:0 is not a loopback address"),
        "{refused}"
    );
    assert!(!folder.exists());
}
