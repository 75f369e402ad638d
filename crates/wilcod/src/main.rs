//! `wilcod`: the daemon, its practice bank, and a demonstration.

fn main() -> std::process::ExitCode {
    wilcod::cli::main()
}
