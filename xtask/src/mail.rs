//! The mail servers the tests start: found or installed. Each test starts its own and ends it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::run::run;

/// The programs the tests start, and the packages of Debian that have them.
const PROGRAMS: [&str; 3] = ["/usr/sbin/postfix", "/usr/sbin/smtp-sink", "/usr/sbin/dovecot"];
const PACKAGES: [&str; 3] = ["postfix", "dovecot-imapd", "dovecot-lmtpd"];

/// Postfix, its smtp-sink and Dovecot are here.
pub fn ready() -> Result<(), String> {
    if missing().is_some() {
        install().map_err(|e| format!("the mail adapter's tests need Postfix and Dovecot: {e}"))?;
    }
    match missing() {
        None => Ok(()),
        Some(program) => Err(format!(
            "the mail adapter's tests need {program}; install {}",
            PACKAGES.join(" ")
        )),
    }
}

fn missing() -> Option<&'static str> {
    let lmtp = ["/usr/lib/dovecot/lmtp", "/usr/libexec/dovecot/lmtp"];
    let program = PROGRAMS.into_iter().find(|p| !Path::new(p).exists());
    program.or((!lmtp.iter().any(|p| Path::new(p).exists())).then_some("Dovecot's lmtp"))
}

fn install() -> Result<(), String> {
    println!("Postfix and Dovecot are not here; installing them");
    // Debian's package asks what kind of mail system the machine is to be. None: the tests bring their own configuration,
    // and no server starts by itself.
    let mut told = Command::new("debconf-set-selections")
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|e| format!("debconf-set-selections: {e}"))?;
    if let Some(mut input) = told.stdin.take() {
        use std::io::Write;
        input
            .write_all(b"postfix postfix/main_mailer_type select No configuration\n")
            .map_err(|e| format!("debconf-set-selections: {e}"))?;
    }
    let ended = told.wait().map_err(|e| format!("debconf-set-selections: {e}"))?;
    if !ended.success() {
        return Err(format!("debconf-set-selections ended with {ended}"));
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-q");
        command
    };
    run(apt().arg("update"))?;
    run(apt()
        .args(["install", "-y", "--no-install-recommends"])
        .args(["-o", "Dpkg::Options::=--force-confold"])
        .args(PACKAGES))
}
