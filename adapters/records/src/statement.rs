//! One SQL statement with named places (`:sup`), made ready for a database. Pure.
//!
//! A statement is text from the configuration, or built from it; a value never becomes part of it. What is found out here
//! is which places it has and that it is one statement. Strings, quoted names and comments are stepped over, so that a
//! `:word` or a `;` in them is not taken for one.

/// Which rules of SQL text hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// What can be bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Param {
    Ref,
    Ask,
    Sup,
    Prev,
    Acct,
    Eff,
    Apref,
    At,
}

impl Param {
    const ALL: [(Param, &'static str); 8] = [
        (Param::Ref, "ref"),
        (Param::Ask, "ask"),
        (Param::Sup, "sup"),
        (Param::Prev, "prev"),
        (Param::Acct, "acct"),
        (Param::Eff, "eff"),
        (Param::Apref, "apref"),
        (Param::At, "at"),
    ];

    /// Its name, without the colon.
    pub fn name(self) -> &'static str {
        let found = Param::ALL.iter().find(|(p, _)| *p == self);
        found.map_or("", |(_, name)| name)
    }
}

/// A statement whose places are numbered in the order of `params`, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub sql: String,
    pub params: Vec<Param>,
}

/// What it must and may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The words it may begin with, in capitals.
    pub begins: &'static [&'static str],
    /// The places it must have.
    pub needs: &'static [Param],
    /// The places it may have besides.
    pub may: &'static [Param],
}

/// The longest statement, in bytes.
const LONGEST: usize = 16 * 1024;

impl Statement {
    /// Reads one.
    ///
    /// # Errors
    /// The rule it breaks.
    pub fn read(text: &str, dialect: Dialect, rule: Rule) -> Result<Statement, String> {
        if text.len() > LONGEST {
            return Err(format!("must be at most {LONGEST} bytes long"));
        }
        let mut scan = Scan {
            rest: text,
            dialect,
            sql: String::with_capacity(text.len()),
            params: Vec::new(),
            first_word: String::new(),
            ended: false,
        };
        scan.run()?;
        let Scan {
            sql,
            params,
            first_word,
            ..
        } = scan;
        if !rule.begins.contains(&first_word.to_ascii_uppercase().as_str()) {
            return Err(format!("must begin with {}", rule.begins.join(" or ")));
        }
        if let Some(missing) = rule.needs.iter().find(|p| !params.contains(p)) {
            return Err(format!("must use :{}", missing.name()));
        }
        if let Some(other) = params
            .iter()
            .find(|p| !rule.needs.contains(p) && !rule.may.contains(p))
        {
            let known: Vec<String> = rule
                .needs
                .iter()
                .chain(rule.may)
                .map(|p| format!(":{}", p.name()))
                .collect();
            return Err(format!(
                "may not use :{}; it may use {}",
                other.name(),
                known.join(" ")
            ));
        }
        Ok(Statement { sql, params })
    }
}

struct Scan<'a> {
    rest: &'a str,
    dialect: Dialect,
    sql: String,
    params: Vec<Param>,
    first_word: String,
    /// A semicolon has ended the statement.
    ended: bool,
}

impl Scan<'_> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(c) = self.rest.chars().next() {
            let taken = match c {
                '-' if self.rest.starts_with("--") => self.rest.find('\n').unwrap_or(self.rest.len()),
                '/' if self.rest.starts_with("/*") => self.comment()?,
                c if c.is_whitespace() => c.len_utf8(),
                _ if self.ended => {
                    return Err("must be one statement: something follows its semicolon".to_owned());
                }
                ';' => {
                    self.ended = true;
                    self.rest = self.rest.get(1..).unwrap_or_default();
                    continue;
                }
                '\'' => self.quoted('\'', false)?,
                '"' => self.quoted('"', false)?,
                '`' if self.dialect == Dialect::Sqlite => self.quoted('`', false)?,
                '[' if self.dialect == Dialect::Sqlite => {
                    self.rest.find(']').ok_or("has a [ that is never closed")? + 1
                }
                '$' => self.dollar()?,
                '?' | '@' if self.dialect == Dialect::Sqlite => {
                    return Err(format!("must name its places, as :sup; it has a {c}"));
                }
                ':' if self.rest.starts_with("::") => 2,
                ':' => {
                    self.place()?;
                    continue;
                }
                c if word(c) => self.word()?,
                c if c.is_control() => return Err("holds a control character".to_owned()),
                c => c.len_utf8(),
            };
            self.keep(taken);
        }
        Ok(())
    }

    /// Moves so many bytes over, as they are.
    fn keep(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.sql.push_str(taken);
        self.rest = rest;
    }

    fn comment(&self) -> Result<usize, String> {
        let mut depth = 0_u32;
        let mut at = 0;
        while let Some(rest) = self.rest.get(at..).filter(|r| !r.is_empty()) {
            if rest.starts_with("/*") && (depth == 0 || self.dialect == Dialect::Postgres) {
                depth += 1;
                at += 2;
            } else if rest.starts_with("*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Ok(at);
                }
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        Err("has a comment that is never closed".to_owned())
    }

    /// How long the string or name at the start is. Two quotes in it are one; with `escapes`, a backslash takes the next.
    fn quoted(&self, quote: char, escapes: bool) -> Result<usize, String> {
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if escapes && c == '\\' {
                chars.next();
            } else if c == quote {
                match chars.peek() {
                    Some((_, next)) if *next == quote => {
                        chars.next();
                    }
                    _ => return Ok(at + 1),
                }
            }
        }
        Err(format!("has a {quote} that is never closed"))
    }

    /// `$tag$ ... $tag$` in Postgres. Anything else with a dollar would be a place.
    fn dollar(&self) -> Result<usize, String> {
        let unnamed = || "must name its places, as :sup; it has a $".to_owned();
        if self.dialect == Dialect::Sqlite {
            return Err(unnamed());
        }
        let tag = self.rest.get(1..).and_then(|r| r.find('$')).ok_or_else(unnamed)? + 2;
        let (opening, rest) = self.rest.split_at_checked(tag).ok_or_else(unnamed)?;
        let inner = opening.trim_matches('$');
        if !inner.chars().all(word) || inner.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(unnamed());
        }
        let end = rest.find(opening).ok_or("has a $ that is never closed")?;
        Ok(tag + end + opening.len())
    }

    fn place(&mut self) -> Result<(), String> {
        let name: String = self.rest.chars().skip(1).take_while(|c| word(*c)).collect();
        let known = Param::ALL.iter().find(|(_, n)| *n == name);
        let Some((param, _)) = known else {
            let all: Vec<String> = Param::ALL.iter().map(|(_, n)| format!(":{n}")).collect();
            return Err(format!(
                "has a place nobody fills, :{name}; there are {}",
                all.join(" ")
            ));
        };
        let number = match self.params.iter().position(|p| p == param) {
            Some(at) => at + 1,
            None => {
                self.params.push(*param);
                self.params.len()
            }
        };
        let mark = match self.dialect {
            Dialect::Sqlite => '?',
            Dialect::Postgres => '$',
        };
        self.sql.push_str(&format!("{mark}{number}"));
        self.rest = self.rest.get(1 + name.len()..).unwrap_or_default();
        Ok(())
    }

    fn word(&mut self) -> Result<usize, String> {
        let end = self
            .rest
            .find(|c| !word(c) && c != '$')
            .unwrap_or(self.rest.len());
        let text = self.rest.get(..end).unwrap_or_default();
        if self.first_word.is_empty() {
            text.clone_into(&mut self.first_word);
        }
        // E'..' is a string in which a backslash takes the next character.
        let escapes = self.dialect == Dialect::Postgres && text.eq_ignore_ascii_case("e");
        if escapes && self.rest.get(end..).is_some_and(|r| r.starts_with('\'')) {
            self.keep(end);
            return self.quoted('\'', true);
        }
        Ok(end)
    }
}

fn word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Rule = Rule {
        begins: &["SELECT", "UPDATE", "WITH"],
        needs: &[],
        may: &[
            Param::Ref,
            Param::Ask,
            Param::Sup,
            Param::Prev,
            Param::Acct,
            Param::Eff,
            Param::Apref,
            Param::At,
        ],
    };

    fn postgres(text: &str) -> Result<Statement, String> {
        Statement::read(text, Dialect::Postgres, ANY)
    }

    fn sqlite(text: &str) -> Result<Statement, String> {
        Statement::read(text, Dialect::Sqlite, ANY)
    }

    #[test]
    fn places_are_numbered_in_the_order_they_come() {
        let read = postgres("update v set a = :acct where s=:sup and a=:prev and a<>:acct;");
        let read = read.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read.sql, "update v set a = $1 where s=$2 and a=$3 and a<>$1");
        assert_eq!(read.params, [Param::Acct, Param::Sup, Param::Prev]);
        let read = sqlite("SELECT a FROM v WHERE s = :sup").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read.sql, "SELECT a FROM v WHERE s = ?1");
    }

    #[test]
    fn what_stands_in_strings_names_and_comments_is_no_place() {
        for text in [
            "SELECT ':sup', 'it''s :sup;', \":sup\" FROM v",
            "SELECT 1 -- :nope ; drop\n",
            "/* ; :nope */ SELECT a::text FROM v",
        ] {
            for read in [postgres(text), sqlite(text)] {
                let read = read.unwrap_or_else(|e| panic!("{text}: {e}"));
                assert_eq!((read.sql.as_str(), read.params.len()), (text, 0));
            }
        }
        for text in [
            "SELECT $$ :nope; $$, $t$ :no $$ ; $t$",
            "SELECT E'a\\':nope;', e'\\\\'",
            "/* /* ; */ :nope */ SELECT 1",
        ] {
            let read = postgres(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((read.sql.as_str(), read.params.len()), (text, 0));
        }
        for text in ["SELECT [a:sup;] FROM v", "SELECT `:nope;` FROM v"] {
            assert!(sqlite(text).is_ok_and(|s| s.params.is_empty()), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_statement_with_named_places_is_refused_by_rule() {
        let told = |read: Result<Statement, String>, words: &str| {
            let error = read.err().unwrap_or_else(|| panic!("accepted: {words}"));
            assert!(error.contains(words), "{error}");
        };
        told(postgres("SELECT 1; DROP TABLE v"), "one statement");
        told(sqlite("SELECT 1; SELECT 2;"), "one statement");
        told(postgres("SELECT 1 /* ; DROP"), "never closed");
        told(postgres("SELECT 'a"), "never closed");
        told(postgres("SELECT $x$ a"), "never closed");
        told(postgres("SELECT $1"), "name its places");
        told(sqlite("SELECT ?1"), "name its places");
        told(sqlite("SELECT @sup"), "name its places");
        told(postgres("SELECT :tok"), ":tok");
        told(postgres("DELETE FROM v"), "begin with SELECT or UPDATE or WITH");
        told(postgres(""), "begin with");
        told(postgres("SELECT \u{0}"), "control");
        told(postgres(&format!("SELECT {}", "1".repeat(20_000))), "bytes long");
    }

    #[test]
    fn what_a_statement_must_and_may_hold_is_its_rule() {
        let rule = Rule {
            begins: &["SELECT"],
            needs: &[Param::Sup],
            may: &[Param::Acct],
        };
        let read = |text| Statement::read(text, Dialect::Sqlite, rule);
        assert!(read("SELECT :sup, :acct").is_ok());
        assert_eq!(read("SELECT 1").err().as_deref(), Some("must use :sup"));
        assert_eq!(
            read("SELECT :sup, :prev").err().as_deref(),
            Some("may not use :prev; it may use :sup :acct")
        );
    }
}
