//! After: everything we send a bank in 3.1 has the form of the published specification (UK Open Banking payment initiation
//! 3.1.7), and so has everything the lab answers. Prism stands between the two and turns away what has not; the judge of
//! Prism is a request that is wrong on purpose. `cargo xtask test` fetches both and says where (`WILCO_TEST_PRISM`).

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use wilco_adapter::{Adapter, Found, Job, Outcome, Ready, ResolveError};

use crate::signed::{asks_for_signatures, signs};
use crate::support::{MARLOW, Scene, pay, pay_with};

/// How long Prism may take to start: it writes every path of the file to its log, on a machine that is busy.
const START: Duration = Duration::from_secs(120);
/// A port may be taken between asking for it and Prism's asking for it.
const PORTS_TRIED: usize = 5;

/// Prism before one lab. Ends with its value.
struct Prism {
    url: String,
    log: Arc<Mutex<String>>,
    _child: Child,
}

impl Prism {
    async fn before(lab_url: &str) -> Prism {
        let folder = std::env::var_os("WILCO_TEST_PRISM").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| {
            panic!("WILCO_TEST_PRISM names no folder: run these tests by `cargo xtask test`, which makes it")
        });
        for _ in 0..PORTS_TRIED {
            if let Some(prism) = Prism::start(&folder, lab_url).await {
                return prism;
            }
        }
        panic!("Prism found no free port in {PORTS_TRIED} tries")
    }

    /// `None` if it ended before it listened: its port was taken meanwhile.
    async fn start(folder: &std::path::Path, lab_url: &str) -> Option<Prism> {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap_or_else(|e| panic!("{e}"));
        let port = free.local_addr().map(|a| a.port()).unwrap_or_default();
        drop(free);
        let mut child = Command::new("node")
            .arg(folder.join("node_modules/@stoplight/prism-cli/dist/index.js"))
            .args(["proxy", "--errors", "-h", "127.0.0.1", "-p", &port.to_string()])
            .arg(folder.join("payment-initiation-3.1.7.json"))
            .arg(lab_url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|e| panic!("node could not be started: {e}"));
        let stdout = child.stdout.take().unwrap_or_else(|| panic!("its output"));
        let mut lines = BufReader::new(stdout).lines();
        let started = tokio::time::timeout(START, async {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("Prism is listening") {
                    return true;
                }
            }
            false
        });
        if !started
            .await
            .unwrap_or_else(|_| panic!("Prism did not start within {START:?}"))
        {
            return None;
        }
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(mut kept) = kept.lock() {
                    kept.push_str(&line);
                    kept.push('\n');
                }
            }
        });
        Some(Prism {
            url: format!("http://127.0.0.1:{port}"),
            log,
            _child: child,
        })
    }

    /// What it has said since it began to listen, once `needle` is in it. It answers before it writes its log.
    async fn log_with(&self, needle: &str) -> String {
        for _ in 0..500 {
            let log = self.log.lock().map(|log| log.clone()).unwrap_or_default();
            if log.contains(needle) {
                return log;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("Prism's log never said {needle:?}")
    }
}

/// An adapter that reaches its lab through Prism. The lab takes signed messages only: the specification requires them.
async fn behind_prism() -> (Scene, Prism) {
    let mut scene = Scene::with(asks_for_signatures, |bank| {
        signs(bank);
        bank.scheduled = true;
    })
    .await;
    let prism = Prism::before(&scene.lab.url()).await;
    scene.config.url.clone_from(&prism.url);
    scene.restart();
    (scene, prism)
}

async fn look(scene: &Scene, job: &Job, frozen: &wilco_core::Frozen) -> Found {
    scene.bank.lookup(job.act_id, frozen, job.now, None).await
}

#[tokio::test]
async fn every_request_of_a_payments_life_has_the_published_form() {
    let (mut scene, prism) = behind_prism().await;
    assert_eq!(scene.bank.health().await, Ok(()));
    for job in [pay(), pay_with("paid", "20261005")] {
        let frozen = scene.prepare(&job).await;
        assert_eq!(scene.bank.ready(job.act_id, &frozen).await, Ready::Yes);
        assert!(matches!(look(&scene, &job, &frozen).await, Found::Absent(_)));
        let outcome = scene.execute(&job, &frozen).await;
        assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
        let read = look(&scene, &job, &frozen).await;
        assert!(matches!(read, Found::Executed(_)), "{read:?}");
        // Nothing at hand: the consent is read and the order replayed.
        scene.restart();
        let replayed = look(&scene, &job, &frozen).await;
        assert!(matches!(replayed, Found::Executed(_)), "{replayed:?}");
        // A refusal has the form of one.
        let mut other = frozen.clone();
        other.request.key = "wother".to_owned();
        let outcome = scene.execute(&job, &other).await;
        assert!(
            matches!(&outcome, Outcome::Unknown(text) if text.contains("InvalidConsentStatus")),
            "{outcome:?}"
        );
    }
    let orders = scene.orders().await;
    assert_eq!(orders.len(), 2, "{orders:?}");
    assert_eq!(scene.balance(MARLOW).await.as_deref(), Some("5400.00"));

    let mut log = String::new();
    for passed in [
        "get /open-banking/v3.1/pisp/domestic-payment-consents/",
        "post /open-banking/v3.1/pisp/domestic-payment-consents",
        "post /open-banking/v3.1/pisp/domestic-payments",
        "get /open-banking/v3.1/pisp/domestic-payments/",
        "get /open-banking/v3.1/pisp/domestic-scheduled-payment-consents/",
        "post /open-banking/v3.1/pisp/domestic-scheduled-payment-consents",
        "post /open-banking/v3.1/pisp/domestic-scheduled-payments",
        "get /open-banking/v3.1/pisp/domestic-scheduled-payments/",
    ] {
        log = prism.log_with(passed).await;
    }
    let complaints: Vec<&str> = log
        .lines()
        .filter(|line| {
            ["error", "warn", "Violation", "violation"]
                .iter()
                .any(|word| line.contains(word))
        })
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// One thing wrong at a time, each named by Prism, and the right request beside them taken.
#[tokio::test]
async fn a_request_that_is_wrong_on_purpose_is_turned_away() {
    let scene = Scene::new().await;
    let prism = Prism::before(&scene.lab.url()).await;
    let http = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap_or_else(|e| panic!("{e}"));
    let golden = |text: &str| -> Value { serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}")) };
    let single = golden(include_str!("../golden/consent_request.json"));
    let scheduled = golden(include_str!("../golden/scheduled_consent_request.json"));
    let post = async |resource: &str, body: &Value, without: &str| {
        let mut request = http
            .post(format!("{}/open-banking/v3.1/pisp/{resource}", prism.url))
            .json(body);
        for (name, value) in [
            ("authorization", format!("Bearer {}", wilco_lab::DEFAULT_TOKEN)),
            ("x-idempotency-key", "k".to_owned()),
            ("x-jws-signature", "not..checked".to_owned()),
        ] {
            if name != without {
                request = request.header(name, value);
            }
        }
        let answer = request.send().await.unwrap_or_else(|e| panic!("{e}"));
        (
            answer.status().as_u16(),
            answer.text().await.unwrap_or_else(|e| panic!("{e}")),
        )
    };
    let with = |body: &Value, at: &str, value: Value| {
        let mut body = body.clone();
        let (parent, name) = at.rsplit_once('/').unwrap_or_else(|| panic!("{at}"));
        body.pointer_mut(parent).unwrap_or_else(|| panic!("{at}"))[name] = value;
        body
    };
    let (consents, scheduled_consents) = ("domestic-payment-consents", "domestic-scheduled-payment-consents");
    let initiation = "/Data/Initiation";
    for (resource, body, without, needle) in [
        (consents, single.clone(), "x-idempotency-key", "x-idempotency-key"),
        (consents, single.clone(), "x-jws-signature", "x-jws-signature"),
        (
            consents,
            with(
                &single,
                "/Risk/PaymentContextCode",
                json!("BillingGoodsAndServicesInArrears"),
            ),
            "",
            "allowed values",
        ),
        (
            consents,
            with(
                &single,
                &format!("{initiation}/InstructedAmount/Amount"),
                json!("5,400.00"),
            ),
            "",
            "pattern",
        ),
        (
            consents,
            with(&single, &format!("{initiation}/Surprise"), json!(1)),
            "",
            "Surprise",
        ),
        (scheduled_consents, single.clone(), "", "Permission"),
        (
            scheduled_consents,
            with(
                &scheduled,
                &format!("{initiation}/RequestedExecutionDateTime"),
                json!("2026-10-05"),
            ),
            "",
            "date-time",
        ),
    ] {
        let (status, said) = post(resource, &body, without).await;
        assert_eq!(status, 422, "{needle}: {said}");
        assert!(said.contains(needle), "{needle}: {said}");
    }
    for (resource, body) in [(consents, &single), (scheduled_consents, &scheduled)] {
        let (status, said) = post(resource, body, "").await;
        assert_eq!(status, 201, "{said}");
    }
}

/// The same of our own requests: what the specification requires and our table leaves out is noticed.
#[tokio::test]
async fn an_adapter_that_does_not_sign_gets_nowhere() {
    let (mut scene, prism) = behind_prism().await;
    scene.config.signing = None;
    scene.restart();
    let said = scene.resolve(&pay()).await;
    assert!(
        matches!(&said, Err(ResolveError::Passing(text)) if text.contains("422")),
        "{said:?}"
    );
    prism.log_with("Invalid request").await;
    assert!(scene.orders().await.is_empty());
}
