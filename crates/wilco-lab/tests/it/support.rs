//! A lab in a folder of its own, and a client that speaks to it as a payment initiator would.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use wilco_lab::{DEFAULT_TOKEN, Lab, LabError, LabOptions};

pub const CONSENTS: &str = "/open-banking/v3.1/pisp/domestic-payment-consents";
pub const PAYMENTS: &str = "/open-banking/v3.1/pisp/domestic-payments";
pub const OURS: &str = "20-00-00/55779911";
pub const MARLOW: &str = "40-12-88/61102938";

/// A folder that goes away with its owner.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self(std::env::temp_dir().join(format!("wilco-lab-test-{}", uuid::Uuid::now_v7().simple())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Unwraps with the error's own words.
#[track_caller]
pub fn ok<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// An answer, read to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: StatusCode,
    pub body: Value,
}

impl Reply {
    /// A text inside the body, by JSON pointer.
    #[track_caller]
    pub fn text(&self, at: &str) -> String {
        match self.body.pointer(at).and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => panic!("no text at {at} in {self:?}"),
        }
    }

    /// OBIE's code of the first error of a 400.
    #[track_caller]
    pub fn refusal(&self) -> String {
        assert_eq!(self.status, StatusCode::BAD_REQUEST, "{self:?}");
        self.text("/Errors/0/ErrorCode")
    }
}

/// A client of one lab.
#[derive(Clone)]
pub struct Client {
    pub http: reqwest::Client,
    pub url: String,
}

impl Client {
    pub fn new(url: String) -> Self {
        // Each request on a connection of its own: a dropped one must not be anybody else's.
        let http = ok(reqwest::Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0)
            .build());
        Self { http, url }
    }

    pub async fn send(&self, request: RequestBuilder) -> Result<Reply, reqwest::Error> {
        let response = request.timeout(Duration::from_secs(60)).send().await?;
        let status = response.status();
        let text = response.text().await?;
        Ok(Reply {
            status,
            body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
        })
    }

    pub async fn get(&self, path: &str) -> Reply {
        ok(self
            .send(
                self.http
                    .get(format!("{}{path}", self.url))
                    .bearer_auth(DEFAULT_TOKEN),
            )
            .await)
    }

    pub fn post_request(&self, path: &str, key: &str, body: &Value) -> RequestBuilder {
        self.http
            .post(format!("{}{path}", self.url))
            .bearer_auth(DEFAULT_TOKEN)
            .header("x-idempotency-key", key)
            .json(body)
    }

    pub async fn try_post(&self, path: &str, key: &str, body: &Value) -> Result<Reply, reqwest::Error> {
        self.send(self.post_request(path, key, body)).await
    }

    pub async fn post(&self, path: &str, key: &str, body: &Value) -> Reply {
        ok(self.try_post(path, key, body).await)
    }

    pub async fn knob(&self, path: &str, body: Value) -> Reply {
        ok(self
            .send(self.http.post(format!("{}{path}", self.url)).json(&body))
            .await)
    }

    pub async fn arm(&self, endpoint: &str, fault: &str, times: u64, seconds: f64) {
        let body = json!({ "endpoint": endpoint, "fault": fault, "times": times, "seconds": seconds });
        let reply = self.knob("/lab/faults", body).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    }

    /// Arms a fault as `--fault` names it.
    pub async fn fault(&self, text: &str) {
        let mut parts = text.split(':');
        let mut body = json!({ "counterparty": parts.next(), "fault": parts.next() });
        if let Some(times) = parts.next() {
            body["times"] = json!(ok(times.parse::<u64>()));
        }
        if let Some(seconds) = parts.next() {
            body["seconds"] = json!(ok(seconds.parse::<f64>()));
        }
        let reply = self.knob("/lab/faults", body).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    }

    pub async fn faults_left(&self) -> usize {
        let reply = self.get("/lab/faults").await;
        reply.body["faults"].as_array().map_or(0, Vec::len)
    }

    /// Places a consent for `initiation` and returns its answer.
    pub async fn consent(&self, key: &str, initiation: &Value) -> Reply {
        let reply = self.post(CONSENTS, key, &consent_body(initiation)).await;
        assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
        reply
    }

    /// Places a consent and returns the body of the payment it allows.
    pub async fn allowed(&self, key: &str, initiation: &Value) -> Value {
        let consent = self.consent(key, initiation).await;
        payment_body(&consent.text("/Data/ConsentId"), initiation)
    }

    pub async fn book(&self) -> Book {
        let reply = self.get("/lab/book").await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        Book(reply.body)
    }
}

/// The book, with the check that every reading of it makes.
pub struct Book(pub Value);

impl Book {
    pub fn payments(&self) -> Vec<Value> {
        self.0["payments"].as_array().cloned().unwrap_or_default()
    }

    /// The balance of an account in pence; none when it was never opened. Fails unless all balances sum to zero.
    #[track_caller]
    pub fn balance(&self, account: &str) -> Option<i128> {
        let accounts = self.0["accounts"].as_array().cloned().unwrap_or_default();
        let minor = |line: &Value| pence(line["balance"].as_str().unwrap_or("no text"));
        assert_eq!(
            accounts.iter().map(minor).sum::<i128>(),
            0,
            "balances sum to zero: {accounts:?}"
        );
        assert!(accounts.len() >= 2, "there are accounts to sum: {accounts:?}");
        accounts.iter().find(|line| line["account"] == account).map(minor)
    }

    /// Fails unless the book holds this one payment, booked in full to this account.
    #[track_caller]
    pub fn holds_one(&self, reference: &str, account: &str, amount: &str) {
        let payments = self.payments();
        assert_eq!(payments.len(), 1, "{payments:?}");
        assert_eq!(payments[0]["reference"], reference);
        assert_eq!(payments[0]["creditor_account"], account);
        assert_eq!(payments[0]["amount"], amount);
        assert_eq!(self.balance(account), Some(pence(amount)));
        assert_eq!(self.balance(OURS), Some(2_500_000_000 - pence(amount)));
    }

    /// Fails unless nothing was ever paid.
    #[track_caller]
    pub fn is_untouched(&self) {
        assert_eq!(self.payments(), Vec::<Value>::new());
        assert_eq!(self.balance(OURS), Some(2_500_000_000));
    }
}

/// `-12.34` as -1234, and nothing but that form.
#[track_caller]
pub fn pence(text: &str) -> i128 {
    let (size, sign) = text.strip_prefix('-').map_or((text, 1), |rest| (rest, -1));
    match size.split_once('.') {
        Some((whole, cents)) if cents.len() == 2 => sign * ok(format!("{whole}{cents}").parse::<i128>()),
        _ => panic!("not an exact decimal with two places: {text}"),
    }
}

pub fn initiation(reference: &str, amount: &str) -> Value {
    json!({
        "InstructionIdentification": format!("act-{reference}"),
        "EndToEndIdentification": reference,
        "InstructedAmount": { "Amount": amount, "Currency": "GBP" },
        "CreditorAccount": {
            "SchemeName": "UK.OBIE.SortCodeAccountNumber",
            "Identification": "40128861102938",
            "Name": "Marlow Supplies Ltd",
        },
        "RemittanceInformation": { "Reference": reference },
    })
}

pub fn consent_body(initiation: &Value) -> Value {
    json!({ "Data": { "Initiation": initiation }, "Risk": { "PaymentContextCode": "BillPayment" } })
}

pub fn payment_body(consent_id: &str, initiation: &Value) -> Value {
    json!({
        "Data": { "ConsentId": consent_id, "Initiation": initiation },
        "Risk": { "PaymentContextCode": "BillPayment" },
    })
}

/// A lab with its client and folder.
pub struct Bench {
    pub lab: Lab,
    pub client: Client,
    pub folder: Folder,
}

impl Bench {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// All counterparties.
    pub async fn everybody() -> Self {
        Self::with(|options| *options = options.clone().with_everybody(loopback())).await
    }

    pub async fn with(adjust: impl FnOnce(&mut LabOptions)) -> Self {
        let folder = Folder::new();
        let mut options = LabOptions::new(&folder.0, loopback());
        adjust(&mut options);
        let lab = ok(wilco_lab::start(options).await);
        Self {
            client: Client::new(lab.url()),
            lab,
            folder,
        }
    }

    /// The same folder, another lab.
    pub async fn restart(self) -> Self {
        let options = LabOptions::new(&self.folder.0, loopback());
        self.restart_with(options).await
    }

    /// The same folder, a lab with these options.
    pub async fn restart_with(self, options: LabOptions) -> Self {
        self.lab.stop().await;
        let lab = start_again(options).await;
        Self {
            client: Client::new(lab.url()),
            lab,
            folder: self.folder,
        }
    }
}

/// A lab in a folder that another one has just left.
pub async fn start_again(options: LabOptions) -> Lab {
    let mut started = wilco_lab::start(options.clone()).await;
    // A child that another test of this process is starting holds every open file until it is its own program: for
    // that moment the folder's lock too.
    for _ in 0..100 {
        if !matches!(started, Err(LabError::InUse { .. })) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        started = wilco_lab::start(options.clone()).await;
    }
    ok(started)
}
