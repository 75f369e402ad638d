//! After: both kinds of target by the suite that every adapter is held to. The judge of the git remote is the reflog of the
//! branches that are moved, read in the repository itself; of the folder, its `current` link and its links' inodes.

#[path = "it/support.rs"]
#[allow(dead_code)]
mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use adapter_deploy::{DeployAdapter, DeployConfig};
use async_trait::async_trait;
use wilco_adapter::kit::{self, Bench, Effect, Fault, FaultProxy, Still};
use wilco_adapter::{Adapter, Job, Undone};
use wilco_core::{ActId, Frozen};

use support::{DEPLOY, GitDaemon, Temp, UNDO, git, nine, repositories};

/// How many places there are: acts that run at once go to different ones.
const PLACES: u32 = 6;

fn job_for(clock: &Still, n: u32, ver: &str) -> Job {
    use wilco_core::Clock;
    let item = format!("svc:s{}", n % PLACES);
    let slots = [("env", "PROD"), ("ver", ver), ("apref", "CAB-0931")];
    kit::job(clock.now(), "deploy", "DEPLOY", &item, &slots, &DEPLOY)
}

fn undo_of(clock: &Still, undone: Undone) -> Job {
    use wilco_core::Clock;
    let item = serde_json::from_str::<serde_json::Value>(
        undone
            .frozen
            .request
            .body
            .rsplit("\n\n")
            .next()
            .unwrap_or_default(),
    )
    .ok()
    .and_then(|plan| plan["item"].as_str().map(str::to_owned))
    .unwrap_or_default();
    let mut job = kit::job(clock.now(), "deploy", "UNDO", &item, &[], &UNDO);
    job.undo = Some(undone);
    job
}

/// A field of the plan that is frozen.
fn planned(frozen: &Frozen, field: &str) -> String {
    let text = frozen.request.body.rsplit("\n\n").next().unwrap_or_default();
    let plan: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    plan[field].as_str().unwrap_or_default().to_owned()
}

fn pairs(values: &[(&str, &str)]) -> Vec<(String, String)> {
    values
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

// ---- the git remote

struct GitBench {
    temp: Temp,
    server: Mutex<Option<GitDaemon>>,
    proxy: FaultProxy,
    config: DeployConfig,
    clock: Arc<Still>,
}

impl GitBench {
    async fn open() -> GitBench {
        let temp = Temp::new();
        repositories(&temp.0);
        let remote = temp.0.join("remote.git");
        for n in 0..PLACES {
            git(&remote, &["branch", &format!("s{n}"), "prod"]);
        }
        let server = GitDaemon::serve(&temp.0);
        let proxy = FaultProxy::to(server.addr)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        let mut table = "timeout_s = 3\nsettle_window_s = 6\n".to_owned();
        for n in 0..PLACES {
            table += &format!(
                "[targets.s{n}]\nkind = \"git\"\nservice = \"s{n}\"\nenv = \"PROD\"\nbranch = \"s{n}\"\nsource = \"source\"\n\
                 remote = \"git://{}/remote.git\"\n",
                proxy.addr()
            );
        }
        let config = DeployConfig::from_toml(&table)
            .unwrap_or_else(|e| panic!("{e}"))
            .in_folder(&temp.0);
        GitBench {
            server: Mutex::new(Some(server)),
            proxy,
            config,
            clock: Still::at(nine()),
            temp,
        }
    }

    fn remote(&self) -> PathBuf {
        self.temp.0.join("remote.git")
    }

    /// Every move of every branch, by the remote's own reflogs: from, to.
    fn moves(&self) -> Vec<(String, String)> {
        let mut moves = Vec::new();
        for n in 0..PLACES {
            let log = self.remote().join(format!("logs/refs/heads/s{n}"));
            let text = std::fs::read_to_string(log).unwrap_or_default();
            // The first entry made the branch.
            for line in text.lines().skip(1) {
                let mut words = line.split(' ').map(str::to_owned);
                moves.extend(words.next().zip(words.next()));
            }
        }
        moves
    }

    /// What the source calls a commit.
    fn name(&self, commit: &str) -> String {
        let tags = git(&self.temp.0.join("source"), &["tag", "--points-at", commit]);
        tags.lines().next().unwrap_or_default().to_owned()
    }

    fn hook(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let hook = self.remote().join("hooks").join(name);
        std::fs::create_dir_all(self.remote().join("hooks")).unwrap_or_else(|e| panic!("{e}"));
        // Each takes itself away: it is for the next push only.
        std::fs::write(&hook, format!("#!/bin/sh\nrm -f hooks/{name}\n{text}\n"))
            .unwrap_or_else(|e| panic!("{e}"));
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755))
            .unwrap_or_else(|e| panic!("{e}"));
    }

    /// Nobody is at work in the remote: no process stands in its folder, as a server's does for as long as it has a push.
    fn is_quiet(&self) -> bool {
        let remote = self.remote();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        !processes
            .into_iter()
            .any(|p| std::fs::read_link(p.path().join("cwd")).is_ok_and(|at| at.starts_with(&remote)))
    }
}

#[async_trait]
impl Bench for GitBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        let adapter = DeployAdapter::new(&self.config, self.clock.clone()).unwrap_or_else(|e| panic!("{e}"));
        Arc::new(adapter)
    }

    fn clock(&self) -> Arc<Still> {
        Arc::clone(&self.clock)
    }

    async fn job(&self, n: u32) -> Job {
        let source = self.temp.0.join("source");
        let version = format!("k{n}");
        if git(&source, &["tag", "--list", &version]).is_empty() {
            git(&source, &["commit", "--quiet", "--allow-empty", "-m", &version]);
            git(&source, &["tag", &version]);
        }
        job_for(&self.clock, n, &version)
    }

    async fn effects(&self, _act: ActId, frozen: &Frozen) -> Vec<Effect> {
        let (from, to) = (planned(frozen, "from"), planned(frozen, "to"));
        let record = format!("refs/wilco/{}", planned(frozen, "act"));
        let receipt = git(
            &self.remote(),
            &["for-each-ref", "--format=%(objectname)", &record],
        );
        let moves = self.moves();
        let of_act = moves.iter().filter(|m| **m == (from.clone(), to.clone()));
        let effect = |_| Effect {
            values: pairs(&[
                ("env", "PROD"),
                ("ver", &self.name(&to)),
                ("prev", &self.name(&from)),
                ("x_commit", &to),
            ]),
            receipt: Some(receipt.clone()).filter(|r| !r.is_empty()),
            unfinished: false,
        };
        of_act.map(effect).collect()
    }

    async fn effects_in_all(&self) -> Option<usize> {
        Some(self.moves().len())
    }

    async fn settle(&self) {
        // A connection that was just taken has no process yet: so quiet is quiet for a while.
        let mut quiet = 0;
        while quiet < 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            quiet = if self.is_quiet() { quiet + 1 } else { 0 };
        }
        self.clock.pass(6);
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.proxy)
    }

    async fn arm(&self, fault: Fault) -> bool {
        match fault {
            Fault::Refuse => self.hook("pre-receive", "cat > /dev/null; echo 'not today' >&2; exit 1"),
            Fault::LoseRequest => self.hook("pre-receive", "cat > /dev/null; kill -9 $PPID"),
            Fault::LoseReply => self.hook("post-receive", "cat > /dev/null; kill -9 $PPID"),
            Fault::Slow => self.hook("post-receive", "cat > /dev/null; sleep 5"),
            _ => return false,
        }
        true
    }

    async fn stop(&self) -> bool {
        self.proxy.refuse(true).await;
        let server = self.server.lock().unwrap_or_else(|e| panic!("{e}")).take();
        drop(server);
        true
    }

    async fn start(&self) {
        let server = GitDaemon::serve(&self.temp.0);
        self.proxy.aim(server.addr);
        *self.server.lock().unwrap_or_else(|e| panic!("{e}")) = Some(server);
        self.proxy.refuse(false).await;
    }

    async fn undo(&self, undone: Undone) -> Option<Job> {
        Some(undo_of(&self.clock, undone))
    }

    fn garbage(&self) -> Vec<Vec<u8>> {
        let pkt = |text: &str| format!("{:04x}{text}", text.len() + 4);
        vec![
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n".to_vec(),
            pkt("ERR access denied or repository not exported").into_bytes(),
            b"0000".to_vec(),
            format!("{}{}0000", pkt("unpack ok\n"), pkt("ok refs/heads/other\n")).into_bytes(),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kit_on_a_git_remote() {
    let bench = GitBench::open().await;
    kit::run(&bench).await.assert_sound();
}

// ---- the release folder

/// A `current` link as it was seen: its text, and which link it is.
type Sighting = (String, u64, i64, i64);

struct FolderBench {
    temp: Temp,
    config: DeployConfig,
    clock: Arc<Still>,
    /// Every `current` link that was seen, by place.
    seen: Mutex<BTreeMap<u32, Vec<Sighting>>>,
}

impl FolderBench {
    fn open() -> FolderBench {
        let temp = Temp::new();
        std::fs::create_dir_all(temp.0.join("artefacts")).unwrap_or_else(|e| panic!("{e}"));
        let mut table = "timeout_s = 2\nsettle_window_s = 4\n".to_owned();
        for n in 0..PLACES {
            table += &format!(
                "[targets.s{n}]\nkind = \"folder\"\nservice = \"s{n}\"\nenv = \"PROD\"\nfolder = \"live/s{n}\"\n\
                 artefacts = \"artefacts\"\nname = \"app\"\nhealth = [\"test\", \"-f\", \"current/app\"]\n"
            );
        }
        let config = DeployConfig::from_toml(&table)
            .unwrap_or_else(|e| panic!("{e}"))
            .in_folder(&temp.0);
        let bench = FolderBench {
            temp,
            config,
            clock: Still::at(nine()),
            seen: Mutex::default(),
        };
        // Something runs everywhere, so that there is something to go back to.
        for n in 0..PLACES {
            let old = bench.temp.0.join(format!("live/s{n}/releases/old"));
            std::fs::create_dir_all(&old).unwrap_or_else(|e| panic!("{e}"));
            std::fs::write(old.join("app"), "old").unwrap_or_else(|e| panic!("{e}"));
            let current = bench.temp.0.join(format!("live/s{n}/current"));
            std::os::unix::fs::symlink("releases/old", current).unwrap_or_else(|e| panic!("{e}"));
        }
        bench.watch();
        bench
    }

    /// Writes down every `current` link that was not seen before.
    fn watch(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(|e| panic!("{e}"));
        for n in 0..PLACES {
            let at = self.temp.0.join(format!("live/s{n}/current"));
            let (Ok(text), Ok(meta)) = (std::fs::read_link(&at), std::fs::symlink_metadata(&at)) else {
                continue;
            };
            let sighting = (
                text.display().to_string(),
                meta.ino(),
                meta.ctime(),
                meta.ctime_nsec(),
            );
            let of_place = seen.entry(n).or_default();
            if of_place.last() != Some(&sighting) {
                of_place.push(sighting);
            }
        }
    }
}

#[async_trait]
impl Bench for FolderBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        let adapter = DeployAdapter::new(&self.config, self.clock.clone()).unwrap_or_else(|e| panic!("{e}"));
        Arc::new(adapter)
    }

    fn clock(&self) -> Arc<Still> {
        Arc::clone(&self.clock)
    }

    async fn job(&self, n: u32) -> Job {
        self.watch();
        let version = format!("k{n}");
        let artefact = self.temp.0.join(format!("artefacts/app-{version}"));
        std::fs::create_dir_all(&artefact).unwrap_or_else(|e| panic!("{e}"));
        std::fs::write(artefact.join("app"), &version).unwrap_or_else(|e| panic!("{e}"));
        job_for(&self.clock, n, &version)
    }

    async fn effects(&self, act: ActId, frozen: &Frozen) -> Vec<Effect> {
        self.watch();
        let seen = self.seen.lock().unwrap_or_else(|e| panic!("{e}"));
        let place: u32 = planned(frozen, "target")[1..]
            .parse()
            .unwrap_or_else(|e| panic!("{e}"));
        let folder = self.temp.0.join(format!("live/s{place}"));
        // What a service would have run: the file that is there by way of that link.
        let runs = |link: &str| std::fs::read_to_string(folder.join(link).join("app")).unwrap_or_default();
        let of_place = seen.get(&place).cloned().unwrap_or_default();
        let mut effects = Vec::new();
        for (n, sighting) in of_place.iter().enumerate() {
            if sighting.0 != format!("acts/{act}") {
                continue;
            }
            let before = of_place
                .get(n.wrapping_sub(1))
                .map(|s| runs(&s.0))
                .unwrap_or_default();
            effects.push(Effect {
                values: pairs(&[
                    ("env", "PROD"),
                    ("ver", &runs(&sighting.0)),
                    ("prev", &before),
                    ("x_digest", &planned(frozen, "to")),
                    ("state", "UP"),
                ]),
                receipt: Some(sighting.0.clone()),
                unfinished: false,
            });
        }
        effects
    }

    async fn effects_in_all(&self) -> Option<usize> {
        self.watch();
        let seen = self.seen.lock().unwrap_or_else(|e| panic!("{e}"));
        // The first of each was there before.
        Some(seen.values().map(|s| s.len() - 1).sum())
    }

    async fn settle(&self) {
        self.watch();
        self.clock.pass(4);
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        None
    }

    async fn undo(&self, undone: Undone) -> Option<Job> {
        Some(undo_of(&self.clock, undone))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kit_on_a_release_folder() {
    let bench = FolderBench::open();
    kit::run(&bench).await.assert_sound();
}
