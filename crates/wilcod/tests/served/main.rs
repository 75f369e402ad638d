//! The served port itself: what answers on it, to which wire, and within which limits. The stories of payments are
//! told elsewhere; here a daemon is started in this process, on a folder of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;
use wilco_api::v1::executor_client::ExecutorClient;
use wilco_api::v1::protocol_client::ProtocolClient;
use wilco_api::v1::{CheckRbRequest, LineRequest, PrepareRequest};
use wilcod::{Running, ServeOptions};

mod folder;
mod limits;
mod operators;
mod wires;

const HO: &str = "RW1 HO scheduler-1 from=scheduler to=payer item=inv:7 ask=PAY p=pay rb=exec sup=marlow amt=5400.00 \
                  cur=GBP kind=GROSS acct=40-12-88/61102938 paid=20261002 ref=MD-7 apref=FD-1";

/// A daemon with the adapter that carries out nothing, and these settings before its section.
struct House {
    running: Running,
    folder: Folder,
}

/// Removed when the test is over, however it ends.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl House {
    async fn new(settings: &str, sim: &str) -> House {
        let name = uuid();
        let folder = Folder(std::env::temp_dir().join(format!("wilcod-served-{name}")));
        std::fs::create_dir(&folder.0).expect("a folder");
        let text = format!("agents = [\"payer\"]\n{settings}\n[adapters.sim]\n{sim}\n");
        std::fs::write(folder.0.join("wilcod.toml"), text).expect("written");
        let running = wilcod::start(ServeOptions::new(&folder.0)).await.expect("starts");
        House { running, folder }
    }

    fn key(&self, principal: &str) -> String {
        let text = std::fs::read_to_string(self.folder.0.join("keys.toml")).expect("reads");
        wilcod::keys::parse_keys(&text)
            .expect("parses")
            .remove(principal)
            .expect("a key")
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.running.url.clone()).expect("a URL");
        endpoint.connect().await.expect("connects")
    }

    fn signed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let value = format!("Bearer {}", self.key("scheduler"))
            .parse()
            .expect("ASCII");
        request.metadata_mut().insert("authorization", value);
        request
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.post_as("scheduler", path, body).await
    }

    async fn get_as(&self, principal: &str, path: &str) -> Value {
        let answer = reqwest::Client::new()
            .get(format!("{}{path}", self.running.url))
            .bearer_auth(self.key(principal))
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        answer.json().await.expect("JSON")
    }

    async fn post_as(&self, principal: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let answer = reqwest::Client::new()
            .post(format!("{}{path}", self.running.url))
            .bearer_auth(self.key(principal))
            .json(body)
            .send()
            .await
            .expect("an answer");
        (answer.status(), answer.json().await.expect("JSON"))
    }

    /// A request whose body is announced and never sent.
    async fn half(&self, path: &str, headers: &str) -> Half {
        let address = self.running.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let text = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: 9\r\n\r\n");
        stream.write_all(text.as_bytes()).await.expect("sent");
        Half(stream)
    }

    async fn end(self) {
        self.running.stop().await;
    }
}

/// The connection of a request that stays half.
struct Half(TcpStream);

impl Half {
    /// The head of the answer, in small letters.
    async fn head(&mut self) -> String {
        let mut text = Vec::new();
        while !text.windows(4).any(|four| four == b"\r\n\r\n") {
            let byte = self.0.read_u8().await.expect("an answer");
            text.push(byte);
        }
        String::from_utf8(text).expect("ASCII").to_ascii_lowercase()
    }
}

fn uuid() -> String {
    let bytes = wilcod::random::bytes::<8>().expect("randomness");
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn reason(status: &Status) -> String {
    status
        .get_error_details()
        .error_info()
        .map(|info| info.reason.clone())
        .unwrap_or_default()
}

/// The bank's day: the machine's, by UTC.
fn today() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    rw1::unix_to_minute(i64::try_from(seconds).unwrap_or(0))[..8].to_owned()
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("reads")
}
