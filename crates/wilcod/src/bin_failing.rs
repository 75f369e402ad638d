//! `wilcod-failing`: the daemon the crash tests kill. The same program, with the places of `wilco-failpoint` armed.

fn main() -> std::process::ExitCode {
    wilcod::cli::main()
}
