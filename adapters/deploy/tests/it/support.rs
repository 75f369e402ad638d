//! A repository to deploy from and one to deploy to, a release folder, and the adapter that serves both.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adapter_deploy::{DeployAdapter, DeployConfig};
use wilco_adapter::kit::{Still, frozen_of, permit};
use wilco_adapter::{Adapter, Found, Job, Outcome, Report, ResolveError, Undone};
use wilco_core::{Clock, Frozen, Resolved, Timestamp};

/// 2026-10-02T09:00:00Z.
pub fn nine() -> Timestamp {
    Timestamp::from_rw1("20261002T0900Z").unwrap_or_default()
}

/// A folder of one's own, removed at the end.
pub struct Temp(pub PathBuf);

impl Temp {
    pub fn new() -> Temp {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let n = NEXT.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("wilco-deploy-test-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Temp(path)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What this machine's git says, with no configuration of its user.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let ended = Command::new("git")
        .args(["-c", "user.name=Dev", "-c", "user.email=dev@localhost"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("these tests need the program git on the PATH: {e}"));
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "git {arguments:?}: {err}");
    String::from_utf8_lossy(&ended.stdout).trim().to_owned()
}

/// A source with three tagged versions, and a bare remote whose branch `prod` is at the first.
pub struct GitScene {
    pub temp: Temp,
    pub clock: Arc<Still>,
    pub adapter: DeployAdapter,
    pub config: DeployConfig,
}

impl GitScene {
    pub fn new() -> GitScene {
        GitScene::with("", "")
    }

    /// `more`: lines of the target's table. `top`: lines of the whole table.
    pub fn with(top: &str, more: &str) -> GitScene {
        let temp = Temp::new();
        repositories(&temp.0);
        let remote = temp.0.join("remote.git");
        GitScene::at(temp, &remote.display().to_string(), top, more)
    }

    /// With a remote at this address.
    pub fn at(temp: Temp, remote: &str, top: &str, more: &str) -> GitScene {
        let table = format!(
            "{top}\n[targets.api-prod]\nkind = \"git\"\nservice = \"api\"\nenv = \"PROD\"\nremote = {remote:?}\n\
             branch = \"prod\"\nsource = \"source\"\n{more}\n"
        );
        let config = DeployConfig::from_toml(&table)
            .unwrap_or_else(|e| panic!("{e}"))
            .in_folder(&temp.0);
        let clock = Still::at(nine());
        GitScene {
            adapter: adapter(&config, &clock),
            temp,
            clock,
            config,
        }
    }

    /// The adapter as a new process would have it, perhaps on another machine.
    pub fn elsewhere(&self, work: &str) -> DeployAdapter {
        let mut config = self.config.clone();
        config.work = self.temp.0.join(work);
        adapter(&config, &self.clock)
    }

    pub fn source(&self) -> PathBuf {
        self.temp.0.join("source")
    }

    pub fn remote(&self) -> PathBuf {
        self.temp.0.join("remote.git")
    }

    /// The commit a name means in the source.
    pub fn commit(&self, name: &str) -> String {
        git(&self.source(), &["rev-parse", &format!("{name}^{{commit}}")])
    }

    /// The commit the remote's branch is at.
    pub fn live(&self) -> String {
        git(&self.remote(), &["rev-parse", "refs/heads/prod"])
    }

    /// How often the branch was moved since it was made, by the remote's own reflog.
    pub fn moves(&self) -> usize {
        git(
            &self.remote(),
            &["reflog", "show", "--format=%H", "refs/heads/prod"],
        )
        .lines()
        .count()
            - 1
    }

    /// The refs acts have left at the remote.
    pub fn records(&self) -> Vec<String> {
        let refs = git(
            &self.remote(),
            &["for-each-ref", "--format=%(refname)", "refs/wilco"],
        );
        refs.lines().map(str::to_owned).collect()
    }

    /// A hook of the remote, as a shell script.
    pub fn hook(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let hooks = self.remote().join("hooks");
        std::fs::create_dir_all(&hooks).unwrap_or_else(|e| panic!("{e}"));
        let hook = hooks.join(name);
        std::fs::write(&hook, format!("#!/bin/sh\n{text}\n")).unwrap_or_else(|e| panic!("{e}"));
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755))
            .unwrap_or_else(|e| panic!("{e}"));
    }

    /// Somebody else moves the branch.
    pub fn move_by_hand(&self, to: &str) {
        let commit = self.commit(to);
        git(
            &self.source(),
            &[
                "push",
                "--quiet",
                "--force",
                &self.remote().display().to_string(),
                &format!("{commit}:refs/heads/prod"),
            ],
        );
    }

    pub fn deploy(&self, ver: &str) -> Job {
        deploy(self.clock.now(), ver)
    }

    pub async fn prepare(&self, job: &Job) -> Frozen {
        prepare(&self.adapter, job).await
    }

    pub async fn execute(&self, job: &Job, frozen: &Frozen) -> Outcome {
        self.adapter
            .execute(permit(job, frozen, self.clock.clone()), frozen)
            .await
    }

    pub async fn lookup(&self, job: &Job, frozen: &Frozen) -> Found {
        self.adapter.lookup(job.act_id, frozen, job.now, None).await
    }

    pub async fn adapter_resolve(&self, ver: &str) -> Result<Resolved, ResolveError> {
        self.adapter.resolve(&self.deploy(ver)).await
    }

    /// A deployment that goes well.
    pub async fn deployed(&self, ver: &str) -> (Job, Frozen) {
        let job = self.deploy(ver);
        let frozen = self.prepare(&job).await;
        executed(self.execute(&job, &frozen).await);
        (job, frozen)
    }
}

/// The source and the remote in `folder`.
pub fn repositories(folder: &Path) {
    let source = folder.join("source");
    std::fs::create_dir_all(&source).unwrap_or_else(|e| panic!("{e}"));
    git(&source, &["init", "--quiet", "--initial-branch=main"]);
    for version in ["v1", "v2", "v3"] {
        std::fs::write(source.join("app"), version).unwrap_or_else(|e| panic!("{e}"));
        git(&source, &["add", "app"]);
        git(&source, &["commit", "--quiet", "-m", version]);
        git(&source, &["tag", version]);
    }
    git(folder, &["init", "--quiet", "--bare", "remote.git"]);
    let remote = folder.join("remote.git");
    git(&remote, &["config", "core.logAllRefUpdates", "always"]);
    git(&remote, &["config", "receive.advertisePushOptions", "true"]);
    git(
        &source,
        &[
            "push",
            "--quiet",
            &remote.display().to_string(),
            "v1^{commit}:refs/heads/prod",
        ],
    );
}

/// git's own server, for what a remote does after its client is gone.
pub struct GitDaemon {
    child: std::process::Child,
    #[allow(dead_code)]
    pub addr: std::net::SocketAddr,
    pub url: String,
}

impl GitDaemon {
    pub fn serve(folder: &Path) -> GitDaemon {
        let port = free_port();
        let program = PathBuf::from(git(folder, &["--exec-path"])).join("git-daemon");
        let child = Command::new(program)
            .args([
                "--listen=127.0.0.1",
                &format!("--port={port}"),
                "--export-all",
                "--enable=receive-pack",
                "--reuseaddr",
            ])
            .arg(format!("--base-path={}", folder.display()))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("these tests need git-daemon, which comes with git: {e}"));
        for _ in 0..400 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        GitDaemon {
            child,
            addr: std::net::SocketAddr::from(([127, 0, 0, 1], port)),
            url: format!("git://127.0.0.1:{port}/remote.git"),
        }
    }
}

impl Drop for GitDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap_or_else(|e| panic!("{e}"));
    listener.local_addr().unwrap_or_else(|e| panic!("{e}")).port()
}

/// A release folder and artefacts.
pub struct FolderScene {
    pub temp: Temp,
    pub clock: Arc<Still>,
    pub adapter: DeployAdapter,
    pub config: DeployConfig,
}

impl FolderScene {
    pub fn new() -> FolderScene {
        FolderScene::with("")
    }

    pub fn with(more: &str) -> FolderScene {
        FolderScene::with_top("", more)
    }

    /// `top`: lines of the whole table. `more`: lines of the target's.
    pub fn with_top(top: &str, more: &str) -> FolderScene {
        let temp = Temp::new();
        let table = format!(
            "{top}\n[targets.api-prod]\nkind = \"folder\"\nservice = \"api\"\nenv = \"PROD\"\nfolder = \"live\"\n\
             artefacts = \"artefacts\"\n{more}\n"
        );
        let config = DeployConfig::from_toml(&table)
            .unwrap_or_else(|e| panic!("{e}"))
            .in_folder(&temp.0);
        for folder in ["artefacts", "live"] {
            std::fs::create_dir_all(temp.0.join(folder)).unwrap_or_else(|e| panic!("{e}"));
        }
        let clock = Still::at(nine());
        let scene = FolderScene {
            adapter: adapter(&config, &clock),
            config,
            temp,
            clock,
        };
        for version in ["v1", "v2", "v3"] {
            scene.folder_artefact(version, &[("app", version), ("lib/part", "part")]);
        }
        scene
    }

    /// The adapter of another daemon on the same folder.
    pub fn beside(scene: &FolderScene) -> DeployAdapter {
        adapter(&scene.config, &scene.clock)
    }

    pub fn live(&self) -> PathBuf {
        self.temp.0.join("live")
    }

    /// An artefact that is a folder.
    pub fn folder_artefact(&self, version: &str, files: &[(&str, &str)]) -> PathBuf {
        let at = self.temp.0.join("artefacts").join(format!("api-{version}"));
        for (name, text) in files {
            let file = at.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(&at)).unwrap_or_else(|e| panic!("{e}"));
            std::fs::write(file, text).unwrap_or_else(|e| panic!("{e}"));
        }
        at
    }

    /// An artefact that is an archive, of these bytes.
    pub fn archive_artefact(&self, version: &str, bytes: &[u8]) -> PathBuf {
        let at = self
            .temp
            .0
            .join("artefacts")
            .join(format!("api-{version}.tar.gz"));
        std::fs::write(&at, bytes).unwrap_or_else(|e| panic!("{e}"));
        at
    }

    /// What the link says.
    pub fn link(&self) -> String {
        std::fs::read_link(self.live().join("current"))
            .map(|l| l.display().to_string())
            .unwrap_or_default()
    }

    /// What a service that follows the link would run.
    pub fn app(&self) -> String {
        std::fs::read_to_string(self.live().join("current/app")).unwrap_or_default()
    }

    pub fn deploy(&self, ver: &str) -> Job {
        deploy(self.clock.now(), ver)
    }

    pub async fn prepare(&self, job: &Job) -> Frozen {
        prepare(&self.adapter, job).await
    }

    pub async fn execute(&self, job: &Job, frozen: &Frozen) -> Outcome {
        self.adapter
            .execute(permit(job, frozen, self.clock.clone()), frozen)
            .await
    }

    pub async fn lookup(&self, job: &Job, frozen: &Frozen) -> Found {
        self.adapter.lookup(job.act_id, frozen, job.now, None).await
    }

    pub async fn deployed(&self, ver: &str) -> (Job, Frozen) {
        let job = self.deploy(ver);
        let frozen = self.prepare(&job).await;
        executed(self.execute(&job, &frozen).await);
        (job, frozen)
    }
}

pub fn adapter(config: &DeployConfig, clock: &Arc<Still>) -> DeployAdapter {
    DeployAdapter::new(config, clock.clone()).unwrap_or_else(|e| panic!("{e}"))
}

pub const DEPLOY: [&str; 5] = ["env", "ver", "prev", "win", "apref"];
pub const UNDO: [&str; 4] = ["env", "ver", "prev", "apref"];

pub fn deploy(now: Timestamp, ver: &str) -> Job {
    let slots = [
        ("env", "PROD"),
        ("ver", ver),
        ("win", "20261002T0800-1200"),
        ("apref", "CAB-0931"),
    ];
    wilco_adapter::kit::job(now, "deploy", "DEPLOY", "svc:api", &slots, &DEPLOY)
}

pub fn rollback(now: Timestamp) -> Job {
    let slots = [("env", "PROD"), ("apref", "CAB-0932")];
    wilco_adapter::kit::job(
        now,
        "deploy",
        "ROLLBACK",
        "svc:api",
        &slots,
        &["env", "prev", "apref"],
    )
}

pub fn undo(now: Timestamp, of: &Job, frozen: &Frozen) -> Job {
    let mut job = wilco_adapter::kit::job(now, "deploy", "UNDO", "svc:api", &[], &UNDO);
    job.undo = Some(Undone {
        act_id: of.act_id,
        ask: of.ask.clone(),
        frozen: frozen.clone(),
        executed: frozen
            .values
            .iter()
            .map(|v| (v.slot.clone(), v.value.clone()))
            .collect(),
        receipt: None,
    });
    job
}

/// The job with one slot another, new, or, for an empty value, missing.
pub fn with(mut job: Job, slot: &str, value: &str) -> Job {
    job.slots.retain(|(k, _)| k != slot);
    if !value.is_empty() {
        job.slots.push((slot.to_owned(), value.to_owned()));
    }
    job
}

pub async fn resolved(adapter: &DeployAdapter, job: &Job) -> Resolved {
    adapter
        .resolve(job)
        .await
        .unwrap_or_else(|e| panic!("{}: {e}", job.ask))
}

pub async fn prepare(adapter: &DeployAdapter, job: &Job) -> Frozen {
    frozen_of(job, resolved(adapter, job).await, &adapter.describe())
}

/// The `why` and the text of a refusal.
pub async fn refusal(adapter: &DeployAdapter, job: &Job) -> (&'static str, String) {
    match adapter.resolve(job).await {
        Err(ResolveError::Refused { why, text }) => (why, text),
        other => panic!("it is not refused: {other:?}"),
    }
}

/// The text with which a handoff is put off.
pub async fn put_off(adapter: &DeployAdapter, job: &Job) -> String {
    match adapter.resolve(job).await {
        Err(ResolveError::Passing(text)) => text,
        other => panic!("it was not put off: {other:?}"),
    }
}

pub fn executed(outcome: Outcome) -> Report {
    match outcome {
        Outcome::Executed(report) => report,
        other => panic!("it was not executed: {other:?}"),
    }
}

pub fn found(found: Found) -> Report {
    match found {
        Found::Executed(report) => report,
        other => panic!("it was not found: {other:?}"),
    }
}

pub fn value<'r>(report: &'r Report, slot: &str) -> &'r str {
    report
        .values
        .iter()
        .find(|(k, _)| k == slot)
        .map_or("", |(_, v)| v)
}

pub fn extra<'f>(frozen: &'f Frozen, slot: &str) -> &'f str {
    frozen
        .extra
        .iter()
        .find(|(k, _)| k == slot)
        .map_or("", |(_, v)| v)
}
