//! Real-time priority, where the system allows it.
//!
//! A thread that waits for a flush or an answer and shares its core with a busy neighbour is woken, and then waits for the
//! scheduler's next tick: milliseconds, where what is measured takes microseconds. At real-time priority it is not. The
//! kernel still leaves a share of each second to the others.

use std::process::{Command, ExitCode, Stdio};

/// Runs this program once more, at the lowest real-time priority, and answers how that ended; `None` where the system does
/// not allow it, and the caller goes on as it is.
pub fn raised(words: &[String]) -> Option<ExitCode> {
    let chrt = || {
        let mut command = Command::new("chrt");
        command.args(["-f", "1"]);
        command
    };
    let allowed = chrt().arg("true").stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("at ordinary priority: chrt is not there or not allowed, and neighbours will be felt");
        return None;
    }
    let exe = std::env::current_exe().ok()?;
    let ended = chrt().arg(exe).args(words).arg("--plain").status();
    let code = ended.ok()?.code().and_then(|code| u8::try_from(code).ok());
    Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
