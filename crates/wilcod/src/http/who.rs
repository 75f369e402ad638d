//! Which requests need a key, told from the method and the path alone, and whether theirs is one.
//!
//! A verb that is missing here still asks for its key itself; it would only wait among what is open to everyone.

use axum::http::{HeaderMap, Method, header};
use wilco_core::{Reason, Refusal};

use crate::app::{App, Seen};
use crate::metrics::Verb;

/// The verb a request is for; `None` for what is open to everyone, and for what there is not.
#[must_use]
pub fn verb(method: &Method, path: &str) -> Option<Verb> {
    match *method {
        Method::POST => match path {
            "/v1/prepare" | "/wilco.v1.Executor/Prepare" => Some(Verb::Prepare),
            "/v1/commit" | "/wilco.v1.Executor/Commit" => Some(Verb::Commit),
            "/v1/cancel" | "/wilco.v1.Executor/Cancel" => Some(Verb::Cancel),
            "/wilco.v1.Executor/GetAct" => Some(Verb::GetAct),
            "/wilco.v1.Executor/ListActs" => Some(Verb::ListActs),
            "/wilco.v1.Executor/GetThread" => Some(Verb::GetThread),
            "/wilco.v1.Executor/ListAdapters" => Some(Verb::ListAdapters),
            "/wilco.v1.Operator/Settle" => Some(Verb::Settle),
            "/wilco.v1.Operator/Release" => Some(Verb::Release),
            "/v1/purge" | "/wilco.v1.Operator/Purge" => Some(Verb::Purge),
            "/wilco.v1.Operator/CheckAdapter" => Some(Verb::CheckAdapter),
            _ if path.starts_with("/v1/adapters/") => {
                let name = path.strip_prefix("/v1/adapters/")?.strip_suffix("/check")?;
                is_name(name).then_some(Verb::CheckAdapter)
            }
            _ => {
                let (act, verb) = path.strip_prefix("/v1/acts/")?.split_once('/')?;
                let verb = match verb {
                    "settle" => Verb::Settle,
                    "release" => Verb::Release,
                    _ => return None,
                };
                is_name(act).then_some(verb)
            }
        },
        Method::GET | Method::HEAD if path == "/v1/acts" => Some(Verb::ListActs),
        Method::GET | Method::HEAD if path == "/v1/adapters" => Some(Verb::ListAdapters),
        Method::GET | Method::HEAD => {
            let acts = path.strip_prefix("/v1/acts/").map(|name| (name, Verb::GetAct));
            let threads = || {
                path.strip_prefix("/v1/threads/")
                    .map(|name| (name, Verb::GetThread))
            };
            let (name, verb) = acts.or_else(threads)?;
            is_name(name).then_some(verb)
        }
        _ => None,
    }
}

/// Whether the headers prove a principal; a refusal is counted and logged as one of the verb.
///
/// # Errors
/// `UNAUTHENTICATED`.
pub fn proved(app: &App, verb: Verb, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut seen = Seen::new(verb);
    let answer = key(headers).and_then(|key| app.caller(key, &mut seen).map(drop));
    if answer.is_err() {
        app.report(&seen, &answer);
    }
    answer
}

/// Two keys leave open who is meant: what stands in front of us may have looked at the other one.
fn key(headers: &HeaderMap) -> Result<Option<&[u8]>, Refusal> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let first = given.next().map(axum::http::HeaderValue::as_bytes);
    if given.next().is_some() {
        let text = "more than one authorization header was given: send one";
        return Err(Refusal::new(Reason::Unauthenticated, text));
    }
    Ok(first)
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && !part.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_told_from_method_and_path() {
        let cases = [
            (Method::POST, "/v1/prepare", Some(Verb::Prepare)),
            (Method::GET, "/v1/prepare", None),
            (Method::POST, "/v1/acts/0190/settle", Some(Verb::Settle)),
            (Method::POST, "/v1/acts//settle", None),
            (Method::GET, "/v1/acts/0190/settle", None),
            (Method::GET, "/v1/acts", Some(Verb::ListActs)),
            (Method::HEAD, "/v1/acts/0190", Some(Verb::GetAct)),
            (Method::GET, "/v1/threads/%ff", Some(Verb::GetThread)),
            (Method::POST, "/wilco.v1.Executor/Prepare", Some(Verb::Prepare)),
            (Method::POST, "/wilco.v1.Executor/Commit", Some(Verb::Commit)),
            (Method::POST, "/wilco.v1.Executor/Cancel", Some(Verb::Cancel)),
            (Method::POST, "/wilco.v1.Executor/GetAct", Some(Verb::GetAct)),
            (Method::POST, "/wilco.v1.Executor/ListActs", Some(Verb::ListActs)),
            (
                Method::POST,
                "/wilco.v1.Executor/GetThread",
                Some(Verb::GetThread),
            ),
            (
                Method::POST,
                "/wilco.v1.Executor/ListAdapters",
                Some(Verb::ListAdapters),
            ),
            (Method::POST, "/wilco.v1.Operator/Settle", Some(Verb::Settle)),
            (Method::POST, "/wilco.v1.Operator/Release", Some(Verb::Release)),
            (Method::POST, "/wilco.v1.Operator/Purge", Some(Verb::Purge)),
            (Method::POST, "/v1/acts/0190/release", Some(Verb::Release)),
            (Method::POST, "/v1/acts/0190/else", None),
            (
                Method::POST,
                "/wilco.v1.Operator/CheckAdapter",
                Some(Verb::CheckAdapter),
            ),
            (Method::POST, "/v1/adapters/bank/check", Some(Verb::CheckAdapter)),
            (Method::POST, "/v1/adapters//check", None),
            (Method::POST, "/v1/purge", Some(Verb::Purge)),
            (Method::POST, "/v1/commit", Some(Verb::Commit)),
            (Method::POST, "/v1/cancel", Some(Verb::Cancel)),
            (Method::GET, "/v1/adapters", Some(Verb::ListAdapters)),
            (Method::POST, "/wilco.v1.Protocol/Digest", None),
            (Method::POST, "/validate", None),
            (Method::POST, "/v1/acts/settle", None),
        ];
        for (method, path, wanted) in &cases {
            assert_eq!(verb(method, path), *wanted, "{method} {path}");
        }
        for verb in Verb::ALL {
            for wire in ["/v1/", "/wilco.v1."] {
                let told = cases
                    .iter()
                    .any(|(_, path, wanted)| *wanted == Some(verb) && path.starts_with(wire));
                assert!(told, "{} on {wire}", verb.as_str());
            }
        }
    }
}
