//! Templates: a subject, a plain text and perhaps an HTML text, with `{{slot}}` where a value goes. Pure.
//!
//! `NAME.txt` begins with `Subject: ...` and an empty line; what follows is the plain text. `NAME.html`, where there is one, is
//! the same message for readers that show HTML; values are escaped in it. There is nothing else: no conditions, no loops,
//! because whoever approves a mail should be able to see from the template what it can say.

use std::collections::{BTreeMap, BTreeSet};

use crate::chars::{clean, point, steers};

/// The largest template file, in bytes.
pub(crate) const TEMPLATE_MAX: usize = 256 * 1024;
/// How many templates a folder may hold.
pub(crate) const TEMPLATES_MAX: usize = 500;
/// The longest subject, in characters.
pub(crate) const SUBJECT_MAX: usize = 250;

/// A template file breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template {file}, line {line}: {rule}")]
pub(crate) struct TemplateError {
    pub file: String,
    pub line: usize,
    pub rule: String,
}

/// A slot the template shows and the job has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing(pub String);

/// One template, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    name: String,
    subject: Vec<Piece>,
    text: Vec<Piece>,
    html: Option<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Slot(String),
}

/// A template filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filled {
    pub subject: String,
    pub text: String,
    pub html: Option<String>,
}

impl Template {
    /// Reads a template. `known` says whether a placeholder can ever be filled.
    pub fn read(
        name: &str,
        txt: &str,
        html: Option<&str>,
        known: impl Fn(&str) -> bool,
    ) -> Result<Template, TemplateError> {
        let file = format!("{name}.txt");
        let wrong = |line: usize, rule: &str| TemplateError {
            file: file.clone(),
            line,
            rule: rule.to_owned(),
        };
        let txt = normal(&file, txt)?;
        let (first, rest) = txt.split_once('\n').unwrap_or((&txt, ""));
        let subject = first.strip_prefix("Subject: ").map(str::trim);
        let subject = subject.filter(|s| !s.is_empty());
        let subject = subject.ok_or_else(|| wrong(1, "must be `Subject: ` and the subject"))?;
        let text = rest
            .strip_prefix('\n')
            .ok_or_else(|| wrong(2, "must be empty, between the subject and the text"))?;
        let html_file = format!("{name}.html");
        let html = match html {
            None => None,
            Some(html) => {
                let html = normal(&html_file, html)?;
                Some(pieces(&html_file, 1, &html, &known)?)
            }
        };
        Ok(Template {
            name: name.to_owned(),
            subject: pieces(&file, 1, subject, &known)?,
            text: pieces(&file, 3, text, &known)?,
            html,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether any part shows this slot.
    pub fn shows(&self, slot: &str) -> bool {
        self.slots().contains(slot)
    }

    /// Every slot any part shows.
    pub fn slots(&self) -> BTreeSet<&str> {
        let all = self.subject.iter().chain(&self.text);
        let all = all.chain(self.html.iter().flatten());
        all.filter_map(|piece| match piece {
            Piece::Slot(slot) => Some(slot.as_str()),
            Piece::Text(_) => None,
        })
        .collect()
    }

    /// Puts the values in their places.
    pub fn fill(&self, values: &BTreeMap<String, String>) -> Result<Filled, Missing> {
        Ok(Filled {
            subject: fill(&self.subject, values, str::to_owned)?,
            text: fill(&self.text, values, str::to_owned)?,
            html: match &self.html {
                None => None,
                Some(html) => Some(fill(html, values, escape)?),
            },
        })
    }
}

/// Whether a text may be a template's name: what a slot can hold and a file can be called.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

/// HTML's five characters, written so that they mean themselves in text and in attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn fill(
    pieces: &[Piece],
    values: &BTreeMap<String, String>,
    write: impl Fn(&str) -> String,
) -> Result<String, Missing> {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Slot(slot) => {
                let value = values.get(slot).ok_or_else(|| Missing(slot.clone()))?;
                out.push_str(&write(value));
            }
        }
    }
    Ok(out)
}

/// The text with `\n` as its line ends, if it holds nothing a mail's text may not.
fn normal(file: &str, text: &str) -> Result<String, TemplateError> {
    let text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    for (n, line) in text.split('\n').enumerate() {
        if let Some(c) = line.chars().find(|&c| steers(c) && c != '\t') {
            return Err(TemplateError {
                file: file.to_owned(),
                line: n + 1,
                rule: format!("holds {}, which may not stand in a mail", point(c)),
            });
        }
    }
    Ok(text)
}

fn pieces(
    file: &str,
    first_line: usize,
    text: &str,
    known: impl Fn(&str) -> bool,
) -> Result<Vec<Piece>, TemplateError> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        let line = first_line + text[..text.len() - rest.len() + at].matches('\n').count();
        let wrong = |rule: String| TemplateError {
            file: file.to_owned(),
            line,
            rule,
        };
        if at > 0 {
            out.push(Piece::Text(rest[..at].to_owned()));
        }
        let inner = &rest[at + 2..];
        let end = inner.find("}}").filter(|end| *end <= 40);
        let end = end.ok_or_else(|| wrong("{{ is not closed by }}".to_owned()))?;
        let slot = inner[..end].trim();
        if !known(slot) {
            return Err(wrong(format!(
                "{{{{{}}}}} is no placeholder: only item, act, the profile's slots and slots that begin with x_ are",
                clean(slot, 40)
            )));
        }
        out.push(Piece::Slot(slot.to_owned()));
        rest = &inner[end + 2..];
    }
    if !rest.is_empty() {
        out.push(Piece::Text(rest.to_owned()));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(slot: &str) -> bool {
        ["amt", "sup"].contains(&slot)
    }

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn values_take_their_places_and_html_is_escaped() {
        let txt = "Subject: About {{amt}}\r\n\r\nFor {{ sup }}: {{amt}}.\r\n";
        let template =
            Template::read("t", txt, Some("<p title=\"{{sup}}\">{{amt}}</p>"), known).expect("a template");
        let filled = template
            .fill(&values(&[("amt", "5 > 4"), ("sup", "\"A&B\" <i>'")]))
            .expect("filled");
        assert_eq!(filled.subject, "About 5 > 4");
        assert_eq!(filled.text, "For \"A&B\" <i>': 5 > 4.\n");
        assert_eq!(
            filled.html.as_deref(),
            Some("<p title=\"&quot;A&amp;B&quot; &lt;i&gt;&#39;\">5 &gt; 4</p>")
        );
        assert_eq!(template.slots().into_iter().collect::<Vec<_>>(), ["amt", "sup"]);
    }

    #[test]
    fn a_value_is_never_read_as_a_placeholder() {
        let template = Template::read("t", "Subject: s\n\n{{sup}}", None, known).expect("a template");
        let filled = template
            .fill(&values(&[("sup", "{{amt}}"), ("amt", "1")]))
            .expect("filled");
        assert_eq!(filled.text, "{{amt}}");
    }

    #[test]
    fn a_missing_slot_is_named() {
        let template = Template::read("t", "Subject: s\n\n{{sup}} {{amt}}", None, known).expect("a template");
        assert_eq!(
            template.fill(&values(&[("sup", "x")])),
            Err(Missing("amt".to_owned()))
        );
    }

    #[test]
    fn a_wrong_template_is_named_with_its_line() {
        for (txt, html, want) in [
            ("Hello\n\nx", None, "template t.txt, line 1"),
            ("Subject: \n\nx", None, "template t.txt, line 1"),
            ("Subject: s\nx", None, "template t.txt, line 2"),
            ("Subject: {{who}}\n\nx", None, "line 1: {{who}} is no placeholder"),
            (
                "Subject: s\n\none\n{{who}}",
                None,
                "line 4: {{who}} is no placeholder",
            ),
            ("Subject: s\n\n{{amt", None, "line 3: {{ is not closed"),
            ("Subject: s\n\na\u{202e}b", None, "line 3: holds U+202E"),
            ("Subject: s\n\na\u{0}b", None, "line 3: holds U+0000"),
            (
                "Subject: s\n\nx",
                Some("<p>\n{{who}}"),
                "template t.html, line 2: {{who}}",
            ),
        ] {
            let text = Template::read("t", txt, html, known).expect_err(txt).to_string();
            assert!(text.contains(want), "{text} ({want})");
        }
    }

    #[test]
    fn only_plain_names_are_templates() {
        assert!(is_name("remittance-2"));
        for bad in ["", "../x", "A", "a.b", "a/b"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
