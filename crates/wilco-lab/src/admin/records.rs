//! Each counterparty's own record, as JSON. The bank's is `GET /lab/book`.

use std::{collections::BTreeMap, io, sync::Arc};

use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Office, problem::Problem};
use crate::{
    counterparties::Counterparties,
    git::{GitRemote, Push},
    http::json_response,
    obie::Version,
    releases::{ReleaseReport, Releases},
};

/// How many lines of a record one answer has.
const LINES_MAX: usize = 1000;

/// What `GET /lab/mail` may be asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailQuery {
    /// With its angle brackets or without.
    message_id: Option<String>,
}

/// `GET /lab/counterparties`: who is here, and where.
pub async fn counterparties(State(office): State<Arc<Office>>) -> Response {
    json_response(StatusCode::OK, &places(&office.all))
}

/// `GET /lab/vendors`
pub async fn vendors(State(office): State<Arc<Office>>) -> Result<Response, Problem> {
    let lines = u32::try_from(LINES_MAX).unwrap_or(u32::MAX);
    let report = office.all.vendors()?.report(lines).await?;
    Ok(json_response(StatusCode::OK, &json!(report)))
}

/// `GET /lab/mail`, newest first.
pub async fn mail(
    State(office): State<Arc<Office>>,
    query: Result<Query<MailQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|_| Problem::field("query", "message_id is the one that there is"))?;
    let wanted = query.message_id.map(|id| match id.starts_with('<') {
        true => id,
        false => format!("<{id}>"),
    });
    let mails = office.all.mail()?.records(wanted, LINES_MAX).await?;
    Ok(json_response(StatusCode::OK, &json!({ "mails": mails })))
}

/// `GET /lab/git`: where the refs stand, and what moved them, newest first.
pub async fn git(State(office): State<Arc<Office>>) -> Result<Response, Problem> {
    let git = office.all.git()?;
    let (refs, pushes) = git_report(git, LINES_MAX).await?;
    let refs: BTreeMap<String, String> = refs.into_iter().collect();
    let body = json!({ "refs": refs, "pushes": pushes });
    Ok(json_response(StatusCode::OK, &body))
}

/// `GET /lab/releases`
pub async fn releases(State(office): State<Arc<Office>>) -> Result<Response, Problem> {
    let report = releases_report(office.all.releases()?).await?;
    Ok(json_response(StatusCode::OK, &json!(report)))
}

/// Where everybody is. A counterparty that is not here says why.
pub fn places(all: &Counterparties) -> Value {
    let url = format!("http://{}", all.bank.addr);
    let (three, four) = (Version::V3.prefix(), Version::V4.prefix());
    let mut places =
        json!({ "bank": { "url": url, "v3": format!("{url}{three}"), "v4": format!("{url}{four}") } });
    places["vendors"] = match all.vendors() {
        Ok(vendors) => json!({ "path": vendors.path() }),
        Err(error) => json!({ "problem": error.to_string() }),
    };
    places["mail"] = match all.mail() {
        Ok(mail) => json!({ "smtp": mail.addr(), "maildir": mail.maildir(), "record": mail.record() }),
        Err(error) => json!({ "problem": error.to_string() }),
    };
    places["git"] = match all.git() {
        Ok(git) => json!({ "url": git.url(), "record": git.record() }),
        Err(error) => json!({ "problem": error.to_string() }),
    };
    places["releases"] = match all.releases() {
        Ok(releases) => json!({ "path": releases.path(), "health": releases.health() }),
        Err(error) => json!({ "problem": error.to_string() }),
    };
    places
}

/// Where the refs stand, and the last moves.
pub async fn git_report(
    git: &GitRemote,
    count: usize,
) -> Result<(Vec<(String, String)>, Vec<Push>), Problem> {
    let refs = git.refs().await?;
    let git = git.clone();
    let pushes = tokio::task::spawn_blocking(move || git.pushes(count)).await;
    Ok((refs, pushes.map_err(io::Error::other)??))
}

/// What stands in the release folder.
pub async fn releases_report(releases: &Releases) -> Result<ReleaseReport, Problem> {
    let releases = releases.clone();
    let report = tokio::task::spawn_blocking(move || releases.report()).await;
    Ok(report.map_err(io::Error::other)??)
}
