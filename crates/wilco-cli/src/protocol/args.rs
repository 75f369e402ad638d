//! The arguments: places in order, options anywhere between them.

use std::ffi::OsString;

use super::Verb;

/// The options every verb takes.
pub(super) const COMMON: &[&str] = &["--profile", "--profiles", "--json"];

/// What was given.
#[derive(Debug, Default)]
pub(super) struct Args {
    pub(super) places: Vec<String>,
    pub(super) profile: Option<String>,
    pub(super) profiles: Option<String>,
    pub(super) expect_acc: Option<Vec<String>>,
    pub(super) acc: Option<Vec<String>>,
    pub(super) do_: Option<String>,
    pub(super) eta: Option<String>,
    pub(super) rb: Option<String>,
    pub(super) now: Option<String>,
    pub(super) at: Option<String>,
    pub(super) strict: bool,
    pub(super) json: bool,
    pub(super) lean: bool,
    pub(super) no_hash: bool,
    pub(super) help: bool,
}

/// What an option's value is called; `None` for one that stands alone.
pub(super) fn value_of(option: &str) -> Option<&'static str> {
    Some(match option {
        "--profile" => "NAME",
        "--profiles" => "DIR",
        "--expect-acc" | "--acc" => "K:V+K:V",
        "--do" => "WHAT",
        "--eta" => "YYYYMMDD",
        "--rb" => "RB",
        "--now" | "--at" => "YYYYMMDDTHHMMZ",
        _ => return None,
    })
}

impl Args {
    /// Sorts the command line after the verb; what cannot be sorted is said in a sentence.
    pub(super) fn parse(verb: &Verb, rest: impl IntoIterator<Item = OsString>) -> Result<Args, String> {
        let mut args = Args::default();
        let mut rest = rest.into_iter();
        let text = |arg: OsString| {
            arg.into_string()
                .map_err(|_| "an argument is not UTF-8".to_owned())
        };
        let mut options_end = false;
        while let Some(arg) = rest.next() {
            let arg = text(arg)?;
            if options_end || !arg.starts_with("--") {
                match arg.as_str() {
                    "-h" if !options_end => args.help = true,
                    _ => args.places.push(arg),
                }
                continue;
            }
            let (name, inline) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            if name == "--" && inline.is_none() {
                options_end = true;
                continue;
            }
            if name == "--help" {
                args.help = true;
                continue;
            }
            if !verb.options.contains(&name) && !COMMON.contains(&name) {
                return Err(format!("does not take {name}"));
            }
            let value = match (value_of(name), inline) {
                (None, None) => None,
                (None, Some(_)) => return Err(format!("{name} stands alone")),
                (Some(_), Some(value)) => Some(value),
                (Some(what), None) => Some(
                    rest.next()
                        .ok_or_else(|| format!("{name} needs {what}"))
                        .and_then(text)?,
                ),
            };
            args.set(name, value);
        }
        if !args.help && args.places.len() != verb.places.len() {
            let (takes, given) = (verb.places.len(), args.places.len());
            return Err(format!(
                "takes {takes} argument{} and got {given}",
                if takes == 1 { "" } else { "s" }
            ));
        }
        let from_input = args
            .places
            .iter()
            .chain(&args.rb)
            .filter(|place| *place == "-")
            .count();
        if from_input > 1 {
            return Err("standard input can be one argument, not several".into());
        }
        Ok(args)
    }

    /// Every option of [`value_of`] and those that stand alone; an option given twice counts as given last.
    fn set(&mut self, name: &str, value: Option<String>) {
        let list = |value: Option<String>| value.map(|v| v.split('+').map(str::to_owned).collect());
        match name {
            "--profile" => self.profile = value,
            "--profiles" => self.profiles = value,
            "--expect-acc" => self.expect_acc = list(value),
            "--acc" => self.acc = list(value),
            "--do" => self.do_ = value,
            "--eta" => self.eta = value,
            "--rb" => self.rb = value,
            "--now" => self.now = value,
            "--at" => self.at = value,
            "--strict" => self.strict = true,
            "--json" => self.json = true,
            "--lean" => self.lean = true,
            "--no-hash" => self.no_hash = true,
            _ => {}
        }
    }
}
