//! Logs, on standard error. What they may hold is decided where they are written: a verb, an act, a thread, a
//! principal and a reason; never a token, a key or a line.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging; `RUST_LOG` chooses what is told (default `info`).
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log line that cannot be written (a full disk) is lost. To complain about it where it could not be written
        // would be a panic in the middle of somebody's payment.
        .log_internal_errors(false);
    // It fails only where a test has started logging already.
    let _ = match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
