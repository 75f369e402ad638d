//! After: the bank adapter by the suite that every adapter is held to, on a lab bank behind a line that breaks. The judge
//! is the lab's book, read past the line.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapter_bank::{BankAdapter, BankConfig};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use wilco_adapter::kit::{self, Bench, Effect, Fault, FaultProxy, Finding, Still};
use wilco_adapter::{Adapter, Job};
use wilco_core::{ActId, Clock, Frozen, Timestamp};
use wilco_lab::{Lab, LabOptions};

/// How the bank is spoken to, and for which day it is asked. The lab's today is 2 October 2026.
#[derive(Debug, Clone, Copy)]
struct Form {
    version: &'static str,
    paid: &'static str,
    payments: &'static str,
}

const PLAIN: Form = Form {
    version: "3.1",
    paid: "20261002",
    payments: "domestic-payments",
};
const SCHEDULED: Form = Form {
    paid: "20261005",
    payments: "domestic-scheduled-payments",
    ..PLAIN
};

struct BankBench {
    form: Form,
    folder: PathBuf,
    options: LabOptions,
    lab: Mutex<Option<Lab>>,
    proxy: FaultProxy,
    config: BankConfig,
    clock: Arc<Still>,
    http: reqwest::Client,
    /// What is pending is refused when it settles.
    refuses: AtomicBool,
    /// A request that the lab carries out later is under way.
    late: AtomicBool,
}

impl BankBench {
    /// A lab whose payments stay pending for `settle_after_s` of its own clock.
    async fn open(name: &str, form: Form, settle_after_s: u64) -> BankBench {
        let folder = std::env::temp_dir().join(format!("wilco-bank-kit-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut options = LabOptions::new(
            folder.join("lab"),
            std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        );
        options.today = Some(time::macros::date!(2026 - 10 - 02));
        options.settle_after_s = settle_after_s;
        let token = folder.join("token");
        std::fs::write(&token, &options.token).unwrap_or_else(|e| panic!("{e}"));
        let lab = wilco_lab::start(options.clone())
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        let proxy = FaultProxy::to(lab.addr()).await.unwrap_or_else(|e| panic!("{e}"));
        let table = format!(
            "url = \"lab\"\npayees = \"lab\"\nconfirmation_of_payee = \"lab\"\n\
             debtor_account = \"20-00-00/55779911\"\ntoken_file = {token:?}\ntimeout_s = 2\nsettle_window_s = 4\n\
             scheduled = true\nversion = {:?}",
            form.version
        );
        let config = BankConfig::from_toml(&table)
            .unwrap_or_else(|e| panic!("{e}"))
            .point_at_lab(&format!("http://{}", proxy.addr()));
        BankBench {
            form,
            folder,
            options,
            lab: Mutex::new(Some(lab)),
            proxy,
            config,
            clock: Still::at(Timestamp::from_rw1("20261002T0900Z").unwrap_or_default()),
            http: reqwest::Client::builder()
                .no_proxy()
                .build()
                .unwrap_or_else(|e| panic!("{e}")),
            refuses: AtomicBool::new(false),
            late: AtomicBool::new(false),
        }
    }

    async fn lab_answers(&self, path: &str, body: Option<Value>) -> Value {
        let lab = self.lab.lock().await;
        let url = lab
            .as_ref()
            .map(Lab::url)
            .unwrap_or_else(|| panic!("the lab is down"));
        let asked = match body {
            Some(body) => self.http.post(format!("{url}/lab/{path}")).json(&body),
            None => self.http.get(format!("{url}/lab/{path}")),
        };
        let answer = asked
            .send()
            .await
            .unwrap_or_else(|e| panic!("the lab answers: {e}"));
        let status = answer.status();
        let body: Value = answer.json().await.unwrap_or_else(|e| panic!("JSON: {e}"));
        assert!(status.is_success(), "{path}: {status}: {body}");
        body
    }

    async fn knob(&self, fault: &str, seconds: f64) {
        let body = json!({ "endpoint": self.form.payments, "fault": fault, "times": 1, "seconds": seconds });
        self.lab_answers("faults", Some(body)).await;
    }

    /// The orders in the book that moved money or may yet: payments at once, and scheduled ones that stand.
    async fn payments(&self) -> Vec<Value> {
        let book = self.lab_answers("book", None).await;
        let list = |name: &str| book[name].as_array().cloned();
        let mut all = list("payments").unwrap_or_else(|| panic!("a book: {book}"));
        all.extend(list("scheduled").unwrap_or_else(|| panic!("a book: {book}")));
        all.into_iter().filter(|p| p["code"] != "RJCT").collect()
    }
}

impl Drop for BankBench {
    fn drop(&mut self) {
        // Litter of a test is no failure.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[async_trait::async_trait]
impl Bench for BankBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        let bank = BankAdapter::new(&self.config, self.clock.clone());
        Arc::new(bank.unwrap_or_else(|e| panic!("{e}")))
    }

    fn clock(&self) -> Arc<Still> {
        self.clock.clone()
    }

    async fn job(&self, n: u32) -> Job {
        let (amount, reference) = (format!("{}.00", 1_000 + n), format!("KIT-{n}"));
        let slots = [
            ("sup", "marlow"),
            ("amt", amount.as_str()),
            ("cur", "GBP"),
            ("kind", "GROSS"),
            ("acct", "40-12-88/61102938"),
            ("paid", self.form.paid),
            ("ref", reference.as_str()),
            ("apref", "FD-0929"),
        ];
        let exec = ["sup", "amt", "cur", "kind", "acct", "paid", "ref", "apref"];
        kit::job(self.clock.now(), "pay", "PAY", "inv:MD-2026-057", &slots, &exec)
    }

    async fn effects(&self, act: ActId, _frozen: &Frozen) -> Vec<Effect> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ours = |p: &Value| p["instruction_id"] == act.to_string();
        let payments = self.payments().await.into_iter().filter(ours);
        let effects = payments.map(|p| Effect {
            values: [
                ("amt", text(&p["amount"])),
                ("cur", text(&p["currency"])),
                ("acct", text(&p["creditor_account"])),
                ("ref", text(&p["reference"])),
                // The lab's day stands still, so that is the day of every payment at once in its book.
                (
                    "paid",
                    p["day"]
                        .as_str()
                        .map_or("20261002".to_owned(), |day| day.replace('-', "")),
                ),
            ]
            .map(|(slot, value)| (slot.to_owned(), value))
            .to_vec(),
            receipt: p["payment_id"].as_str().map(str::to_owned),
            unfinished: p["code"] == "PDNG",
        });
        effects.collect()
    }

    async fn effects_in_all(&self) -> Option<usize> {
        Some(self.payments().await.len())
    }

    async fn settle(&self) {
        // A request that the lab has taken in is carried out at once.
        tokio::time::sleep(Duration::from_millis(300)).await;
        if self.late.swap(false, Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if self.refuses.swap(false, Ordering::SeqCst) {
            for payment in self.payments().await {
                if let ("PDNG", Some(id)) = (
                    payment["code"].as_str().unwrap_or_default(),
                    payment["payment_id"].as_str(),
                ) {
                    self.lab_answers(&format!("settle/{id}"), Some(json!({ "status": "Rejected" })))
                        .await;
                }
            }
        }
        if self.options.settle_after_s > 0 {
            let seconds = self.options.settle_after_s;
            self.lab_answers("clock", Some(json!({ "advance_s": seconds })))
                .await;
        }
        self.clock.pass(i64::from(self.config.settle_window_s));
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        Some(&self.proxy)
    }

    async fn arm(&self, fault: Fault) -> bool {
        let stays_pending = self.options.settle_after_s > 0;
        match fault {
            Fault::Refuse => self.knob("refuse", 0.0).await,
            Fault::LoseRequest => self.knob("drop-before", 0.0).await,
            Fault::LoseReply => self.knob("drop-after-accept", 0.0).await,
            Fault::Garbage => self.knob("5xx-after-accept", 0.0).await,
            Fault::Slow => self.knob("slow", 2.7).await,
            Fault::Late => {
                self.knob("late", 0.5).await;
                self.late.store(true, Ordering::SeqCst);
            }
            Fault::WrongValues => self.knob("wrong-account", 0.0).await,
            Fault::Lag => {
                self.knob("drop-after-accept", 0.0).await;
                self.knob("not-found-then-found", 0.0).await;
            }
            Fault::Unfinished if stays_pending => {}
            Fault::UnfinishedThenRefused if stays_pending => self.refuses.store(true, Ordering::SeqCst),
            Fault::Unfinished | Fault::UnfinishedThenRefused | Fault::Duplicate => return false,
        }
        true
    }

    async fn stop(&self) -> bool {
        self.proxy.refuse(true).await;
        if let Some(lab) = self.lab.lock().await.take() {
            lab.stop().await;
        }
        true
    }

    async fn start(&self) {
        let lab = wilco_lab::start(self.options.clone())
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        self.proxy.aim(lab.addr());
        self.lab.lock().await.replace(lab);
        self.proxy.refuse(false).await;
    }

    fn garbage(&self) -> Vec<Vec<u8>> {
        let http = |status: &str, body: &str| {
            format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        };
        let other =
            r#"{"Data":{"DomesticPaymentId":"p","ConsentId":"c","Status":"AcceptedSettlementCompleted"}}"#;
        vec![
            http("201 Created", "<html>welcome</html>"),
            http("201 Created", "{}"),
            http("201 Created", other),
            http("400 Bad Request", "no"),
            http("404 Not Found", "<html>no such page</html>"),
            http("502 Bad Gateway", ""),
            b"HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\n{\"Data\":".to_vec(),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bank_that_settles_at_once() {
    let bench = BankBench::open("at-once", PLAIN, 0).await;
    let findings = kit::run(&bench).await;
    findings.assert_sound();
    // The line itself is what this test is for.
    let cut = findings.finding("cut before the reply");
    assert_eq!(cut, Some(&Finding::Passed), "{findings}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bank_that_settles_later() {
    let bench = BankBench::open("later", PLAIN, 1).await;
    let findings = kit::run(&bench).await;
    findings.assert_sound();
    let pending = findings.finding("it takes the act on and refuses later");
    assert_eq!(pending, Some(&Finding::Passed), "{findings}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bank_that_takes_orders_for_a_day_to_come() {
    let bench = BankBench::open("scheduled", SCHEDULED, 0).await;
    kit::run(&bench).await.assert_sound();
}

/// In 4.0 every payment is taken on first, and how it ended is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bank_that_speaks_4_0() {
    let form = Form {
        version: "4.0",
        ..PLAIN
    };
    let bench = BankBench::open("four", form, 1).await;
    kit::run(&bench).await.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bank_that_takes_orders_for_a_day_to_come_in_4_0() {
    let form = Form {
        version: "4.0",
        ..SCHEDULED
    };
    let bench = BankBench::open("four-scheduled", form, 0).await;
    kit::run(&bench).await.assert_sound();
}
