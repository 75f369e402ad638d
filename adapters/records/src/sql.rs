//! The statements: built from the mapping, or the operator's own. Pure.
//!
//! Names of tables and columns were checked and are always quoted; values are bound, never written into the text.

use sha2::{Digest, Sha256};

use crate::config::{Columns, EffAs, Name, OwnSql};
use crate::statement::{Dialect, Param, Rule, Statement};

/// Everything that is ever said to the database about vendors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statements {
    /// The vendor's row as it stands. No row: unknown. Two rows: ambiguous.
    pub read: Statement,
    /// The compare-and-swap. In Postgres it writes the row with our reference too; a row counted is a change made.
    pub change: Statement,
    /// SQLite: the row with our reference, from the values as the vendor's row shows them after the change.
    pub record: Option<Statement>,
    /// The row with our reference.
    pub lookup: Statement,
    /// Call-backs recorded for exactly this change.
    pub callback: Statement,
    /// When the supplier's account was changed by us, the newest first.
    pub acts: Statement,
}

/// What the statements are built from.
pub(crate) struct Mapping<'a> {
    pub dialect: Dialect,
    pub table: &'a Name,
    pub columns: &'a Columns,
    pub eff_as: EffAs,
    pub acts: &'a Name,
    pub callbacks: &'a Name,
    pub callbacks_ref: Option<&'a Name>,
    pub own: &'a OwnSql,
}

const READ: Rule = Rule {
    begins: &["SELECT", "WITH"],
    needs: &[Param::Sup],
    may: &[],
};
/// SQLite writes our reference by a statement of ours beside it.
const CHANGE_SQLITE: Rule = Rule {
    begins: &["UPDATE"],
    needs: &[Param::Sup, Param::Prev, Param::Acct],
    may: &[Param::Eff, Param::Apref, Param::At, Param::Ref, Param::Ask],
};
const CHANGE_POSTGRES: Rule = Rule {
    begins: &["WITH", "SELECT"],
    needs: &[Param::Ref, Param::Sup, Param::Prev, Param::Acct],
    may: &[Param::Eff, Param::Apref, Param::At, Param::Ask],
};
const CALLBACK: Rule = Rule {
    begins: &["SELECT", "WITH"],
    needs: &[Param::Sup, Param::Prev, Param::Acct],
    may: &[Param::Ref],
};
const OURS: Rule = Rule {
    begins: &["INSERT", "SELECT"],
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

impl Statements {
    /// The statements of a mapping.
    ///
    /// # Errors
    /// The operator's statement that breaks a rule, and the rule.
    pub fn of(mapping: &Mapping<'_>) -> Result<Statements, (&'static str, String)> {
        let read = |name, own: &Option<String>, built: String, rule| {
            let text = own.as_ref().unwrap_or(&built);
            Statement::read(text, mapping.dialect, rule).map_err(|rule| (name, rule))
        };
        let change_rule = match mapping.dialect {
            Dialect::Sqlite => CHANGE_SQLITE,
            Dialect::Postgres => CHANGE_POSTGRES,
        };
        let record = match mapping.dialect {
            Dialect::Sqlite => Some(read("record", &None, mapping.record(), OURS)?),
            Dialect::Postgres => None,
        };
        Ok(Statements {
            read: read("sql.read", &mapping.own.read, mapping.read(), READ)?,
            change: read("sql.change", &mapping.own.change, mapping.change(), change_rule)?,
            record,
            lookup: read("lookup", &None, mapping.lookup(), OURS)?,
            callback: read(
                "sql.callback",
                &mapping.own.callback,
                mapping.callback(),
                CALLBACK,
            )?,
            acts: read("acts", &None, mapping.acts(), OURS)?,
        })
    }

    /// The hex SHA-256 of everything commit says: a statement made under other statements is not carried out.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let said = [
            Some(&self.read),
            Some(&self.change),
            self.record.as_ref(),
            Some(&self.callback),
        ];
        for statement in said.into_iter().flatten() {
            hash.update(statement.sql.as_bytes());
            hash.update([0]);
        }
        data_encoding::HEXLOWER.encode(&hash.finalize())
    }
}

impl Mapping<'_> {
    fn read(&self) -> String {
        let c = self.columns;
        let text = |column: &Option<Name>| match column {
            Some(column) => shown(&column.quoted()),
            None => "CAST(NULL AS TEXT)".to_owned(),
        };
        format!(
            "SELECT {sup} AS sup, {acct} AS acct, {name} AS name, {eff} AS eff, {phone} AS phone, {apref} AS apref \
             FROM {table} WHERE {key} = :sup LIMIT 2",
            sup = shown(&c.sup.quoted()),
            acct = shown(&c.acct.quoted()),
            name = text(&c.name),
            eff = self.eff_shown(),
            phone = text(&c.phone),
            apref = text(&c.apref),
            table = self.table.quoted(),
            key = c.sup.quoted(),
        )
    }

    fn change(&self) -> String {
        let c = self.columns;
        let mut sets = vec![format!("{} = :acct", c.acct.quoted())];
        if let Some(eff) = &c.eff {
            sets.push(format!("{} = {}", eff.quoted(), self.eff_written()));
        }
        if let Some(apref) = &c.apref {
            sets.push(format!("{} = :apref", apref.quoted()));
        }
        // Accounts are compared as text, byte for byte, whatever the column's type or collation.
        let same = match self.dialect {
            Dialect::Sqlite => format!("{} = :prev COLLATE BINARY", as_text(&c.acct.quoted())),
            Dialect::Postgres => format!("{} = :prev", as_text(&c.acct.quoted())),
        };
        let update = format!(
            "UPDATE {} SET {} WHERE {} = :sup AND {same}",
            self.table.quoted(),
            sets.join(", "),
            c.sup.quoted()
        );
        if self.dialect == Dialect::Sqlite {
            return update;
        }
        let apref = match &c.apref {
            Some(apref) => as_text(&apref.quoted()),
            None => "CAST(NULL AS TEXT)".to_owned(),
        };
        format!(
            "WITH changed AS ({update} RETURNING {sup} AS sup, {acct} AS acct, {eff} AS eff, {apref} AS apref) \
             INSERT INTO {acts} (ref, ask, sup, prev, acct, eff, apref, at) \
             SELECT :ref, :ask, changed.sup, :prev, changed.acct, changed.eff, changed.apref, :at FROM changed",
            sup = as_text(&c.sup.quoted()),
            acct = as_text(&c.acct.quoted()),
            eff = self.eff_shown(),
            acts = self.acts.quoted(),
        )
    }

    fn record(&self) -> String {
        format!(
            "INSERT INTO {} (ref, ask, sup, prev, acct, eff, apref, at) \
             VALUES (:ref, :ask, :sup, :prev, :acct, :eff, :apref, :at)",
            self.acts.quoted()
        )
    }

    fn lookup(&self) -> String {
        format!(
            "SELECT {} AS sup, {} AS prev, {} AS acct, {} AS eff, {} AS apref FROM {} WHERE ref = :ref LIMIT 2",
            shown("sup"),
            shown("prev"),
            shown("acct"),
            shown("eff"),
            shown("apref"),
            self.acts.quoted()
        )
    }

    fn callback(&self) -> String {
        let reference = match self.callbacks_ref {
            Some(column) => format!(" AND {} = :ref", as_text(&column.quoted())),
            None => String::new(),
        };
        format!(
            "SELECT {} AS \"by\", {} AS at FROM {} WHERE sup = :sup AND prev = :prev AND acct = :acct{reference} \
             ORDER BY at DESC LIMIT {MOST_ROWS}",
            shown("\"by\""),
            shown("at"),
            self.callbacks.quoted()
        )
    }

    /// All are written by us in one form, in which the order of the texts is that of the times.
    fn acts(&self) -> String {
        format!(
            "SELECT {} AS ref, {} AS at FROM {} WHERE sup = :sup ORDER BY at DESC LIMIT {MOST_ROWS}",
            shown("ref"),
            shown("at"),
            self.acts.quoted()
        )
    }

    fn eff_shown(&self) -> String {
        match (&self.columns.eff, self.eff_as, self.dialect) {
            (None, ..) => "CAST(NULL AS TEXT)".to_owned(),
            (Some(eff), EffAs::Text, _) => shown(&eff.quoted()),
            (Some(eff), EffAs::Date, Dialect::Sqlite) => {
                format!("replace({}, '-', '')", shown(&eff.quoted()))
            }
            (Some(eff), EffAs::Date, Dialect::Postgres) => format!("to_char({}, 'YYYYMMDD')", eff.quoted()),
        }
    }

    fn eff_written(&self) -> &'static str {
        match (self.eff_as, self.dialect) {
            (EffAs::Text, _) => ":eff",
            (EffAs::Date, Dialect::Sqlite) => {
                "substr(:eff, 1, 4) || '-' || substr(:eff, 5, 2) || '-' || substr(:eff, 7, 2)"
            }
            (EffAs::Date, Dialect::Postgres) => "to_date(:eff, 'YYYYMMDD')",
        }
    }
}

/// How many call-backs for one change, and changes of one supplier, are looked at, the newest first.
pub(crate) const MOST_ROWS: u32 = 50;

/// Whole, for comparing.
fn as_text(column: &str) -> String {
    format!("CAST({column} AS TEXT)")
}

/// For reading: what is longer than any value a line takes is cut, and then fits none.
fn shown(column: &str) -> String {
    format!("substr({}, 1, {MOST_CHARS})", as_text(column))
}

/// How many characters of a column are read. More than a value may have.
const MOST_CHARS: u32 = 300;
