//! Where a secret of a counterparty comes from, and reading it: a file, an environment variable or a program's output.
//!
//! The configuration's text never holds a secret, it names the one place that does. The place is read anew for each use, so
//! that a changed secret needs no restart; what was read is handed out once and is never part of a message.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// The longest secret, in bytes.
pub const SECRET_MAX: usize = 16 * 1024;

/// The one place a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A file that holds it.
    File(PathBuf),
    /// An environment variable that holds it.
    Env(String),
    /// A program and its arguments that print it; no shell is involved.
    Command(Vec<String>),
}

/// The configuration names no usable place for a secret. `stem` is what its fields begin with (`token` for `token_file`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretPlaceError {
    /// Not exactly one place is given.
    #[error(
        "{stem}_file, {stem}_env, {stem}_command: name exactly one place the {stem} comes from ({given} are given)"
    )]
    NotOne {
        /// What the fields begin with.
        stem: &'static str,
        /// How many are given.
        given: usize,
    },
    /// `*_env` is no name.
    #[error("{stem}_env: must be the name of an environment variable (it says {got:?})")]
    Env {
        /// What the fields begin with.
        stem: &'static str,
        /// What it says.
        got: String,
    },
    /// `*_command` names no program.
    #[error("{stem}_command: must name a program, then its arguments")]
    Command {
        /// What the fields begin with.
        stem: &'static str,
    },
}

/// A secret could not be read. The text names the place and never holds anything that was read there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The file.
    #[error("the {stem} file {} cannot be read: {why}", path.display())]
    File {
        /// What the fields begin with.
        stem: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The environment variable.
    #[error("the environment variable {name} holds no {stem}")]
    Env {
        /// What the fields begin with.
        stem: &'static str,
        /// Which variable.
        name: String,
    },
    /// The program.
    #[error("{stem}_command {program} {why}")]
    Command {
        /// What the fields begin with.
        stem: &'static str,
        /// Which program.
        program: String,
        /// Why not.
        why: String,
    },
    /// What was read is empty, too long, or not what such a secret is.
    #[error("what the {stem}'s place holds is no {stem}: {rule}")]
    Shape {
        /// What the fields begin with.
        stem: &'static str,
        /// What it must be.
        rule: &'static str,
    },
}

/// A secret that was read. It has no `Display`, and its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Its text, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a secret may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One word of visible ASCII, as bearer tokens are; white space around it is dropped.
    Word,
    /// One line of text, as passwords are: spaces in it and around it count, only the line end is dropped.
    Line,
}

impl SecretSource {
    /// The place the fields `<stem>_file`, `<stem>_env` and `<stem>_command` name.
    ///
    /// # Errors
    /// [`SecretPlaceError`] where not exactly one is given, or it cannot be one.
    pub fn named(
        stem: &'static str,
        file: Option<&Path>,
        env: Option<&str>,
        command: Option<&[String]>,
    ) -> Result<SecretSource, SecretPlaceError> {
        match (file, env, command) {
            (Some(file), None, None) => Ok(SecretSource::File(file.to_owned())),
            (None, Some(name), None) if name.is_empty() || name.contains(['=', '\0']) => {
                Err(SecretPlaceError::Env {
                    stem,
                    got: name.to_owned(),
                })
            }
            (None, Some(name), None) => Ok(SecretSource::Env(name.to_owned())),
            (None, None, Some(words)) if words.first().is_none_or(String::is_empty) => {
                Err(SecretPlaceError::Command { stem })
            }
            (None, None, Some(words)) => Ok(SecretSource::Command(words.to_vec())),
            (file, env, command) => Err(SecretPlaceError::NotOne {
                stem,
                given: usize::from(file.is_some())
                    + usize::from(env.is_some())
                    + usize::from(command.is_some()),
            }),
        }
    }

    /// Reads it. The caller bounds the time: a program may take long.
    ///
    /// # Errors
    /// [`SecretError`] naming the place; nothing that was read is part of it.
    pub async fn read(&self, stem: &'static str, shape: Shape) -> Result<Secret, SecretError> {
        let text = match self {
            SecretSource::File(path) => {
                let read = read_limited(path, SECRET_MAX as u64).await;
                read.map_err(|e| SecretError::File {
                    stem,
                    path: path.clone(),
                    why: e.to_string(),
                })?
            }
            SecretSource::Env(name) => std::env::var(name).map_err(|_| SecretError::Env {
                stem,
                name: name.clone(),
            })?,
            SecretSource::Command(words) => printed(words).await.map_err(|why| SecretError::Command {
                stem,
                program: words.first().cloned().unwrap_or_default(),
                why,
            })?,
        };
        shaped(stem, &text, shape)
    }
}

/// Reads a text file that may not be larger than `limit` bytes, without blocking the runtime.
///
/// # Errors
/// It cannot be read, is larger, or is no UTF-8.
pub async fn read_limited(path: &Path, limit: u64) -> std::io::Result<String> {
    let path = path.to_owned();
    // A file read is quick but blocks; the runtime's blocking pool is the place for it.
    let read = tokio::task::spawn_blocking(move || {
        use std::io::Read;
        let mut text = String::new();
        let mut file = std::fs::File::open(path)?.take(limit + 1);
        file.read_to_string(&mut text)?;
        if text.len() as u64 > limit {
            return Err(std::io::Error::other(format!("it is larger than {limit} bytes")));
        }
        Ok(text)
    });
    read.await.map_err(std::io::Error::other)?
}

fn shaped(stem: &'static str, text: &str, shape: Shape) -> Result<Secret, SecretError> {
    let (text, fits, rule) = match shape {
        Shape::Word => {
            let word = text.trim();
            let fits = word.bytes().all(|b| b.is_ascii_graphic());
            (word, fits, "one word of visible ASCII is")
        }
        Shape::Line => {
            let line = text.strip_suffix('\n').unwrap_or(text);
            let line = line.strip_suffix('\r').unwrap_or(line);
            let fits = !line.chars().any(char::is_control);
            (line, fits, "one line of text without control characters is")
        }
    };
    if text.is_empty() || text.len() > SECRET_MAX || !fits {
        return Err(SecretError::Shape { stem, rule });
    }
    Ok(Secret(text.to_owned()))
}

/// Runs the operator's program. What it says on its error output goes to ours; what it prints is secret and is never
/// part of a message.
async fn printed(words: &[String]) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or("names no program")?;
    let failed = |e: std::io::Error| format!("failed: {e}");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let limit = SECRET_MAX as u64 + 2;
        stdout
            .take(limit)
            .read_to_end(&mut printed)
            .await
            .map_err(failed)?;
    }
    let status = child.wait().await.map_err(failed)?;
    if !status.success() {
        return Err(format!("ended with {status}"));
    }
    String::from_utf8(printed).map_err(|_| "printed what is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> SecretSource {
        SecretSource::Command(words.iter().map(|w| (*w).to_owned()).collect())
    }

    #[test]
    fn exactly_one_place_is_named() {
        let words = ["vault".to_owned()];
        assert_eq!(
            SecretSource::named("token", None, Some("TOKEN"), None),
            Ok(SecretSource::Env("TOKEN".to_owned()))
        );
        let none = SecretSource::named("token", None, None, None);
        assert!(matches!(none, Err(SecretPlaceError::NotOne { given: 0, .. })));
        let two = SecretSource::named("password", None, Some("P"), Some(&words));
        let text = two.expect_err("two places").to_string();
        assert!(
            text.contains("password_file") && text.contains("2 are given"),
            "{text}"
        );
        assert!(SecretSource::named("token", None, Some("A=B"), None).is_err());
        assert!(SecretSource::named("token", None, None, Some(&[])).is_err());
    }

    #[tokio::test]
    async fn a_password_keeps_its_spaces_and_a_token_is_one_word() {
        let two_words = command(&["printf", " two words \r\n"]);
        let line = two_words.read("password", Shape::Line).await.expect("a line");
        assert_eq!(line.expose(), " two words ");
        let refused = two_words.read("token", Shape::Word).await.expect_err("no word");
        assert!(!refused.to_string().contains("two words"), "{refused}");
        let word = command(&["printf", " abc\n\n"]).read("token", Shape::Word).await;
        assert_eq!(word.expect("a word").expose(), "abc");
        let lines = command(&["printf", "a\nb\n"]).read("password", Shape::Line).await;
        assert!(lines.is_err(), "two lines are no password");
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_named_and_shows_nothing() {
        let failed = command(&["sh", "-c", "printf hunter2; exit 3"]);
        let text = failed
            .read("password", Shape::Line)
            .await
            .expect_err("it failed")
            .to_string();
        assert!(
            text.contains("password_command sh") && !text.contains("hunter2"),
            "{text}"
        );
        let nowhere = SecretSource::File(PathBuf::from("/nonexistent/secret"));
        let text = nowhere
            .read("token", Shape::Word)
            .await
            .expect_err("no file")
            .to_string();
        assert!(text.contains("/nonexistent/secret"), "{text}");
        let long = command(&["head", "-c", "20000", "/dev/zero"]);
        assert!(long.read("password", Shape::Line).await.is_err());
        let secret = Secret("hunter2".to_owned());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
