//! The adapters, as clients and operators see them.

use wilco_api::{convert, v1};
use wilco_core::Refusal;

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
