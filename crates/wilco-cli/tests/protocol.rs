//! Transcripts of the protocol verbs, run with the real binary: `data/protocol.txt` reads as documentation.
//!
//! A transcript is a command after `$ `, perhaps its standard input in lines after `< `, then what it prints, to the
//! next command. Standard error follows after `! `, the exit code, unless it is 0, after `? `. `HO`, `RB` and other
//! names defined at the top of the file (`NAME := text`) stand for their lines. `...` at the end of a line stands for
//! whatever else it says.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn the_transcripts_are_true() {
    let text = include_str!("data/protocol.txt");
    let (names, runs) = read(text);
    assert!(runs.len() > 30, "the file was read");
    let wrong: Vec<String> = runs.iter().filter_map(|run| run.differs(&names)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// One command and what it must print.
struct Run {
    command: String,
    input: String,
    said: Vec<String>,
}

fn read(text: &str) -> (BTreeMap<String, String>, Vec<Run>) {
    let mut names = BTreeMap::new();
    let mut runs: Vec<Run> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match (line.strip_prefix("$ "), line.strip_prefix("< "), runs.last_mut()) {
            (Some(command), _, _) => {
                runs.push(Run {
                    command: command.to_owned(),
                    input: String::new(),
                    said: Vec::new(),
                });
            }
            (_, Some(input), Some(run)) => run.input.push_str(&format!("{}\n", filled(&names, input))),
            (_, _, Some(run)) => run.said.push(filled(&names, line)),
            (_, _, None) => {
                let (name, value) = line.split_once(" := ").expect("NAME := text");
                let value = filled(&names, value);
                names.insert(name.to_owned(), value);
            }
        }
    }
    (names, runs)
}

/// The text with every `{NAME}` replaced.
fn filled(names: &BTreeMap<String, String>, text: &str) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

impl Run {
    fn differs(&self, names: &BTreeMap<String, String>) -> Option<String> {
        let mut words = words(&self.command).into_iter().map(|word| filled(names, &word));
        assert_eq!(words.next().as_deref(), Some("wilco"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_wilco"))
            .args(words)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // a verb that reads no input may be gone already
        let _ = child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(self.input.as_bytes());
        let output = child.wait_with_output().expect("the binary ends");
        let mut said: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect();
        said.extend(
            String::from_utf8_lossy(&output.stderr)
                .lines()
                .map(|line| format!("! {line}")),
        );
        match output.status.code() {
            Some(0) => {}
            code => said.push(format!("? {}", code.map_or("signal".into(), |c| c.to_string()))),
        }
        let same =
            said.len() == self.said.len() && said.iter().zip(&self.said).all(|(got, want)| fits(got, want));
        (!same).then(|| format!("$ {}\n{}", self.command, said.join("\n")))
    }
}

fn fits(got: &str, want: &str) -> bool {
    match want.strip_suffix("...") {
        Some(begins) => got.starts_with(begins),
        None => got == want,
    }
}

/// A command line as a shell splits it: spaces part words, quotes of both kinds keep them together.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (None, ' ') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(q), c) if q == c => quote = None,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
