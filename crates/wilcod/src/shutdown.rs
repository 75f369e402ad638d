//! When to stop: SIGTERM from a supervisor, SIGINT from a keyboard.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for either.
///
/// # Errors
/// The system lets no handler be set.
pub async fn told_to_stop() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
