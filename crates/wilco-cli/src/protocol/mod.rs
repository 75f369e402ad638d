//! The protocol verbs: RW1 lines and their checks, without a daemon.
//!
//! They take the arguments, print the texts and return the exit codes of the `rogerwilco` command: 0 when there is
//! nothing to complain about, 1 when there is, 2 for a command line that cannot be carried out. `--json` prints what
//! the daemon's endpoints answer, and `-` stands for standard input.

mod answer;
mod args;
mod input;
mod verbs;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use answer::Failed;
use args::Args;

/// What a verb is called, what it takes, and what it is for.
struct Verb {
    name: &'static str,
    /// The places it needs, as shown to people.
    places: &'static [&'static str],
    /// The options it takes besides those that all take.
    options: &'static [&'static str],
    about: &'static str,
    run: fn(&Args, &rw1::Profiles) -> Result<answer::Answer, Failed>,
}

const TABLE: &[Verb] = &[
    Verb {
        name: "validate",
        places: &["LINE"],
        options: &["--strict"],
        about: "whether a line is one; --strict counts warnings too",
        run: verbs::validate,
    },
    Verb {
        name: "check-ho",
        places: &["HO", "RECORD"],
        options: &[],
        about: "before sending: the handoff against the approved record, a JSON object",
        run: verbs::check_ho,
    },
    Verb {
        name: "check-rb",
        places: &["HO", "RB"],
        options: &["--expect-acc", "--now"],
        about: "before confirming: a readback or a tool's statement against the handoff",
        run: verbs::check_rb,
    },
    Verb {
        name: "check-dn",
        places: &["HO", "DN"],
        options: &["--rb", "--at"],
        about: "after the act: the done report against the plan; --at is when the statement was confirmed",
        run: verbs::check_dn,
    },
    Verb {
        name: "check-thread",
        places: &["FILE"],
        options: &["--now"],
        about: "a conversation, one line each: every handoff closes",
        run: verbs::check_thread,
    },
    Verb {
        name: "make-rb",
        places: &["HO", "ID"],
        options: &["--acc", "--do", "--eta", "--no-hash"],
        about: "the readback of a handoff",
        run: verbs::make_rb,
    },
    Verb {
        name: "digest",
        places: &["LINE"],
        options: &[],
        about: "the fingerprint h= of a line",
        run: verbs::digest,
    },
    Verb {
        name: "to-json",
        places: &["LINE"],
        options: &[],
        about: "a line as JSON",
        run: verbs::to_json,
    },
    Verb {
        name: "from-json",
        places: &["JSON"],
        options: &[],
        about: "JSON as a line",
        run: verbs::from_json,
    },
    Verb {
        name: "legend",
        places: &[],
        options: &["--lean"],
        about: "what another model needs in its prompt",
        run: verbs::legend,
    },
    Verb {
        name: "lint",
        places: &["FILE"],
        options: &[],
        about: "every line of a file, one message each",
        run: verbs::lint,
    },
];

/// True when the word is a verb of this module.
pub fn knows(verb: &str) -> bool {
    TABLE.iter().any(|v| v.name == verb)
}

/// What stands in the help about these verbs.
pub fn help() -> String {
    let mut out = String::from("Protocol verbs (no daemon needed):\n");
    for verb in TABLE {
        out.push_str(&format!("  {:<13} {}\n", verb.name, verb.about));
    }
    out.push_str("  All take --profile NAME, --profiles DIR (a folder of profiles), --json, and - for standard input.\n");
    out
}

/// Runs a verb; `rest` is what follows it on the command line.
pub fn main(verb: &str, rest: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(verb) = TABLE.iter().find(|v| v.name == verb) else {
        return ExitCode::from(2);
    };
    let json = |args: &Args| args.json;
    let parsed = Args::parse(verb, rest);
    let result = match &parsed {
        Ok(args) if args.help => Ok(answer::Answer::plain(usage(verb))),
        Ok(args) => input::profiles(args).and_then(|profiles| run(verb, args, &profiles)),
        Err(why) => Err(Failed::Usage(why.clone())),
    };
    let (code, out) = match result {
        Ok(answer) => answer.printed(parsed.as_ref().is_ok_and(json)),
        Err(Failed::Usage(why)) => {
            // a reader that is gone is no reason to fail
            let _ = writeln!(std::io::stderr(), "wilco {}: {why}\n{}", verb.name, usage(verb));
            return ExitCode::from(2);
        }
        Err(Failed::Refused(problems)) => answer::refused(&problems).printed(parsed.as_ref().is_ok_and(json)),
    };
    let _ = std::io::stdout().lock().write_all(out.as_bytes());
    ExitCode::from(code)
}

fn run(verb: &Verb, args: &Args, profiles: &rw1::Profiles) -> Result<answer::Answer, Failed> {
    profiles
        .find(args.profile.as_deref())
        .map_err(|problem| Failed::Refused(vec![problem]))?;
    (verb.run)(args, profiles)
}

fn usage(verb: &Verb) -> String {
    let mut out = format!("usage: wilco {}", verb.name);
    for place in verb.places {
        out.push(' ');
        out.push_str(place);
    }
    for option in verb.options.iter().chain(args::COMMON) {
        match args::value_of(option) {
            Some(value) => out.push_str(&format!(" [{option} {value}]")),
            None => out.push_str(&format!(" [{option}]")),
        }
    }
    out
}
