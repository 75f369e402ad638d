//! A lab of one's own, an adapter that speaks to it, a job, and the permit of a claimed act.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use adapter_bank::{BankAdapter, BankConfig};
use serde_json::{Value, json};
use wilco_adapter::kit::{self, Still};
use wilco_adapter::{Adapter, Job, Outcome, ResolveError};
use wilco_core::{Frozen, Resolved, Timestamp};
use wilco_lab::{Lab, LabOptions};

pub use wilco_adapter::kit::permit;

pub const MARLOW: &str = "40-12-88/61102938";
pub const SLIPPED: &str = "40-12-88/61102983";

/// Where every test's clock stands at first. The lab has its own.
pub fn still() -> Arc<Still> {
    Still::at(Timestamp::from_rw1("20261002T0900Z").unwrap_or_default())
}

/// A folder of one's own, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let name = format!("wilco-bank-test-{}-{}", std::process::id(), next());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is an empty-handed test's litter, not a failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The lab bank, its day frozen at 2 October 2026, and an adapter that speaks to it.
pub struct Scene {
    pub lab: Lab,
    pub clock: Arc<Still>,
    pub bank: BankAdapter,
    pub config: BankConfig,
    folder: Folder,
    http: reqwest::Client,
}

impl Scene {
    pub async fn new() -> Scene {
        Scene::with(|_| {}, |_| {}).await
    }

    pub async fn with(lab: impl FnOnce(&mut LabOptions), bank: impl FnOnce(&mut BankConfig)) -> Scene {
        let folder = Folder::new();
        let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let mut options = LabOptions::new(folder.0.join("lab"), listen);
        options.today = Some(time::macros::date!(2026 - 10 - 02));
        lab(&mut options);
        let token = folder.0.join("token");
        std::fs::write(&token, format!("{}\n", options.token)).unwrap_or_else(|e| panic!("{e}"));
        let lab = wilco_lab::start(options).await.unwrap_or_else(|e| panic!("{e}"));
        let table = format!(
            "url = \"lab\"\npayees = \"lab\"\nconfirmation_of_payee = \"lab\"\n\
             debtor_account = \"20-00-00/55779911\"\ntoken_file = {token:?}\ntimeout_s = 10"
        );
        let mut config = BankConfig::from_toml(&table)
            .unwrap_or_else(|e| panic!("{e}"))
            .point_at_lab(&lab.url());
        bank(&mut config);
        let clock = still();
        Scene {
            lab,
            bank: adapter(&config, &clock),
            clock,
            config,
            folder,
            http: reqwest::Client::builder()
                .no_proxy()
                .build()
                .unwrap_or_else(|e| panic!("{e}")),
        }
    }

    pub fn folder(&self) -> &std::path::Path {
        &self.folder.0
    }

    /// The adapter as a new process would have it: it remembers nothing.
    pub fn restart(&mut self) {
        self.bank = adapter(&self.config, &self.clock);
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("{}{path}", self.lab.url())).send().await;
        json_of(answer).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self
            .http
            .post(format!("{}{path}", self.lab.url()))
            .json(&body)
            .send()
            .await;
        json_of(answer).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Value {
        let answer = self
            .http
            .put(format!("{}{path}", self.lab.url()))
            .json(&body)
            .send()
            .await;
        json_of(answer).await
    }

    /// Arms a fault at the lab.
    pub async fn fault(&self, endpoint: &str, fault: &str, times: u32, seconds: f64) {
        let body = json!({ "endpoint": endpoint, "fault": fault, "times": times, "seconds": seconds });
        self.post("/lab/faults", body).await;
    }

    /// The payments in the lab's book.
    pub async fn payments(&self) -> Vec<Value> {
        let book = self.get("/lab/book").await;
        book["payments"]
            .as_array()
            .cloned()
            .unwrap_or_else(|| panic!("a book: {book}"))
    }

    /// Every order in the lab's book, paid at once or standing for its day.
    pub async fn orders(&self) -> Vec<Value> {
        let book = self.get("/lab/book").await;
        let list = |name: &str| book[name].as_array().cloned();
        let mut orders = list("payments").unwrap_or_else(|| panic!("a book: {book}"));
        orders.extend(list("scheduled").unwrap_or_else(|| panic!("a book: {book}")));
        orders
    }

    /// The balance of an account, as the book has it; none if it was never opened.
    pub async fn balance(&self, account: &str) -> Option<String> {
        let book = self.get("/lab/book").await;
        let accounts = book["accounts"].as_array().cloned().unwrap_or_default();
        let found = accounts.iter().find(|line| line["account"] == account)?;
        found["balance"].as_str().map(str::to_owned)
    }

    /// Moves the lab's clock ahead. Ours stays.
    pub async fn days_pass(&self, days: u64) {
        self.post("/lab/clock", json!({ "advance_s": days * 86_400 }))
            .await;
    }

    pub async fn resolve(&self, job: &Job) -> Result<Resolved, ResolveError> {
        self.bank.resolve(job).await
    }

    pub async fn prepare(&self, job: &Job) -> Frozen {
        let resolved = self.resolve(job).await.unwrap_or_else(|e| panic!("{e}"));
        kit::frozen_of(job, resolved, &self.bank.describe())
    }

    pub async fn execute(&self, job: &Job, frozen: &Frozen) -> Outcome {
        let permit = permit(job, frozen, self.clock.clone());
        self.bank.execute(permit, frozen).await
    }
}

pub fn adapter(config: &BankConfig, clock: &Arc<Still>) -> BankAdapter {
    BankAdapter::new(config, clock.clone()).unwrap_or_else(|e| panic!("{e}"))
}

async fn json_of(answer: reqwest::Result<reqwest::Response>) -> Value {
    let answer = answer.unwrap_or_else(|e| panic!("the lab answers: {e}"));
    let status = answer.status();
    let body: Value = answer.json().await.unwrap_or_else(|e| panic!("JSON: {e}"));
    assert!(status.is_success(), "{status}: {body}");
    body
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

pub fn pairs(slots: &[(&str, &str)]) -> Vec<(String, String)> {
    slots
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

/// The seed's payment, as a job with an id of its own.
pub fn pay() -> Job {
    let now = Timestamp::from_rw1("20261002T0900Z").unwrap_or_default();
    Job {
        act_id: kit::act_id(now),
        attempt: 1,
        profile: "pay".to_owned(),
        ask: "PAY".to_owned(),
        item: "inv:MD-2026-057".to_owned(),
        slots: pairs(&[
            ("sup", "marlow"),
            ("amt", "5400.00"),
            ("cur", "GBP"),
            ("kind", "GROSS"),
            ("acct", MARLOW),
            ("paid", "20261002"),
            ("ref", "MD-2026-057"),
            ("apref", "FD-0929"),
        ]),
        exec: ["sup", "amt", "cur", "kind", "acct", "paid", "ref", "apref"]
            .map(str::to_owned)
            .to_vec(),
        undo: None,
        now,
    }
}

/// The same job with one slot another, or, for an empty value, missing.
pub fn pay_with(slot: &str, value: &str) -> Job {
    let mut job = pay();
    if value.is_empty() {
        job.slots.retain(|(k, _)| k != slot);
    } else {
        for (_, v) in job.slots.iter_mut().filter(|(k, _)| k == slot) {
            value.clone_into(v);
        }
    }
    job
}
