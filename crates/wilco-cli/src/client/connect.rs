//! Where the daemon is, and the key to speak to it with.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint, Uri};
use wilco_api::v1::executor_client::ExecutorClient;
use wilco_api::v1::operator_client::OperatorClient;

use super::args::Place;
use super::problem::Problem;

/// How long the daemon may take to take a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The longest file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// The longest answer that is taken, in bytes: a page of the longest lines there are.
const ANSWER_MAX: usize = 64 << 20;

/// A daemon we can speak to, and as whom.
pub struct Daemon {
    channel: Channel,
    key: Option<AsciiMetadataValue>,
}

impl Daemon {
    /// Finds the daemon and the key.
    ///
    /// # Errors
    /// No address, no key, or nobody answers.
    pub async fn find(place: &Place, principal: &str) -> Result<Daemon, Problem> {
        let url = match (&place.url, &place.data) {
            (Some(url), _) => url.clone(),
            (None, Some(data)) => url_of(data)?,
            (None, None) => {
                return Err(Problem::usage("which daemon?")
                    .next("name its folder with --data DIR, or its address with --url"));
            }
        };
        let key = match (&place.key, &place.data) {
            (Some(key), _) => key.clone(),
            (None, Some(data)) => key_of(data, place.principal.as_deref().unwrap_or(principal))?,
            (None, None) => {
                return Err(Problem::usage("no key was given")
                    .next("set WILCO_KEY, or name the daemon's folder with --data DIR"));
            }
        };
        let key: AsciiMetadataValue = format!("Bearer {}", key.trim())
            .parse()
            .map_err(|_| Problem::new("the key is not plain ASCII"))?;
        Ok(Daemon {
            channel: channel(&url).await?,
            key: Some(key),
        })
    }

    /// The executor.
    pub fn executor(&self) -> ExecutorClient<Channel> {
        ExecutorClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_MAX)
    }

    /// The operator's calls.
    pub fn operator(&self) -> OperatorClient<Channel> {
        OperatorClient::new(self.channel.clone())
    }

    /// A message with the key.
    pub fn signed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(key) = &self.key {
            request.metadata_mut().insert("authorization", key.clone());
        }
        request
    }
}

async fn channel(url: &str) -> Result<Channel, Problem> {
    let no_url =
        |_| Problem::usage(format!("{url:?} is no address")).next("write it as http://127.0.0.1:8470");
    let uri: Uri = url.parse().map_err(no_url)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if uri.scheme_str() != Some("http") || !loopback {
        return Err(
            Problem::usage(format!("{url} is not an http:// address on loopback"))
                .next("the key must not travel unencrypted; reach another machine through an SSH tunnel"),
        );
    }
    let endpoint = Endpoint::from(uri)
        .connect_timeout(CONNECT_TIME)
        .tcp_nodelay(true);
    endpoint.connect().await.map_err(|_| {
        Problem::new(format!("nobody answers at {url}"))
            .next("is it running? `wilcod serve --data DIR` starts it")
    })
}

fn url_of(data: &Path) -> Result<String, Problem> {
    #[derive(Deserialize)]
    struct Run {
        url: String,
    }
    let path = data.join("run.json");
    let text = read(&path)?.ok_or_else(|| {
        Problem::new(format!(
            "{} is not there: no daemon runs on this folder",
            path.display()
        ))
        .next("`wilcod serve --data DIR` starts one")
    })?;
    let run: Run = serde_json::from_str(&text)
        .map_err(|_| Problem::new(format!("{} does not say where the daemon is", path.display())))?;
    Ok(run.url)
}

fn key_of(data: &Path, principal: &str) -> Result<String, Problem> {
    #[derive(Deserialize)]
    struct Keys {
        keys: BTreeMap<String, String>,
    }
    let path = data.join("keys.toml");
    let text = read(&path)?.ok_or_else(|| {
        Problem::new(format!("{} is not there", path.display())).next("give the key in WILCO_KEY")
    })?;
    // The parser's own message would quote the line, and the line holds a key.
    let mut keys: Keys = toml::from_str(&text).map_err(|_| {
        Problem::new(format!(
            "{}: no table [keys] of `principal = \"key\"`",
            path.display()
        ))
    })?;
    keys.keys.remove(principal).ok_or_else(|| {
        let known: Vec<&str> = keys.keys.keys().map(String::as_str).collect();
        Problem::new(format!(
            "{} has no key for {principal}; it has {}",
            path.display(),
            known.join(", ")
        ))
        .next("choose with --as PRINCIPAL, or give the key in WILCO_KEY")
    })
}

/// The text of a file; `None` where there is none.
pub fn read(path: &Path) -> Result<Option<String>, Problem> {
    let failed = |e: std::io::Error| Problem::new(format!("{} cannot be read: {e}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text))
}
