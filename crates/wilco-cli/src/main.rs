//! `wilco`: RW1 lines and their checks, and the hand with which people use a running daemon.
//!
//! The verbs come in two families. [`protocol`] works on lines alone and needs no daemon; [`client`] speaks to one.

mod client;
mod protocol;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    match args.get(1).and_then(|arg| arg.to_str()) {
        Some(verb) if protocol::knows(verb) => protocol::main(verb, args.iter().skip(2).cloned()),
        Some("-h" | "--help" | "help") => {
            let _ = write!(std::io::stdout(), "{}", help());
            ExitCode::SUCCESS
        }
        Some("-V" | "--version") => {
            let _ = writeln!(std::io::stdout(), "wilco {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some(_) => client::main(args),
        None => {
            let _ = write!(std::io::stderr(), "{}", help());
            ExitCode::from(2)
        }
    }
}

fn help() -> String {
    format!(
        "usage: wilco VERB ...\n\n{}\n{}",
        protocol::help(),
        client::help()
    )
}
