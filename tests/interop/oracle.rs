//! The public package, as a long-lived process that is asked in lists.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// The interpreter with the packages of the interop tests.
///
/// # Panics
/// If nobody made it: these tests are asked for by name, and do not pass by being skipped.
pub fn python() -> PathBuf {
    match std::env::var_os("WILCO_TEST_PYTHON") {
        Some(python) if PathBuf::from(&python).exists() => python.into(),
        Some(python) => panic!("WILCO_TEST_PYTHON is {}, which does not exist", python.display()),
        None => panic!(
            "WILCO_TEST_PYTHON is not set: it names a Python with rogerwilco and grpcio-tools. `cargo xtask test` makes one and \
             runs these tests"
        ),
    }
}

/// The package, running.
pub struct Oracle {
    child: Child,
    ask: ChildStdin,
    hear: BufReader<ChildStdout>,
    about: Value,
}

impl Oracle {
    pub fn start() -> Oracle {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/interop/oracle.py");
        let mut child = Command::new(python())
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the oracle starts");
        let ask = child.stdin.take().expect("its standard input");
        let hear = BufReader::new(child.stdout.take().expect("its standard output"));
        let mut oracle = Oracle {
            child,
            ask,
            hear,
            about: Value::Null,
        };
        oracle.about = oracle.next();
        oracle
    }

    /// The package's own profiles.
    pub fn profiles(&self) -> PathBuf {
        self.place("profiles")
    }

    /// The package's own conformance file.
    pub fn conformance(&self) -> PathBuf {
        self.place("conformance")
    }

    /// The instant at which it judges where a check takes none.
    pub fn now(&self) -> &str {
        self.about["now"].as_str().expect("an instant")
    }

    fn place(&self, name: &str) -> PathBuf {
        self.about[name].as_str().expect("a path").into()
    }

    /// The answers to a list of questions, in their order.
    pub fn ask(&mut self, questions: &[Value]) -> Vec<Value> {
        let line = serde_json::to_string(questions).expect("JSON");
        writeln!(self.ask, "{line}")
            .and_then(|()| self.ask.flush())
            .expect("the oracle listens");
        match self.next() {
            Value::Array(answers) if answers.len() == questions.len() => answers,
            other => panic!("not {} answers: {other}", questions.len()),
        }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.hear.read_line(&mut line).expect("the oracle speaks");
        serde_json::from_str(&line)
            .unwrap_or_else(|e| panic!("the oracle ended or spoke otherwise: {e}: {line}"))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
