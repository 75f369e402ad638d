//! After: a process that is killed at any instant leaves of each act the whole mail or none, says which, and brings no second
//! one when the act is sent again. A child of this test delivers one act after the other until it is killed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use adapter_mail::{MailAdapter, MailConfig};
use wilco_adapter::{Adapter, Found, Job, Outcome};
use wilco_core::ActId;

use crate::support::{Folder, Scene, Still, remittance, start};

const CHILD: &str = "WILCO_MAIL_TEST_CHILD";
/// How many children are killed.
const ROUNDS: u64 = 12;
/// How many acts a child has to deliver; it is killed long before.
const ACTS: u16 = 20_000;

fn act(n: u16) -> Job {
    let [high, low] = n.to_be_bytes();
    Job {
        act_id: ActId::new(start(), [0, high, low, 0, 0, 0, 0, 0, 0, 1]),
        ..remittance()
    }
}

fn mails(maildir: &Path) -> Vec<String> {
    let entries = fs::read_dir(maildir.join("new")).into_iter().flatten();
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    names.collect()
}

fn scene(folder: &Path) -> Scene {
    let config = MailConfig::default().in_folder(folder);
    Scene::with("", |c| *c = config)
}

/// Not a test of its own: what the child runs.
#[test]
fn the_child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let scene = scene(Path::new(&folder));
        for n in 0..ACTS {
            let job = act(n);
            let frozen = scene.prepare(&job).await;
            let outcome = scene.execute(&job, &frozen).await;
            assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
        }
    });
}

#[tokio::test]
async fn killed_at_any_instant_a_delivery_is_whole_or_nothing() {
    let mut cut_short = 0;
    for round in 0..ROUNDS {
        let folder = Folder::new();
        // The Maildir stands before the child is killed, so that its acts can be looked up.
        let config = MailConfig::default().in_folder(&folder.0);
        MailAdapter::new(&config, Still::new()).unwrap_or_else(|e| panic!("{e}"));
        let mut child = Command::new(std::env::current_exe().expect("ourselves"))
            .args(["--exact", "kill::the_child", "--nocapture"])
            .env(CHILD, &folder.0)
            // What it leaves behind goes with our own folder.
            .env("TMPDIR", &folder.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        while mails(&config.path).is_empty() {
            assert!(
                child.try_wait().expect("asked").is_none(),
                "the child ended by itself"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(777 * round)).await;
        child.kill().expect("killed");
        child.wait().expect("gone");

        let scene = scene(&folder.0);
        let lying = |job: &Job| {
            let name = format!("{}.wilco", job.act_id);
            mails(&config.path).iter().filter(|mail| **mail == name).count()
        };
        let mut absent = 0;
        // What the child did not come to is absent too; a few of those are enough.
        for n in 0..ACTS {
            if absent == 3 {
                break;
            }
            let job = act(n);
            let frozen = scene.prepare(&job).await;
            match (
                scene.mail.lookup(job.act_id, &frozen, start(), None).await,
                lying(&job),
            ) {
                (Found::Executed(_), 1) => {
                    let text = fs::read_to_string(config.path.join(format!("new/{}.wilco", job.act_id)));
                    assert_eq!(text.expect("mail"), frozen.request.body, "the whole of it");
                }
                (Found::Absent(_), 0) => {
                    absent += 1;
                    let staged = fs::read_dir(config.path.join("wilco/stage"))
                        .expect("a folder")
                        .count();
                    cut_short += usize::from(staged > 0 && absent == 1);
                }
                (found, mails) => panic!("round {round}, act {n}: {mails} mails, and {found:?}"),
            }
            let outcome = scene.execute(&job, &frozen).await;
            assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
            assert_eq!(lying(&job), 1, "round {round}, act {n}");
        }
    }
    eprintln!("{cut_short} of {ROUNDS} children were killed in the middle of a delivery");
}
