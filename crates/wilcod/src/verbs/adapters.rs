//! The adapters, as clients and operators see and try them.

use wilco_adapter::kit::{Case, Finding};
use wilco_api::{convert, v1};
use wilco_core::Refusal;

use super::{line, word};
use crate::app::{App, Seen};
use crate::metrics::Verb;

/// What each adapter serves, what its counterparty promises, and whether it answers. For every caller with a key: a sender
/// wants to know what is promised before it sends.
///
/// # Errors
/// `UNAUTHENTICATED`.
pub fn list_adapters(
    app: &App,
    key: Option<&[u8]>,
    _: &v1::ListAdaptersRequest,
) -> Result<v1::ListAdaptersReply, Refusal> {
    let mut seen = Seen::new(Verb::ListAdapters);
    let answer = app.caller(key, &mut seen).map(|_| v1::ListAdaptersReply {
        adapters: app.engine.adapters().into_iter().map(adapter).collect(),
    });
    app.report(&seen, &answer);
    answer
}

fn adapter(status: wilco_engine::AdapterStatus) -> v1::Adapter {
    let description = status.description;
    let serves = description
        .serves
        .iter()
        .map(|s| convert::service(&s.profile, &s.ask, &s.carried, &s.contract))
        .collect();
    v1::Adapter {
        name: description.name,
        counterparty: description.counterparty,
        up: !status.down,
        trouble: status.trouble.unwrap_or_default(),
        concurrency: description.concurrency,
        serves,
    }
}

/// Tries an adapter; moves nothing.
///
/// # Errors
/// As [`super::prepare`].
pub async fn check_adapter(
    app: &App,
    key: Option<&[u8]>,
    request: v1::CheckAdapterRequest,
) -> Result<v1::CheckAdapterReply, Refusal> {
    let mut seen = Seen::new(Verb::CheckAdapter);
    let answer = async {
        let caller = app.caller(key, &mut seen)?;
        app.open()?;
        word("name", &request.name)?;
        let sample = (!request.ho.is_empty()).then_some(request.ho);
        if let Some(ho) = &sample {
            line("ho", ho)?;
        }
        let findings = app.engine.check(caller, request.name, sample).await?;
        Ok(v1::CheckAdapterReply {
            sound: findings.failed().next().is_none(),
            of: findings.of,
            cases: findings.cases.into_iter().map(case).collect(),
        })
    }
    .await;
    app.report(&seen, &answer);
    answer
}

fn case(case: Case) -> v1::CheckedCase {
    let (finding, why) = match case.finding {
        Finding::Passed => ("passed", String::new()),
        Finding::Failed(why) => ("failed", why),
        Finding::NotApplicable(why) => ("not_applicable", why),
    };
    v1::CheckedCase {
        name: case.name,
        finding: finding.to_owned(),
        why,
    }
}
