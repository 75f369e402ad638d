//! Whether what an adapter says of itself can be true. Pure.

use wilco_core::contract::{Identity, LateSend, Reversal};

use super::findings::{Stop, failed};
use crate::{Description, Served};

/// The contract is consistent in itself, and says in words what data cannot.
pub(super) fn sane(d: &Description) -> Result<(), Stop> {
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if !word(&d.name) {
        return failed(format!("name {:?} is not one word", d.name));
    }
    if d.counterparty.trim().is_empty() {
        return failed("counterparty is empty: operators would not know who is meant");
    }
    if d.concurrency == 0 {
        return failed("concurrency 0 would never let an act through");
    }
    for (i, served) in d.serves.iter().enumerate() {
        let what = format!("{}/{}", served.profile, served.ask);
        let same = |s: &&Served| s.profile == served.profile && s.ask == served.ask;
        if d.serves.iter().take(i).any(|s| same(&s)) {
            return failed(format!("{what} is listed twice"));
        }
        let c = &served.contract;
        if c.point_of_no_return.trim().is_empty() || c.not_found_means.trim().is_empty() {
            return failed(format!(
                "{what}: point_of_no_return and not_found_means are for operators and must not be empty"
            ));
        }
        if matches!(c.identity, Identity::Window(0)) {
            return failed(format!("{what}: an identity enforced for 0 seconds is none"));
        }
        if matches!(c.late_send, LateSend::RefusedAfter(0)) {
            return failed(format!(
                "{what}: late bytes refused after 0 seconds would be all bytes"
            ));
        }
        if c.reversal == Reversal::None && c.reversal_until_s.is_some() {
            return failed(format!(
                "{what}: nothing can be taken back, and reversal_until_s says until when"
            ));
        }
        if c.settle_window_s > 7 * 86_400 {
            return failed(format!(
                "{what}: a settle window of more than a week helps nobody"
            ));
        }
    }
    Ok(())
}
