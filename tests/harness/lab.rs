//! The practice bank, from outside: its book, which judges, and its fault knobs.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::run_file;
use crate::{Folder, PATIENCE, Process, TODAY, binaries, until};

/// The endpoint of payment orders.
pub const PAYMENTS: &str = "domestic-payments";
/// The endpoint of consents.
pub const CONSENTS: &str = "domestic-payment-consents";

/// A lab in a process of its own, which outlives the daemon.
#[derive(Debug)]
pub struct LabProcess {
    process: Process,
    url: String,
    args: Vec<String>,
    folder: Folder,
}

impl LabProcess {
    /// Starts one on a free port, with more arguments for `wilcod lab`.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(args: &[&str]) -> LabProcess {
        let folder = Folder::new();
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let process = launch(&folder, "127.0.0.1:0", &args);
        let mut lab = LabProcess {
            process,
            url: String::new(),
            args,
            folder,
        };
        lab.url = lab.wait_until_ready().await;
        lab
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A client of it.
    #[must_use]
    pub fn bank(&self) -> Bank {
        Bank::new(&self.url)
    }

    /// Kills it: from here on the bank is down.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again, on the same port and book. Its knobs are gone.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&mut self) {
        self.process.kill();
        let listen = self.url.trim_start_matches("http://");
        self.process = launch(&self.folder, listen, &self.args);
        let url = self.wait_until_ready().await;
        assert_eq!(url, self.url, "a bank does not move");
    }

    async fn wait_until_ready(&mut self) -> String {
        let path = self.folder.path().join("lab/run.json");
        let run = run_file(&path, &mut self.process).await;
        run["url"].as_str().unwrap_or_default().to_owned()
    }
}

fn launch(folder: &Folder, listen: &str, args: &[String]) -> Process {
    let mut command = Command::new(binaries::wilcod());
    command.arg("lab").arg("--data").arg(folder.path().join("lab"));
    command
        .args(["--listen", listen, "--today", TODAY])
        .args(args)
        .env_remove("RUST_LOG");
    Process::start(command, folder.path(), "lab")
}

/// A client of a lab.
#[derive(Debug, Clone)]
pub struct Bank {
    url: String,
    http: reqwest::Client,
}

impl Bank {
    /// A client of the lab at `url`.
    ///
    /// # Panics
    /// If there can be no HTTP client.
    #[must_use]
    pub fn new(url: &str) -> Bank {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .build()
            .unwrap_or_else(|e| panic!("an HTTP client: {e}"));
        Bank {
            url: url.to_owned(),
            http,
        }
    }

    /// The book as it stands.
    ///
    /// # Panics
    /// If the lab does not answer, or its book does not add up.
    pub async fn book(&self) -> Book {
        Book::checked(self.get("/lab/book").await)
    }

    /// The next `times` requests at `endpoint` meet `fault`; `seconds` is the delay of `slow` and `late`.
    ///
    /// # Panics
    /// If the lab does not take it.
    pub async fn fault(&self, endpoint: &str, fault: &str, times: u32, seconds: f64) {
        let body = json!({ "endpoint": endpoint, "fault": fault, "times": times, "seconds": seconds });
        self.post("/lab/faults", &body).await;
    }

    /// Takes all knobs back.
    ///
    /// # Panics
    /// If the lab does not answer.
    pub async fn well_again(&self) {
        let answer = self.http.delete(format!("{}/lab/faults", self.url)).send().await;
        let answer = answer.unwrap_or_else(|e| panic!("the lab: {e}"));
        assert!(
            answer.status().is_success(),
            "the lab's knobs: {}",
            answer.status()
        );
    }

    /// How many knobs nobody has met yet.
    ///
    /// # Panics
    /// If the lab does not answer.
    pub async fn faults_left(&self) -> usize {
        let faults = self.get("/lab/faults").await;
        faults["faults"].as_array().map_or(0, Vec::len)
    }

    /// Reads one of the lab's own pages.
    ///
    /// # Panics
    /// If the lab does not answer with JSON.
    pub async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await;
        read(path, answer).await
    }

    /// Turns one of the lab's own knobs.
    ///
    /// # Panics
    /// If the lab does not take it.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self
            .http
            .post(format!("{}{path}", self.url))
            .json(body)
            .send()
            .await;
        read(path, answer).await
    }

    /// Changes what our side has on file for a payee.
    ///
    /// # Panics
    /// If the lab does not take it.
    pub async fn payee(&self, sup: &str, name: &str, account: &str) {
        let path = format!("/lab/payees/{sup}");
        let body = json!({ "name": name, "account": account });
        let answer = self
            .http
            .put(format!("{}{path}", self.url))
            .json(&body)
            .send()
            .await;
        read(&path, answer).await;
    }

    /// Waits until the book holds a payment with this reference.
    ///
    /// # Panics
    /// If it never does.
    pub async fn paid(&self, reference: &str) -> Value {
        until(&format!("payment {reference} in the book"), async || {
            self.book().await.payments_of(reference).pop()
        })
        .await
    }
}

async fn read(path: &str, answer: Result<reqwest::Response, reqwest::Error>) -> Value {
    let answer = answer.unwrap_or_else(|e| panic!("the lab, {path}: {e}"));
    let status = answer.status();
    let text = answer
        .text()
        .await
        .unwrap_or_else(|e| panic!("the lab, {path}: {e}"));
    assert!(
        status.is_success(),
        "the lab answers {path} with {status}: {text}"
    );
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// The lab's book at one moment. It was added up when it was read.
#[derive(Debug, Clone)]
pub struct Book(Value);

impl Book {
    fn checked(book: Value) -> Book {
        let accounts = book["accounts"].as_array().cloned().unwrap_or_default();
        assert!(accounts.len() > 1, "the book has accounts: {book}");
        let sum: i128 = accounts.iter().map(|a| pence(&a["balance"])).sum();
        assert_eq!(sum, 0, "the book does not add up: {accounts:?}");
        Book(book)
    }

    /// Every payment, in the order they were decided.
    #[must_use]
    pub fn payments(&self) -> Vec<Value> {
        self.0["payments"].as_array().cloned().unwrap_or_default()
    }

    /// The payments with one reference.
    #[must_use]
    pub fn payments_of(&self, reference: &str) -> Vec<Value> {
        self.payments()
            .into_iter()
            .filter(|p| p["reference"] == reference)
            .collect()
    }

    /// What has left our account, in pence, by the book's own entries.
    #[must_use]
    pub fn spent(&self) -> i128 {
        let accounts = self.0["accounts"].as_array().cloned().unwrap_or_default();
        let ours = accounts.iter().find(|a| a["account"] == "20-00-00/55779911");
        2_500_000_000 - ours.map_or(0, |a| pence(&a["balance"]))
    }
}

/// `-12.34` as -1234.
fn pence(amount: &Value) -> i128 {
    let text = amount.as_str().unwrap_or_default();
    let digits = text.replace('.', "");
    let whole = text
        .split_once('.')
        .is_some_and(|(_, fraction)| fraction.len() == 2);
    match digits.parse() {
        Ok(pence) if whole => pence,
        _ => panic!("not an amount: {amount}"),
    }
}

/// A delay for `slow` and `late` that leaves room to act in, without making a test long.
pub const A_MOMENT: Duration = Duration::from_millis(2_000);
