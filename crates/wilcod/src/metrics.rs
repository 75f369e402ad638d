//! `/metrics`: figures in the Prometheus text format.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use wilco_core::{Reason, State};
use wilco_engine::{Counts, Engine};
use wilco_store::StoreError;

use crate::app::App;

/// How long counts of acts are shown again: anyone may ask, and counting reads the store.
const COUNTS_AGE: Duration = Duration::from_secs(1);

/// What callers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Prepare.
    Prepare,
    /// Commit.
    Commit,
    /// Cancel.
    Cancel,
    /// Settle.
    Settle,
    /// Release.
    Release,
    /// Purge.
    Purge,
    /// One act.
    GetAct,
    /// Acts.
    ListActs,
    /// A thread.
    GetThread,
    /// The adapters.
    ListAdapters,
    /// Trying an adapter.
    CheckAdapter,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Verb; 11] = [
        Verb::Prepare,
        Verb::Commit,
        Verb::Cancel,
        Verb::Settle,
        Verb::Release,
        Verb::Purge,
        Verb::GetAct,
        Verb::ListActs,
        Verb::GetThread,
        Verb::ListAdapters,
        Verb::CheckAdapter,
    ];

    /// The word in logs and figures.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Prepare => "prepare",
            Verb::Commit => "commit",
            Verb::Cancel => "cancel",
            Verb::Settle => "settle",
            Verb::Release => "release",
            Verb::Purge => "purge",
            Verb::GetAct => "get_act",
            Verb::ListActs => "list_acts",
            Verb::GetThread => "get_thread",
            Verb::ListAdapters => "list_adapters",
            Verb::CheckAdapter => "check_adapter",
        }
    }

    /// Whether it may change something.
    #[must_use]
    pub fn changes(self) -> bool {
        matches!(
            self,
            Verb::Prepare | Verb::Commit | Verb::Cancel | Verb::Settle | Verb::Release | Verb::Purge
        )
    }
}

/// Every reason a request can be refused for.
const REASONS: [Reason; 21] = [
    Reason::Unauthenticated,
    Reason::NotYours,
    Reason::Malformed,
    Reason::UnknownToken,
    Reason::UnknownAct,
    Reason::DigestRequired,
    Reason::ConfirmationRequired,
    Reason::DigestStale,
    Reason::HandoffConflict,
    Reason::Expired,
    Reason::Cancelled,
    Reason::Refused,
    Reason::Superseded,
    Reason::Held,
    Reason::Lapsed,
    Reason::Limit,
    Reason::NotApproved,
    Reason::Halted,
    Reason::AdapterDown,
    Reason::StoreDown,
    Reason::Busy,
];

const ANSWERS: usize = REASONS.len() + 1;

/// What this process has counted itself.
pub struct Metrics {
    /// One row a verb; the first figure of a row counts what was answered, the others the refusals in their order.
    requests: [[AtomicU64; ANSWERS]; Verb::ALL.len()],
    shed: AtomicU64,
    timed_out: AtomicU64,
    counts: Mutex<Option<(Instant, Counts)>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            requests: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            shed: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            counts: Mutex::new(None),
        }
    }
}

impl Metrics {
    /// Counts a request by its answer.
    pub fn count(&self, verb: Verb, reason: Option<Reason>) {
        let row = Verb::ALL.iter().position(|v| *v == verb).unwrap_or(0);
        let column = match reason {
            None => 0,
            Some(reason) => REASONS.iter().position(|r| *r == reason).map_or(0, |at| at + 1),
        };
        self.requests[row][column].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request turned away because too many were under way.
    pub fn count_shed(&self) {
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that took longer than it may.
    pub fn count_timed_out(&self) {
        self.timed_out.fetch_add(1, Ordering::Relaxed);
    }

    async fn counts(&self, engine: &Engine) -> Result<Counts, StoreError> {
        let mut kept = self.counts.lock().await;
        if let Some((at, counts)) = kept.as_ref()
            && at.elapsed() < COUNTS_AGE
        {
            return Ok(counts.clone());
        }
        let counts = engine.counts().await?;
        *kept = Some((Instant::now(), counts.clone()));
        Ok(counts)
    }
}

/// The figures as text.
pub async fn text(app: &App) -> String {
    let mut page = Page(String::with_capacity(4_096));
    page.family("wilco_build_info", "gauge", "Which version runs.");
    page.sample("wilco_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("wilco_ready", "gauge", "1 while work is taken.");
    page.sample("wilco_ready", &[], u64::from(app.ready().is_ok()));

    page.family("wilco_requests_total", "counter", "Requests by verb and answer.");
    for (row, verb) in app.metrics.requests.iter().zip(Verb::ALL) {
        for (at, count) in row.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            let reason = at
                .checked_sub(1)
                .and_then(|at| REASONS.get(at))
                .map_or("OK", |r| r.as_str());
            if count > 0 || at == 0 {
                page.sample(
                    "wilco_requests_total",
                    &[("verb", verb.as_str()), ("reason", reason)],
                    count,
                );
            }
        }
    }
    page.family(
        "wilco_requests_shed_total",
        "counter",
        "Requests turned away because too many were under way.",
    );
    page.sample(
        "wilco_requests_shed_total",
        &[],
        app.metrics.shed.load(Ordering::Relaxed),
    );
    page.family(
        "wilco_requests_timed_out_total",
        "counter",
        "Requests that took longer than they may.",
    );
    page.sample(
        "wilco_requests_timed_out_total",
        &[],
        app.metrics.timed_out.load(Ordering::Relaxed),
    );

    let store = app.engine.store_counters();
    for (name, help, value) in [
        (
            "wilco_store_writes_total",
            "Writes answered as advanced.",
            store.writes,
        ),
        (
            "wilco_store_flushes_total",
            "Transactions made durable for them.",
            store.flushes,
        ),
        (
            "wilco_store_writes_refused_total",
            "Writes answered as stale or taken.",
            store.refused,
        ),
        (
            "wilco_store_writes_unknown_total",
            "Writes whose COMMIT had to be read back.",
            store.unknown,
        ),
    ] {
        page.family(name, "counter", help);
        page.sample(name, &[], value);
    }

    // A store that does not answer leaves these out: a zero would be a lie.
    if let Ok(counts) = app.metrics.counts(&app.engine).await {
        page.family("wilco_acts", "gauge", "Acts by state.");
        for state in State::ALL {
            let count = counts.states.get(&state).copied().unwrap_or(0);
            page.sample("wilco_acts", &[("state", state.as_str())], count);
        }
        for (name, help, value) in [
            (
                "wilco_mismatches_total",
                "Acts whose report did not agree with their statement, since start. Above zero: look at them now.",
                counts.mismatches,
            ),
            (
                "wilco_contradictions_total",
                "Closed acts that later evidence contradicted, since start. Above zero: look at them now.",
                counts.contradictions,
            ),
            (
                "wilco_takeovers_total",
                "Claims taken over from an earlier run or another daemon, since start.",
                counts.takeovers,
            ),
            (
                "wilco_resends_total",
                "Times the same bytes were sent again to a counterparty that enforces their identity, since start.",
                counts.resends,
            ),
            (
                "wilco_lookups_total",
                "Lookups at counterparties since start.",
                counts.lookups,
            ),
        ] {
            page.family(name, "counter", help);
            page.sample(name, &[], value);
        }
        page.family(
            "wilco_escalated",
            "gauge",
            "Open acts for which a person was called: wilco acts --state in_doubt.",
        );
        page.sample("wilco_escalated", &[], counts.escalated);
        page.family(
            "wilco_executions_running",
            "gauge",
            "Acts in hand in this process: calls at counterparties, and steps of recovery.",
        );
        page.sample("wilco_executions_running", &[], counts.running);
    }

    page.family("wilco_adapter_up", "gauge", "1 while the counterparty answers.");
    for adapter in app.engine.adapters() {
        let up = u64::from(!adapter.down);
        page.sample("wilco_adapter_up", &[("adapter", &adapter.description.name)], up);
    }
    page.0
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_one_line_whatever_its_labels_hold() {
        let mut page = Page(String::new());
        page.sample("a_total", &[], 3);
        page.sample("b", &[("x", "1"), ("y", "a\"b\\c\nd")], 4);
        assert_eq!(page.0, "a_total 3\nb{x=\"1\",y=\"a\\\"b\\\\c\\nd\"} 4\n");
    }

    #[test]
    fn requests_are_counted_by_verb_and_reason() {
        let metrics = Metrics::default();
        metrics.count(Verb::Commit, None);
        metrics.count(Verb::Commit, Some(Reason::Held));
        metrics.count(Verb::Commit, Some(Reason::Held));
        let figure = |verb: usize, answer: usize| metrics.requests[verb][answer].load(Ordering::Relaxed);
        let held = REASONS.iter().position(|r| *r == Reason::Held).expect("listed") + 1;
        assert_eq!((figure(1, 0), figure(1, held), figure(0, 0)), (1, 2, 0));
    }
}
