//! `cargo xtask`: what a newcomer and CI run. `test` passes the tests, `tidy` checks the tree against its own map,
//! `bench` measures, `crash` kills.

mod bench;
#[path = "../../tests/harness/postgres.rs"]
mod cluster;
mod crash;
mod mail;
mod postgres;
mod prism;
mod python;
mod run;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test                            build everything and pass all tests; installs what they need, says what it could not get
  tidy                            check the tree against its own map: dependency picture, migrations, top-level entries
  prism                           fetch what `--features adapter-bank/prism` needs, and say what to set for it
  bench [--quick] [--only PARTS] [--json FILE]
                                  measure, against limits measured in the same run
  crash [--kills N] [--seed S]    kill the daemon N times (100), and look in the bank's book what became of the payments";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => test::run(),
        ["tidy"] => tidy::run(),
        ["prism"] => prism::ready().map(|folder| println!("WILCO_TEST_PRISM={}", folder.display())),
        ["bench", rest @ ..] => bench::run(rest),
        ["crash", rest @ ..] => crash::run(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("\n{why}");
            ExitCode::FAILURE
        }
    }
}
